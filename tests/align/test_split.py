"""Wait and transfer by hand, with every quality, and the bounds that go with it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.align import Aligned
from tests.align.support import Trace, align_traces, aligned


def bounds(result: Aligned, rank: int) -> tuple[float | None, float, float]:
    """Start of transfer, its latest and its earliest, in ms after the kernel's start."""
    row = result.frames["activities"].filter((pl.col("rank") == rank) & (pl.col("kind") == "communication")).row(0, named=True)
    columns = ("transfer_start_ns", "transfer_start_low_ns", "transfer_start_high_ns")
    return tuple(None if row[name] is None else (row[name] - row["start_ns"]) / 1e6 for name in columns)  # type: ignore[return-value]


def _three(*spans: tuple[float, float], op: str = "allreduce", world: int = 3, **options: object) -> list[Trace]:
    return [Trace(rank, world).collective(start, end, 1, op=op, **options) for rank, (start, end) in enumerate(spans)]  # type: ignore[arg-type]


def test_members_wait_for_the_last_one(tmp_path: Path) -> None:
    result = align_traces(tmp_path, *_three((0, 10), (4, 10), (7, 10)))
    assert result.frames["collectives"].select("wait_ns", "transfer_ns", "split", "seen").rows() == [
        (7_000_000, 3_000_000, "measured", 3),
        (3_000_000, 3_000_000, "measured", 3),
        (0, 3_000_000, "measured", 3),
    ]
    assert bounds(result, 0) == (7, 7, 7)


@pytest.mark.parametrize("op", ["all_to_all", "broadcast", "reduce", "gather", "scatter"])
def test_pairs_may_move_bytes_from_the_second_arrival_on(tmp_path: Path, op: str) -> None:
    result = align_traces(tmp_path, *_three((0, 10), (4, 10), (7, 10), op=op))
    assert bounds(result, 0) == (7, 7, 4)
    assert bounds(result, 1) == (3, 3, 0)
    assert bounds(result, 2) == (0, 0, 0)


def test_a_root_that_leaves_early_may_have_moved_all_its_bytes(tmp_path: Path) -> None:
    result = align_traces(tmp_path, *_three((0, 2), (4, 10), (7, 10), op="broadcast"))
    assert bounds(result, 0) == (2, 2, 0)
    assert result.frames["collectives"]["transfer_ns"].to_list() == [0, 3_000_000, 3_000_000]


def test_missing_members_bound_the_transfer(tmp_path: Path) -> None:
    result = align_traces(tmp_path, *_three((0, 10), (4, 10), world=3))
    rows = result.frames["collectives"].select("split", "seen", "members", "wait_ns", "transfer_ns").rows()
    assert rows == [("bounded", 2, 3, 4_000_000, 6_000_000), ("bounded", 2, 3, 0, 6_000_000)]
    # At most what the members that were seen leave, at least nothing: the missing one may have come last.
    assert bounds(result, 0) == (4, 10, 4)


def test_missing_member_of_an_all_to_all_may_have_come_first(tmp_path: Path) -> None:
    result = align_traces(tmp_path, *_three((0, 10), (4, 10), world=3, op="all_to_all"))
    assert bounds(result, 0) == (4, 10, 0)


def test_one_rank_alone_tells_nothing(tmp_path: Path) -> None:
    result = align_traces(tmp_path, *_three((0, 10), world=2))
    assert result.frames["collectives"].select("split", "wait_ns", "transfer_ns").rows() == [("unknown", None, None)]
    assert bounds(result, 0) == (None, 10, 0)


