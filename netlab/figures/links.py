"""Links: how far each is used, and what speaks against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.theme import GRID, INK, PART_COLOURS, RULE, WIDTH, titled
from netlab.units import format_percent, plural

__all__ = ["link_use", "link_use_frame"]

_LINKS_SHOWN = 32


def link_use_frame(links: pl.DataFrame) -> pl.DataFrame:
    """Links for the chart, the worst first: localised, associated, those with errors, loss, pause or marks, then the most used.

    Parameters
    ----------
    links
        ``verdict.links`` as a frame, or ``LINKS``.

    Returns
    -------
    The rows with ``link`` (``device/port direction``), ``resolution`` (text beside a peak), ``words`` (what speaks against the link) and
    ``state`` (how strongly) added; worst first.
    """
    resolution = [_resolution(value) for value in links["resolution_ms"].to_list()] if "resolution_ms" in links.columns else []
    rows = list(links.iter_rows(named=True))
    troubles = [_trouble(row) for row in rows]
    states = [
        row["localised"] if row.get("localised") in _STATES[:2] else _STATES[2 if words else 3]
        for row, words in zip(rows, troubles, strict=True)
    ]
    order = pl.col("state").replace_strict({name: number for number, name in enumerate(_STATES)}, return_dtype=pl.Int8)
    return (
        links.with_columns(
            pl.format("{}/{} {}", "device", "port", "direction").alias("link"),
            pl.Series("resolution", resolution, dtype=pl.String),
            pl.Series("words", [", ".join(words) for words in troubles], dtype=pl.String),
            pl.Series("state", states, dtype=pl.String),
            pl.Series("weight", [_weight(row) for row in rows], dtype=pl.Float64),
        )
        .sort(order, "weight", pl.col("utilization_peak").fill_null(-1.0), "link", descending=[False, True, True, False])
        .drop("weight")
    )


#: What speaks against a link, strongest first.
_STATES = ("localised", "associated", "errors, loss, pause or marks", "none")
#: Whose colours they take: what speaks against a link stands out, what nothing speaks against does not.
_STATE_PARTS = ("exposed transfer", "exposed wait", "exposed communication, split unknown", "hidden communication")
#: Shares below these are no news; the sources stand beside the same limits of the rules for findings.
_NEWS = {"loss_ratio": 1e-4, "pause_ratio": 0.01, "ecn_ratio": 0.01}


def _trouble(row: Mapping[str, Any]) -> list[str]:
    """What speaks against a link, in a few words; nothing for one that nothing speaks against."""
    named = row.get("localised") in _STATES[:2]
    shares = [("loses", "loss_ratio"), ("paused", "pause_ratio"), ("marked", "ecn_ratio")]
    words = [f"{word} {100 * row[name]:.2g} %" for word, name in shares if row.get(name) and (named or row[name] > _NEWS[name])]
    if row.get("errors") and not row.get("loss_ratio"):
        words.append(f"{row['errors']:,} errors")
    if row.get("link_downed"):
        words.append(f"went down {plural(row['link_downed'], 'time')}")
    return words


def _weight(row: Mapping[str, Any]) -> float:
    """How many times its limit the worst of a link's troubles is; links that were down stand above all."""
    shares = [(row.get(name) or 0.0) / limit for name, limit in _NEWS.items()]
    return max([*shares, 1e9 if row.get("link_downed") else 0.0]) if _trouble(row) else 0.0


def _resolution(ms: float | None) -> str:
    if ms is None:
        return "polling interval not known"
    return (
        f"polled every {ms / 1_000:.3g} s"
        if ms >= 9_950
        else f"polled every {ms / 1_000:.2g} s"
        if ms >= 995
        else f"polled every {ms:.3g} ms"
    )


def _polled(lengths: list[float]) -> str:
    """Between which intervals the links drawn were polled.

    >>> _polled([20.0, 10.2]), _polled([5_000.0]), _polled([])
    ('polled every 10.2 ms to 20 ms', 'polled every 5 s', 'resolution not known')
    """
    if not lengths:
        return "resolution not known"
    low, high = _resolution(min(lengths)), _resolution(max(lengths))
    return low if low == high else f"{low} to {high.removeprefix('polled every ')}"


