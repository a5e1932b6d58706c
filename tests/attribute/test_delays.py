"""What delayed the last member, on planted causes."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.attribute import Attribution, input_marks
from netlab.schema.timeline import CLOCKS
from netlab.schema.traces import ANNOTATIONS, TRACE_FILES
from tests.timelines import MS, Timelines


def _cause(figures: Attribution, instance: int) -> dict[str, object]:
    return figures.delays.filter(pl.col("instance") == instance).row(0, named=True)


def test_more_compute_than_the_others_makes_a_straggler() -> None:
    made = Timelines(["a", "a", "a"])
    made.step(1, 0, 20)
    for rank, end in ((0, 8), (1, 16), (2, 9)):
        made.kernel(rank, 0, end)
    number = made.collective({0: 8, 1: 16, 2: 9}, 18)
    row = _cause(made.figures(), number)
    assert (row["late_rank"], row["delayed_by"], row["cause"], row["wait_ns"]) == (1, "compute", "straggler", 15 * MS)


def test_idle_before_the_arrival_is_the_host() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 20)
    made.kernel(0, 0, 8, launch=-1)
    made.kernel(1, 6, 14, launch=6)
    row = _cause(_with(made, {0: 8, 1: 14}, 16), 0)
    assert (row["late_rank"], row["delayed_by"], row["cause"]) == (1, "host", "straggler")


def test_a_longer_copy_to_the_device_is_input() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 20)
    made.kernel(0, 0, 1, kind="memory", name="Memcpy HtoD (Pageable -> Device)")
    made.kernel(1, 0, 7, kind="memory", name="Memcpy HtoD (Pageable -> Device)")
    made.kernel(0, 1, 8)
    made.kernel(1, 7, 14)
    row = _cause(_with(made, {0: 8, 1: 14}, 16), 0)
    assert (row["late_rank"], row["delayed_by"]) == (1, "input")


def test_idle_under_a_data_loader_mark_is_input() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 20)
    made.kernel(0, 0, 8)
    made.kernel(1, 6, 14)
    made.collective({0: 8, 1: 14}, 16)
    mark = {"file": 1, "name": "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "start_ns": 5 * MS, "end_ns": 11 * MS}
    files = pl.DataFrame(
        [{"file": n, "path": f"{n}.json", "rank": n, "base_time_ns": 0, "complete": True, "device_event_count": 2} for n in (0, 1)]
    )
    clocks = pl.DataFrame([{"domain": "b", "rank": 1, "offset_ns": 5 * MS, "samples": 3}])
    marks = input_marks(ANNOTATIONS.conform(pl.DataFrame([mark])), TRACE_FILES.conform(files), CLOCKS.conform(clocks))
    assert marks.rows() == [(1, 0, 6 * MS)]
    assert _cause(made.figures(inputs=marks), 0)["delayed_by"] == "input"


def test_the_stretch_begins_at_the_previous_common_collective() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 40)
    made.kernel(0, 0, 10)  # rank 0 is slower before the first collective, rank 1 after it
    made.kernel(1, 0, 5)
    first = made.collective({0: 10, 1: 5}, 12)
    made.kernel(0, 12, 20)
    made.kernel(1, 12, 28)
    second = made.collective({0: 20, 1: 28}, 30)
    figures = made.figures()
    assert [_cause(figures, number)["late_rank"] for number in (first, second)] == [0, 1]
    assert _cause(figures, second)["delayed_by"] == "compute"


def _tensor_and_data_parallel(slow: dict[int, float], tensor_end: dict[str, float]) -> Timelines:
    """Tensor-parallel pairs (0, 1) on host a and (2, 3) on host b, then data-parallel pairs over hosts."""
    made = Timelines(["a", "a", "b", "b"])
    made.step(1, 0, 60)
    for rank in range(4):
        made.kernel(rank, 0, 10 + slow.get(rank, 0))
    ends = {}
    for pair in ((0, 1), (2, 3)):
        starts = {rank: 10 + slow.get(rank, 0) for rank in pair}
        end = max(starts.values()) + tensor_end.get(f"{pair[0]},{pair[1]}", 2)
        made.collective(starts, end, size=8_000_000, description="tp", parallelism="TP")
        ends |= dict.fromkeys(pair, end)
    for pair in ((0, 2), (1, 3)):
        made.collective(
            {rank: ends[rank] for rank in pair}, max(ends[rank] for rank in pair) + 3, size=32_000_000, description="dp", parallelism="DP"
        )
    return made


def test_a_straggler_is_found_through_the_group_that_waited_for_it_first() -> None:
    figures = _tensor_and_data_parallel({1: 9}, {}).figures()
    rows = figures.delays
    assert rows["late_rank"].to_list() == [1, 0, 1]
    assert rows["delayed_by"].to_list() == ["compute", "wait", "compute"]
    assert rows["root_rank"].to_list() == [1, 1, 1]
    assert rows["cause"].to_list() == ["straggler"] * 3
    assert figures.totals["network_delay_share"] == figures.totals["network_share"]


def test_slow_transfer_in_one_group_that_makes_another_wait_is_no_straggler() -> None:
    figures = _tensor_and_data_parallel({}, {"0,1": 14}).figures()
    rows = figures.delays
    assert rows["delayed_by"].to_list() == ["transfer", "transfer"]
    assert rows["cause"].to_list() == ["transfer", "transfer"]
    groups = dict(figures.instances.select("instance", "group").iter_rows())
    assert [groups[number] for number in rows["culprit"].to_list()] == ["0,1", "0,1"]
    # 2 x 12 ms of waiting on top of 14 + 14 + 2 + 2 + 4 x 3 of transfer, in 4 x 60 ms.
    assert figures.totals["network_share"] == pytest.approx(44 / 240)
    assert figures.totals["network_delay_share"] == pytest.approx(68 / 240)


def test_a_receive_that_waits_for_normal_compute_is_the_schedule() -> None:
    made = Timelines(["a", "b", "c"])
    made.step(1, 0, 60)
    made.kernel(0, 0, 20)
    first = made.message(0, 1, 20, 0, 21)
    made.kernel(1, 21, 41)
    second = made.message(1, 2, 41, 0, 42)
    figures = made.figures()
    assert _cause(figures, first)["cause"] == "schedule"
    row = _cause(figures, second)
    assert row["cause"] == "schedule"
    assert figures.totals["network_delay_share"] == figures.totals["network_share"]


def test_a_sender_that_computes_longer_than_it_does_is_a_straggler() -> None:
    made = Timelines(["a", "b"])
    at = 0.0
    numbers = []
    for step in range(7):
        compute = 24 if step == 6 else 10
        made.step(step, at, at + compute + 2)
        made.kernel(0, at, at + compute)
        numbers.append(made.message(0, 1, at + compute, at, at + compute + 1))
        made.collective({0: at + compute + 1, 1: at + compute + 1}, at + compute + 2)
        at += compute + 2
    figures = made.figures()
    assert [_cause(figures, number)["cause"] for number in numbers] == ["schedule"] * 6 + ["straggler"]


def test_a_sender_slower_than_its_stage_is_a_straggler_though_it_always_is() -> None:
    """Ranks 0 and 2 are the first stage of two replicas, 1 and 3 the second; rank 2 takes 16 where rank 0 takes 10."""
    made = Timelines(["a", "b", "c", "d"])
    made.step(1, 0, 40)
    numbers = []
    for first, length in ((0, 10), (2, 16)):
        made.kernel(first, 0, length)
        numbers.append(made.message(first, first + 1, length, 0, length + 1))
        made.kernel(first + 1, length + 1, length + 11)
    made.collective({0: 11, 2: 17}, 19, name="dp")
    made.collective({1: 21, 3: 27}, 29, name="dp")
    figures = made.figures()
    assert [_cause(figures, number)["cause"] for number in numbers] == ["schedule", "straggler"]
    assert figures.delays["root_rank"].to_list() == [0, 2, 2, 2]


def test_compute_that_runs_through_a_collective_carries_a_lead_past_it() -> None:
    """Rank 0 of the data-parallel pair runs ahead under its waiting buckets; rank 1 is held up by its tensor-parallel peer 2 throughout."""
    made = Timelines(["a", "a", "a"])
    made.step(1, 0, 60)
    made.kernel(0, 0, 30)
    buckets = []
    for at, before in ((16, 10), (32, 26)):
        made.kernel(1, at - 16, at - 8)
        made.kernel(2, at - 16, at - 2)
        made.collective({1: at - 8, 2: at - 2}, at - 1, name="tp")
        made.kernel(1, at - 1, at)
        buckets.append(made.collective({0: before, 1: at}, at + 0.5, name="dp", stream=30))
    figures = made.figures()
    assert [_cause(figures, number)["root_rank"] for number in buckets] == [2, 2]


def test_nobody_is_last_where_members_are_missing_or_arrive_within_the_clock_error() -> None:
    made = Timelines(["a", "a"], world=3)
    made.step(1, 0, 20)
    made.collective({0: 2, 1: 6}, 8, members=[0, 1, 2])
    made.collective({0: 10, 1: 10.5}, 12, error=1)
    made.collective({0: 14, 1: 14}, 16)
    figures = made.figures()
    assert figures.instances["last_rank"].to_list() == [None, None, None]
    assert figures.instances["late_rank"].to_list() == [None, None, None]
    assert figures.delays.height == 0
    assert figures.straggler_rows() == []


def test_waits_that_cannot_be_followed_stay_unknown() -> None:
    made = Timelines(["a", "a", "a"], world=4)
    made.step(1, 0, 40)
    made.collective({1: 2}, 20, members=[1, 3], split="unknown")  # rank 1 is held up by something nobody saw
    made.collective({0: 3, 1: 20, 2: 3}, 22)
    row = made.figures().delays.row(0, named=True)
    assert (row["delayed_by"], row["cause"], row["culprit"]) == ("communication", "unknown", None)


def _with(made: Timelines, starts: dict[int, float], end: float) -> Attribution:
    made.collective(starts, end)
    return made.figures()
