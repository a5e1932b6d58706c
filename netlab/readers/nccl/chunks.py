"""Text files in pieces of whole lines, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from netlab.readers.streams import StreamDamage, open_stream

__all__ = ["LineChunks"]

_CHUNK_BYTES = 4 << 20


class LineChunks:
    """A file in pieces that end at a line's end; only a line longer than four pieces is cut. ``damage`` is known afterwards."""

    def __init__(self, path: Path, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self._path = path
        self._size = chunk_bytes
        self.damage: StreamDamage | None = None

    def __iter__(self) -> Iterator[bytes]:
        with open_stream(self._path) as stream:
            rest = b""
            while piece := stream.read(self._size):
                end = piece.rfind(b"\n") + 1
                if end:
                    yield rest + piece[:end] if rest else piece[:end]
                    rest = piece[end:]
                else:
                    rest += piece
                    if len(rest) > 4 * self._size:
                        yield rest
                        rest = b""
            if rest:
                yield rest
            self.damage = stream.damage
