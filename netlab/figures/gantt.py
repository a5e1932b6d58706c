"""The worst step, exactly: what every stream of the ranks that matter did, transfer and waiting told apart."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.theme import PAPER, PART_COLOURS, WIDTH, titled
from netlab.units import NS_PER_MS, format_ms, plural

__all__ = ["WorstStep", "gantt_frame", "worst_step", "worst_step_gantt"]

_RANKS_SHOWN = 6
_STREAMS_SHOWN = 5

#: Up to so many activities each is a bar of its own.
_EXACT = 2_500

#: Of more, bars that lie closer than this part of the step are drawn as one: less than half a pixel.
_MERGE = 1 / 1_800

_COLOURS = {
    "compute": PART_COLOURS["compute"],
    "transfer": PART_COLOURS["exposed transfer"],
    "wait": PART_COLOURS["exposed wait"],
    "communication, split unknown": PART_COLOURS["exposed communication, split unknown"],
    "memory": PART_COLOURS["memory"],
}

#: (step, window) of a run.
WorstStep = tuple[int, int]


def worst_step(breakdown: pl.DataFrame) -> WorstStep | None:
    """Step and window with the most exposed communication over all its ranks; None without breakdown.

    >>> frame = pl.DataFrame({"step": [1, 2], "window": [0, 0], "exposed_comm_ns": [5, 9], "step_ns": [20, 20]})
    >>> worst_step(frame)
    (2, 0)
    """
    if not breakdown.height:
        return None
    pooled = breakdown.group_by("window", "step").agg(pl.col("exposed_comm_ns").sum(), pl.col("step_ns").sum())
    row = pooled.sort("exposed_comm_ns", "step_ns", "window", "step", descending=[True, True, False, False]).row(0, named=True)
    return int(row["step"]), int(row["window"])


def gantt_frame(activities: pl.DataFrame, collectives: pl.DataFrame, breakdown: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Bars of the worst step for the ranks that arrive last in it and those that lose most.

    Parameters
    ----------
    activities, collectives, breakdown, steps
        ``ACTIVITIES``, ``COLLECTIVES``, ``BREAKDOWN``, ``STEPS``.

    Returns
    -------
    Columns ``rank``, ``stream``, ``kind`` (compute, transfer, wait, memory, or communication of unknown split), ``t0_ms``,
    ``t1_ms`` from the earliest start of the step, ``name`` (of the longest activity in the bar), ``count`` (activities in the bar).
    """
    chosen = worst_step(breakdown)
    if chosen is None:
        return _EMPTY
    step, window = chosen
    borders = steps.filter((pl.col("step") == step) & (pl.col("window") == window))
    ranks = _ranks(collectives.filter((pl.col("step") == step) & (pl.col("window") == window)), breakdown, chosen)
    if not borders.height or not ranks:
        return _EMPTY
    spans = borders.filter(pl.col("rank").is_in(ranks)).select("rank", pl.col("start_ns").alias("from_ns"), pl.col("end_ns").alias("to_ns"))
    if not spans.height:
        return _EMPTY
    begin, end = int(spans["from_ns"].min()), int(spans["to_ns"].max())  # type: ignore[arg-type]
    held = activities.filter(pl.col("rank").is_in(ranks) & (pl.col("end_ns") > begin) & (pl.col("start_ns") < end)).join(spans, on="rank")
    cut = pl.col("transfer_start_ns")
    comm = held.filter(pl.col("kind") == "communication")
    pieces = [
        held.filter(pl.col("kind") != "communication").with_columns(pl.col("kind")),
        comm.filter(cut.is_not_null()).with_columns(end_ns=cut, kind=pl.lit("wait")),
        comm.filter(cut.is_not_null()).with_columns(start_ns=cut, kind=pl.lit("transfer")),
        comm.filter(cut.is_null()).with_columns(kind=pl.lit("communication, split unknown")),
    ]
    names = ["rank", "stream", "kind", "start_ns", "end_ns", "name", "from_ns", "to_ns"]
    bars = pl.concat([piece.select(names) for piece in pieces])
    bars = bars.with_columns(start_ns=pl.max_horizontal("start_ns", "from_ns"), end_ns=pl.min_horizontal("end_ns", "to_ns"))
    bars = _busiest_streams(bars.filter(pl.col("end_ns") > pl.col("start_ns")))
    return _merged(bars, begin, end)


