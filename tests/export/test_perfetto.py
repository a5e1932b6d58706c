"""The trace for the Perfetto UI, by the rules of the Chrome trace event format and of Perfetto's importer.

Its trace_processor comes by download only, so it does not run here. The rules: processes and threads are positive 32-bit numbers (its
process 0 is the idle one), every one is named, slices of a thread nest, times are not negative, counters are numbers.
Source: Trace Event Format (Google), and perfetto/src/trace_processor/importers/json.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from netlab.config import load_settings
from netlab.errors import ConfigError, RunError
from netlab.export.perfetto import export_perfetto
from netlab.pipeline.analysis import analyse
from netlab.run import Run, RunFacts
from netlab.synth import write_run
from tests.made_run import made_run

DATA = Path(__file__).resolve().parents[2] / "data"

Events = list[dict[str, Any]]


def events_of(run: Run, folder: Path) -> Events:
    (path,) = export_perfetto(run, folder)
    found: Events = msgspec.json.decode(path.read_bytes())["traceEvents"]
    return found


def _judged(folder: Path) -> Run:
    return analyse([folder], load_settings([folder])).run


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Events:
    folder = tmp_path_factory.mktemp("counted")
    write_run(folder / "run", plant="lossy-link", ranks=8, steps=4, seed=1)
    return events_of(_judged(folder / "run"), folder / "out")


def check_format(events: Events) -> None:
    names = {
        (event["pid"], event.get("tid")) for event in events if event["ph"] == "M" and event["name"] in ("process_name", "thread_name")
    }
    tracks = defaultdict(list)
    for event in events:
        assert event["ph"] in ("M", "X", "C")
        assert type(event["pid"]) is int
        assert 0 < event["pid"] < 2**32
        assert (event["pid"], None) in names
        if event["ph"] == "M":
            continue
        assert event["ts"] >= 0
        assert event["name"]
        if event["ph"] == "C":
            assert all(type(value) in (int, float) for value in event["args"].values())
            continue
        assert 0 < event["tid"] < 2**32
        assert (event["pid"], event["tid"]) in names
        assert event["dur"] >= 0
        tracks[event["pid"], event["tid"]].append((round(event["ts"] * 1_000), round((event["ts"] + event["dur"]) * 1_000)))
    for slices in tracks.values():
        stack: list[int] = []
        for start, end in sorted(slices, key=lambda piece: (piece[0], -piece[1])):
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or end <= stack[-1]
            stack.append(end)


def test_a_run_with_counters_keeps_the_format(counted: Events) -> None:
    check_format(counted)
    assert {event["cat"] for event in counted if event["ph"] == "X"} >= {"step", "compute", "wait", "transfer"}
    assert any(event["ph"] == "C" and event["name"].startswith("errors") for event in counted)


@pytest.mark.parametrize("name", ["ddp-gloo-4rank", "gpu-16rank"])
def test_recorded_and_made_samples_keep_the_format(name: str, tmp_path: Path) -> None:
    check_format(events_of(_judged(DATA / name), tmp_path))


def test_ranks_are_processes_with_their_host_and_streams_are_threads(tmp_path: Path) -> None:
    events = events_of(made_run(ranks=2, steps=2, slow_rank=1).run, tmp_path)
    check_format(events)
    processes = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert processes == ["rank 0 on nodea", "rank 1 on nodeb"]
    threads = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert "steps" in threads
    assert any(name.startswith("stream ") for name in threads)


def test_the_worst_step_is_chosen_and_waits_and_transfers_lie_inside_their_collective(tmp_path: Path) -> None:
    made = made_run(ranks=2, steps=4, slow_rank=1)
    events = events_of(made.run, tmp_path)
    # Rank 1 computes longer in odd steps; of equal ones the first.
    assert {event["name"] for event in events if event.get("cat") == "step"} == {"step 1"}
    waits = [event for event in events if event.get("cat") == "wait"]
    outer = [event for event in events if event.get("cat") == "communication"]
    assert waits
    assert outer
    for wait in waits:
        assert any(
            (event["pid"], event["tid"]) == (wait["pid"], wait["tid"])
            and event["ts"] <= wait["ts"]
            and wait["ts"] + wait["dur"] <= event["ts"] + event["dur"] + 1e-6
            for event in outer
        )


def test_what_overlaps_on_one_thread_goes_into_a_lane_beside_it(tmp_path: Path) -> None:
    run = made_run(ranks=1, steps=1, slow_rank=0).run
    activities = run.frame("activities")
    moved = activities.with_columns(stream=pl.lit(7, activities.schema["stream"]), end_ns=pl.col("end_ns") + 1_000_000)
    moved = moved.sort("rank", "start_ns", "end_ns", "stream", "activity")
    events = events_of(run.with_frames({"activities": moved}), tmp_path)
    check_format(events)
    threads = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert "stream 7" in threads
    assert "stream 7 (2)" in threads


def test_a_run_without_activity_has_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no device activity"):
        export_perfetto(Run.from_frames({}, RunFacts(name="x")), tmp_path)


def test_an_export_never_replaces_what_no_export_left(tmp_path: Path) -> None:
    made = made_run(ranks=1, steps=1, slow_rank=0)
    (path,) = export_perfetto(made.run, tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / path.name).write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match=path.name):
        export_perfetto(made.run, tmp_path / "b")
