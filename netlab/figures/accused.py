"""The accused link against its peers: events in each cell of time beside the communication that was exposed in it."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from netlab.figures.frames import records
from netlab.figures.theme import INK, MUTED, PART_COLOURS, WIDTH, titled
from netlab.units import format_ms

__all__ = ["accused_link", "accused_link_frame"]

_PEERS = "mean of its peers"
_GROUPS = 5
_TICKS = [0, *(digit * 10**power for power in range(10) for digit in (1, 3))]


def accused_link_frame(cells: pl.DataFrame, tests: pl.DataFrame) -> pl.DataFrame:
    """Cells of the link with the strongest evidence (``LINK_CELLS``, ``LINK_TESTS``), by time; empty where none is named."""
    keys = ["device", "port", "direction", "metric"]
    first = tests.sort("number").head(1).select(keys)
    return cells.join(first, on=keys, how="semi").sort("t0_ns")


def accused_link(frame: pl.DataFrame, tests: pl.DataFrame) -> Any:
    """Scatter of the accused link and its peers, with a line through the medians of cells that have alike many events.

    Parameters
    ----------
    frame
        Result of ``accused_link_frame``.
    tests
        ``LINK_TESTS``, whose first row is the verdict drawn.
    """
    test = tests.sort("number").row(0, named=True)
    link, counted = f"{test['device']}/{test['port']}", test["metric"].replace("_", " ")
    own = frame.select("events", "exposed_ms", who=pl.lit(link))
    peers = frame.drop_nulls("peer_events").select(pl.col("peer_events").alias("events"), "exposed_ms", who=pl.lit(_PEERS))
    scale = alt.Scale(type="symlog", constant=1, nice=False)
    x = alt.X(
        "events:Q",
        title=f"{counted} in a cell of {format_ms(test['cell_ms'])}",
        scale=scale,
        axis=alt.Axis(values=_TICKS, format=",.0f"),
    )
    y = alt.Y("exposed_ms:Q", title="exposed communication per rank (ms)", axis=alt.Axis(format=",~f"))
    colours = alt.Scale(domain=[link, _PEERS], range=[PART_COLOURS["exposed transfer"], MUTED])
    points = (
        alt.Chart(alt.InlineData(values=records(pl.concat([peers, own]))))
        .mark_circle(size=42, opacity=0.7, aria=False)
        .encode(
            x=x,
            y=y,
            color=alt.Color("who:N", title=None, scale=colours),
            tooltip=[
                alt.Tooltip("who:N", title="link"),
                alt.Tooltip("events:Q", title=counted, format=",.4~g"),
                alt.Tooltip("exposed_ms:Q", title="exposed (ms)", format=",.4~g"),
            ],
        )
    )
    line = alt.Chart(alt.InlineData(values=_line(own))).mark_line(color=INK, strokeDash=[6, 4], strokeWidth=1.6).encode(x=x, y=y)
    chart = alt.layer(points, line).properties(width=WIDTH - 40, height=300)
    cost = f"{format_ms(test['excess_ms'])} per step (95 % {format_ms(test['excess_low_ms'])} to {format_ms(test['excess_high_ms'])})"
    title = f"Where {link} counts {counted}, it costs {cost}: {test['state']}"
    seen = (
        f"; the test could have named a link that explains {100 * test['detectable_r2']:.0f} % of the variance"
        if test["detectable_r2"]
        else ""
    )
    subtitle = [
        f"A point is a cell of time, the line the median of cells with alike many events. n = {test['cells']}, "
        f"p = {test['p_value']:.2g} over all links and counters{seen}."
    ]
    if test["reason"]:
        subtitle.append(f"Not localised: {test['reason']}.")
    return titled(chart, "accused-link", title, subtitle, f"Scatter of {test['cells']} cells of {link} and of its peers.")


def _line(own: pl.DataFrame) -> list[dict[str, float]]:
    """Median exposure of cells with alike many events, by fifths of the cells that have some; those without are one group."""
    some = own.filter(pl.col("events") > 0).sort("events")
    groups = [
        own.filter(pl.col("events") <= 0),
        *(some[part[0] : part[-1] + 1] for part in np.array_split(np.arange(some.height), _GROUPS) if len(part)),
    ]
    medians = [group.select(pl.col("events", "exposed_ms").median()).row(0, named=True) for group in groups if group.height]
    return medians if len(medians) > 1 else []
