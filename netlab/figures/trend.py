"""Many reports over time: is a run, or a cluster, getting worse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records, share_text
from netlab.figures.theme import RULE, WIDTH, titled
from netlab.units import format_ms, format_percent, plural

__all__ = ["cluster_days", "over_time"]

_RUNS_SHOWN = 8
_REPORTS_SHOWN = 3_000
#: Moves below these, of a time and of a share, are called steady in the title.
_STEADY, _STEADY_POINTS = 0.05, 0.01

#: Okabe and Ito without black and yellow, which vanish on one of the two dresses.
_COLOURS = ["#3b6fa0", "#d1862a", "#2f8f7f", "#9c5f8f", "#8cbfe6", "#b0603a", "#6b7f3a", "#7d8894"]

_LEGEND = alt.Legend(symbolType="stroke", symbolStrokeWidth=3, symbolSize=220)

_MEASURES = {"network_share": "network share", "comm_share": "communication share", "wait_share": "wait share", "iteration_ms": "step time"}


def cluster_days(history: pl.DataFrame, measure: str = "network_share") -> pl.DataFrame:
    """One row per cluster and day: the median of a measure over the newest report of each run that day, in the columns of ``HISTORY``.

    Parameters
    ----------
    history
        ``HISTORY``; reports without a cluster are left out.
    measure
        See ``over_time``.
    """
    known = history.filter(pl.col("cluster").is_not_null() & pl.col(measure).is_not_null()).sort("created_at", "path")
    newest = known.with_columns(day=pl.col("created_at").str.slice(0, 10)).group_by("cluster", "day", "name", maintain_order=True).last()
    bad = pl.col("status") == "flagged"
    return (
        newest.group_by("cluster", "day")
        .agg(
            pl.col(measure).median(),
            pl.col("threshold").first(),
            pl.col("ranks").sum(),
            pl.when(bad.any()).then(pl.lit("flagged")).otherwise(pl.lit("pass")).alias("status"),
            pl.format("{} of {} runs flagged", bad.sum(), pl.len()).alias("headline"),
        )
        .select(
            pl.col("cluster").alias("name"),
            pl.lit(None, pl.String).alias("cluster"),
            (pl.col("day") + "T00:00:00Z").alias("created_at"),
            *(measure, "status", "headline", "ranks", "threshold"),
            pl.lit("").alias("path"),
        )
        .sort("name", "created_at")
    )


def over_time(history: pl.DataFrame, measure: str = "network_share", since: Mapping[str, str] | None = None, noun: str = "run") -> Any:
    """A measure of every report over the time of the report, one line per run; flagged reports are filled in red.

    Parameters
    ----------
    history
        ``HISTORY``; of more than 8 runs those with the newest reports, of each the newest.
    measure
        ``network_share``, ``comm_share``, ``wait_share`` or ``iteration_ms``.
    since
        By run (with its cluster, as the legend names it): time of the first report of a worse phase that lasts; it is drawn.
    noun
        What a line is: run or cluster (``cluster_days``).
    """
    named = pl.format("{} on {}", "name", "cluster") if history["cluster"].is_not_null().any() else pl.col("name")
    history = history.with_columns(name=pl.coalesce(named, "name"))
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
    # Jobs of unlike step times share an axis only as multiples of what is usual for each.
    relative = measure == "iteration_ms" and len(runs) > 1
    shown = shown.with_columns(drawn=pl.col(measure) / pl.col(measure).median().over("name") if relative else pl.col(measure))
    columns = ["name", "created_at", "drawn", measure, "status", "headline", "ranks", "threshold"]
    base = alt.Chart(alt.InlineData(values=records(shown.select(list(dict.fromkeys(columns))))))
    colour = alt.Color("name:N", title=None, scale=alt.Scale(domain=runs, range=_COLOURS[: len(runs)]), legend=_LEGEND)
    axis = alt.Axis(format=".0%" if share or relative else ",~f", tickCount=6)
    title = f"{_MEASURES[measure]} of the step" if share else f"step time over the median of its {noun}" if relative else "step time (ms)"
    y = alt.Y("drawn:Q", title=title, scale=alt.Scale(zero=share), axis=axis)
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
            alt.Tooltip("name:N", title=noun),
            alt.Tooltip("created_at:T", title="made", format="%Y-%m-%d %H:%M"),
            alt.Tooltip(f"{measure}:Q", title=_MEASURES[measure] if share else "step time (ms)", format=".1%" if share else ".4~g"),
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
    marks = [{"name": name, "at": at} for name, at in sorted((since or {}).items()) if name in runs]
    if marks:
        drawn = alt.Chart(alt.InlineData(values=marks)).encode(x="at:T", color=colour)
        layers.append(drawn.mark_rule(strokeDash=[2, 3], strokeWidth=1.6))
    chart = alt.layer(*layers).properties(width=WIDTH - 30, height=240)
    point = "report" if noun == "run" else "day, the median of its runs"
    subtitle = [
        f"One point per {point}; filled red: flagged." + (" Dotted: the first report of a worse phase that lasts." if marks else "")
    ]
    if history["name"].n_unique() > len(runs):
        subtitle.append(f"Of {plural(history['name'].n_unique(), noun)}, those with the newest reports.")
    described = f"Lines of {plural(len(runs), noun)} over {plural(shown.height, 'report' if noun == 'run' else 'day')}."
    told = "".join(f" {mark['name']} is worse since {mark['at'][:10]}." for mark in marks)
    name = f"{measure.replace('_', '-')}-{'over-time' if noun == 'run' else f'by-{noun}'}"
    return titled(chart, name, _title(shown, measure, noun), subtitle, described + told)


def _title(shown: pl.DataFrame, measure: str, noun: str) -> str:
    """The run or cluster whose newest value moved furthest from the median of its earlier ones: shares in points, times in percent."""
    word = _MEASURES[measure]
    share = measure.endswith("_share")
    moves = []
    for (name,), rows in shown.group_by("name", maintain_order=True):
        values = rows[measure].to_list()
        if len(values) >= 2:
            usual = float(pl.Series(values[:-1]).median() or 0.0)  # type: ignore[arg-type]
            moves.append((abs(values[-1] - usual) / (1.0 if share else max(usual, 1e-9)), str(name), values[-1], usual))
    if not moves:
        return f"One {'report' if noun == 'run' else 'day'} a {noun}: no trend of the {word} yet"
    moved, name, newest, usual = max(moves)
    tell = format_percent if share else format_ms
    if moved < (_STEADY_POINTS if share else _STEADY):
        return f"The {word} is steady in {plural(len(moves), noun)}"
    newest_one = "in the newest report" if noun == "run" else "on the last day"
    return f"{name[:60]}: {word} {tell(newest)} {newest_one}, {tell(usual)} usually"
