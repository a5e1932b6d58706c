"""Device events: impossible durations, launches, and what is said about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.align.support import GEMM, Trace, align_traces, codes, ms, step_rows


def test_impossible_duration_is_clipped_to_the_capture_before_anything_else(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 20).compute(1, 8).kernel("broken_kernel", 9, 9e9, stream=9).step(2, 20, 40).compute(21, 38)
    result = align_traces(tmp_path, trace)
    assert "IMPOSSIBLE_DURATION" in codes(result)
    assert max(ms(result.frames["activities"], "end_ns")) == 40  # type: ignore[type-var]
    assert [row[:3] for row in step_rows(result)] == [(1, 0, 21), (2, 21, 40)]


def test_impossible_duration_ends_at_the_next_kernel_of_its_stream(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 20).kernel("broken_kernel", 1, 9e9).compute(5, 8)
    result = align_traces(tmp_path, trace)
    assert ms(result.frames["activities"], "end_ns") == [5, 8]


def test_clipped_end_moves_no_clock(tmp_path: Path) -> None:
    broken = Trace(0).step(1, 0, 20).collective(1, 9e9, 1).step(2, 20, 40).compute(21, 38)
    result = align_traces(tmp_path, broken, Trace(1).step(1, 0, 20).collective(1, 6, 1).step(2, 20, 40).compute(21, 38))
    assert result.frames["clocks"]["offset_ns"].to_list() == [0, None]
    assert "CLOCK_SKEW" not in codes(result)


def test_long_kernel_of_a_loop_that_runs_ahead_is_possible(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 1).compute(0.5, 900, launch=0.4)
    result = align_traces(tmp_path, trace)
    assert "IMPOSSIBLE_DURATION" not in codes(result)
    assert step_rows(result) == [(1, 0, 900, True, None)]


def test_kernel_before_its_launch_keeps_its_time_and_is_told(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 20).compute(3, 8, launch=3.004)
    result = align_traces(tmp_path, trace)
    assert ms(result.frames["activities"], "start_ns") == [3]
    message = next(issue.message for issue in result.issues if issue.code == "LAUNCH_AFTER_START")
    assert "4.0 us" in message


def test_reused_correlation_means_the_last_launch_before_the_kernel(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 20)
    for at in (1, 11):
        trace.add("cuda_runtime", "cudaLaunchKernel", at, at + 0.01, correlation=5)
        trace.add("kernel", GEMM, at + 1, at + 2, 7, device=0, stream=7, correlation=5)
    assert ms(align_traces(tmp_path, trace).frames["activities"], "launch_start_ns") == [1, 11]


def test_kernels_of_a_graph_share_its_launch(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 2)
    trace.add("cuda_runtime", "cudaGraphLaunch", 1, 1.1, correlation=5)
    for at in (3, 5, 7):
        trace.add("kernel", GEMM, at, at + 2, 7, device=0, stream=7, correlation=5)
    result = align_traces(tmp_path, trace)
    assert ms(result.frames["activities"], "launch_start_ns") == [1, 1, 1]
    assert step_rows(result)[0][2] == 9


def test_trace_without_device_events_gives_no_shares(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 20).add("cpu_op", "aten::mm", 1, 2)
    result = align_traces(tmp_path, trace)
    assert "NO_DEVICE_EVENTS" in codes(result)
    assert "STEP_WITHOUT_DEVICE_EVENTS" not in codes(result)
    assert "NO_COMMUNICATION" not in codes(result)
    assert result.frames["activities"].is_empty()
    assert result.facts.steps == []


def test_one_file_of_two_without_device_events_is_named(tmp_path: Path) -> None:
    result = align_traces(tmp_path, Trace(0).step(1, 0, 9).compute(1, 2), Trace(1).step(1, 0, 9).add("cpu_op", "aten::mm", 1, 2))
    assert [issue.source for issue in result.issues if issue.code == "NO_DEVICE_EVENTS"] == ["trace01.json"]
    assert result.facts.steps == [1]
    assert [(row.rank, row.step) for row in result.facts.excluded_steps] == [(1, 1)]


@pytest.mark.parametrize("world", [None, 1])
def test_run_without_communication_says_so(tmp_path: Path, world: int | None) -> None:
    result = align_traces(tmp_path, Trace(None if world is None else 0, world).step(1, 0, 10).compute(0, 9))
    assert "NO_COMMUNICATION" in codes(result)
    assert result.frames["collectives"].is_empty()
    assert result.facts.ranks == [0]
