"""Where the step went: what each rank did with its time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records, share_text
from netlab.figures.theme import PART_COLOURS, WIDTH, titled
from netlab.units import plural

__all__ = ["attribution", "extreme_ranks", "parts_frame"]

#: Ranks that one chart shows.
_RANKS_SHOWN = 48


def parts_frame(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """The parts that a step is made of, one row per (``by``, part), for stacking.

    Parameters
    ----------
    rows
        Breakdown rows of a verdict: ``by``, ``compute_ms``, ``hidden_comm_ms``, ``exposed_transfer_ms``, ... Where transfer or wait is null
        and ``exposed_comm_ms`` is known, that becomes the part *exposed communication, split unknown*.
    by
        Name of the column that tells rows apart: ``rank`` or ``step``.

    Returns
    -------
    Columns ``by``, ``part``, ``order``, ``ms``, ``share``; the ms of one row add up to its step.

    Examples
    --------
    >>> row = {"rank": 0, "compute_ms": 6.0, "hidden_comm_ms": 1.0, "exposed_comm_ms": 3.0, "exposed_transfer_ms": 3.0,
    ...        "exposed_wait_ms": 0.0, "exposed_memory_ms": 0.0, "idle_ms": 1.0}
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
    whole = pl.sum_horizontal("compute_ms", "exposed_comm_ms", "exposed_memory_ms", "idle_ms").alias("whole_ms")
    wide = rows.select(by, whole, *[value.cast(pl.Float64).alias(part) for part, value in values.items()])
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


def extreme_ranks(rows: pl.DataFrame, by: str, shown: int) -> list[int]:
    """At most ``shown`` ranks, in order: half with most and half with least of a column (a straggler has the least communication)."""
    if rows.height <= shown:
        return sorted(rows["rank"].to_list())
    ordered = rows.sort(by, "rank", descending=[True, False], nulls_last=True)["rank"].to_list()
    return sorted(ordered[: shown // 2] + ordered[-(shown // 2) :])


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
    chosen = extreme_ranks(by_rank, "exposed_comm_ms", _RANKS_SHOWN)
    unit = "step" if by_rank["iterations"].is_not_null().any() else "capture"
    long = parts_frame(by_rank.filter(pl.col("rank").is_in(chosen)), "rank")
    present = [part for part in PART_COLOURS if part in set(long["part"])]
    chart = (
        alt.Chart(alt.InlineData(values=records(long)))
        .mark_bar(height={"band": 0.82})
        .encode(
            x=alt.X(
                "ms:Q",
                title="time per step (ms)" if unit == "step" else "time in the capture (ms)",
                scale=alt.Scale(nice=False),
                axis=alt.Axis(grid=True, format=",~f", tickCount=8),
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
        .properties(width=WIDTH, height=alt.Step(max(11, min(26, 480 // max(len(chosen), 1)))))
    )
    subtitle = [
        f"{'Mean of the steps' if unit == 'step' else 'Sum'}. The parts add up; hidden communication runs under compute and costs nothing."
    ]
    if len(chosen) < by_rank.height:
        subtitle.append(f"Of {by_rank.height:,} ranks, the {len(chosen)} with most and least exposed communication.")
    described = f"Stacked bars of {plural(len(chosen), 'rank')}."
    return titled(chart, "attribution", _title(totals or _mean(by_rank), unit), subtitle, described)


def _title(totals: Mapping[str, Any], unit: str) -> str:
    comm, network, wait = (totals.get(name) for name in ("comm_share", "network_share", "wait_share"))
    if comm is None:
        return f"Where the time of each {unit} went"
    if comm == 0:
        hidden = totals.get("hidden_comm_ms") or 0
        return f"No {unit} time is lost to communication: " + ("compute hides all of it" if hidden else "there is none")
    if network is None or wait is None:
        return f"Communication stands in the way for {share_text(comm)} of the {unit}; transfer or waiting is not known"
    return f"The network moves data for {share_text(network)} of the {unit}; {share_text(wait)} is waiting for late ranks"


def _mean(rows: pl.DataFrame) -> dict[str, Any]:
    names = ("comm_share", "network_share", "wait_share", "hidden_comm_ms")
    return {name: rows[name].mean() if name in rows.columns else None for name in names}
