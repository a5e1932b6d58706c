"""The network's share of every step, against its threshold."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records, share_text
from netlab.figures.theme import INK, PART_COLOURS, RULE, WIDTH, titled
from netlab.units import plural

__all__ = ["share_per_step"]

#: Up to so many steps are bars; more are areas.
_BARS = 60

#: More steps than this are drawn as the worst of each run of them.
_STEPS_SHOWN = 400

_KINDS = {
    "network share": PART_COLOURS["exposed transfer"],
    "wait share": PART_COLOURS["exposed wait"],
    "split unknown": PART_COLOURS["exposed communication, split unknown"],
}


def share_per_step(by_step: pl.DataFrame, threshold: float) -> Any:
    """Network and wait share of each step, stacked, with the certain range of the network share and the threshold as a labelled rule.

    Parameters
    ----------
    by_step
        ``verdict.by_step`` as a frame: ``step``, ``network_share`` with ``_low`` and ``_high``, ``wait_share``, ``comm_share``.
    threshold
        The limit of the network share.

    Returns
    -------
    One chart. Of more than 400 steps the worst of each run of steps is drawn: a mean would hide the peaks one looks for.
    """
    shown, stride = _thinned(by_step)
    bars = shown.height <= _BARS
    top = max([threshold * 1.25, *shown["comm_share"].drop_nulls().to_list(), *shown["network_share_high"].drop_nulls().to_list()])
    scale = alt.Scale(domain=[0, min(1.0, top * 1.06)], nice=False)
    axis = alt.Axis(labelAngle=0, grid=False, **({} if bars else {"tickMinStep": 1, "format": "d"}))
    x: Any = alt.X(
        "step:O" if bars else "step:Q", title="step", axis=axis, **({} if bars else {"scale": alt.Scale(zero=False, nice=False)})
    )
    tooltip = _tooltip()
    long = _kinds(shown)
    present = [kind for kind in _KINDS if kind in set(long["kind"])]
    colour = alt.Color("kind:N", title=None, scale=alt.Scale(domain=present, range=[_KINDS[kind] for kind in present]))
    y = alt.Y("low:Q", title="share of the step", scale=scale, axis=alt.Axis(format=".0%", tickCount=6))
    base = alt.Chart(alt.InlineData(values=records(long))).encode(x=x, y=y, y2="high:Q", color=colour, tooltip=tooltip)
    stack = base.mark_bar(width={"band": 0.72}) if bars else base.mark_area(interpolate="step", opacity=0.95, line=False)
    layers = [stack]
    uncertain = shown.filter(pl.col("network_share_high") - pl.col("network_share_low") > 1e-4)
    if uncertain.height:
        band = alt.Chart(alt.InlineData(values=records(uncertain))).encode(
            x=x, y=alt.Y("network_share_low:Q", scale=scale), y2="network_share_high:Q", tooltip=tooltip
        )
        layers.append(band.mark_rule(color=INK, strokeWidth=1.6) if bars else band.mark_area(color=INK, opacity=0.25, interpolate="step"))
    limit = alt.Chart(alt.InlineData(values=[{"limit": threshold, "text": f"threshold {share_text(threshold)}"}]))
    at = alt.Y("limit:Q", scale=scale)
    layers.append(limit.mark_rule(color=RULE, strokeDash=[6, 4], strokeWidth=1.8).encode(y=at))
    layers.append(
        limit.mark_text(align="left", baseline="middle", dx=6, color=RULE, fontWeight=600).encode(
            y=at, x=alt.value(WIDTH - 92), text="text:N"
        )
    )
    chart = alt.layer(*layers).properties(width=WIDTH - 92, height=240)
    reading = ["Red: part of the step in which data moved and nothing computed. Yellow, on top: waiting for late ranks."]
    notes = []
    if uncertain.height:
        notes.append("Upright lines: range in which the network share lies for sure.")
    if stride > 1:
        notes.append(f"Drawn is the worst of every {stride} steps.")
    described = f"{'Bars' if bars else 'Areas'} over {plural(by_step.height, 'step')} with the threshold as a dashed line."
    return titled(chart, "share-per-step", _title(by_step, threshold), reading + ([" ".join(notes)] if notes else []), described)


def _thinned(by_step: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    names = ("step", "network_share", "network_share_low", "network_share_high", "wait_share", "comm_share", "iteration_ms")
    shown = by_step.select(names).with_columns(pl.all().exclude("step").cast(pl.Float64)).sort("step")
    stride = -(-shown.height // _STEPS_SHOWN)
    if stride > 1:
        place = pl.int_range(pl.len()) // stride
        worst = pl.col("network_share").fill_null(pl.col("comm_share")).fill_null(-1.0)
        shown = (
            shown.with_columns(place.alias("place"))
            .filter(worst == worst.max().over("place"))
            .unique("place", keep="first", maintain_order=True)
        )
    return shown, stride


def _kinds(shown: pl.DataFrame) -> pl.DataFrame:
    """One row per (step, kind) with the two ends of its bar."""
    network, comm = pl.col("network_share"), pl.col("comm_share")
    known = network.is_not_null() & pl.col("wait_share").is_not_null()
    zero = pl.lit(0.0)
    extra = [name for name in shown.columns if name != "step"]
    parts = [
        shown.filter(known).select("step", *extra, pl.lit("network share").alias("kind"), zero.alias("low"), network.alias("high")),
        shown.filter(known).select("step", *extra, pl.lit("wait share").alias("kind"), network.alias("low"), comm.alias("high")),
        shown.filter(~known).select("step", *extra, pl.lit("split unknown").alias("kind"), zero.alias("low"), comm.alias("high")),
    ]
    return pl.concat(parts).filter(pl.col("high").is_not_null() & (pl.col("high") >= pl.col("low")))


def _tooltip() -> list[Any]:
    shares = {
        "network_share": "network share",
        "network_share_low": "at least",
        "network_share_high": "at most",
        "wait_share": "wait share",
        "comm_share": "communication share",
    }
    return [
        alt.Tooltip("step:O", title="step"),
        *[alt.Tooltip(f"{name}:Q", title=title, format=".1%") for name, title in shares.items()],
        alt.Tooltip("iteration_ms:Q", title="step time (ms)", format=".4~g"),
    ]


def _title(by_step: pl.DataFrame, threshold: float) -> str:
    shares = by_step["network_share"].drop_nulls()
    limit, count = share_text(threshold), by_step.height
    if shares.is_empty():
        return "The network's share of each step is not known"
    above = int(by_step["flagged"].sum() or 0) if "flagged" in by_step.columns else int((shares > threshold).sum())
    where = "the only step" if count == 1 else f"all {plural(count, 'step')}"
    if above == 0:
        return f"The network's share is at most {limit} in {where}"
    if above == count:
        return f"The network's share is above {limit} in {where}"
    return f"The network's share is above {limit} in {above:,} of {plural(count, 'step')}"
