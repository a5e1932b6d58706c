"""All ways of reading give the same tables: on every sample, wherever buffers end, and on random damage."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netlab.readers.base import Parsed
from netlab.readers.kineto import document, reader, strict
from netlab.readers.kineto.backends import Backend
from netlab.readers.streams import read_all
from tests.readers.kineto.support import assert_alike, kernel, read_in, trace


def samples(folder: Path) -> list[Path]:
    """Real traces: PyTorch's, and lists of Chrome events."""
    return sorted((folder / "traces").rglob("*.json.gz")) + sorted((folder / "gloo").rglob("*.json.gz"))


def test_every_sample_reads_alike_in_all_ways(shared_data: Path, ways: tuple[Backend, ...]) -> None:
    strict_way, _, compiled_way = ways
    found = samples(shared_data)
    assert len(found) > 60
    for path in found:
        # Plain Python reads 8 MB of JSON a second: it gets only some.
        is_slow = path.stat().st_size > 60_000 or "_c" in path.name or path.name.endswith("_r1.json.gz")
        chosen = (strict_way, compiled_way) if is_slow else ways
        frames, parsed = assert_alike(path, chosen)
        assert isinstance(parsed, Parsed)
        assert parsed.status == "ok", path
        assert parsed.rows == sum(frame.height for name, frame in frames.items() if name != "process_groups")


def test_it_does_not_matter_where_buffers_end(shared_data: Path, ways: tuple[Backend, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    path = shared_data / "traces/hta/mi250_minitoy.json.gz"
    expected, account = assert_alike(path, ways)
    for size in (16, 100, 333, 4096):
        monkeypatch.setattr(reader, "_WINDOW_BYTES", size)
        monkeypatch.setattr(document, "_BATCH_ROWS", 7)
        monkeypatch.setattr(strict, "_PIECE_BYTES", 3 * size)
        frames, parsed = assert_alike(path, ways[1:] if size > 16 else ways[2:])
        assert parsed == account
        assert all(frames[table].equals(expected[table]) for table in expected)


def test_a_full_pool_of_texts_starts_afresh(tmp_path: Path, ways: tuple[Backend, ...]) -> None:
    path = tmp_path / "many.json"
    path.write_bytes(trace(*[kernel(number, **{"Process Group Name": f"group {number}"}) for number in range(40_000)]))
    frames, _ = assert_alike(path, (ways[0], ways[2]))
    assert frames["device_events"]["name"].to_list() == [f"k{number}" for number in range(40_000)]
    assert frames["device_events"]["group_name"][-1] == "group 39999"


def test_a_file_on_disk_and_frames_in_memory_are_the_same(tmp_path: Path, shared_data: Path, ways: tuple[Backend, ...]) -> None:
    from netlab.readers.base import Sink

    path = shared_data / "traces/hta/mi250_minitoy.json.gz"
    expected, _ = read_in(path, ways[0])
    sink = Sink(tmp_path / "parts")
    reader.KinetoReader().read(path, sink, "x")
    for table, frame in expected.items():
        assert sink.collect(table).equals(frame)


def test_samples_agree_with_the_standard_library(shared_data: Path) -> None:
    """By another road: names, times and metadata of device events as ``json`` and ``Decimal`` read them."""
    from decimal import Decimal

    for name in ("hta/ddp_a100_w2_rank0_meta", "tracelens/mi210_gpu_only", "hta/ns_v100_w1_rank0", "deepseek/h800_ep64_dualpipe_rank0"):
        path = shared_data / f"traces/{name}.json.gz"
        content, _ = read_all(path, 1 << 30)
        whole = json.loads(content, parse_float=Decimal)
        base = whole.get("baseTimeNanoseconds", 0)
        expected = [
            (
                event["name"],
                int(Decimal(event["ts"]) * 1000) + base,
                int(Decimal(event["ts"]) * 1000) + base + int(Decimal(event["dur"]) * 1000),
                event["args"].get("stream"),
                event["args"].get("correlation"),
                event["args"].get("Collective name"),
                event["args"].get("In msg nelems"),
            )
            for event in whole["traceEvents"]
            if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
        ]
        frames, _ = reader.read_frames(path)
        columns = ("name", "start_ns", "end_ns", "stream", "correlation", "collective", "in_elements")
        assert frames["device_events"].select(columns).rows() == expected


_BASE = trace(
    kernel(0, **{"Collective name": "allreduce", "Seq": 3, "In split size": "[]"}),
    {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "launch",
        "pid": 1,
        "tid": 2,
        "ts": 10.5,
        "dur": 2,
        "args": {"External id": 4, "correlation": 0},
    },
    {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "pid": 1,
        "tid": 2,
        "ts": 9,
        "dur": 9.25,
        "args": {"Input Dims": [[1, 2], []], "x": {"y": 1}},
    },
    {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 2, "ts": 9, "dur": 9, "args": {"Seq": 2, "dtype": "Float"}},
    {"ph": "B", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 2, "ts": 1},
    {"ph": "E", "pid": 1, "tid": 2, "ts": 99},
    {"ph": "s", "id": 5, "pid": 1, "tid": 2, "ts": 7, "cat": "fwdbwd", "name": "fwdbwd"},
    kernel(1, cat="gpu_memcpy", bytes=4000, name='a "b" \\ é 日本'),
    distributedInfo={"rank": 0, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]},
    baseTimeNanoseconds=1711964646000000000,
)
_PIECES = st.sampled_from(
    [
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\\",
        b"\\u",
        b"\x00",
        b"\xff",
        b"NaN",
        b"-",
        b"1e400",
        b" ",
        b"null",
        b'{"ph": "X", ',
        b'"args": {',
        b"]}",
    ]
)
_EDITS = st.lists(
    st.tuples(st.integers(0, len(_BASE)), st.integers(0, 40), st.one_of(_PIECES, st.binary(max_size=3), st.just(b""))),
    min_size=1,
    max_size=4,
)


@settings(max_examples=100, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_EDITS, st.booleans())
def test_random_damage_never_breaks_the_reader(
    tmp_path: Path, ways: tuple[Backend, ...], edits: list[tuple[int, int, bytes]], packed: bool
) -> None:
    content = _BASE
    for place, length, piece in edits:
        content = content[:place] + piece + content[place + length :]
    path = tmp_path / "hostile.json"
    path.write_bytes(gzip.compress(content, 1) if packed else content)
    frames, parsed = assert_alike(path, ways)
    if isinstance(parsed, str):
        assert parsed.split(":")[0].isupper()
        return
    for frame in (frames.get("device_events"), frames.get("launches")):
        if frame is not None:
            assert (np.array(frame["end_ns"]) >= np.array(frame["start_ns"])).all()


@settings(max_examples=60, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2000), st.binary(max_size=8), st.integers(0, 8))
def test_random_damage_to_compressed_bytes_never_breaks_the_reader(
    tmp_path: Path, ways: tuple[Backend, ...], place: int, piece: bytes, length: int
) -> None:
    packed = gzip.compress(_BASE)
    place %= len(packed)
    path = tmp_path / "hostile.json.gz"
    path.write_bytes(packed[:place] + piece + packed[place + length :])
    assert_alike(path, (ways[0], ways[2]))