_EMPTY = pl.DataFrame(
    schema={
        "rank": pl.Int32,
        "stream": pl.Int64,
        "kind": pl.String,
        "t0_ms": pl.Float64,
        "t1_ms": pl.Float64,
        "name": pl.String,
        "count": pl.UInt32,
    }
)


def _ranks(collectives: pl.DataFrame, breakdown: pl.DataFrame, chosen: WorstStep) -> list[int]:
    """The ranks for which the others wait most in the step, then those that lose most and least, at most six."""
    rows = breakdown.filter((pl.col("step") == chosen[0]) & (pl.col("window") == chosen[1])).sort(
        "exposed_comm_ns", "rank", descending=[True, False]
    )
    by_loss = rows["rank"].to_list()
    late: list[int] = []
    if collectives.height:
        last = collectives.group_by("instance").agg(pl.col("rank").sort_by("start_ns", "rank").last(), pl.col("wait_ns").sum())
        late = (
            last.group_by("rank")
            .agg(pl.col("wait_ns").sum())
            .filter(pl.col("wait_ns") > 0)
            .sort("wait_ns", "rank", descending=[True, False])["rank"]
            .to_list()
        )
    wanted = list(dict.fromkeys([*late[:2], *by_loss[: _RANKS_SHOWN - 1], *by_loss[::-1]]))
    return sorted(wanted[:_RANKS_SHOWN])


def _busiest_streams(bars: pl.DataFrame) -> pl.DataFrame:
    busy = bars.group_by("rank", "stream").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("busy"))
    kept = busy.sort("busy", "stream", descending=[True, False]).group_by("rank", maintain_order=True).head(_STREAMS_SHOWN)
    return bars.join(kept.select("rank", "stream"), on=["rank", "stream"], nulls_equal=True)


def _merged(bars: pl.DataFrame, begin: int, end: int) -> pl.DataFrame:
    """Every activity as a bar of its own; only if they are too many, those of one kind and stream less than half a pixel apart as one."""
    gap = -1 if bars.height <= _EXACT else int((end - begin) * _MERGE)
    lane = ["rank", "stream", "kind"]
    # A kind's own bars may overlap (several kernels of one stream never do, but host threads of a CPU run may): reach is the furthest end.
    ordered = bars.sort(*lane, "start_ns", "end_ns").with_columns(pl.col("end_ns").cum_max().shift(1).over(lane).alias("reach"))
    new = pl.col("reach").is_null() | pl.lit(gap < 0) | (pl.col("start_ns") - pl.col("reach") > gap)
    grouped = (
        ordered.with_columns(new.cum_sum().over(lane).alias("bar"))
        .group_by(*lane, "bar", maintain_order=True)
        .agg(
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            pl.col("name").sort_by(pl.col("end_ns") - pl.col("start_ns")).last().str.slice(0, 90),
            pl.len().alias("count"),
        )
    )
    return grouped.select(
        "rank",
        "stream",
        "kind",
        ((pl.col("start_ns") - begin) / NS_PER_MS).alias("t0_ms"),
        ((pl.col("end_ns") - begin) / NS_PER_MS).alias("t1_ms"),
        "name",
        "count",
    ).sort("rank", "stream", "t0_ms", "kind")


