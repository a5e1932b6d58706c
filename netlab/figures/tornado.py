"""Which assumption an answer hangs on: one bar for each, from the step at one end of it to the step at the other."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.theme import INK, MUTED, PAPER, RULE, WIDTH, titled
from netlab.units import format_ms

__all__ = ["tornado"]

_FASTER, _SLOWER = "#2f8f7f", "#d1862a"
_LABEL_ROOM = 330


def tornado(frame: pl.DataFrame, name: str, measured_ms: float, predicted_ms: float) -> Any:
    """Swing of the predicted step by each assumption, widest first.

    Parameters
    ----------
    frame
        ``Sensitivity.frame()``: columns ``assumption``, ``low``, ``high``, ``low_ms``, ``high_ms``.
    name
        The scenario.
    measured_ms, predicted_ms
        The step as measured and as predicted, drawn as rules.
    """
    ends = pl.concat(
        [
            frame.select(
                "assumption", pl.col(f"{end}_ms").alias("to_ms"), pl.col(end).alias("value"), pl.lit(predicted_ms).alias("from_ms")
            )
            for end in ("low", "high")
        ]
    ).with_columns(pl.when(pl.col("to_ms") > pl.col("from_ms")).then(pl.lit("slower")).otherwise(pl.lit("faster")).alias("side"))
    values = [*ends["to_ms"].to_list(), measured_ms, predicted_ms]
    room = max(max(values) - min(values), 0.02 * predicted_ms) * 0.16
    scale = alt.Scale(domain=[max(0.0, min(values) - room), max(values) + room], nice=False, zero=False)
    base = alt.Chart(alt.InlineData(values=records(ends, 6)))
    y = alt.Y("assumption:N", title=None, sort=frame["assumption"].to_list(), axis=alt.Axis(labelColor=INK, labelLimit=_LABEL_ROOM))
    x = alt.X("from_ms:Q", title="predicted step (ms)", scale=scale, axis=alt.Axis(format=",~f", tickCount=7))
    colour = alt.Color("side:N", scale=alt.Scale(domain=["faster", "slower"], range=[_FASTER, _SLOWER]), legend=None)
    tooltip = [
        alt.Tooltip("assumption:N", title="assumption"),
        alt.Tooltip("value:N", title="if it is"),
        alt.Tooltip("to_ms:Q", title="predicted step (ms)", format=".4~g"),
    ]
    moved = alt.datum.to_ms != alt.datum.from_ms
    layers = [
        base.mark_bar(height=16, stroke=PAPER).encode(x=x, x2="to_ms:Q", y=y, color=colour, tooltip=tooltip),
        *(
            base.transform_filter(moved & (alt.datum.side == side))
            .mark_text(align=align, dx=dx, color=MUTED, fontSize=11.5)
            .encode(x=alt.X("to_ms:Q", scale=scale), y=y, text="value:N")
            for side, align, dx in (("faster", "right", -5), ("slower", "left", 5))
        ),
        _rule(predicted_ms, f"predicted {format_ms(predicted_ms)}", INK, scale, 0),
        _rule(measured_ms, f"measured {format_ms(measured_ms)}", RULE, scale, 14),
    ]
    chart = alt.layer(*layers).properties(width=WIDTH - _LABEL_ROOM, height=alt.Step(34))
    subtitle = "Each assumption moved alone, everything else as predicted. The widest bar is what to find out first."
    return titled(chart, "sensitivity", _title(frame, name), subtitle, f"Swings of the prediction for {name}, by assumption.")


def _rule(at_ms: float, words: str, colour: str, scale: alt.Scale, up: int) -> alt.LayerChart:
    rule = alt.Chart(alt.InlineData(values=[{"at": at_ms, "words": words}]))
    at = alt.X("at:Q", scale=scale)
    line = rule.mark_rule(color=colour, strokeDash=[6, 4], strokeWidth=1.6).encode(x=at)
    text = rule.mark_text(color=colour, fontWeight=600, align="left", baseline="bottom", dx=4, dy=-4 - up)
    return alt.layer(line, text.encode(x=at, y=alt.value(0), text="words:N"))


def _title(frame: pl.DataFrame, name: str) -> str:
    first = frame.row(0, named=True)
    width = abs(first["high_ms"] - first["low_ms"])
    return f"“{name}” hangs most on {first['assumption']}: {format_ms(width)} from one end to the other"
