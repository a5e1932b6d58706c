"""Where the step went: attribution per rank, and the network's share step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import plural, records, share_text
from netlab.figures.theme import INK, PART_COLOURS, RULE, WIDTH, titled

__all__ = ["attribution", "parts_frame", "share_per_step"]

#: Ranks that one chart shows; of more, those with the largest exposed communication and as many with the least.
_RANKS_SHOWN = 48

_STEPS_SHOWN = 400


def parts_frame(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """The parts that a step is made of, one row per (``by``, part), for stacking.

    Parameters
    ----------
    rows
        Breakdown rows of a verdict: ``by``, ``iteration_ms``, ``compute_ms``, ``hidden_comm_ms``, ``exposed_transfer_ms``, ... A null
        transfer with a known ``exposed_comm_ms`` becomes the part *exposed communication, split unknown*.
    by
        Name of the column that tells rows apart: ``rank`` or ``step``.

    Returns
    -------
    Columns ``by``, ``part``, ``order``, ``ms``, ``share``; the ms of one row add up to its step.

    Examples
    --------
    >>> row = {"rank": 0, "iteration_ms": 10.0, "compute_ms": 6.0, "hidden_comm_ms": 1.0, "exposed_comm_ms": 3.0,
    ...        "exposed_transfer_ms": 3.0, "exposed_wait_ms": 0.0, "exposed_memory_ms": 0.0, "idle_ms": 1.0}
    >>> parts_frame(pl.DataFrame([row]), "rank").select("part", "ms").rows()
    [('compute', 5.0), ('hidden communication', 1.0), ('exposed transfer', 3.0), ('idle', 1.0)]
    """
    known = pl.col("exposed_transfer_ms").is_not_null() & pl.col("exposed_wait_ms").is_not_null()
    values = {
        "compute": pl.col("compute_ms") - pl.col("hidden_comm_ms"),
        "hidden communication": pl.col("hidden_comm_ms"),
        "exposed transfer": pl.when(known).then(pl.col("exposed_transfer_ms")),
        "exposed communication, split unknown": pl.when(~known).then(pl.col("exposed_comm_ms")),
        "exposed wait": pl.when(known).then(pl.col("exposed_wait_ms")),
        "memory": pl.col("exposed_memory_ms"),
        "idle": pl.col("idle_ms"),
    }
    length = [pl.col("iteration_ms").alias("whole_ms")]
    wide = rows.select(by, *length, *[value.cast(pl.Float64).alias(part) for part, value in values.items()])
    long = wide.unpivot(on=list(values), index=[by, "whole_ms"], variable_name="part", value_name="ms")
    numbers = {part: number for number, part in enumerate(PART_COLOURS)}
    return (
        long.filter(pl.col("ms") > 0)
        .with_columns(
            pl.col("part").replace_strict(numbers, return_dtype=pl.Int32).alias("order"),
            (pl.col("ms") / pl.col("whole_ms")).alias("share"),
        )
        .select(by, "part", "order", "ms", "share")
        .sort(by, "order")
    )


def attribution(by_rank: pl.DataFrame, totals: Mapping[str, Any] | None = None) -> alt.Chart:
    """Stacked bar per rank: compute, hidden communication, exposed transfer and wait, memory, idle.

    Parameters
    ----------
    by_rank
        ``verdict.by_rank`` as a frame.
    totals
        Pooled breakdown for the title; without it the title speaks of the ranks' mean.

    Returns
    -------
    One chart; of more than 48 ranks those with most and least exposed communication.
    """
    shown = _extremes(by_rank, "exposed_comm_ms")
    unit = "step" if _first(by_rank, "iterations") is not None else "capture"
    if unit == "capture" and by_rank["iteration_ms"].is_null().all():
        shown = shown.with_columns(_span_ms(shown).alias("iteration_ms"))
    long = parts_frame(shown, "rank")
    present = [part for part in PART_COLOURS if part in set(long["part"])]
    order = "shown are the ranks with most and least exposed communication" if shown.height < by_rank.height else "all ranks"
    chart = (
        alt.Chart(alt.InlineData(values=records(long)))
        .mark_bar(height={"band": 0.82})
        .encode(
            x=alt.X(
                "ms:Q",
                title=f"time per {unit} (ms)" if unit == "step" else "time in the capture (ms)",
                axis=alt.Axis(grid=True, format="~g"),
            ),
            y=alt.Y("rank:O", title="rank", sort="ascending"),
            color=alt.Color("part:N", title=None, scale=alt.Scale(domain=present, range=[PART_COLOURS[part] for part in present])),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("rank:O", title="rank"),
                alt.Tooltip("part:N", title="part"),
                alt.Tooltip("ms:Q", title="time (ms)", format=".4~g"),
                alt.Tooltip("share:Q", title=f"share of the {unit}", format=".1%"),
            ],
        )
        .properties(width=WIDTH, height=alt.Step(max(11, min(26, 480 // max(shown.height, 1)))))
    )
    subtitle = f"Mean time per {unit}, {order}. The parts add up to the {unit}; hidden communication runs under compute and costs nothing."
    return titled(
        chart,
        "attribution",
        _attribution_title(totals or _mean(by_rank), unit),
        subtitle,
        f"Stacked bars of {plural(shown.height, 'rank')}.",
    )


def _attribution_title(totals: Mapping[str, Any], unit: str) -> str:
    comm, network, wait = (totals.get(name) for name in ("comm_share", "network_share", "wait_share"))
    if comm is None:
        return f"Where the time of each {unit} went"
    if comm == 0:
        hidden = totals.get("hidden_comm_ms") or 0
        return f"No {unit} time is lost to communication" + (": all of it is hidden under compute" if hidden else ": there is none")
    if network is None or wait is None:
        return f"Communication leaves {share_text(comm)} of the {unit} exposed; transfer and waiting cannot be told apart"
    return f"The network moves data for {share_text(network)} of the {unit}; {share_text(wait)} is waiting for late ranks"


def share_per_step(by_step: pl.DataFrame, threshold: float) -> alt.LayerChart:
    """The network's share of each step, with its low-high band, the communication share, and the threshold as a rule.

    Parameters
    ----------
    by_step
        ``verdict.by_step`` as a frame: ``step``, ``network_share``, ``network_share_low``, ``network_share_high``, ``comm_share``.
    threshold
        The limit of the network share.
    """
    shown = by_step.select("step", "network_share", "network_share_low", "network_share_high", "comm_share", "iteration_ms").sort("step")
    stride = -(-shown.height // _STEPS_SHOWN)
    if stride > 1:
        # The worst of each run of steps: a mean would hide the peaks one looks for.
        shown = (
            shown.sort("network_share", descending=True, nulls_last=True).group_by(pl.col("step") // stride, maintain_order=True).first()
        )
        shown = shown.drop("step").with_columns(pl.Series("step", shown["step"] * stride)).sort("step")
    steps = shown["step"].to_list()
    top = max([threshold * 1.25, *(value for value in shown["comm_share"].to_list() if value is not None)])
    y_scale = alt.Scale(domain=[0, min(1.0, top * 1.08)], nice=True)
    discrete = len(steps) <= 40
    x: Any = alt.X(
        "step:O" if discrete else "step:Q",
        title="step",
        axis=alt.Axis(labelAngle=0, grid=False, **({} if discrete else {"tickMinStep": 1})),
    )
    tooltip = [
        alt.Tooltip("step:O", title="step"),
        alt.Tooltip("network_share:Q", title="network share", format=".1%"),
        alt.Tooltip("network_share_low:Q", title="at least", format=".1%"),
        alt.Tooltip("network_share_high:Q", title="at most", format=".1%"),
        alt.Tooltip("comm_share:Q", title="communication share", format=".1%"),
        alt.Tooltip("iteration_ms:Q", title="step time (ms)", format=".4~g"),
    ]
    data = alt.InlineData(values=records(shown))
    domain, colours = ["network share", "communication share"], [PART_COLOURS["exposed transfer"], PART_COLOURS["exposed wait"]]
    colour = alt.Color("kind:N", title=None, scale=alt.Scale(domain=domain, range=colours))
    base = alt.Chart(data)
    y = alt.Y("network_share:Q", title="share of the step", scale=y_scale, axis=alt.Axis(format=".0%"))
    comm = base.transform_calculate(kind="'communication share'").encode(x=x, y=alt.Y("comm_share:Q", scale=y_scale), color=colour)
    network = base.transform_calculate(kind="'network share'").encode(x=x, y=y, color=colour, tooltip=tooltip)
    band = base.encode(x=x, y=alt.Y("network_share_low:Q", scale=y_scale), y2="network_share_high:Q", tooltip=tooltip)
    if discrete:
        layers = [
            comm.mark_tick(thickness=2.5, width={"band": 0.9}),
            network.mark_bar(width={"band": 0.62}, cornerRadiusEnd=2),
            band.mark_rule(color=INK, strokeWidth=1.4),
        ]
    else:
        layers = [
            band.mark_area(color=PART_COLOURS["exposed transfer"], opacity=0.22),
            comm.mark_line(strokeWidth=1.4, interpolate="step"),
            network.mark_line(strokeWidth=1.8, interpolate="step"),
        ]
    limit = alt.Chart(alt.InlineData(values=[{"limit": threshold, "text": f"threshold {share_text(threshold)}"}]))
    rule = limit.mark_rule(color=RULE, strokeDash=[6, 4], strokeWidth=1.6).encode(y=alt.Y("limit:Q", scale=y_scale))
    label = limit.mark_text(align="right", baseline="bottom", dy=-4, color=RULE, fontWeight=600).encode(
        y=alt.Y("limit:Q", scale=y_scale), x=alt.value(WIDTH), text="text:N"
    )
    chart = alt.layer(*layers, rule, label).properties(width=WIDTH, height=230)
    reading = (
        "Bars: share of the step in which data moved and nothing computed."
        if discrete
        else "Red: share of the step in which data moved and nothing computed."
    )
    subtitle = [
        f"{reading} Black lines: its certain range." if discrete else f"{reading} Band: its certain range.",
        "Yellow: with waiting for late ranks.",
    ]
    if stride > 1:
        subtitle[1] += f" The worst of every {stride} steps."
    return titled(chart, "share-per-step", _share_title(by_step, threshold), subtitle, "The threshold is a dashed line.")


def _share_title(by_step: pl.DataFrame, threshold: float) -> str:
    shares = by_step["network_share"].drop_nulls()
    above = int(by_step["flagged"].sum() or 0) if "flagged" in by_step.columns else int((shares > threshold).sum())
    limit, steps = share_text(threshold), plural(by_step.height, "step")
    if shares.is_empty():
        return "The network's share of each step is not known"
    if not above:
        return (
            f"The network stays at or below {limit} of the step in all {steps}"
            if by_step.height > 1
            else f"The network stays at or below {limit} of the only step"
        )
    if above == by_step.height:
        return (
            f"The network takes more than {limit} of the step in all {steps}"
            if above > 1
            else f"The network takes more than {limit} of the only step"
        )
    return f"The network takes more than {limit} of the step in {above:,} of {steps}"


def _extremes(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """At most 48 ranks: those with most and least of a column."""
    if rows.height <= _RANKS_SHOWN:
        return rows
    ordered = rows.sort(by, descending=True, nulls_last=True)
    return pl.concat([ordered.head(_RANKS_SHOWN // 2), ordered.tail(_RANKS_SHOWN // 2)])


def _span_ms(rows: pl.DataFrame) -> pl.Expr:
    """Length of a capture: the sum of its parts."""
    del rows
    return pl.sum_horizontal("compute_ms", "exposed_comm_ms", "exposed_memory_ms", "idle_ms")


def _first(rows: pl.DataFrame, name: str) -> Any:
    return rows[name][0] if name in rows.columns and rows.height else None


def _mean(rows: pl.DataFrame) -> dict[str, Any]:
    names = ("comm_share", "network_share", "wait_share", "hidden_comm_ms")
    return {name: rows[name].mean() if name in rows.columns else None for name in names}