def link_use(frame: pl.DataFrame, mean_limits: tuple[float, float] = (0.60, 0.80), peak_limit: float = 0.95) -> Any:
    """Mean and peak use of each link against its limits.

    Parameters
    ----------
    frame
        Result of ``link_use_frame``; the first 32 are drawn.
    mean_limits, peak_limit
        Limits of the configuration, drawn as a band and a labelled rule.
    """
    shown = frame.filter(pl.col("utilization_mean").is_not_null() | pl.col("utilization_peak").is_not_null()).head(_LINKS_SHOWN)
    links = shown["link"].to_list()
    top = max([1.0, *shown["utilization_peak"].drop_nulls().to_list()])
    scale = alt.Scale(domain=[0, top], nice=False)
    base = alt.Chart(alt.InlineData(values=records(shown.select(*_USED, "link", "resolution", "words"))))
    y = alt.Y("link:N", title=None, sort=links, axis=alt.Axis(labelColor=INK, labelLimit=230))
    x = alt.X("utilization_mean:Q", title="used part of the link's speed", scale=scale, axis=alt.Axis(format=".0%", tickCount=6))
    tooltip = [
        alt.Tooltip("link:N", title="link"),
        alt.Tooltip("utilization_mean:Q", title="mean", format=".1%"),
        alt.Tooltip("utilization_peak:Q", title="peak", format=".1%"),
        alt.Tooltip("resolution:N", title="resolution"),
        alt.Tooltip("loss_ratio:Q", title="lost packets", format=".2~e"),
        alt.Tooltip("pause_ratio:Q", title="time paused", format=".1%"),
        alt.Tooltip("ecn_ratio:Q", title="packets marked", format=".2%"),
        alt.Tooltip("state:N", title="against it"),
    ]
    limits = alt.Chart(
        alt.InlineData(values=[{"low": mean_limits[0], "high": mean_limits[1], "peak": peak_limit, "text": f"peak limit {peak_limit:.0%}"}])
    )
    colours = [PART_COLOURS[name] for name in _STATE_PARTS]
    present = [state for state in _STATES if state in set(shown["state"])]
    colour = alt.Color(
        "state:N",
        title="against the link",
        scale=alt.Scale(domain=present, range=[colours[_STATES.index(state)] for state in present]),
        legend=None if present == ["none"] else alt.Legend(labelLimit=260),
    )
    told = base.transform_filter("datum.words != ''").mark_text(align="left", fontSize=11.5, color=INK)
    chart = alt.layer(
        limits.mark_rect(color=GRID, opacity=0.6).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        base.mark_bar(height={"band": 0.6}).encode(x=x, y=y, color=colour, tooltip=tooltip),
        base.mark_tick(thickness=3, size=18, color=INK).encode(x=alt.X("utilization_peak:Q", scale=scale), y=y, tooltip=tooltip),
        limits.mark_rule(color=RULE, strokeDash=[6, 4], strokeWidth=1.6).encode(x=alt.X("peak:Q", scale=scale)),
        limits.mark_text(color=RULE, fontWeight=600, align="right", baseline="bottom", dx=-4, dy=-3).encode(
            x=alt.X("peak:Q", scale=scale), y=alt.value(0), text="text:N"
        ),
        told.encode(x=alt.value(WIDTH - 290 + 8), y=y, text="words:N"),
    ).properties(width=WIDTH - 290, height=alt.Step(20))
    polled = _polled(shown["resolution_ms"].drop_nulls().to_list() if "resolution_ms" in shown.columns else [])
    of = "of the traced steps" if "window" in shown.columns and set(shown["window"].to_list()) == {"run"} else "of all samples"
    subtitle = [f"Bar: mean {of}, upright line: peak ({polled}; shorter bursts cannot be seen). Grey: band for means."]
    if "utilization_comm" in shown.columns and shown["utilization_comm"].is_not_null().any():
        subtitle.append("Findings judge the mean of the time in which the job communicates, which is higher.")
    if frame.height > shown.height:
        subtitle.append(f"{shown.height} of {frame.height:,} links: the worst, then the most used.")
    return titled(chart, "links", _title(frame), subtitle, f"Bars of {plural(shown.height, 'link')}.")


_USED = ("utilization_mean", "utilization_peak", "loss_ratio", "pause_ratio", "ecn_ratio", "state")


def _title(frame: pl.DataFrame) -> str:
    found = frame.filter(pl.col("localised") == "localised")
    if found.height:
        ports = [f"{device}/{port}" for device, port in found.select("device", "port").unique(maintain_order=True).rows()]
        return f"The evidence points at {ports[0]}" + (f" and {plural(len(ports) - 1, 'more port')}" if len(ports) > 1 else "")
    troubled = frame.filter(pl.col("state") == _STATES[2])
    if troubled.height:
        first = troubled.row(0, named=True)
        more = f", {plural(troubled.height - 1, 'more link')} with errors, loss, pause or marks" if troubled.height > 1 else ""
        return f"{first['link']} {first['words']}{more}; none is localised"
    busiest = frame.filter(pl.col("utilization_peak").is_not_null()).sort("utilization_peak", descending=True)
    if not busiest.height:
        return "The use of the links is not known: their speeds or times are missing"
    row = busiest.row(0, named=True)
    return f"No link is localised; the busiest, {row['link']}, peaks at {format_percent(row['utilization_peak'], 0)}"
