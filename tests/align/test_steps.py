"""Step borders by hand: each test draws host marks and kernels, and the border follows from the rule of docs/methods.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl

from netlab.align import Aligned
from tests.align.support import GEMM, Trace, align_traces, aligned, codes, step_rows


def test_loop_that_synchronises_gets_the_marks_of_the_host(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 10).compute(1, 8).step(4, 10, 20).compute(11, 19)
    assert step_rows(align_traces(tmp_path, trace)) == [(3, 0, 10, True, None), (4, 10, 20, True, None)]


def test_border_moves_to_the_end_of_the_work_of_a_loop_that_runs_ahead(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 2).compute(0.5, 10, launch=0.4).step(4, 2, 4).compute(10, 20, launch=2.4)
    # The host leaves step 3 at 2 ms, its kernel at 10 ms; the last step ends with its last kernel.
    assert step_rows(align_traces(tmp_path, trace)) == [(3, 0, 10, True, None), (4, 10, 20, True, None)]


def test_border_is_the_first_compute_kernel_of_the_next_step_where_communication_lasts_longer(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 2).compute(0.5, 6, launch=0.4).collective(6, 12, 1, launch=1)
    trace.step(4, 2, 14).compute(8, 13, launch=2.4)
    assert step_rows(align_traces(tmp_path, trace)) == [(3, 0, 8, True, None), (4, 8, 14, True, None)]


def test_communication_kernel_does_not_open_a_step_early(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 2).compute(0.5, 9, launch=0.4)
    trace.step(4, 2, 14).collective(5, 7, 1, launch=2.4).compute(9, 13, launch=2.6)
    assert [row[1:3] for row in step_rows(align_traces(tmp_path, trace))] == [(0, 9), (9, 14)]


def test_copies_never_move_a_border(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 2).compute(0.5, 3, launch=0.4)
    trace.correlation += 1
    trace.add("cuda_runtime", "cudaMemcpyAsync", 1.0, 1.1, correlation=trace.correlation)
    trace.add("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 3, 9, 7, device=0, stream=7, correlation=trace.correlation)
    trace.step(4, 2, 14).compute(10, 13, launch=2.4)
    assert [row[1:3] for row in step_rows(align_traces(tmp_path, trace))] == [(0, 3), (3, 14)]


def test_with_nothing_launched_on_either_side_the_border_is_the_mark(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 5).compute(1, 9, launch=None).step(4, 5, 10)
    assert [row[1:3] for row in step_rows(align_traces(tmp_path, trace))] == [(0, 5), (5, 10)]


def test_missing_part_of_the_rule_is_left_out(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 5).step(4, 5, 14).compute(8, 13, launch=5.5)
    # Nothing was launched in step 3, so its first kernel opens step 4.
    assert [row[1:3] for row in step_rows(align_traces(tmp_path, trace))] == [(0, 8), (8, 14)]


def test_step_without_time_is_absorbed_and_excluded(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 1).compute(0.5, 20, launch=0.4).step(4, 1, 2).step(5, 2, 30).compute(20, 28, launch=2.5)
    # Step 4 launches nothing: its border to 5 is the first kernel of 5 at 20, and its own start is the end of step 3's work, 20.
    result = align_traces(tmp_path, trace)
    assert step_rows(result) == [(3, 0, 20, True, None), (4, 20, 20, False, "absorbed"), (5, 20, 30, True, None)]
    assert [(row.step, row.reason) for row in result.facts.excluded_steps] == [(4, "absorbed")]
    assert result.facts.steps == [3, 5]


def test_first_step_starts_after_the_work_launched_before_its_mark(tmp_path: Path) -> None:
    trace = Trace().compute(0, 7, launch=0).step(3, 5, 20).compute(9, 18, launch=5.5)
    assert [row[1:3] for row in step_rows(align_traces(tmp_path, trace))] == [(7, 20)]


def test_first_step_starts_after_work_whose_launch_lies_before_the_capture(tmp_path: Path) -> None:
    trace = Trace().compute(5.2, 8, launch=None).step(3, 5, 20).compute(8, 18, launch=5.5)
    assert [row[1:3] for row in step_rows(align_traces(tmp_path, trace))] == [(8, 20)]


def test_first_step_starts_from_the_device_when_its_first_kernel_was_queued(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 2).compute(6, 18, launch=0.5).step(4, 2, 30).compute(18, 28, launch=2.5)
    assert step_rows(align_traces(tmp_path, trace)) == [(3, 6, 18, True, "start_from_device"), (4, 18, 30, True, None)]


def test_kernel_that_starts_a_millisecond_after_its_launch_is_not_queued(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 20).compute(1.505, 18, launch=0.5)
    assert step_rows(align_traces(tmp_path, trace)) == [(3, 0, 20, True, None)]


def test_steps_with_a_gap_in_their_numbers_do_not_share_a_border(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 10).compute(1, 9).step(8, 50, 60).compute(51, 59)
    assert [row[:3] for row in step_rows(align_traces(tmp_path, trace))] == [(3, 0, 10), (8, 50, 60)]


def test_mark_without_an_end_is_incomplete(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 10).compute(1, 9).compute(11, 15)
    trace.events.append({"ph": "B", "cat": "user_annotation", "name": "ProfilerStep#4", "pid": 4000, "tid": 4000, "ts": trace._at(10)})
    rows = step_rows(align_traces(tmp_path, trace))
    assert [row[0] for row in rows if row[3]] == [3]


def test_mark_that_outlasts_its_file_by_hours_is_clipped(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 10).compute(1, 9).step(4, 10, 4e9).compute(11, 15).compute(16, 19)
    result = align_traces(tmp_path, trace)
    assert step_rows(result) == [(3, 0, 10, True, None), (4, 10, 19, True, None)]
    assert "IMPOSSIBLE_DURATION" in codes(result)
    # A mark before another one ends with it; a step may go on for minutes after its last launch.
    trace = Trace().step(3, 0, 4e9).compute(1, 9).step(4, 10, 600_000).compute(11, 15)
    assert [row[1:4] for row in step_rows(align_traces(tmp_path, trace))] == [(0, 10, True), (10, 600_000, True)]


def test_mark_of_negative_duration_is_one_without_an_end(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 10).compute(1, 9).step(4, 10, 5).compute(11, 15).step(5, 20, 30).compute(21, 25)
    rows = step_rows(align_traces(tmp_path, trace))
    assert [row[0] for row in rows] == [3, 4, 5]
    assert [row[0] for row in rows if row[3]] == [3, 5]


def test_launches_without_device_events_make_a_step_incomplete(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 10)
    for number in range(4):
        trace.add("cuda_runtime", "cudaLaunchKernel", 1 + number, 1.1 + number, correlation=number + 1)
    trace.step(4, 10, 20).compute(11, 19)
    result = align_traces(tmp_path, trace)
    assert step_rows(result)[0][3:] == (False, "its launches have no device events")
    assert "STEP_WITHOUT_DEVICE_EVENTS" in codes(result)
    assert result.facts.steps == [4]


def test_one_lost_kernel_of_many_leaves_a_step_complete(tmp_path: Path) -> None:
    trace = Trace().step(3, 0, 10).compute(1, 2).compute(3, 4)
    trace.add("cuda_runtime", "cudaLaunchKernel", 5, 5.1, correlation=999)
    trace.step(4, 10, 20).compute(11, 19)
    assert [row[3] for row in step_rows(align_traces(tmp_path, trace))] == [True, True]


def test_steps_that_were_not_selected_are_named(tmp_path: Path) -> None:
    first, second = (Trace(rank).step(3, 0, 10).compute(1, 9).step(4, 10, 20).compute(11, 19) for rank in (0, 1))
    result = align_traces(tmp_path, first, second, steps=range(4, 5), ranks=frozenset({1}))
    assert result.facts.steps == [4]
    assert {(row.rank, row.step, row.reason) for row in result.facts.excluded_steps} == {
        (0, 3, "not selected"),
        (0, 4, "not selected"),
        (1, 3, "not selected"),
    }


def test_totals_pool_the_steps_that_every_rank_has(tmp_path: Path) -> None:
    first = Trace(0).step(3, 0, 10).compute(1, 9).step(4, 10, 20).compute(11, 19)
    second = Trace(1).step(4, 10, 20).compute(11, 19).step(5, 20, 30).compute(21, 29)
    result = align_traces(tmp_path, first, second)
    assert result.facts.steps == [4]
    assert {(row.rank, row.step) for row in result.facts.excluded_steps} == {(0, 3), (1, 5)}
    assert "RANK_STEPS_DIFFER" in codes(result)
    assert result.frames["steps"]["complete"].all()


def test_ranks_without_a_common_step_pool_all_steps(tmp_path: Path) -> None:
    result = align_traces(tmp_path, Trace(0).step(3, 0, 10).compute(1, 9), Trace(1).step(4, 10, 20).compute(11, 19))
    assert result.facts.steps == [3, 4]


def test_trace_without_steps_is_a_capture(tmp_path: Path) -> None:
    result = align_traces(tmp_path, Trace(world=1).compute(1, 9))
    assert result.facts.window == "capture"
    assert "NO_STEPS" in codes(result)
    assert result.frames["steps"].is_empty()


def test_activities_belong_to_the_step_they_start_in(tmp_path: Path) -> None:
    trace = Trace(world=1).step(3, 0, 10).compute(1, 12, launch=0.9).step(4, 10, 20).kernel(GEMM + "2", 12, 15, launch=10.5).compute(22, 23)
    activities = align_traces(tmp_path, trace).frames["activities"]
    # The border lies at 12, where the work of step 3 ends.
    assert activities.select(pl.col("step")).to_series().to_list() == [3, 4, None]


def _written(folder: Path, trace: Trace, change: Callable[[str], str]) -> Aligned:
    path = folder / "trace.json"
    path.write_text(change(json.dumps(trace.document())))
    return aligned([path])


def test_last_step_of_a_truncated_file_is_incomplete(tmp_path: Path) -> None:
    trace = Trace(world=1).step(3, 0, 10).compute(1, 9).step(4, 10, 20).compute(11, 19).compute(19.1, 19.5)
    result = _written(tmp_path, trace, lambda text: text[: text.rindex('{"ph"') + 20])
    assert step_rows(result)[1][3:] == (False, "last step of a truncated file")
    assert result.facts.steps == [3]


def _damaged(folder: Path, victim: str) -> Aligned:
    trace = Trace(world=1).step(3, 0, 10).add("cpu_op", "aten::mm", 0, 1).kernel("victim_kernel", 1, 2).compute(3, 9)
    trace.step(4, 10, 20).compute(11, 19)
    return _written(folder, trace, lambda text: text.replace(f'"{victim}"', f'{{"{victim}', 1))


def test_damage_in_the_middle_of_a_file_costs_no_step(tmp_path: Path) -> None:
    result = _damaged(tmp_path, "aten::mm")
    assert result.frames["trace_files"].select("complete", "truncated").row(0) == (False, False)
    assert result.facts.steps == [3, 4]


def test_damage_that_cost_a_kernel_makes_its_step_incomplete(tmp_path: Path) -> None:
    rows = step_rows(_damaged(tmp_path, "victim_kernel"))
    assert [(row[0], row[4]) for row in rows] == [(3, "damage of the file cost it device events"), (4, None)]
