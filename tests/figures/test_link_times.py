"""Links over time stand on the axis of the steps."""

from __future__ import annotations

import polars as pl
import pytest

from netlab import figures
from netlab.schema.counters import LINK_INTERVALS
from netlab.schema.timeline import STEPS

S = 1_000_000_000
ORIGIN = 1_700_000_000 * S


def _steps(length_ns: int = S // 2, count: int = 4) -> pl.DataFrame:
    starts = [ORIGIN + n * length_ns for n in range(count)]
    frame = pl.DataFrame({"step": range(count), "start_ns": starts, "end_ns": [start + length_ns for start in starts]})
    marks = {"mark_start_ns": pl.col("start_ns"), "mark_end_ns": pl.col("end_ns")}
    return pl.concat([STEPS.conform(frame.with_columns(**marks), rank=rank, window=0, complete=True) for rank in (0, 1)])


def _breakdown(count: int = 4, length_ns: int = S // 2) -> pl.DataFrame:
    rows = [
        {"rank": rank, "window": 0, "step": step, "step_ns": length_ns, "exposed_comm_ns": (100 + 100 * rank) * 1_000_000}
        for rank in (0, 1)
        for step in range(count)
    ]
    return pl.DataFrame(rows)


def _polls(first_ns: int, count: int = 40) -> pl.DataFrame:
    times = [first_ns + n * S // 10 for n in range(count)]
    frame = pl.DataFrame({"t0_ns": times, "t1_ns": [t + S // 10 for t in times], "utilization": [n / 100 for n in range(count)]})
    return LINK_INTERVALS.conform(frame, device="leaf", port="e1", direction="tx", metric="bytes", flags="")


def test_a_step_is_drawn_with_the_mean_exposed_communication_of_its_ranks() -> None:
    band = figures.step_band_frame(_steps(), _breakdown())
    assert band["t0_s"].to_list() == [0.0, 0.5, 1.0, 1.5]
    assert band["exposed_ms"].to_list() == [150.0] * 4
    assert band["share"].to_list() == pytest.approx([0.3] * 4)


def test_the_origin_of_the_links_is_the_start_of_the_first_step() -> None:
    frame = figures.link_use_over_time_frame(_polls(ORIGIN - S), ORIGIN, ORIGIN + 2 * S)
    assert frame["t0_s"].min() == 0.0
    assert frame["t1_s"].max() == pytest.approx(2.0)
    assert frame["utilization"][0] == pytest.approx(0.10)  # the eleventh poll


def test_steps_and_links_share_one_axis_with_borders_between_steps() -> None:
    frame = figures.link_use_over_time_frame(_polls(ORIGIN), ORIGIN, ORIGIN + 2 * S)
    chart = figures.link_use_over_time(frame, figures.step_band_frame(_steps(), _breakdown())).to_dict()
    band, strip = chart["vconcat"]
    assert chart["resolve"]["scale"]["x"] == "shared"
    cells, borders = strip["layer"]
    assert band["encoding"]["x"]["scale"]["domain"] == cells["encoding"]["x"]["scale"]["domain"] == [0, 2_000.0]
    assert cells["encoding"]["x"]["title"] == "time since the first step (ms)"
    assert [row["t0_s"] for row in chart["datasets"][borders["data"]["name"]]] == [0.0, 500.0, 1_000.0, 1_500.0]


def test_without_steps_the_axis_begins_at_the_first_sample() -> None:
    chart = figures.link_use_over_time(figures.link_use_over_time_frame(_polls(ORIGIN))).to_dict()
    assert chart["encoding"]["x"]["title"] == "time since the first sample (s)"
