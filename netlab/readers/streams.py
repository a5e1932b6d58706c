"""Files as a stream of inflated bytes: raw, gzip of any number of members, zstd. Damage is told, never raised.

Every byte that can be had is handed out before damage is reported; the standard gzip modules lose the whole last read of a truncated file
and everything that follows a wrong checksum.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from netlab.readers.base import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined,unused-ignore]

__all__ = ["ByteStream", "StreamDamage", "iterate_lines", "open_stream", "read_all", "read_head"]

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_PIECE_BYTES = 1 << 16
#: At most this much is inflated by one call, so that corrupt data cost no more than this much good data before them.
_STEP_BYTES = 1 << 18
#: Real traces shrink 13 to 29 times (generated ones up to 100); beyond the first GiB a file that grows more is an attack or a mistake.
_FREE_BYTES = 1 << 30
_EXPANSION_LIMIT = 300


@dataclass(frozen=True)
class StreamDamage:
    """What is wrong with a compressed file: an issue code, a sentence, and the offset in the inflated bytes up to which they are sound."""

    code: str
    message: str
    offset: int


class ByteStream(io.RawIOBase):
    """An open file as inflated bytes. ``damage`` is filled once the end is reached; ``compression`` is none, gzip or zstd."""

    compression = "none"

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self.damage: StreamDamage | None = None
        #: Inflated bytes handed out so far, and bytes of the file taken in.
        self.produced = 0
        self.consumed = 0

    def readable(self) -> bool:
        """True: it is for reading only."""
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill a buffer as far as the file goes; 0 at the end, also at the end of what can be had of a damaged file."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view) and self.damage is None:
            count = self._step(view[done:])
            if count == 0:
                break
            done += count
            self.produced += count
            if self.produced > _FREE_BYTES and self.produced > _EXPANSION_LIMIT * self.consumed:
                message = f"it inflates to more than {_EXPANSION_LIMIT} times its size; reading stopped there"
                self._note("EXPANSION_LIMIT", message)
        return done

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def _note(self, code: str, message: str) -> None:
        if self.damage is None:
            self.damage = StreamDamage(code, message, self.produced)

    def _take(self) -> bytes:
        """The next piece of the file; empty at its end."""
        piece = self._file.read(_PIECE_BYTES)
        self.consumed += len(piece)
        return piece

    def _step(self, view: memoryview) -> int:
        count = self._file.readinto(view) if isinstance(self._file, io.FileIO) else 0
        self.consumed += count or 0
        return count or 0


class _GzipStream(ByteStream):
    compression = "gzip"

    def __init__(self, file: BinaryIO) -> None:
        from isal import isal_zlib

        super().__init__(file)
        self._zlib = isal_zlib
        self._errors: tuple[type[Exception], ...] = (cast("type[Exception]", isal_zlib.error), ValueError)
        self._pending = b""
        self._inflater: isal_zlib.Decompress | None = None
        self._checksum = 0
        self._member_bytes = 0
        self._mismatch: StreamDamage | None = None

    def _step(self, view: memoryview) -> int:
        while True:
            if self._inflater is None and not self._open_member():
                self.damage = self.damage or self._mismatch
                return 0
            assert self._inflater is not None
            try:
                piece = self._inflater.decompress(self._pending, min(len(view), _STEP_BYTES))
            except self._errors as error:
                self._note("DAMAGED_COMPRESSION", f"its gzip data are corrupt after {self.consumed:,} bytes ({error})")
                return 0
            self._pending = self._inflater.unconsumed_tail
            if piece:
                self._checksum = self._zlib.crc32(piece, self._checksum)
                self._member_bytes += len(piece)
            if self._inflater.eof:
                self._pending = self._inflater.unused_data
                self._close_member(len(piece))
            elif not self._pending and not piece:
                self._pending = self._take()
                if not self._pending:
                    self._note("TRUNCATED_GZIP", f"its gzip stream ends early, after {self.consumed:,} bytes")
                    return 0
            if piece:
                view[: len(piece)] = piece
                return len(piece)

    def _need(self, count: int) -> bool:
        while len(self._pending) < count:
            piece = self._take()
            if not piece:
                return False
            self._pending += piece
        return True

    def _open_member(self) -> bool:
        """Read a member's header (RFC 1952). False at the end of the file; padding with zeros is no damage."""
        while self._need(1):
            self._pending = self._pending.lstrip(b"\0")
            if self._pending:
                break
        if not self._pending:
            return False
        if self._need(2) and self._pending[:2] != _GZIP_MAGIC:
            self._note("DAMAGED_COMPRESSION", "bytes that are no gzip follow a complete gzip stream")
            return False
        if not self._skip_header():
            self._note("TRUNCATED_GZIP", f"its gzip stream ends early, after {self.consumed:,} bytes")
            return False
        self._inflater = self._zlib.decompressobj(-15)
        self._checksum = self._member_bytes = 0
        return True

    def _skip_header(self) -> bool:
        if not self._need(10):
            return False
        flags, at = self._pending[3], 10
        if flags & 4:
            if not self._need(at + 2):
                return False
            at += 2 + int.from_bytes(self._pending[at : at + 2], "little")
        for flag in (8, 16):
            if flags & flag:
                while (end := self._pending.find(b"\0", at)) < 0:
                    if not self._need(len(self._pending) + 1):
                        return False
                at = end + 1
        at += 2 if flags & 2 else 0
        if not self._need(at):
            return False
        self._pending = self._pending[at:]
        return True

    def _close_member(self, last: int) -> None:
        self._inflater = None
        if not self._need(8):
            self._mismatch = self._mismatch or StreamDamage(
                "TRUNCATED_GZIP", f"its gzip stream ends early, after {self.consumed:,} bytes", self.produced + last
            )
            self._pending = b""
            return
        checksum, size = int.from_bytes(self._pending[:4], "little"), int.from_bytes(self._pending[4:8], "little")
        self._pending = self._pending[8:]
        if (checksum, size) != (self._checksum, self._member_bytes & 0xFFFFFFFF):
            message = "the CRC checksum of its gzip stream is wrong; the content may be damaged"
            self._mismatch = self._mismatch or StreamDamage("DAMAGED_COMPRESSION", message, self.produced + last)


