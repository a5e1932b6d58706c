"""Links over time, on the axis of the steps: which steps a busy moment falls into."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import plural, records
from netlab.figures.theme import INK, MUTED, WIDTH, ramp, titled
from netlab.units import NS_PER_S, format_percent

__all__ = ["link_use_over_time", "link_use_over_time_frame", "step_band_frame"]

_LINKS_SHOWN = 32
_BINS = 120
_WIDTH = WIDTH - 230
#: More borders than these would hide the cells.
_BORDERS = 60
#: Runs up to here are drawn in milliseconds, as the heat strip of the ranks is.
_SECONDS_FROM_S = 4.0


def step_band_frame(steps: pl.DataFrame, breakdown: pl.DataFrame) -> pl.DataFrame:
    """Steps on the axis of the links, with the mean of their ranks' exposed communication.

    Parameters
    ----------
    steps
        ``STEPS``; only complete ones are drawn.
    breakdown
        ``BREAKDOWN``.

    Returns
    -------
    Columns ``step``, ``t0_s`` and ``t1_s`` (since the start of the first step), ``exposed_ms`` and ``share`` of the step; by time.
    """
    whole = steps.filter(pl.col("complete"))
    spans = whole.group_by("window", "step").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    means = breakdown.group_by("window", "step").agg(pl.col("exposed_comm_ns").mean().alias("comm"), pl.col("step_ns").mean().alias("all"))
    origin = pl.col("start_ns").min()
    return (
        spans.join(means, on=["window", "step"], how="left")
        .sort("start_ns")
        .select(
            "step",
            ((pl.col("start_ns") - origin) / NS_PER_S).alias("t0_s"),
            ((pl.col("end_ns") - origin) / NS_PER_S).alias("t1_s"),
            (pl.col("comm") / 1e6).alias("exposed_ms"),
            (pl.col("comm") / pl.col("all")).alias("share"),
        )
    )


def link_use_over_time_frame(intervals: pl.DataFrame, start_ns: int | None = None, end_ns: int | None = None) -> pl.DataFrame:
    """Use of the busiest links in at most 120 bins of time.

    Parameters
    ----------
    intervals
        ``LINK_INTERVALS``; those of ``bytes`` with a known utilisation count, never those over a gap.
    start_ns, end_ns
        Window, whose start is the origin; by default that of the samples.

    Returns
    -------
    Columns ``link``, ``t0_s``, ``t1_s`` (from the window's start), ``utilization`` (highest of the bin); 32 links with the highest peaks.
    """
    empty = pl.DataFrame(schema={"link": pl.String, "t0_s": pl.Float64, "t1_s": pl.Float64, "utilization": pl.Float64})
    used = intervals.filter((pl.col("metric") == "bytes") & pl.col("utilization").is_not_null())
    used = used.with_columns(pl.col("device", "port", "direction", "flags").cast(pl.String)).filter(~pl.col("flags").str.contains("gap"))
    if start_ns is not None and end_ns is not None:
        middle = (pl.col("t0_ns") + pl.col("t1_ns")) // 2
        used = used.filter((middle >= start_ns) & (middle < end_ns))
    if not used.height:
        return empty
    begin, end = int(used["t0_ns"].min()), int(used["t1_ns"].max())  # type: ignore[arg-type]
    if start_ns is not None and end_ns is not None:
        begin, end = start_ns, end_ns
    used = used.with_columns(pl.format("{}/{} {}", "device", "port", "direction").alias("link"))
    best = (
        used.group_by("link")
        .agg(pl.col("utilization").max())
        .sort("utilization", "link", descending=[True, False])["link"]
        .head(_LINKS_SHOWN)
    )
    used = used.filter(pl.col("link").is_in(best.implode()))
    typical = float(used.select((pl.col("t1_ns") - pl.col("t0_ns")).median()).item())
    width = max(typical, (end - begin) / _BINS)
    middle = (pl.col("t0_ns") + pl.col("t1_ns")) // 2 - begin
    binned = used.group_by("link", (middle / width).floor().cast(pl.Int64).alias("bin")).agg(pl.col("utilization").max())
    last = (end - begin) / NS_PER_S
    return binned.select(
        "link",
        (pl.col("bin") * width / NS_PER_S).alias("t0_s"),
        ((pl.col("bin") + 1) * width / NS_PER_S).clip(upper_bound=last).alias("t1_s"),
        "utilization",
    ).sort("link", "t0_s")


def link_use_over_time(frame: pl.DataFrame, steps: pl.DataFrame | None = None) -> Any:
    """Heat map of the use of links over time, below a band of the steps where there are any.

    Parameters
    ----------
    frame
        Result of ``link_use_over_time_frame``, with the window of the steps where these are drawn.
    steps
        Result of ``step_band_frame``.
    """
    order = frame.group_by("link").agg(pl.col("utilization").max()).sort("utilization", "link", descending=[True, False])["link"].to_list()
    known = steps is not None and steps.height > 0
    last = float((steps if known else frame)["t1_s"].max() or 1.0)  # type: ignore[arg-type,index]
    unit, scale = ("ms", 1_000.0) if known and last <= _SECONDS_FROM_S else ("s", 1.0)
    x = alt.X(
        "t0_s:Q",
        title=f"time since the first {'step' if known else 'sample'} ({unit})",
        scale=alt.Scale(domain=[0, last * scale], nice=False),
        axis=alt.Axis(grid=False, format=",~f"),
    )
    strip: Any = _cells(frame.with_columns(pl.col("t0_s", "t1_s") * scale), x, order, unit)
    peaks = frame.group_by("link").agg(pl.col("utilization").max().alias("peak"), pl.col("utilization").mean().alias("mean"))
    row = peaks.sort("peak", "link", descending=[True, False]).row(0, named=True)
    over = "the traced steps" if known else "all samples"
    title = f"{row['link']} reaches {format_percent(row['peak'], 0)}, {format_percent(row['mean'], 0)} in the mean of {over}"
    subtitle = ["The highest use in each moment, the busiest link on top. White: no sample, or a gap."]
    if steps is not None and known:
        drawn = steps.with_columns(pl.col("t0_s", "t1_s") * scale)
        if drawn.height <= _BORDERS:
            strip = alt.layer(strip, _borders(drawn))
        strip = alt.vconcat(_band(drawn, alt.Scale(domain=[0, last * scale], nice=False), unit), strip, spacing=6).resolve_scale(
            color="independent", x="shared"
        )
        lines = " Vertical lines: starts of steps." if drawn.height <= _BORDERS else ""
        subtitle.append(f"Above, on the same axis: the steps, redder where more of a step is exposed communication.{lines}")
    return titled(strip, "links-over-time", title, subtitle, f"Heat map of {plural(len(order), 'link')}.")


def _cells(frame: pl.DataFrame, x: Any, order: list[str], unit: str) -> Any:
    highest = float(frame["utilization"].max() or 0.0)  # type: ignore[arg-type]
    top = next(limit for limit in (0.1, 0.25, 0.5, 1.0) if limit == 1.0 or highest <= limit)
    return (
        alt.Chart(alt.InlineData(values=records(frame, 4)))
        .mark_rect(aria=False)
        .encode(
            x=x,
            x2="t1_s:Q",
            y=alt.Y("link:N", title=None, sort=order, axis=alt.Axis(labelColor=INK, labelLimit=230)),
            color=alt.Color(
                "utilization:Q",
                title="used",
                scale=alt.Scale(domain=[0, top], range=ramp("neutral"), clamp=True),
                legend=alt.Legend(orient="right", direction="vertical", format=".0%", gradientLength=110, values=[0, top / 2, top]),
            ),
            tooltip=[
                alt.Tooltip("link:N", title="link"),
                alt.Tooltip("t0_s:Q", title=f"from ({unit})", format=",.4~g"),
                alt.Tooltip("t1_s:Q", title=f"to ({unit})", format=",.4~g"),
                alt.Tooltip("utilization:Q", title="used", format=".1%"),
            ],
        )
        .properties(width=_WIDTH, height=alt.Step(max(13, min(20, 420 // max(len(order), 1)))))
    )


def _band(steps: pl.DataFrame, scale: Any, unit: str) -> Any:
    """The steps as one row; its colour says how much of each is exposed communication."""
    return (
        alt.Chart(alt.InlineData(values=records(steps.with_columns(row=pl.lit("steps")))))
        .mark_rect(aria=False)
        .encode(
            x=alt.X("t0_s:Q", scale=scale, axis=None),
            x2="t1_s:Q",
            y=alt.Y("row:N", title=None, axis=alt.Axis(labelColor=INK)),
            color=alt.Color("share:Q", scale=alt.Scale(domain=[0, 1], range=ramp("transfer"), clamp=True), legend=None),
            tooltip=[
                alt.Tooltip("step:O", title="step"),
                alt.Tooltip("t0_s:Q", title=f"from ({unit})", format=",.4~g"),
                alt.Tooltip("exposed_ms:Q", title="exposed communication (ms)", format=",.4~g"),
                alt.Tooltip("share:Q", title="of the step", format=".1%"),
            ],
        )
        .properties(width=_WIDTH, height=18)
    )


def _borders(steps: pl.DataFrame) -> Any:
    return (
        alt.Chart(alt.InlineData(values=records(steps.select("t0_s", "step"))))
        .mark_rule(color=MUTED, strokeWidth=0.8, opacity=0.6)
        .encode(x="t0_s:Q", tooltip=[alt.Tooltip("step:O", title="start of step")])
    )
