"""Pooled shares: sums over sums, flags in integers, nulls where the split is unknown."""

from __future__ import annotations

from fractions import Fraction

import polars as pl
import pytest

from netlab.attribute import pool, pooled_rows, unpooled
from tests.timelines import Timelines


def _boundary() -> Timelines:
    made = Timelines(["a", "b"])
    for step, compute in ((4, 60), (5, 59.999)):
        at = 80 * (step - 4)
        made.step(step, at, at + 80)
        for rank in (0, 1):
            made.kernel(rank, at, at + compute)
        made.collective({0: at + 50, 1: at + 50}, at + 80)
    return made


@pytest.mark.parametrize(
    ("threshold", "step4", "step5", "totals"),
    [("0.25", False, True, True), ("0.2500125", False, False, False), ("0.25000625", False, True, False)],
)
def test_flagged_means_strictly_above(threshold: str, step4: bool, step5: bool, totals: bool) -> None:
    figures = _boundary().figures(threshold=Fraction(threshold))
    assert figures.by_step["flagged"].to_list() == [step4, step5]
    assert figures.totals["flagged"] is totals
    assert figures.totals["network_share"] == pytest.approx(0.25000625, abs=1e-12)
    assert figures.totals["fabric_share"] == figures.totals["network_share"]


def test_shares_pool_sums_not_means() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 10)
    made.step(2, 10, 100)
    made.collective({0: 0, 1: 0}, 10)
    for rank in (0, 1):
        made.kernel(rank, 10, 100)
    totals = made.figures().totals
    assert totals["network_share"] == 0.1
    assert totals["iteration_ms"] == 50
    assert totals["iterations"] == 4


def test_no_communication_gives_share_zero_and_no_overlap() -> None:
    made = Timelines(["a"])
    made.step(1, 0, 10)
    made.kernel(0, 0, 9)
    totals = made.figures().totals
    assert (totals["network_share"], totals["comm_share"], totals["wait_share"], totals["comm_ms"]) == (0, 0, 0, 0)
    assert totals["overlap_efficiency"] is None
    assert (totals["flagged"], totals["split"], totals["basis"]) == (False, "measured", "transfer")


def test_nothing_at_all_gives_nulls_and_no_flag() -> None:
    totals = Timelines(["a"]).figures().totals
    assert totals["network_share"] is None
    assert totals["iteration_ms"] is None
    assert totals["flagged"] is False


def test_unknown_split_hides_transfer_and_wait_but_not_the_bound() -> None:
    made = Timelines(["a"], world=2)
    made.step(1, 0, 20)
    made.kernel(0, 0, 12)
    made.collective({0: 10}, 18, members=[0, 1])
    totals = made.figures().totals
    assert (totals["network_share"], totals["comm_share"], totals["basis"], totals["split"]) == (0.3, 0.3, "communication", "unknown")
    assert (totals["network_share_low"], totals["network_share_high"]) == (0, 0.3)
    assert totals["flagged"] is True
    assert totals["flag_certain"] is False
    for name in ("exposed_transfer_ms", "exposed_wait_ms", "wait_share", "fabric_share", "network_delay_share", "hidden_transfer_ms"):
        assert totals[name] is None
    assert (totals["exposed_comm_ms"], totals["hidden_comm_ms"]) == (6, 2)


def test_bounded_split_keeps_transfer_as_an_upper_bound() -> None:
    made = Timelines(["a", "a", "a"], world=4)
    made.step(1, 0, 10)
    for rank in range(3):
        made.kernel(rank, 0, 8)
    made.collective({0: 8, 1: 8, 2: 8}, 10, members=[0, 1, 2, 3])
    totals = made.figures().totals
    assert (totals["split"], totals["basis"], totals["network_share"]) == ("bounded", "transfer", 0.2)
    assert (totals["network_share_low"], totals["network_share_high"]) == (0, 0.2)


def test_totals_pool_steps_that_every_rank_has() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 10, [0])
    made.step(2, 10, 30)
    for rank in (0, 1):
        made.kernel(rank, 0, 30)
    figures = made.figures()
    assert figures.totals["iteration_ms"] == 20
    assert figures.by_rank_step.height == 3
    assert [(left.step, left.rank) for left in unpooled(figures.breakdown)] == [(1, 0)]


def test_totals_pool_all_steps_where_no_step_is_common() -> None:
    frame = pl.DataFrame({"rank": [0, 1], "window": [0, 0], "step": [1, 2]})
    assert pooled_rows(frame).height == 2


def test_a_capture_has_no_iterations() -> None:
    made = Timelines(["a", "a"])
    made.kernel(0, 0, 4)
    made.collective({0: 4, 1: 4}, 10)
    figures = made.figures(window="capture")
    assert (figures.totals["iterations"], figures.totals["iteration_ms"]) == (None, None)
    assert figures.totals["network_share"] == 12 / 16
    assert figures.by_step.height == 0
    assert figures.span["iteration_ms"].to_list() == [10, 6]


def test_long_decimal_thresholds_do_not_overflow() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 1e7)
    made.collective({0: 0, 1: 0}, 2.5e6 + 1e-6)
    totals = pool(made.figures().pooled, [], Fraction("0.250000000000000000001"))
    assert totals["flagged"].to_list() == [True]