class _ZstdStream(ByteStream):
    compression = "zstd"

    def __init__(self, file: BinaryIO) -> None:
        import zstandard

        super().__init__(file)
        self._error = zstandard.ZstdError
        self._make = zstandard.ZstdDecompressor(max_window_size=1 << 27)
        self._reader = self._make.stream_reader(cast("BinaryIO", _Counted(self)), read_across_frames=True)

    def _step(self, view: memoryview) -> int:
        try:
            return self._reader.readinto(view[:_STEP_BYTES]) or 0
        except self._error as error:
            self._note("DAMAGED_COMPRESSION", f"its zstd data are corrupt after {self.consumed:,} bytes ({error})")
            return 0


class _Counted:
    """The file behind a zstd reader, counted in its stream."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def read(self, _size: int = -1) -> bytes:
        return self._stream._take()


def open_stream(path: Path) -> ByteStream:
    """Open a file as inflated bytes, whatever its name says."""
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - the stream closes it
    magic = file.read(4)
    file.seek(0)
    if magic[:2] == _GZIP_MAGIC:
        return _GzipStream(file)
    if magic == _ZSTD_MAGIC:
        return _ZstdStream(file)
    return ByteStream(file)


def read_head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """The first inflated bytes of a file, for ``sniff``."""
    return read_all(path, size)[0]


def read_all(path: Path, limit_bytes: int) -> tuple[bytes, StreamDamage | None]:
    """At most ``limit_bytes`` of inflated bytes, and the damage met on the way."""
    with open_stream(path) as stream:
        pieces, left = [], limit_bytes
        while left and (piece := stream.read(min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces), stream.damage


def iterate_lines(stream: ByteStream, limit_bytes: int = 1 << 20) -> Iterator[bytes]:
    """Lines of a text file without their ends; a line longer than the limit comes in pieces, so that memory stays bounded."""
    reader = io.BufferedReader(stream, 1 << 18)
    while line := reader.readline(limit_bytes):
        yield line.rstrip(b"\r\n")
