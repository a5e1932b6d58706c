"""Clock domains: offsets from common ends, walked through groups; errors, drift, and ranks that leave their host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from netlab.align import Aligned
from netlab.align.clocks import correct, measure_clocks
from netlab.issues import Issue
from tests.align.support import Document, Trace, align_traces, aligned, codes, edited


def clocks(result: Aligned) -> list[tuple[str, int, int | None, int | None, int]]:
    return result.frames["clocks"].select("domain", "rank", "offset_ns", "error_ns", "samples").rows()  # type: ignore[return-value]


def _pair(skew: float, count: int = 3, hosts: tuple[str | None, str | None] = (None, None)) -> list[Trace]:
    traces = [Trace(rank, host=hosts[rank], clock_ms=rank * skew).step(1, 0, count * 10) for rank in range(2)]
    for rank, trace in enumerate(traces):
        for seq in range(count):
            trace.collective(seq * 10 + rank, seq * 10 + 5, seq)
    return traces


def test_clock_behind_is_found_stated_and_corrected(tmp_path: Path) -> None:
    result = align_traces(tmp_path, *_pair(-3, count=2))
    assert clocks(result) == [("rank 0", 0, 0, None, 2), ("rank 1", 1, -3_000_000, None, 2)]
    assert result.frames["collectives"]["wait_ns"].to_list() == [1_000_000, 0] * 2
    assert result.frames["steps"]["start_ns"].n_unique() == 1
    skew = next(issue.message for issue in result.issues if issue.code == "CLOCK_SKEW")
    assert "rank 1 is 3.000 ms behind" in skew
    assert result.facts.clock_aligned


def test_error_is_null_below_three_instances(tmp_path: Path) -> None:
    assert [row[3] for row in clocks(align_traces(tmp_path, *_pair(0, count=3)))] == [0, 0]
    assert [row[3] for row in clocks(align_traces(tmp_path, *_pair(0, count=2)))] == [None, None]


def test_host_is_one_domain(tmp_path: Path) -> None:
    result = align_traces(tmp_path, *_pair(0, hosts=("a", "a")))
    assert {row[0] for row in clocks(result)} == {"a"}
    assert align_traces(tmp_path, *_pair(4, hosts=("a", "b"))).frames["clocks"]["offset_ns"].to_list() == [0, 4_000_000]


def test_rank_that_deviates_from_its_host_becomes_a_domain(tmp_path: Path) -> None:
    result = align_traces(tmp_path, *_pair(0.4, hosts=("a", "a")))
    assert [(row[0], row[2]) for row in clocks(result)] == [("a", 0), ("rank 1", 400_000)]
    assert "CLOCK_SKEW" in codes(result)


def test_rank_within_a_hundred_microseconds_stays_in_its_host(tmp_path: Path) -> None:
    result = align_traces(tmp_path, *_pair(0.09, hosts=("a", "a")))
    assert [(row[0], row[2]) for row in clocks(result)] == [("a", 0), ("a", 0)]


def _matched(ends: dict[int, list[int]], gid: int = 1, first: int = 0, op: str = "all_reduce") -> pl.DataFrame:
    rows = [(first + place, gid, rank, op, end) for rank, column in ends.items() for place, end in enumerate(column)]
    schema = {"instance": pl.Int64, "gid": pl.Int32, "rank": pl.Int32, "op": pl.String, "end_ns": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_offsets_are_walked_through_overlapping_groups() -> None:
    first = _matched({0: [100, 200, 300], 1: [1_100, 1_200, 1_300]}, gid=1)
    second = _matched({1: [5_100, 5_200, 5_300], 2: [4_400, 4_500, 4_600]}, gid=2, first=10)
    found = measure_clocks(pl.concat([first, second]), [0, 1, 2], {}, [])
    # Rank 1 is 1,000 ahead of rank 0, and rank 2 is 700 behind rank 1.
    assert found.table["offset_ns"].to_list() == [0, 1_000, 300]
    assert found.aligned


def test_groups_that_nothing_connects_are_aligned_inside_only() -> None:
    first = _matched({0: [100, 200, 300], 1: [1_100, 1_200, 1_300]}, gid=1)
    second = _matched({2: [5_100, 5_200, 5_300], 3: [4_400, 4_500, 4_600]}, gid=2, first=10)
    found = measure_clocks(pl.concat([first, second]), [0, 1, 2, 3, 4], {}, [])
    assert found.table["offset_ns"].to_list() == [0, 1_000, 0, -700, None]
    assert not found.aligned


def test_all_to_all_counts_only_where_a_group_has_nothing_else() -> None:
    loose = _matched({0: [100, 200, 300], 1: [1_100, 1_200, 1_300]}, op="all_to_all")
    assert measure_clocks(loose, [0, 1], {}, []).table["offset_ns"].to_list() == [0, 1_000]
    strict = _matched({0: [500], 1: [700]}, first=10)
    assert measure_clocks(pl.concat([loose, strict]), [0, 1], {}, []).table["offset_ns"].to_list() == [0, 200]


def test_broadcasts_and_messages_move_no_clock() -> None:
    for op in ("broadcast", "send", "gather", "unknown"):
        assert measure_clocks(_matched({0: [100], 1: [900]}, op=op), [0, 1], {}, []).table["offset_ns"].to_list() == [0, None]


def test_drift_is_fitted_over_a_minute_and_never_below() -> None:
    minute = 60_000_000_000
    for span, expected in ((2 * minute, 20.0), (minute // 2, None)):
        at = np.linspace(0, span, 50).astype(np.int64)
        ends = {0: at.tolist(), 1: (at + 1_000_000 + (at * 20e-6).astype(np.int64)).tolist()}
        found = measure_clocks(_matched(ends), [0, 1], {}, [])
        drift = found.table["drift_ppm"].to_list()[1]
        assert drift is expected if expected is None else drift == pytest.approx(expected, abs=0.1)
        if expected is not None:
            frame = pl.DataFrame({"rank": [1] * 50, "at_ns": ends[1]}, schema={"rank": pl.Int32, "at_ns": pl.Int64})
            assert np.abs(correct(frame, found, ("at_ns",))["at_ns"].to_numpy() - at).max() < 2_000
            assert found.table["error_ns"].to_list()[1] < 2_000


def test_scatter_of_ends_is_the_error_and_splits_no_host() -> None:
    random = np.random.default_rng(3)
    at = np.arange(20) * 100_000_000
    ends = {rank: (at + random.normal(0, 3_000_000, 20).astype(np.int64)).tolist() for rank in range(4)}
    issues: list[Issue] = []
    found = measure_clocks(_matched(ends), [0, 1, 2, 3], dict.fromkeys(range(4), "one"), issues)
    assert found.table["domain"].unique().to_list() == ["one"]
    assert 500_000 < found.table["error_ns"][0] < 5_000_000
    assert not issues


def test_an_offset_within_the_error_of_both_clocks_is_no_skew() -> None:
    at = np.arange(9) * 100_000_000
    # Rank 1 is 0.8 ms ahead in the middle, but ends of both scatter by up to 3 ms, as those of Gloo threads do.
    scatter = np.array([-3, -2, -1, 0, 0.8, 1.6, 2.6, 3.6, 4.6]) * 1e6
    issues: list[Issue] = []
    found = measure_clocks(_matched({0: at.tolist(), 1: (at + scatter.astype(np.int64)).tolist()}), [0, 1], {}, issues)
    assert found.table["offset_ns"].to_list() == [0, 800_000]
    assert found.table["error_ns"].sum() > 800_000
    assert not issues


def _ahead(us: int) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        for event in document["traceEvents"]:
            if "ts" in event:
                event["ts"] += us

    return change


@pytest.mark.parametrize("rank", [0, 3])
def test_five_milliseconds_on_one_rank_of_the_real_run_are_recovered(shared_data: Path, tmp_path: Path, rank: int) -> None:
    paths = list((shared_data / "traces/param_dlrm_v100_8rank").glob("*.gz"))
    moved = [path if path.name != f"rank{rank}.json.gz" else edited(path, tmp_path / path.name, _ahead(5_000)) for path in paths]
    before, after = aligned(paths), aligned(moved)
    offsets = np.array(after.frames["clocks"]["offset_ns"]) - np.array(before.frames["clocks"]["offset_ns"])
    assert abs((offsets[rank] - offsets[(rank + 1) % 8]) - 5_000_000) < 10_000
    keys = ["instance", "rank"]
    both = before.frames["collectives"].join(after.frames["collectives"], on=keys, suffix="_after")
    error = int(before.frames["collectives"]["error_ns"].max()) * 2  # type: ignore[arg-type]
    for column in ("wait_ns", "transfer_ns"):
        assert int((both[column] - both[f"{column}_after"]).abs().max()) <= error  # type: ignore[arg-type]
    assert "CLOCK_SKEW" in codes(after)
    assert "CLOCK_SKEW" not in codes(before)


def test_an_unknown_error_is_said(tmp_path: Path) -> None:
    assert "CLOCK_UNCHECKED" in codes(align_traces(tmp_path, *_pair(0, count=2)))
    assert "CLOCK_UNCHECKED" not in codes(align_traces(tmp_path, *_pair(0, count=3)))
    assert "CLOCK_UNCHECKED" not in codes(align_traces(tmp_path, *_pair(0, count=1, hosts=("a", "a"))))
