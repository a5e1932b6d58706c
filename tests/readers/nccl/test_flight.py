"""Flight-recorder dumps: every schema, both forms, and pickles that must not run."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from netlab.errors import ParseError
from netlab.readers.base import Sink
from netlab.readers.nccl.flight import FlightReader
from netlab.readers.nccl.pickles import load_plain
from tests.nccl_text import dump, entry, read, write_dumps


class _Touch:
    """Unpickling it would make a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.open, (str(self._path), os.O_CREAT)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_create_a_file_is_refused_and_creates_none(tmp_path: Path, protocol: int) -> None:
    target, path = tmp_path / "created", tmp_path / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps({"version": "2.10", "entries": [_Touch(target)]}, protocol=protocol))
    reader = FlightReader()
    with pytest.raises(ParseError, match="UNSAFE_PICKLE"):
        reader.read(path, Sink(), path.name)
    assert not target.exists()
    assert reader.sniff(path.read_bytes(), path)


def test_a_hostile_pickle_of_protocol_0_is_met_and_refused(tmp_path: Path) -> None:
    content = b"cposix\nsystem\n(S'touch created'\ntR."
    assert FlightReader().sniff(content, tmp_path / "x")
    with pytest.raises(ParseError, match="UNSAFE_PICKLE"):
        load_plain(content, "x")


def _repeated() -> object:
    held: object = [1]
    for _ in range(20):
        held = [held] * 10
    return held


def _nested() -> list[object]:
    held: list[object] = []
    held.append(held)
    return held


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"pg_config": {}, "entries": _repeated()}, 2),
        pickle.dumps({"pg_config": {}, "entries": _nested()}, 2),
        b"\x80\x02}r\xff\xff\xff\x7f.",
        b"\x80\x04\x8d\x00\x00\x00\x00\x00\x01\x00\x00abc.",
        b"\x80\x02\x8b\xff\xff\xff\x7f1.",
    ],
    ids=["ten to the twentieth of objects", "a list in itself", "a memo of gigabytes", "a text of a terabyte", "a number of gigabytes"],
)
def test_a_pickle_that_asks_for_more_than_it_is_worth_is_refused(content: bytes) -> None:
    with pytest.raises(ParseError, match="TRUNCATED_PICKLE"):
        load_plain(content, "x")


@pytest.mark.parametrize("text", ["(info\nof a job\nR", "(ios\nsystem", "{}", "cos\n", "(TrainWorker pid=1) x", "}", "]\n"])
def test_text_that_looks_like_opcodes_is_not_claimed(text: str, tmp_path: Path) -> None:
    assert not FlightReader().sniff(text.encode(), tmp_path / "x")


def test_the_shared_hostile_pickle_is_refused(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = shared_data / "nccl" / "flight_recorder" / "unsafe_pickle_must_be_refused.pkl"
    with pytest.raises(ParseError, match="UNSAFE_PICKLE"):
        read(path)
    assert capsys.readouterr().out == ""


def test_a_cut_pickle_is_refused_with_a_reason(shared_data: Path) -> None:
    with pytest.raises(ParseError, match="TRUNCATED_PICKLE"):
        read(shared_data / "nccl" / "flight_recorder" / "truncated_dump.pkl")


def test_an_unrelated_pickle_is_not_claimed() -> None:
    assert not FlightReader().sniff(pickle.dumps({"a": 1}), Path("x.pkl"))


def test_pickle_and_json_of_one_dump_agree(tmp_path: Path) -> None:
    content = dump(1, [entry(1, duration_ms=2.5), entry(2, "started")], range(2))
    (tmp_path / "rank_1.json").write_text(json.dumps(content))
    (tmp_path / "rank_1").write_bytes(pickle.dumps(content, protocol=2))
    one, other = (read(tmp_path / name)[0]["flight"].drop("source") for name in ("rank_1.json", "rank_1"))
    assert one.equals(other)
    assert one.select("rank", "group", "seq", "op", "bytes", "duration_ns", "timing").rows()[0] == (
        1,
        "0,1",
        1,
        "all_reduce",
        4096,
        2_500_000,
        "device",
    )


def test_what_the_watchdog_saw_is_a_duration_of_lower_rank(tmp_path: Path) -> None:
    seen = entry(1, time_discovered_started_ns=5_000_000, time_discovered_completed_ns=7_000_000)
    (path,) = write_dumps(tmp_path, {0: dump(0, [seen], range(2))})
    assert read(path)[0]["flight"].select("duration_ns", "timing").rows() == [(2_000_000, "watchdog")]


def test_without_times_durations_are_null_and_said_to_be(tmp_path: Path) -> None:
    (path,) = write_dumps(tmp_path, {0: dump(0, [entry(1, time_discovered_started_ns=0)], range(2))})
    tables, parsed = read(path)
    assert tables["flight"].select("started_ns", "duration_ns").rows() == [(None, None)]
    assert "NO_TIMING" in {issue.code for issue in parsed.issues}


def test_a_wrapped_ring_buffer_is_said_to_have_dropped(tmp_path: Path) -> None:
    (path,) = write_dumps(tmp_path, {0: dump(0, [entry(501)], range(2))})
    assert "RING_BUFFER_DROPPED" in {issue.code for issue in read(path)[1].issues}


def test_a_cut_json_keeps_its_whole_entries(tmp_path: Path) -> None:
    text = json.dumps(dump(0, [entry(1), entry(2), entry(3)], range(2)))
    path = tmp_path / "nccl_trace_rank_0.json"
    path.write_text(text[: text.rindex("record_id") + 5])
    tables, parsed = read(path)
    assert tables["flight"]["seq"].to_list() == [1, 2]
    assert (parsed.status, str(parsed.message).split(":")[0]) == ("partial", "TRUNCATED_JSON")


def test_a_newer_major_schema_is_refused(tmp_path: Path) -> None:
    (path,) = write_dumps(tmp_path, {0: dump(0, [entry(1)], range(2)) | {"version": "3.0"}})
    with pytest.raises(ParseError, match="UNKNOWN_SCHEMA"):
        read(path)


def test_entries_of_a_wrong_shape_are_counted(tmp_path: Path) -> None:
    broken = [entry(1), "text", {"profiling_name": 7}, entry(2) | {"input_sizes": "x", "process_group": None, "time_created_ns": "now"}]
    (path,) = write_dumps(tmp_path, {0: dump(0, broken, range(2))})  # type: ignore[arg-type]
    parsed = read(path)[1]
    assert (parsed.rows, parsed.lines_unparsed) == (2, 2)


def test_all_samples_are_read(shared_data: Path) -> None:
    counts = {}
    for path in sorted((shared_data / "nccl" / "flight_recorder").rglob("*")):
        if path.is_file() and path.parent.name != "flight_recorder":
            tables, parsed = read(path)
            assert parsed.lines_unparsed == 0
            counts[f"{path.parent.name}/{path.name}"] = tables["flight"].height
    assert counts["nccl_v1.x_old/nccl_trace_rank_0"] == 15
    assert counts["nccl_v2.10_mismatch/rank_3.json"] == 30
    assert counts["real_gloo_torch2.13/pending_rank_1.json"] == 8


def test_an_old_dump_has_its_members_and_sequence_numbers(shared_data: Path) -> None:
    flight = read(shared_data / "nccl" / "flight_recorder" / "nccl_v1.x_old" / "nccl_trace_rank_1")[0]["flight"]
    assert flight["group"].unique().to_list() == ["0,1"]
    assert flight["seq"].min() == 1
