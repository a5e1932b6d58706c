"""What-if answers beside the measured step, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.outlook import best_scenario
from netlab.figures.theme import INK, MUTED, RULE, WIDTH, titled
from netlab.units import format_ms, plural

__all__ = ["scenario_chart"]

_CONFIDENCE = {"measured": "#2f6a9f", "calibrated": "#2f8f7f", "datasheet": "#d1862a", "bound-only": "#7d8894"}


def scenario_chart(frame: pl.DataFrame, measured_ms: float | None, threshold: float | None) -> Any:
    """Predicted step of each scenario with its 80 and 95 % interval, against the measured step.

    Parameters
    ----------
    frame
        Result of ``outlook.scenario_frame``.
    measured_ms
        The measured step, drawn as a labelled rule.
    threshold
        Limit of the network share, if there is one: scenarios above it are marked in words.
    """
    shown = frame.with_columns(pl.Series("words", [_words(row, threshold) for row in frame.iter_rows(named=True)], dtype=pl.String))
    shown = _todays_work(shown, measured_ms)
    names = shown["name"].to_list()
    ends = [value for column in ("low95_ms", "high95_ms", "predicted_ms") for value in shown[column].drop_nulls().to_list()]
    low, high = min([*ends, measured_ms or ends[0]]), max([*ends, measured_ms or ends[0]])
    room = max(high - low, 0.02 * high) * 0.08
    scale = alt.Scale(domain=[max(0.0, low - room), high + room], nice=False, zero=False)
    present = [word for word in _CONFIDENCE if word in set(shown["confidence"])]
    colour = alt.Color(
        "confidence:N",
        title="confidence",
        scale=alt.Scale(domain=present, range=[_CONFIDENCE[word] for word in present]),
        legend=alt.Legend(symbolOpacity=1, orient="bottom"),
    )
    base = alt.Chart(alt.InlineData(values=records(shown)))
    y = alt.Y("name:N", title=None, sort=names, axis=alt.Axis(labelColor=INK, labelLimit=290))
    tooltip = [
        alt.Tooltip("name:N", title="scenario"),
        alt.Tooltip("predicted_ms:Q", title="predicted step (ms)", format=".4~g"),
        alt.Tooltip("low95_ms:Q", title="95 % from (ms)", format=".4~g"),
        alt.Tooltip("high95_ms:Q", title="to (ms)", format=".4~g"),
        alt.Tooltip("speedup:Q", title="speed-up", format=".2f"),
        alt.Tooltip("network_share:Q", title="network share", format=".1%"),
        alt.Tooltip("confidence:N", title="confidence"),
    ]
    x = alt.X("low95_ms:Q", title="time for the work of today's step (ms)", scale=scale, axis=alt.Axis(format=",~f", tickCount=8))
    width = WIDTH - 410
    layers = [
        base.mark_rule(strokeWidth=2).encode(x=x, x2="high95_ms:Q", y=y, color=colour, tooltip=tooltip),
        base.mark_rule(strokeWidth=7, opacity=0.45).encode(
            x=alt.X("low80_ms:Q", scale=scale), x2="high80_ms:Q", y=y, color=colour, tooltip=tooltip
        ),
        base.mark_point(filled=True, size=110, opacity=1).encode(
            x=alt.X("predicted_ms:Q", scale=scale), y=y, color=colour, tooltip=tooltip
        ),
        base.mark_text(align="left", color=MUTED, fontSize=11.5).encode(x=alt.value(width + 8), y=y, text="words:N"),
    ]
    if measured_ms is not None:
        rule = alt.Chart(alt.InlineData(values=[{"at": measured_ms, "text": f"measured {format_ms(measured_ms)}"}]))
        at = alt.X("at:Q", scale=scale)
        layers.append(rule.mark_rule(color=RULE, strokeDash=[6, 4], strokeWidth=1.6).encode(x=at))
        layers.append(
            rule.mark_text(color=RULE, fontWeight=600, align="right", baseline="bottom", dx=-5, dy=-4).encode(
                x=at, y=alt.value(0), text="text:N"
            )
        )
    chart = alt.layer(*layers).properties(width=width, height=alt.Step(30))
    subtitle = "Dot: predicted step. Thick and thin: where it lies in 80 and 95 of 100 cases, the replay's own error included."
    return titled(chart, "what-if", _title(shown, measured_ms), subtitle, f"Intervals of {plural(shown.height, 'scenario')}.")


def _todays_work(shown: pl.DataFrame, measured_ms: float | None) -> pl.DataFrame:
    """Times scaled to the work of the measured step: a step that accumulates four micro-batches is longer and does four times the work."""
    if measured_ms is None:
        return shown
    factor = measured_ms / pl.col("speedup") / pl.col("predicted_ms")
    factor = pl.when(factor.is_finite() & ((factor - 1).abs() > 0.01)).then(factor).otherwise(1.0)
    return shown.with_columns(pl.col("predicted_ms", "low80_ms", "high80_ms", "low95_ms", "high95_ms") * factor)


def _words(row: Mapping[str, Any], threshold: float | None) -> str:
    share = row["network_share"]
    faster = "" if row["speedup"] is None else f"×{row['speedup']:.2f}"
    above = " (above limit)" if share is not None and threshold is not None and share > threshold else ""
    network = "" if share is None else f"network {100 * share:.0f} %{above}"
    return ", ".join(part for part in (faster, network) if part)


def _title(shown: pl.DataFrame, measured_ms: float | None) -> str:
    best = best_scenario(shown)
    if best is None:
        return "No change that was asked about makes training faster"
    doubt = "" if best["sure"] else ", within its error not at all"
    gain = f": {format_ms(best['predicted_ms'])} instead of {format_ms(measured_ms)}" if measured_ms is not None else ""
    return f"“{best['name']}” would make training {best['speedup']:.2f} times as fast{gain}{doubt}"
