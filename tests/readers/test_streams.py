"""Files as inflated bytes."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
import zstandard

from netlab.readers import streams
from netlab.readers.streams import iterate_lines, open_stream, read_all, read_head

TEXT = b"".join(b"line %d of a file\n" % number for number in range(20_000))


@pytest.mark.parametrize(
    ("content", "compression"),
    [
        (TEXT, "none"),
        (gzip.compress(TEXT), "gzip"),
        (gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:]), "gzip"),
        (zstandard.compress(TEXT), "zstd"),
        (zstandard.compress(TEXT[:1000]) + zstandard.compress(TEXT[1000:]), "zstd"),
    ],
)
def test_all_compressions_read_alike_whatever_the_name(tmp_path: Path, content: bytes, compression: str) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(content)
    assert read_all(path, 1 << 30) == (TEXT, None)
    assert read_head(path, 100) == TEXT[:100]
    with open_stream(path) as stream:
        assert stream.compression == compression
        assert list(iterate_lines(stream)) == TEXT.splitlines()


def test_a_gzip_header_with_all_its_fields_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    plain = gzip.compress(TEXT, mtime=0)
    header = plain[:3] + bytes([4 | 8 | 16 | 2]) + plain[4:10] + b"\x03\x00abc" + b"name.txt\0" + b"a comment\0" + b"\x12\x34"
    path.write_bytes(header + plain[10:])
    assert read_all(path, 1 << 30) == (TEXT, None)


def test_a_cut_stream_hands_out_everything_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    packed = gzip.compress(TEXT)
    for keep in (5, 12, len(packed) // 3, len(packed) - 9, len(packed) - 3):
        path.write_bytes(packed[:keep])
        content, damage = read_all(path, 1 << 30)
        assert TEXT.startswith(content)
        assert damage is not None
        assert (damage.code, damage.offset) == ("TRUNCATED_GZIP", len(content))
    assert len(content) == len(TEXT)


def test_a_wrong_checksum_in_the_first_member_does_not_stop_the_second(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    first = gzip.compress(TEXT[:5000])
    path.write_bytes(first[:-8] + b"\0\0\0\0" + first[-4:] + gzip.compress(TEXT[5000:]))
    content, damage = read_all(path, 1 << 30)
    assert content == TEXT
    assert damage is not None
    assert (damage.code, damage.offset) == ("DAMAGED_COMPRESSION", 5000)


def test_bytes_behind_a_gzip_stream_are_told_unless_they_are_padding(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(TEXT) + b"\0" * 1000)
    assert read_all(path, 1 << 30) == (TEXT, None)
    path.write_bytes(gzip.compress(TEXT) + b"garbage")
    content, damage = read_all(path, 1 << 30)
    assert content == TEXT
    assert damage is not None
    assert damage.code == "DAMAGED_COMPRESSION"


def test_corrupt_zstd_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file.zst"
    packed = bytearray(zstandard.compress(TEXT))
    packed[20:60] = b"\xff" * 40
    path.write_bytes(packed)
    _, damage = read_all(path, 1 << 30)
    assert damage is not None
    assert damage.code == "DAMAGED_COMPRESSION"


def test_reading_stops_where_a_file_grows_beyond_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_FREE_BYTES", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\0" * (8 << 20)))
    content, damage = read_all(path, 1 << 30)
    assert len(content) < 4 << 20
    assert damage is not None
    assert damage.code == "EXPANSION_LIMIT"


def test_a_line_without_end_comes_in_pieces() -> None:
    class Endless(streams.ByteStream):
        pass

    stream = Endless(io.FileIO("/dev/zero"))
    lines = iterate_lines(stream, limit_bytes=1000)
    assert [len(next(lines)) for _ in range(3)] == [1000, 1000, 1000]
    stream.close()