def test_declared_rate_is_the_lower_bound_of_what_cannot_be_split(tmp_path: Path) -> None:
    # 4,194,304 bytes at 8.388608 Gbit/s take 4 ms.
    result = align_traces(tmp_path, *_three((0, 10), world=2), gpus_per_node=2, intra_node_gbps=8.388608)
    assert bounds(result, 0) == (None, 6, 0)
    result = align_traces(tmp_path, *_three((0, 10), world=2), gpus_per_node=1, inter_node_gbps=8.388608)
    assert bounds(result, 0) == (None, 6, 0)
    # Two members a host share the work of the fabric between two links.
    result = align_traces(tmp_path, *_three((0, 10), world=4), gpus_per_node=2, inter_node_gbps=8.388608)
    assert bounds(result, 0) == (None, 8, 0)
    # An all-gather receives half of its 4,194,304 bytes from the other member.
    result = align_traces(tmp_path, *_three((0, 10), world=2, op="allgather"), gpus_per_node=2, intra_node_gbps=8.388608)
    assert bounds(result, 0) == (None, 8, 0)


def test_lower_bound_never_exceeds_the_kernel(tmp_path: Path) -> None:
    result = align_traces(tmp_path, *_three((0, 1), world=2), gpus_per_node=2, intra_node_gbps=8.388608)
    assert bounds(result, 0) == (None, 0, 0)


def test_clock_error_widens_the_bounds(tmp_path: Path) -> None:
    # Ends scatter by 0.2 ms around an offset of zero: 0.1 ms around their median, on both ranks.
    first, second = Trace(0), Trace(1)
    for seq, late in enumerate((0.0, 0.2, 0.0, -0.2, 0.2, -0.2)):
        first.collective(seq * 20, seq * 20 + 10, seq)
        second.collective(seq * 20 + 5, seq * 20 + 10 + late, seq)
    result = align_traces(tmp_path, first, second)
    assert result.frames["clocks"]["error_ns"].to_list() == [100_000, 100_000]
    assert result.frames["collectives"]["error_ns"].unique().to_list() == [200_000]
    assert bounds(result, 0) == (5, 5.2, 4.8)


def test_group_of_one_has_nobody_to_wait_for(tmp_path: Path) -> None:
    result = align_traces(tmp_path, Trace(0, 1).collective(1, 3, 1))
    assert result.frames["collectives"].select("split", "wait_ns", "transfer_ns").rows() == [("measured", 0, 2_000_000)]


def test_barrier_has_no_bytes(tmp_path: Path) -> None:
    result = align_traces(tmp_path, *_three((0, 3), (1, 3), world=2, op="barrier"))
    assert result.frames["collectives"].select("op", "bytes").unique().rows() == [("barrier", None)]


def test_instances_are_numbered_in_order_of_time(tmp_path: Path) -> None:
    traces = [Trace(rank, 2).collective(20, 25, 9, name="b").collective(10, 15, 1, name="a") for rank in range(2)]
    collectives = align_traces(tmp_path, *traces).frames["collectives"]
    assert collectives.select("instance", "group_name").unique().sort("instance").rows() == [(0, "a"), (1, "b")]


def test_order_of_files_changes_nothing(tmp_path: Path) -> None:
    traces = _three((0, 10), (4, 10), (7, 10))
    one, other = align_traces(tmp_path, *traces), align_traces(tmp_path, *reversed(traces))
    for name, frame in one.frames.items():
        if name != "trace_files":
            assert frame.equals(other.frames[name]), name


def test_real_run_is_mostly_waiting(shared_data: Path) -> None:
    result = aligned(list((shared_data / "traces/param_dlrm_v100_8rank").glob("*.gz")))
    found = (
        result.frames["collectives"]
        .group_by("instance")
        .agg(
            last=pl.col("rank").sort_by("start_ns").last(),
            transfer=pl.col("end_ns").max() - pl.col("start_ns").max(),
            split=pl.col("split").first(),
        )
        .sort("instance")
    )
    assert found["last"].to_list() == [7, 7, 7, 7, 7, 5, 5, 4]
    assert abs(found["transfer"].sum() - 225_000) < 15_000
    assert found["split"].unique().to_list() == ["measured"]
    assert result.facts.steps == [10]
