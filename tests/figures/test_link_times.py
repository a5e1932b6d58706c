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


def test_the_mean_of_a_link_is_that_of_the_window_and_counts_gaps() -> None:
    # 20 polls of 0.1 s: 10 to 29 %; one more of 0.5 s over a gap at 60 % is no cell, but part of the mean.
    polls = _polls(ORIGIN - S)
    gap = LINK_INTERVALS.conform(
        pl.DataFrame({"t0_ns": [ORIGIN + 2 * S], "t1_ns": [ORIGIN + 5 * S // 2], "utilization": [0.6]}),
        device="leaf", port="e1", direction="tx", metric="bytes", flags="gap",
    )  # fmt: skip
    frame = figures.link_use_over_time_frame(pl.concat([polls.head(30), gap]), ORIGIN, ORIGIN + 5 * S // 2)
    assert frame["mean"].unique().to_list() == pytest.approx([(2.0 * 0.195 + 0.5 * 0.6) / 2.5])
    title = figures.link_use_over_time(frame, figures.step_band_frame(_steps(count=5), _breakdown(count=5))).to_dict()["title"]["text"]
    assert title == "leaf/e1 tx reaches 29 % for a moment, and 27.6 % in the mean of the traced steps"


def test_errors_of_a_port_are_marked_in_their_moment_and_come_first() -> None:
    busy = _polls(ORIGIN).with_columns(pl.lit("e2").cast(pl.Categorical).alias("port"), pl.lit(0.9).alias("utilization"))
    error = LINK_INTERVALS.conform(
        pl.DataFrame({"t0_ns": [ORIGIN + S], "t1_ns": [ORIGIN + 11 * S // 10], "delta": [7]}),
        device="leaf", port="e1", direction="none", metric="symbol_errors", flags="",
    )  # fmt: skip
    table = pl.concat([_polls(ORIGIN), busy, error])
    frame = figures.link_use_over_time_frame(table, ORIGIN, ORIGIN + 4 * S, ["leaf/e1 tx"])
    assert frame["link"].unique(maintain_order=True).to_list() == ["leaf/e1 tx", "leaf/e2 tx"]
    marked = frame.drop_nulls("against")
    assert marked.select("link", "against").rows() == [("leaf/e1 tx", "7 symbol errors")]
    assert marked["t0_s"].to_list() == pytest.approx([1.0])
    title = figures.link_use_over_time(frame).to_dict()["title"]["text"]
    assert title == "leaf/e1 tx counts errors, loss or pause in 1 of 40 moments of all samples"


def test_an_error_in_a_moment_without_a_sample_of_bytes_is_marked() -> None:
    polled = _polls(ORIGIN).filter((pl.col("t0_ns") < ORIGIN + S) | (pl.col("t0_ns") > ORIGIN + 2 * S))
    down = LINK_INTERVALS.conform(
        pl.DataFrame({"t0_ns": [ORIGIN + 15 * S // 10], "t1_ns": [ORIGIN + 16 * S // 10], "delta": [1]}),
        device="leaf", port="e1", direction="none", metric="link_downed", flags="",
    )  # fmt: skip
    frame = figures.link_use_over_time_frame(pl.concat([polled, down]), ORIGIN, ORIGIN + 4 * S)
    assert frame.drop_nulls("against").select("link", "utilization", "against").rows() == [("leaf/e1 tx", None, "1 link downed")]
    chart = figures.link_use_over_time(frame).to_dict()
    cells, marks = (chart["datasets"][layer["data"]["name"]] for layer in chart["layer"])
    assert all(cell["utilization"] is not None for cell in cells)
    assert [mark["against"] for mark in marks] == ["1 link downed"]


def test_collectives_stand_on_the_same_axis() -> None:
    # Two ranks overlap from 0.5 to 1.0 s of 2 s; another collective fills the last tenth.
    times = {"start_ns": [ORIGIN + S // 2, ORIGIN + 6 * S // 10, ORIGIN + 18 * S // 10], "end_ns": [ORIGIN + S, ORIGIN + S, ORIGIN + 2 * S]}
    band = figures.collective_band_frame(pl.DataFrame(times), ORIGIN, ORIGIN + 2 * S)
    assert [row for row in band.rows() if row[2] == 1.0] == [pytest.approx((0.5, 1.0, 1.0)), pytest.approx((1.8, 2.0, 1.0))]
    frame = figures.link_use_over_time_frame(_polls(ORIGIN), ORIGIN, ORIGIN + 2 * S)
    chart = figures.link_use_over_time(frame, figures.step_band_frame(_steps(), _breakdown()), band).to_dict()
    assert [part["encoding"]["y"]["field"] for part in chart["vconcat"][:2]] == ["row", "row"]
    assert figures.collective_band_frame(pl.DataFrame(times).clear(), ORIGIN, ORIGIN + S).is_empty()
