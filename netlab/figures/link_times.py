"""Links over time, on the axis of the steps and collectives: which steps a busy or a bad moment falls into."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.theme import INK, MUTED, RULE, WIDTH, ramp, titled
from netlab.units import format_percent, plural

__all__ = ["link_use_over_time"]

_WIDTH = WIDTH - 230
#: More borders than these would hide the cells.
_BORDERS = 60
#: Runs up to here are drawn in milliseconds, as the heat strip of the ranks is.
_SECONDS_FROM_S = 4.0


def link_use_over_time(frame: pl.DataFrame, steps: pl.DataFrame | None = None, collectives: pl.DataFrame | None = None) -> Any:
    """Heat map of the use of links over time, below bands of the steps and collectives where there are any.

    Parameters
    ----------
    frame
        Result of ``link_use_over_time_frame``, with the window of the steps where these are drawn.
    steps
        Result of ``step_band_frame``.
    collectives
        Result of ``collective_band_frame`` for the same window.
    """
    order = frame["link"].unique(maintain_order=True).to_list()
    known = steps is not None and steps.height > 0
    last = float((steps if known else frame)["t1_s"].max() or 1.0)  # type: ignore[arg-type,index]
    unit, factor = ("ms", 1_000.0) if known and last <= _SECONDS_FROM_S else ("s", 1.0)
    scale = alt.Scale(domain=[0, last * factor], nice=False)
    x = alt.X(
        "t0_s:Q",
        title=f"time since the first {'step' if known else 'sample'} ({unit})",
        scale=scale,
        axis=alt.Axis(grid=False, format=",~f"),
    )

    def scaled(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(pl.col("t0_s", "t1_s") * factor)

    strip: Any = _cells(scaled(frame), x, order, unit)
    marked = frame["against"].is_not_null().any()
    subtitle = ["The highest use in each moment. Blank: no sample, or a gap." + (" Red: errors, loss or pause in it." if marked else "")]
    bands = []
    if steps is not None and known:
        if steps.height <= _BORDERS:
            strip = alt.layer(strip, _borders(scaled(steps)))
        bands.append(_band(scaled(steps), scale, unit, "steps"))
        lines = " Vertical lines: starts of steps." if steps.height <= _BORDERS else ""
        below = " and collectives (of each moment)" if collectives is not None and collectives.height else ""
        subtitle.append(f"Above, on the same axis: steps (the redder, the more exposed communication){below}.{lines}")
        if collectives is not None and collectives.height:
            bands.append(_band(scaled(collectives), scale, unit, "collectives"))
    if bands:
        strip = alt.vconcat(*bands, strip, spacing=6).resolve_scale(color="independent", x="shared")
    return titled(strip, "links-over-time", _title(frame, known), subtitle, f"Heat map of {plural(len(order), 'link')}.")


def _title(frame: pl.DataFrame, known: bool) -> str:
    """The first link's bad moments, or its peak and mean, and of which time they are."""
    over = "the traced steps" if known else "all samples"
    first = frame.filter(pl.col("link") == frame["link"][0])
    bad = first["against"].is_not_null().sum()
    if bad:
        return f"{first['link'][0]} counts errors, loss or pause in {bad} of {plural(first.height, 'moment')} of {over}"
    row = frame.sort("utilization", descending=True, nulls_last=True, maintain_order=True).row(0, named=True)
    peak, mean = format_percent(row["utilization"], 0), format_percent(row["mean"])
    return f"{row['link']} reaches {peak} for a moment, and {mean} in the mean of {over}"


def _cells(frame: pl.DataFrame, x: Any, order: list[str], unit: str) -> Any:
    highest = float(frame["utilization"].max() or 0.0)  # type: ignore[arg-type]
    top = next(limit for limit in (0.1, 0.25, 0.5, 1.0) if limit == 1.0 or highest <= limit)
    tall = max(13, min(20, 420 // max(len(order), 1)))
    y = alt.Y(
        "link:N", title=None, sort=order, axis=alt.Axis(labelColor=INK, labelLimit=230, labelOverlap=False, labelFontSize=min(12, tall - 3))
    )
    heat = (
        alt.Chart(alt.InlineData(values=records(frame.drop("mean", "against").drop_nulls("utilization"), 4)))
        .mark_rect(aria=False)
        .encode(
            x=x,
            x2="t1_s:Q",
            y=y,
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
        .properties(width=_WIDTH, height=alt.Step(tall))
    )
    bad = frame.filter(pl.col("against").is_not_null()).with_columns((pl.col("t0_s") + pl.col("t1_s")) / 2)
    if not bad.height:
        return heat
    marks = (
        alt.Chart(alt.InlineData(values=records(bad.select("link", "t0_s", "against"), 4)))
        .mark_tick(color=RULE, thickness=2, size=round(0.55 * tall), orient="vertical", aria=False)
        .encode(
            x=alt.X("t0_s:Q"),
            y=y,
            tooltip=[
                alt.Tooltip("link:N", title="link"),
                alt.Tooltip("t0_s:Q", title=f"at ({unit})", format=",.4~g"),
                alt.Tooltip("against:N", title="counted"),
            ],
        )
    )
    return alt.layer(heat, marks)


def _band(rows: pl.DataFrame, scale: Any, unit: str, name: str) -> Any:
    """Steps or collectives as one row; its colour says how much of each is (exposed) communication."""
    tooltip = [
        alt.Tooltip("t0_s:Q", title=f"from ({unit})", format=",.4~g"),
        alt.Tooltip("t1_s:Q", title=f"to ({unit})", format=",.4~g"),
    ]
    if name == "steps":
        tooltip = [alt.Tooltip("step:O", title="step"), *tooltip]
        tooltip.append(alt.Tooltip("exposed_ms:Q", title="exposed communication (ms)", format=",.4~g"))
    tooltip.append(alt.Tooltip("share:Q", title="exposed communication" if name == "steps" else "with a collective", format=".1%"))
    return (
        alt.Chart(alt.InlineData(values=records(rows.with_columns(row=pl.lit(name)))))
        .mark_rect(aria=False)
        .encode(
            x=alt.X("t0_s:Q", scale=scale, axis=None),
            x2="t1_s:Q",
            y=alt.Y("row:N", title=None, axis=alt.Axis(labelColor=INK)),
            color=alt.Color("share:Q", scale=alt.Scale(domain=[0, 1], range=ramp("transfer"), clamp=True), legend=None),
            tooltip=tooltip,
        )
        .properties(width=_WIDTH, height=18)
    )


def _borders(steps: pl.DataFrame) -> Any:
    return (
        alt.Chart(alt.InlineData(values=records(steps.select("t0_s", "step"))))
        .mark_rule(color=MUTED, strokeWidth=0.8, opacity=0.6)
        .encode(x="t0_s:Q", tooltip=[alt.Tooltip("step:O", title="start of step")])
    )
