"""Bandwidth as nccl-tests defines it, and only from transfer."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.attribute import bus_factor, fits, tails
from tests.timelines import Timelines


def _one(
    starts: dict[int, float], end: float, *, members: list[int] | None = None, op: str = "all_reduce", size: int | None = 1_000_000
) -> dict[str, object]:
    made = Timelines(["a"] * 8)
    made.collective(starts, end, members=members, op=op, size=size)
    return made.figures(window="capture").collective_rows()[0]


def test_units_are_decimal_as_in_nccl_tests() -> None:
    row = _one({0: 0, 1: 0}, 3.4582, size=8_196_000)
    assert row["algbw_gb_per_s"] == pytest.approx(2.37, abs=0.001)  # what PARAM prints; 2.203 would be GiB/s


@pytest.mark.parametrize(
    ("op", "factor"),
    [("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_to_all", 0.75), ("broadcast", 1), ("barrier", None)],
)
def test_bus_factors_of_four_ranks(op: str, factor: float | None) -> None:
    row = _one(dict.fromkeys(range(4), 0.0), 2, op=op)
    assert row["busbw_gb_per_s"] == (None if factor is None else pytest.approx(0.5 * factor))
    assert bus_factor(op, 4) == factor


def test_waiting_is_not_in_the_bandwidth() -> None:
    row = _one({0: 0, 1: 8}, 10)
    assert row["algbw_gb_per_s"] == pytest.approx(0.5)
    assert (row["transfer_ms_median"], row["wait_ms_mean"]) == (2, 4)


def test_operations_that_move_bytes_early_have_a_bandwidth_only_if_arrivals_are_close() -> None:
    assert _one({0: 0, 1: 1}, 3, op="all_to_all")["busbw_gb_per_s"] is None
    assert _one({0: 0, 1: 0.1}, 3, op="all_to_all")["busbw_gb_per_s"] is not None
    assert _one({0: 0, 1: 1}, 3, op="broadcast")["busbw_gb_per_s"] is None
    assert _one({0: 0, 1: 1}, 3, op="all_gather")["busbw_gb_per_s"] is not None


def test_no_bandwidth_without_all_members_or_without_bytes() -> None:
    assert _one({0: 0, 1: 0}, 2, members=[0, 1, 2])["busbw_gb_per_s"] is None
    assert _one({0: 0}, 2, members=[0, 1])["busbw_gb_per_s"] is None
    assert _one({0: 0, 1: 0}, 2, size=None)["algbw_gb_per_s"] is None
    assert _one({0: 0, 1: 0}, 0)["algbw_gb_per_s"] is None


def test_count_counts_instances_and_quality_is_the_poorest() -> None:
    made = Timelines(["a", "a"], world=2)
    made.collective({0: 0, 1: 0}, 2)
    made.collective({0: 4}, 6, members=[0, 1])
    row = made.figures(window="capture").collective_rows()[0]
    assert (row["count"], row["split"], row["transfer_ms_median"]) == (2, "unknown", 2)


def _sizes(times: dict[int, float], repeat: int) -> pl.DataFrame:
    made = Timelines(["a", "a"])
    at = 0.0
    for size, ms in times.items():
        for _ in range(repeat):
            made.collective({0: at, 1: at}, at + ms, size=size)
            at += ms + 1
    return made.figures(window="capture").instances


def test_latency_and_rate_come_back_from_a_straight_line() -> None:
    line = {size: 0.05 + size / 20e6 for size in (1_000_000, 2_000_000, 8_000_000, 32_000_000)}
    row = fits(_sizes(line, 2)).row(0, named=True)
    assert (row["alpha_us"], row["beta_gb_per_s"], row["refused"]) == (pytest.approx(50, rel=1e-6), pytest.approx(20, rel=1e-6), None)


def test_a_fit_is_refused_where_sizes_do_not_span_or_samples_lack() -> None:
    assert "factor" in fits(_sizes({1_000_000: 1.0, 2_000_000: 2.0}, 5))["refused"][0]
    assert "needs 8" in fits(_sizes({1_000_000: 1.0, 9_000_000: 2.0}, 2))["refused"][0]


def test_the_tail_names_its_worst_instance_and_step() -> None:
    made = Timelines(["a", "a"])
    for step in range(20):
        made.step(step, 10 * step, 10 * step + 10)
        made.collective({0: 10 * step, 1: 10 * step}, 10 * step + (9 if step == 13 else 1))
    row = tails(made.figures().instances).row(0, named=True)
    assert (row["count"], row["worst_step"], row["p50_ns"], row["max_ns"]) == (20, 13, 1_000_000, 9_000_000)