def worst_step_gantt(bars: pl.DataFrame, step: int, lane: str = "stream") -> Any:
    """Timeline of the worst step; drag moves it, shift and wheel zoom it.

    Parameters
    ----------
    bars
        Result of ``gantt_frame``.
    step
        Number of the step, for the title.
    lane
        What a row of a rank is: ``stream``, or ``thread`` in a run without a device.
    """
    present = [kind for kind in _COLOURS if kind in set(bars["kind"])]
    last = float(bars["t1_ms"].max() or 1.0)  # type: ignore[arg-type]
    rows = bars.select("rank", "stream").n_unique()
    hairline = {"stroke": PAPER, "strokeWidth": 0.6} if bars.height <= 500 else {}
    zoom = alt.selection_interval(bind="scales", encodings=["x"], zoom="wheel![event.shiftKey]")
    shown = bars.with_columns(pl.col("stream").fill_null(-1), pl.format("rank {}", "rank").alias("lane"))
    timeline = (
        alt.Chart()
        .mark_bar(height={"band": 0.86}, aria=False, clip=True, **hairline)
        .encode(
            x=alt.X(
                "t0_ms:Q",
                title="time in the step (ms)",
                scale=alt.Scale(domain=[0, last], nice=False),
                axis=alt.Axis(format=",~f", tickCount=10),
            ),
            x2="t1_ms:Q",
            y=alt.Y("stream:O", title=None, axis=alt.Axis(labelExpr=f"datum.value < 0 ? '{lane} ?' : '{lane} ' + datum.label")),
            color=alt.Color("kind:N", title=None, scale=alt.Scale(domain=present, range=[_COLOURS[kind] for kind in present])),
            tooltip=[
                alt.Tooltip("rank:O", title="rank"),
                alt.Tooltip("stream:O", title=lane),
                alt.Tooltip("kind:N", title="what"),
                alt.Tooltip("name:N", title="name"),
                alt.Tooltip("count:Q", title="activities in the bar"),
                alt.Tooltip("t0_ms:Q", title="from (ms)", format=",.6~g"),
                alt.Tooltip("t1_ms:Q", title="to (ms)", format=",.6~g"),
            ],
        )
        .add_params(zoom)
        .properties(width=WIDTH - 110, height=alt.Step(20 if rows <= 16 else 14))
    )
    header = alt.Header(labelAngle=0, labelAlign="left", labelPadding=8, title=None)
    lanes = [f"rank {rank}" for rank in sorted(bars["rank"].unique().to_list())]
    chart = timeline.facet(row=alt.Row("lane:N", header=header, sort=lanes), data=alt.InlineData(values=records(shown, 6)), spacing=7)
    chart = chart.resolve_scale(y="independent")
    subtitle = [
        f"The {plural(bars['rank'].n_unique(), 'rank')} that arrive last or lose most, one row per {lane}.",
        "Yellow: waits for the last member; red: data moves. Drag to move, shift and wheel to zoom.",
    ]
    return titled(chart, "worst-step", _title(bars, step), subtitle, f"Timeline with {plural(rows, 'row')}.")


def _title(bars: pl.DataFrame, step: int) -> str:
    length = (pl.col("t1_ms") - pl.col("t0_ms")).sum()
    waits = bars.filter(pl.col("kind") == "wait").group_by("rank").agg(length.alias("ms"))
    ranks = bars["rank"].unique().sort().to_list()
    if waits.height and len(ranks) > 1:
        by_rank = {**dict.fromkeys(ranks, 0.0), **dict(waits.rows())}
        least, most = min(by_rank, key=lambda rank: by_rank[rank]), max(by_rank, key=lambda rank: by_rank[rank])
        if by_rank[most] > 4 * by_rank[least] and by_rank[most] > 0.02 * float(bars["t1_ms"].max() or 0.0):  # type: ignore[arg-type]
            return f"Worst step {step}: rank {most} waits {format_ms(by_rank[most])}, rank {least} only {format_ms(by_rank[least])}"
    moving = bars.filter(pl.col("kind") == "transfer").group_by("rank").agg(length.alias("ms"))
    if moving.height:
        row = moving.sort("ms", "rank", descending=[True, False]).row(0)
        return f"Worst step {step}: rank {row[0]} moves data for {format_ms(row[1])} of {format_ms(float(bars['t1_ms'].max() or 0.0))}"  # type: ignore[arg-type]
    return f"Worst step {step}, activity by activity"
