"""What every registered reader keeps to: it claims its own samples only, bears damage, reads compressed copies alike, fills its tables."""

from __future__ import annotations

import contextlib
import gzip
from functools import cache
from pathlib import Path

import pytest

from netlab.errors import ParseError
from netlab.issues import ISSUE_CODES
from netlab.readers.base import Parsed, Reader, Sink
from netlab.readers.registry import READERS, claim
from netlab.readers.streams import read_head
from netlab.schema import TABLES

_DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
#: Told by their names, or compressed inside: a compressed copy is another thing.
_NOT_PACKED = {"sysfs_file", "bytedance_operations"}
#: Which rooms own the samples of a folder.
_OWNERS = {
    "traces": {"kineto", "bytedance"},
    "gloo": {"kineto"},
    "nccl": {"nccl"},
    "counters": {"counters", "fabric", "nccl"},
}


def _room(reader: Reader) -> str:
    return type(reader).__module__.split(".")[2]


@cache
def _samples() -> tuple[Path, ...]:
    if not _DATA.is_dir():
        return ()
    return tuple(sorted(path for folder in _OWNERS for path in (_DATA / folder).rglob("*") if path.is_file()))


@cache
def _first_sample(name: str) -> Path | None:
    """The smallest sample that a reader claims and reads."""
    for path in sorted(_samples(), key=lambda path: path.stat().st_size):
        reader = claim(read_head(path), path)
        if reader is not None and reader.name == name:
            with contextlib.suppress(ParseError):
                reader.read(path, Sink(), "sample")
                return path
    return None


def _sample(reader: Reader) -> Path:
    if not _DATA.is_dir():
        pytest.skip("the shared sample folder ../shared/data is not there")
    path = _first_sample(reader.name)
    if path is None:
        pytest.skip(f"no shared sample is of the reader {reader.name}")
    return path


def _read(reader: Reader, path: Path, source: str = "sample") -> tuple[dict[str, list[tuple[object, ...]]], Parsed]:
    """Rows of every table, validated, and the account."""
    sink = Sink()
    parsed = reader.read(path, sink, source)
    assert parsed.reader == reader.name
    assert parsed.status in ("ok", "partial")
    assert {issue.code for issue in parsed.issues} <= set(ISSUE_CODES)
    assert all(issue.source in (source, None) for issue in parsed.issues)
    if parsed.status == "partial":
        assert str(parsed.message).split(":")[0] in ISSUE_CODES
    rows = {}
    for table in sink.frames:
        frame = sink.collect(table)
        expected = [column.name for column in TABLES[table].columns if column.name != "file"]
        assert frame.columns == expected, table
        fill = {"file": 0} if "file" in TABLES[table].schema else {}
        rows[table] = TABLES[table].validate(TABLES[table].conform(frame, **fill)).rows()
    return rows, parsed


def _read_or_refuse(reader: Reader, path: Path) -> Parsed | None:
    """Damaged input that a reader claims is read in part, or refused with a code."""
    if not reader.sniff(read_head(path), path):
        return None
    try:
        return _read(reader, path)[1]
    except ParseError as error:
        code = str(error).split(":")[0]
    assert code in ISSUE_CODES
    return None


def test_names_of_readers_are_unique() -> None:
    names = [reader.name for reader in READERS]
    assert len(set(names)) == len(names)


def test_a_sample_is_claimed_by_its_own_readers_only(shared_data: Path) -> None:
    wrong = []
    for path in _samples():
        head = read_head(path)
        claims = [reader for reader in READERS if reader.sniff(head, path)]
        owners = _OWNERS[path.relative_to(shared_data).parts[0]]
        if len(claims) > 1 or any(_room(reader) not in owners for reader in claims):
            wrong.append((str(path.relative_to(shared_data)), [reader.name for reader in claims]))
    assert wrong == []


def test_every_trace_is_claimed(shared_data: Path) -> None:
    traces = [
        path for path in _samples() if path.name.endswith(".json.gz") and path.relative_to(shared_data).parts[0] in ("traces", "gloo")
    ]
    assert [path for path in traces if (claim(read_head(path), path) or READERS[0]).name != "kineto"] == []


@pytest.mark.parametrize("head", [b"", b"\0" * 100, b"\xff\xfe\xfd" * 50, b"hello world\n", b'{"a": 1}', b"[]", b"<xml/>"])
def test_no_reader_claims_or_stumbles_over_what_is_none_of_its_own(head: bytes) -> None:
    assert [reader.name for reader in READERS if reader.sniff(head, Path("unknown.bin"))] == []


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_output_passes_its_schema_and_is_the_same_each_time(reader: Reader) -> None:
    path = _sample(reader)
    rows, parsed = _read(reader, path)
    assert _read(reader, path) == (rows, parsed)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_a_compressed_copy_reads_alike(reader: Reader, tmp_path: Path) -> None:
    path = _sample(reader)
    if reader.name in _NOT_PACKED:
        pytest.skip(f"{reader.name} does not read compressed copies")
    content = path.read_bytes()
    is_packed = content[:2] == b"\x1f\x8b"
    copy = tmp_path / (path.name.removesuffix(".gz") if is_packed else f"{path.name}.gz")
    copy.write_bytes(gzip.decompress(content) if is_packed else gzip.compress(content))
    assert reader.sniff(read_head(copy), copy)
    assert _read(reader, copy)[0] == _read(reader, path)[0]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
@pytest.mark.parametrize("keep", [0.01, 0.3, 0.6, 0.97])
def test_a_cut_copy_is_read_in_part_or_refused(reader: Reader, keep: float, tmp_path: Path) -> None:
    path = _sample(reader)
    content = path.read_bytes()
    for number, whole in enumerate({content, gzip.decompress(content) if content[:2] == b"\x1f\x8b" else gzip.compress(content)}):
        copy = tmp_path / f"{number}-{path.name}"
        copy.write_bytes(whole[: int(len(whole) * keep)])
        _read_or_refuse(reader, copy)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
@pytest.mark.parametrize(
    "content",
    [b"", gzip.compress(b"", mtime=0), b"\0\0\0\0", b"\xff" * 40, b"{", b"[\n"],
    ids=["empty", "empty gzip", "zeros", "ones", "brace", "bracket"],
)
def test_an_empty_or_foreign_file_is_refused_or_gives_no_rows(reader: Reader, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    parsed = _read_or_refuse(reader, path)
    assert parsed is None or parsed.rows == 0
