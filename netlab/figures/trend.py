"""Many reports over time: is a run getting worse."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records, share_text
from netlab.figures.theme import RULE, WIDTH, titled
from netlab.units import format_ms, format_percent, plural

__all__ = ["over_time"]

_RUNS_SHOWN = 8
_REPORTS_SHOWN = 3_000

#: Okabe and Ito without black and yellow, which vanish on one of the two dresses.
_COLOURS = ["#3b6fa0", "#d1862a", "#2f8f7f", "#9c5f8f", "#8cbfe6", "#b0603a", "#6b7f3a", "#7d8894"]

_LEGEND = alt.Legend(symbolType="stroke", symbolStrokeWidth=3, symbolSize=220)

_MEASURES = {"network_share": "network share", "comm_share": "communication share", "wait_share": "wait share", "iteration_ms": "step time"}


def over_time(history: pl.DataFrame, measure: str = "network_share") -> Any:
    """A measure of every report over the time of the report, one line per run; flagged reports are filled in red.

    Parameters
    ----------
    history
        ``HISTORY``; of more than 8 runs those with the newest reports, of each the newest.
    measure
        ``network_share``, ``comm_share``, ``wait_share`` or ``iteration_ms``.
    """
    share = measure.endswith("_share")
    known = history.filter(pl.col(measure).is_not_null()).sort("created_at", "path")
    names = (
        known.group_by("name")
        .agg(pl.col("created_at").max())
        .sort("created_at", "name", descending=[True, False])["name"]
        .head(_RUNS_SHOWN)
    )
    runs = sorted(names.to_list())
    shown = known.filter(pl.col("name").is_in(runs)).tail(_REPORTS_SHOWN)
    columns = ["name", "created_at", measure, "status", "headline", "ranks", "threshold"]
    base = alt.Chart(alt.InlineData(values=records(shown.select(list(dict.fromkeys(columns))))))
    colour = alt.Color("name:N", title=None, scale=alt.Scale(domain=runs, range=_COLOURS[: len(runs)]), legend=_LEGEND)
    axis = alt.Axis(format=".0%", tickCount=6) if share else alt.Axis(format=",~f", tickCount=6)
    title = f"{_MEASURES[measure]} of the step" if share else "step time (ms)"
    y = alt.Y(f"{measure}:Q", title=title, scale=alt.Scale(zero=share), axis=axis)
    x = alt.X(
        "created_at:T",
        title="report made (UTC)",
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(grid=False, labelOverlap=True, tickCount=8, format="%d %b"),
    )
    flagged = alt.datum.status == "flagged"
    points = base.mark_point(size=70, opacity=1, strokeWidth=1.8).encode(
        x=x,
        y=y,
        stroke=alt.condition(flagged, alt.value(RULE), colour),
        fill=alt.condition(flagged, alt.value(RULE), alt.value("transparent")),
        tooltip=[
            alt.Tooltip("name:N", title="run"),
            alt.Tooltip("created_at:T", title="made", format="%Y-%m-%d %H:%M"),
            alt.Tooltip(f"{measure}:Q", title=_MEASURES[measure], format=".1%" if share else ".4~g"),
            alt.Tooltip("status:N", title="status"),
            alt.Tooltip("headline:N", title="verdict"),
            alt.Tooltip("ranks:Q", title="ranks"),
        ],
    )
    layers = [base.mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour), points]
    limits = shown["threshold"].unique().to_list()
    if measure == "network_share" and len(limits) == 1:
        rule = alt.Chart(alt.InlineData(values=[{"limit": limits[0], "text": f"threshold {share_text(limits[0])}"}]))
        layers.append(rule.mark_rule(color=RULE, strokeDash=[6, 4], strokeWidth=1.6).encode(y="limit:Q"))
        text = rule.mark_text(align="left", baseline="bottom", dx=6, dy=-4, color=RULE, fontWeight=600)
        layers.append(text.encode(y="limit:Q", x=alt.value(0), text="text:N"))
    chart = alt.layer(*layers).properties(width=WIDTH - 30, height=240)
    subtitle = ["One point per report; filled red: flagged."]
    if history["name"].n_unique() > len(runs):
        subtitle.append(f"Of {plural(history['name'].n_unique(), 'run')}, those with the newest reports.")
    described = f"Lines of {plural(len(runs), 'run')} over {plural(shown.height, 'report')}."
    return titled(chart, f"{measure.replace('_', '-')}-over-time", _title(shown, measure), subtitle, described)


def _title(shown: pl.DataFrame, measure: str) -> str:
    """The run whose newest report moved furthest from the median of its earlier ones."""
    word = _MEASURES[measure]
    moves = []
    for (name,), rows in shown.group_by("name", maintain_order=True):
        values = rows[measure].to_list()
        if len(values) >= 2:
            usual = float(pl.Series(values[:-1]).median() or 0.0)  # type: ignore[arg-type]
            moves.append((abs(values[-1] - usual) / max(usual, 1e-9), str(name), values[-1], usual))
    if not moves:
        return f"One report a run: no trend of the {word} yet"
    moved, name, newest, usual = max(moves)
    tell = format_percent if measure.endswith("_share") else format_ms
    if moved < 0.05:
        return f"The {word} is steady in {plural(len(moves), 'run')}"
    return f"{name[:60]}: {word} {tell(newest)} in the newest report, {tell(usual)} usually"
