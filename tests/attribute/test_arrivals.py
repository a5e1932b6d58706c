"""Instances, their rows, and stragglers by the rule."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.attribute.stragglers import _tail
from tests.timelines import MS, Timelines


def test_instance_rows_have_the_contracts_fields_and_the_worst_first() -> None:
    made = Timelines(["a", "a"])
    made.step(7, 0, 40)
    made.collective({0: 1, 1: 2}, 4, size=10)
    made.collective({0: 8, 1: 16}, 18, size=20)
    rows = made.figures().instance_rows()
    assert [row["seq"] for row in rows] == [1, 0]
    assert rows[0] == {
        "group": [0, 1],
        "name": "0",
        "seq": 1,
        "op": "all_reduce",
        "bytes": 20,
        "step": 7,
        "first_rank": 0,
        "last_rank": 1,
        "start_ms": 7.0,  # after the first activity of the run, at 1 ms
        "transfer_ms": 2.0,
        "waits_ms": {"0": 8.0, "1": 0.0},
        "split": "measured",
    }
    assert len(made.figures().instance_rows(limit=1)) == 1


def test_a_bounded_instance_has_no_first_or_last_rank_and_transfer_at_most() -> None:
    made = Timelines(["a", "a"], world=3)
    made.collective({0: 0, 1: 3}, 8, members=[0, 1, 2])
    row = made.figures(window="capture").instance_rows()[0]
    assert (row["first_rank"], row["last_rank"], row["transfer_ms"], row["split"]) == (None, None, 5.0, "bounded")


def test_an_unknown_instance_has_neither_transfer_nor_waits() -> None:
    made = Timelines(["a"], world=2)
    made.collective({0: 0}, 8, members=[0, 1])
    row = made.figures(window="capture").instance_rows()[0]
    assert (row["transfer_ms"], row["waits_ms"], row["split"]) == (None, {"0": None}, "unknown")


def test_lateness_is_against_the_median_of_the_others_to_the_nanosecond() -> None:
    made = Timelines(["a"] * 4)
    base = 1_790_000_000_000  # today, in ms: its nanoseconds have more digits than a float
    made.collective({0: base, 1: base + 1, 2: base + 2, 3: base + 10}, base + 12)
    row = made.figures(window="capture").instances.row(0, named=True)
    assert (row["excess_ns"], row["lateness_ns"]) == (8 * MS, 9 * MS)


def test_message_rows_follow_time() -> None:
    made = Timelines(["a", "b"])
    made.step(1, 0, 40)
    made.message(0, 1, 30, 0, 31)
    made.message(1, 0, 33, 35, 36, size=7)
    assert made.figures().p2p_rows() == [
        {
            "src": 0,
            "dst": 1,
            "bytes": 4_194_304,
            "step": 1,
            "transfer_ms": 1.0,
            "wait_src_ms": 0.0,
            "wait_dst_ms": 30.0,
            "split": "measured",
        },
        {"src": 1, "dst": 0, "bytes": 7, "step": 1, "transfer_ms": 1.0, "wait_src_ms": 2.0, "wait_dst_ms": 0.0, "split": "measured"},
    ]


def test_caused_wait_counts_only_what_exceeds_the_clock_error() -> None:
    made = Timelines(["a", "a", "a"])
    made.step(1, 0, 40)
    for rank, end in ((0, 8), (1, 16), (2, 10)):
        made.kernel(rank, 0, end)
    made.collective({0: 8, 1: 16, 2: 10}, 18, error=1)
    assert made.figures().straggler_rows() == [
        {
            "rank": 1,
            "last_count": 1,
            "caused_wait_ms": 12.0,
            "share_of_wait": 1.0,
            "z_score": pytest.approx(2**0.5),
            "delayed_by": "compute",
        }
    ]


def test_only_pooled_steps_count_for_stragglers() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 20, [0])
    made.step(2, 20, 40)
    made.kernel(1, 0, 12)
    made.collective({0: 2, 1: 12}, 14)
    made.kernel(0, 14, 34)
    made.collective({0: 34, 1: 22}, 36)
    table = made.figures().stragglers
    assert table.select("rank", "last_count").rows() == [(0, 1), (1, 0)]


def test_clear_needs_three_spreads_of_the_others_and_is_asked_only_of_few_instances() -> None:
    made = Timelines(["a", "a", "a"])
    made.step(1, 0, 100)
    made.collective({0: 0, 1: 10, 2: 1}, 12)
    figures = made.figures()
    assert figures.stragglers.filter(pl.col("rank") == 1)["clear"][0] is True
    made.collective({0: 20, 1: 26, 2: 22}, 30)  # 4 later than the next, spread of the others 2
    made.collective({0: 40, 1: 46, 2: 42}, 50)
    made.collective({0: 60, 1: 66, 2: 62}, 70)
    assert made.figures().stragglers.filter(pl.col("rank") == 1)["clear"][0] is True
    made.collective({0: 80, 1: 86, 2: 82}, 90)
    row = made.figures().stragglers.filter(pl.col("rank") == 1).row(0, named=True)
    assert row["clear"] is None
    assert row["p_value"] == pytest.approx(3 * (1 / 3) ** 5)


@pytest.mark.parametrize(("sizes", "count", "expected"), [([2], 1, 0.5), ([2, 2], 2, 0.25), ([2, 4], 1, 1 - 0.5 * 0.75), ([8] * 8, 0, 1.0)])
def test_chance_of_being_last_is_convolved_over_group_sizes(sizes: list[int], count: int, expected: float) -> None:
    assert _tail(pl.Series(sizes).to_numpy(), count) == pytest.approx(expected)
