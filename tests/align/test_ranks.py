"""Which rank, window and host a file belongs to, and which files cannot be one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from netlab.errors import ConfigError, RunError
from tests.align.support import Trace, align_traces, codes


def _trace(rank: int | None, world: int | None = 2, at: float = 0, **options: object) -> Trace:
    return Trace(rank, world, **options).step(3, at, at + 10).compute(at + 1, at + 8)  # type: ignore[arg-type]


def test_rank_comes_from_the_content_not_the_name(tmp_path: Path) -> None:
    result = align_traces(tmp_path, _trace(1), _trace(0), names=["rank0.json", "rank1.json"])
    files = result.frames["trace_files"]
    assert dict(zip(files["path"], files["rank"], strict=True)) == {"rank0.json": 1, "rank1.json": 0}
    assert codes(result) == {"CLOCK_UNCHECKED", "NO_COMMUNICATION"}


def test_rank_from_the_file_name_is_an_issue(tmp_path: Path) -> None:
    result = align_traces(tmp_path, _trace(None), _trace(None), names=["x_rank-3.json", "x_rank-1.json"])
    assert result.facts.ranks == [1, 3]
    assert [issue.source for issue in result.issues if issue.code == "RANK_ASSUMED"] == ["x_rank-1.json", "x_rank-3.json"]


def test_rank_from_the_order_of_files_takes_free_numbers(tmp_path: Path) -> None:
    result = align_traces(tmp_path, _trace(None), _trace(0), names=["a.json", "b.json"])
    assert result.facts.ranks == [0, 1]
    assert "RANK_ASSUMED" in codes(result)


def test_override_beats_the_content(tmp_path: Path) -> None:
    result = align_traces(tmp_path, _trace(0), _trace(0), names=["a.json", "b.json"], rank_overrides={"b.json": 1})
    assert result.facts.ranks == [0, 1]


def test_overlapping_files_of_one_rank_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^DUPLICATE_RANK: a\.json and b\.json both claim rank 0"):
        align_traces(tmp_path, _trace(0), _trace(0), _trace(1), names=["a.json", "b.json", "c.json"])


def test_two_whole_sets_are_several_runs(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^SEVERAL_RUNS: .*a0\.json.*b1\.json"):
        align_traces(tmp_path, _trace(0), _trace(1), _trace(0), _trace(1), names=["a0.json", "a1.json", "b0.json", "b1.json"])


def test_contradictory_worlds_are_several_runs(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^SEVERAL_RUNS: .*a\.json says 2; b\.json says 4"):
        align_traces(tmp_path, _trace(0, 2), _trace(1, 4), names=["a.json", "b.json"])


def test_one_rank_with_contradictory_worlds_is_a_duplicate(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^DUPLICATE_RANK"):
        align_traces(tmp_path, _trace(0, 2), _trace(0, 4, at=100), names=["a.json", "b.json"])


def test_declared_world_replaces_what_the_files_say(tmp_path: Path) -> None:
    result = align_traces(tmp_path, _trace(0, 2), _trace(1, 4), world_size=2)
    assert result.facts.world_size == 2
    assert not result.facts.missing_ranks


def test_profiler_cycles_are_windows(tmp_path: Path) -> None:
    traces = [_trace(rank, at=at) for at in (0, 500) for rank in (0, 1)]
    result = align_traces(tmp_path, *traces)
    assert result.frames["steps"].select("rank", "window", "step").rows() == [(0, 0, 3), (0, 1, 3), (1, 0, 3), (1, 1, 3)]
    assert result.frames["trace_files"]["window"].to_list() == [0, 0, 1, 1]
    assert result.facts.steps == [3]


def test_cycles_whose_groups_differ_are_not_one_run(tmp_path: Path) -> None:
    first, second = _trace(0, 4).group("1", [0, 1]), _trace(0, 4, at=500).group("1", [0, 2])
    with pytest.raises(RunError, match=r"^DUPLICATE_RANK"):
        align_traces(tmp_path, first, second)


def test_a_rank_that_lacks_a_cycle_keeps_the_window_of_the_others(tmp_path: Path) -> None:
    result = align_traces(tmp_path, _trace(0), _trace(0, at=500), _trace(1, at=500))
    assert result.frames["steps"].select("rank", "window").rows() == [(0, 0), (0, 1), (1, 1)]


def test_ranks_that_recorded_different_cycles_share_only_the_common_one(tmp_path: Path) -> None:
    result = align_traces(tmp_path, _trace(0), _trace(0, at=500), _trace(1, at=500), _trace(1, at=1000))
    assert result.frames["steps"].select("rank", "window").rows() == [(0, 0), (0, 1), (1, 1), (1, 2)]


def test_cycles_of_clocks_that_are_seconds_apart_are_matched_by_order(tmp_path: Path) -> None:
    traces = [_trace(rank, at=at, clock_ms=rank * 60_000) for rank in (0, 1) for at in (0, 500)]
    assert align_traces(tmp_path, *traces).frames["steps"]["window"].to_list() == [0, 1, 0, 1]


def test_impossible_duration_does_not_make_cycles_overlap(tmp_path: Path) -> None:
    first = _trace(0).compute(9, 9e12)
    assert align_traces(tmp_path, first, _trace(0, at=500)).frames["trace_files"]["window"].to_list() == [0, 1]


def test_missing_ranks_are_named(tmp_path: Path) -> None:
    result = align_traces(tmp_path, _trace(0, 4), _trace(3, 4))
    assert result.facts.missing_ranks == [1, 2]
    message = next(issue.message for issue in result.issues if issue.code == "MISSING_RANK")
    assert "1, 2" in message


def test_hosts_come_from_content_then_ranks_csv_then_gpus_per_node(tmp_path: Path) -> None:
    traces = [_trace(0, 4, host="alpha"), _trace(1, 4), _trace(2, 4), _trace(3, 4)]
    result = align_traces(tmp_path, *traces, rank_hosts={2: "beta"}, gpus_per_node=2)
    assert result.facts.hosts == {"alpha": [0, 1], "beta": [2, 3]}
    assert result.frames["ranks"]["local_rank"].to_list() == [0, 1, 0, 1]


def test_local_ranks_are_unknown_while_members_of_a_host_are_missing(tmp_path: Path) -> None:
    result = align_traces(tmp_path, _trace(1, 4, host="alpha"), _trace(3, 4, host="alpha"))
    assert result.frames["ranks"]["local_rank"].to_list() == [None, None]


def test_several_devices_in_one_file_are_told(tmp_path: Path) -> None:
    trace = _trace(0, 1)
    trace.device = 1
    trace.compute(2, 5)
    result = align_traces(tmp_path, trace)
    assert "MULTI_DEVICE" in codes(result)
    assert sorted(result.frames["activities"]["device"]) == [0, 1]


def test_world_of_a_trace_without_distributed_info_is_that_of_its_default_group(tmp_path: Path) -> None:
    trace = Trace(0, None).step(1, 0, 10).collective(1, 2, 1, [0, 1, 2], **{"Process Group Description": "default_pg"})
    result = align_traces(tmp_path, trace)
    assert (result.facts.world_size, result.facts.missing_ranks) == (3, [1, 2])


def test_no_trace_at_all_is_an_error() -> None:
    from netlab.align import align

    with pytest.raises(RunError, match="No trace file"):
        align({}, {})


def test_ranks_that_were_not_selected_leave_a_capture_without_steps(tmp_path: Path) -> None:
    traces = [Trace(rank).compute(0, 5).collective(5 + rank, 9, 1) for rank in range(2)]
    result = align_traces(tmp_path, *traces, ranks=frozenset({1}))
    assert result.frames["activities"]["rank"].unique().to_list() == [1]
    assert result.frames["collectives"]["wait_ns"].to_list() == [1_000_000, 0]


def test_selected_ranks_or_steps_that_were_not_recorded_are_a_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--ranks is 7, 8, but the traces are of ranks 0, 1\."):
        align_traces(tmp_path, _trace(0, 2), _trace(1, 2), ranks=frozenset({7, 8}))
    with pytest.raises(ConfigError, match=r"--steps holds none of the steps 3 of the traces"):
        align_traces(tmp_path, _trace(0, 1), steps=range(8, 9))
