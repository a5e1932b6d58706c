"""Heat strips: when which rank moved data or waited, over the whole run, without anything hiding it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from netlab.figures.frames import records
from netlab.figures.parts import extreme_ranks
from netlab.figures.theme import MUTED, WIDTH, ramp, titled
from netlab.intervals import mask_times
from netlab.units import NS_PER_MS, format_ms, format_percent, plural

__all__ = ["heat_strip", "strip_frame"]

_RANKS_SHOWN = 64
_CELLS = 5_000
_MOST_BINS = 240

#: Longer runs are drawn in seconds.
_SECONDS_FROM_MS = 4_000
_WIDTH = WIDTH - 110

#: Steps whose borders are drawn.
_BORDERS = 40


def strip_frame(activities: pl.DataFrame, steps: pl.DataFrame, breakdown: pl.DataFrame) -> pl.DataFrame:
    """Exposed transfer and wait of each rank in bins of time, as many in each step as fit.

    Parameters
    ----------
    activities
        ``ACTIVITIES``.
    steps
        ``STEPS``; the strip runs from the first start to the last end of complete ones, or over all activities if there are none.
    breakdown
        ``BREAKDOWN``; chooses at most 64 ranks, those with most and least exposed communication.

    Returns
    -------
    Columns ``rank``, ``t0_ms``, ``t1_ms`` (from the start of the first step), ``transfer_share``, ``wait_share``: shares of the bin, exact.
    Communication whose split is unknown counts as transfer.
    """
    exposed = breakdown.group_by("rank").agg(pl.col("exposed_comm_ns").sum())
    if not exposed.height:
        exposed = activities.select("rank").unique().with_columns(exposed_comm_ns=pl.lit(0))
    ranks = extreme_ranks(exposed, "exposed_comm_ns", _RANKS_SHOWN)
    held = activities.filter(pl.col("rank").is_in(ranks))
    begin, end = _window(held, steps)
    if end <= begin or not ranks:
        return pl.DataFrame(schema={"rank": pl.Int32, **dict.fromkeys(("t0_ms", "t1_ms", "transfer_share", "wait_share"), pl.Float64)})
    edges = _edges(begin, end, steps, ranks[0], max(24, min(_MOST_BINS, _CELLS // len(ranks))))
    bins = len(edges) - 1
    lane, start, stop, bit = _pieces(held)
    window_lane = np.repeat(np.array(ranks, np.int64), bins)
    window_start, window_end = np.tile(edges[:-1], len(ranks)), np.tile(edges[1:], len(ranks))
    order = np.lexsort((window_start, window_lane))
    times = mask_times(lane, start, stop, bit, window_lane[order], window_start[order], window_end[order], 3)
    length = (window_end - window_start)[order].clip(1)
    return pl.DataFrame(
        {
            "rank": window_lane[order].astype(np.int32),
            "t0_ms": (window_start[order] - begin) / NS_PER_MS,
            "t1_ms": (window_end[order] - begin) / NS_PER_MS,
            "transfer_share": (times[:, 0b010] + times[:, 0b110]) / length,
            "wait_share": times[:, 0b100] / length,
        }
    )


def _window(activities: pl.DataFrame, steps: pl.DataFrame) -> tuple[int, int]:
    whole = steps.filter(pl.col("complete")) if steps.height else steps
    source = whole if whole.height else activities
    if not source.height:
        return 0, 0
    begin, end = source.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    return int(begin), int(end)


def _edges(begin: int, end: int, steps: pl.DataFrame, rank: int, most: int) -> Any:
    """Borders of at most ``most`` bins: as many in each step of a rank as fit, so that equal steps look equal; else equal ones."""
    whole = steps.filter(pl.col("complete") & (pl.col("rank") == rank)).sort("start_ns") if steps.height else steps
    if not 1 < whole.height <= most:
        # Whole pixels: fractions would show as seams.
        bins = _WIDTH // -(-_WIDTH // most)
        return np.linspace(begin, end, bins + 1).astype(np.int64)
    marks = [begin, *whole["start_ns"].to_list()[1:], end]
    each = most // whole.height
    inner = [np.linspace(left, right, each, endpoint=False) for left, right in pairwise(marks)]
    return np.unique(np.concatenate([*inner, [end]]).astype(np.int64))


def _pieces(activities: pl.DataFrame) -> tuple[Any, Any, Any, Any]:
    """Lane, start, end and class (0 compute, 1 transfer, 2 wait) of every piece; communication is cut where its transfer starts."""
    compute = activities.filter(pl.col("kind") == "compute").select("rank", "start_ns", "end_ns", bit=pl.lit(0))
    comm = activities.filter(pl.col("kind") == "communication").with_columns(cut=pl.col("transfer_start_ns").fill_null(pl.col("start_ns")))
    transfer = comm.select("rank", pl.col("cut").alias("start_ns"), "end_ns", bit=pl.lit(1))
    wait = comm.select("rank", "start_ns", pl.col("cut").alias("end_ns"), bit=pl.lit(2))
    pieces = pl.concat([compute, transfer, wait]).filter(pl.col("end_ns") > pl.col("start_ns")).cast(pl.Int64)
    return tuple(pieces[name].to_numpy() for name in ("rank", "start_ns", "end_ns", "bit"))  # type: ignore[return-value]


def heat_strip(strip: pl.DataFrame, steps: pl.DataFrame, *, split_known: bool = True) -> Any:
    """Two strips, one above the other: exposed transfer and exposed wait of each rank over time.

    Parameters
    ----------
    strip
        Result of ``strip_frame``.
    steps
        ``STEPS``: borders of the lowest rank shown are drawn if there are not too many.
    split_known
        False where transfer and waiting cannot be told apart: then there is one strip, of communication.

    Returns
    -------
    A chart of two strips with one time axis. A late rank shows as the one row that stays white in the lower strip.
    """
    marks = _marks(strip, steps)
    title = _title(strip) if split_known else _unknown_title(strip)
    unit = "ms"
    if strip.height and float(strip["t1_ms"].max() or 0.0) > _SECONDS_FROM_MS:  # type: ignore[arg-type]
        unit = "s"
        strip, marks = (frame.with_columns(pl.col("^t._ms$") / 1_000) for frame in (strip, marks))
    ranks = strip["rank"].n_unique()
    step = max(4, min(18, 260 // max(ranks, 1)))
    if not split_known:
        only = _layer(strip, marks, "transfer_share", "exposed communication", ramp("unknown"), step, ranks, unit)
        reading = "Colour: part of each moment that a rank spends in communication while nothing computes."
        return titled(only, "heat-strip", title, reading, f"Heat map of {plural(ranks, 'rank')} over time.")
    upper = _layer(strip, marks, "transfer_share", "exposed transfer", ramp("transfer"), step, ranks, unit)
    lower = _layer(strip, marks, "wait_share", "exposed wait", ramp("wait"), step, ranks, unit)
    chart = alt.vconcat(upper, lower, spacing=14).resolve_scale(color="independent", x="shared")
    subtitle = [
        "Colour: part of each moment that a rank spends moving data (red) or waiting for a late rank (yellow) while nothing computes."
    ]
    if marks.height:
        subtitle.append("Vertical lines: starts of steps.")
    return titled(
        chart, "heat-strip", title, subtitle, f"Two heat maps of {plural(ranks, 'rank')} over time, for transfer and for waiting."
    )


def _layer(strip: pl.DataFrame, marks: pl.DataFrame, column: str, title: str, colours: list[str], step: int, ranks: int, unit: str) -> Any:
    last = float(strip["t1_ms"].max() or 1.0)  # type: ignore[arg-type]
    x = alt.X(
        "t0_ms:Q",
        title=f"time since the first step ({unit})",
        scale=alt.Scale(domain=[0, last], nice=False),
        axis=alt.Axis(grid=False, format=",~f"),
    )
    every = sorted(strip["rank"].unique().to_list())
    y = alt.Y(
        "rank:O", title="rank", scale=alt.Scale(domain=every), axis=alt.Axis(values=every[:: max(1, -(-ranks * 12 // (ranks * step)))])
    )
    # A colour shows no more than a thousandth; longer numbers would make the file half as large again.
    coloured = strip.filter(pl.col(column) > 0.004).with_columns(pl.col("transfer_share", "wait_share").round(3))
    cells = (
        alt.Chart(alt.InlineData(values=records(coloured)))
        .mark_rect(aria=False)
        .encode(
            x=x,
            x2="t1_ms:Q",
            y=y,
            color=alt.Color(
                f"{column}:Q",
                title=title,
                scale=alt.Scale(domain=[0, 1], range=colours, clamp=True),
                legend=alt.Legend(
                    orient="right", direction="vertical", format=".0%", gradientLength=max(60, min(120, ranks * step)), values=[0, 0.5, 1]
                ),
            ),
            tooltip=[
                alt.Tooltip("rank:O", title="rank"),
                alt.Tooltip("t0_ms:Q", title=f"from ({unit})", format=",.4~g"),
                alt.Tooltip("transfer_share:Q", title="exposed transfer", format=".0%"),
                alt.Tooltip("wait_share:Q", title="exposed wait", format=".0%"),
            ],
        )
        .properties(width=_WIDTH, height=alt.Step(step))
    )
    if not marks.height:
        return cells
    borders = (
        alt.Chart(alt.InlineData(values=records(marks)))
        .mark_rule(color=MUTED, strokeWidth=0.8, opacity=0.6)
        .encode(x="t0_ms:Q", tooltip=[alt.Tooltip("step:O", title="start of step")])
    )
    return alt.layer(cells, borders)


def _marks(strip: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    whole = steps.filter(pl.col("complete")) if steps.height else steps
    if not whole.height or not strip.height:
        return pl.DataFrame({"t0_ms": [], "step": []})
    begin = int(whole["start_ns"].min())  # type: ignore[arg-type]
    one = whole.filter(pl.col("rank") == strip["rank"].min()).sort("start_ns")
    if one.height > _BORDERS:
        return pl.DataFrame({"t0_ms": [], "step": []})
    return one.select(((pl.col("start_ns") - begin) / NS_PER_MS).alias("t0_ms"), "step")


def _unknown_title(strip: pl.DataFrame) -> str:
    length = pl.col("t1_ms") - pl.col("t0_ms")
    share = strip.select((pl.col("transfer_share") * length).sum() / length.sum()).item() if strip.height else None
    return f"Communication stands in the way for {format_percent(share)} of the time; transfer and waiting are not told apart"


def _title(strip: pl.DataFrame) -> str:
    bin_ms = pl.col("t1_ms") - pl.col("t0_ms")
    per_rank = strip.group_by("rank").agg(
        (pl.col("wait_share") * bin_ms).sum().alias("wait_ms"),
        (pl.col("transfer_share") * bin_ms).sum().alias("transfer_ms"),
        bin_ms.sum().alias("ms"),
    )
    span = float(per_rank["ms"].max() or 0.0)  # type: ignore[arg-type]
    wait, transfer = float(per_rank["wait_ms"].mean() or 0.0), float(per_rank["transfer_ms"].mean() or 0.0)  # type: ignore[arg-type]
    if span == 0 or wait + transfer <= 0.002 * span:
        return "Almost no communication stands in the way at any time"
    least = per_rank.sort("wait_ms").row(0, named=True)
    others = per_rank.filter(pl.col("rank") != least["rank"])["wait_ms"].median()
    if isinstance(others, float) and others > 0.02 * span and least["wait_ms"] < 0.25 * others:
        return f"Rank {least['rank']} hardly ever waits; the others wait {format_ms(others)} in {format_ms(span)}"
    if wait > transfer:
        return f"Ranks wait for one another for {format_percent(wait / span)} of the time"
    worst = per_rank.sort("transfer_ms", descending=True).row(0, named=True)
    if worst["transfer_ms"] > 1.5 * transfer:
        most, mean = format_percent(worst["transfer_ms"] / span), format_percent(transfer / span)
        return f"Rank {worst['rank']} moves data for {most} of the time, the mean rank for {mean}"
    return f"Transfer stands in the way for {format_percent(transfer / span)} of the time" + (
        ", on all ranks alike" if per_rank.height > 1 else ""
    )
