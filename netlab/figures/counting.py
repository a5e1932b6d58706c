"""How links were counted, what runs in which class, and bytes against collectives: frames in words, and the chart of classes."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.theme import INK, LAYER_COLOURS, MUTED, PART_COLOURS, WIDTH, titled
from netlab.units import format_percent, plural

__all__ = [
    "class_shares",
    "class_shares_frame",
    "course_frame",
    "course_title",
    "coverage_frame",
    "coverage_title",
    "traffic_frame",
    "traffic_title",
]

_PORTS_SHOWN = 32
_COLOURS = (*PART_COLOURS.values(), LAYER_COLOURS["unplaced"])


def _seconds(ms: float | None) -> str:
    """A length of time as people say it.

    >>> _seconds(99.86), _seconds(10_000.0), _seconds(125_000.0)
    ('0.1 s', '10 s', '125 s')
    """
    if ms is None:
        return "–"
    return f"{ms / 1_000:.0f} s" if ms >= 9_950 else f"{ms / 1_000:.2g} s" if ms >= 9.95 else f"{ms:.2g} ms"


def coverage_frame(coverage: pl.DataFrame) -> pl.DataFrame:
    """``COUNTER_COVERAGE`` in words, the devices with most doubts first."""
    doubts = pl.col("gaps") + pl.col("resets") + pl.col("stale_polls") + (pl.col("ports") - pl.col("ports_with_speed"))
    rows = []
    for row in coverage.sort(doubts, "device", descending=[True, False]).iter_rows(named=True):
        single = row["poll_ms"] is None
        longer = row["poll_p95_ms"] is not None and row["poll_ms"] is not None and row["poll_p95_ms"] > 1.2 * row["poll_ms"]
        late = f" (one in 20 above {_seconds(row['poll_p95_ms'])})" if longer else ""
        clock = (
            "not compared"
            if row["clock_offset_ms"] is None
            else f"{row['clock_offset_ms']:+.3g} ms ({row['clock_low_ms']:.3g} to {row['clock_high_ms']:.3g})"
        )
        odd = [
            f"{row[name]:,} {word}"
            for name, word in (("resets", "resets"), ("stale_polls", "stale polls"), ("single_readings", "counters read once"))
            if row[name]
        ]
        rows.append(
            {
                "device": row["device"],
                "ports": row["ports"],
                "speed": row["ports_with_speed"],
                "cable": row["ports_cabled"],
                "poll": "read once" if single else f"{_seconds(row['poll_ms'])}{late}",
                "gaps": "–"
                if single
                else "none"
                if not row["gaps"]
                else f"{row['gaps']:,} ({format_percent(row['gap_share'] or 0, 0)} of the time)",
                "doubts": ", ".join(odd) or "none",
                "clock": clock,
                "absent": row["absent"] or "none",
            }
        )
    return pl.DataFrame(
        rows, schema=dict.fromkeys(("device", "ports", "speed", "cable", "poll", "gaps", "doubts", "clock", "absent"), None)
    )


def coverage_title(coverage: pl.DataFrame) -> str:
    """One sentence on how well all devices were counted."""
    polls = coverage["poll_ms"].drop_nulls()
    ports, speed, cabled = (int(coverage[name].sum()) for name in ("ports", "ports_with_speed", "ports_cabled"))
    if len(polls):
        low, high = _seconds(float(polls.min())), _seconds(float(polls.max()))  # type: ignore[arg-type]
        every = f"polled every {low}" + (f" to {high}" if low != high else "")
    else:
        every = "read once, so that no rate is known"
    gaps = int(coverage["gaps"].sum())
    lacking = [f"{ports - known:,} without a known {what}" for known, what in ((speed, "speed"), (cabled, "cable")) if known < ports]
    absent = set.intersection(*(set(text.split(", ")) for text in coverage["absent"])) - {""}
    parts = [f"{plural(ports, 'port')} of {plural(coverage.height, 'device')}, {every}"]
    parts.append(plural(gaps, "gap") if gaps else "no gaps" if len(polls) else "")
    parts += lacking
    if absent:
        parts.append(f"nobody counts {', '.join(sorted(absent))}")
    return "; ".join(part for part in parts if part)


def traffic_frame(hosts: pl.DataFrame) -> pl.DataFrame:
    """``HOST_TRAFFIC`` with gigabytes and the ratio to what is expected at most, the farthest off first."""
    ratio = pl.col("counted_bytes") / pl.col("expected_high_bytes")
    return (
        hosts.filter(pl.col("expected_high_bytes") > 0)
        .with_columns(
            ratio.alias("ratio"),
            (pl.col("counted_bytes") / 1e9).alias("counted_gb"),
            (pl.col("expected_low_bytes") / 1e9).alias("low_gb"),
            (pl.col("expected_high_bytes") / 1e9).alias("high_gb"),
        )
        .sort((ratio - 1).abs(), "host", descending=[True, False])
    )


def traffic_title(frame: pl.DataFrame) -> str:
    """How far counted bytes are from those of the collectives."""
    low, high = float(frame["ratio"].min()), float(frame["ratio"].max())  # type: ignore[arg-type]
    between = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
    return f"Network ports of {plural(frame.height, 'host')} sent {between} times the bytes that the traced collectives need at most"


def course_frame(traffic: pl.DataFrame) -> pl.DataFrame:
    """``LINK_TRAFFIC`` by link, the most uneven first."""
    return traffic.with_columns(pl.format("{}/{} {}", "device", "port", "direction").alias("link")).sort(
        "anomalies", pl.col("peak_to_mean").fill_null(0), "link", descending=[True, True, False]
    )


def course_title(frame: pl.DataFrame) -> str:
    """Whether the traffic repeats, and after what time, beside the step."""
    poll, step = float(frame["poll_ms"].median()), frame["step_ms"].median()  # type: ignore[arg-type]
    periods = frame["period_ms"].drop_nulls()
    beside = "" if step is None else f"; a step takes {_seconds(float(step))}"  # type: ignore[arg-type]
    if len(periods) * 4 >= frame.height:
        return (
            f"The traffic of {len(periods):,} of {plural(frame.height, 'link')} repeats every {_seconds(float(periods.median()))}{beside}"  # type: ignore[arg-type]
        )
    blind = " (polls are too far apart to see steps)" if step is not None and float(step) < 2 * poll else ""  # type: ignore[arg-type]
    return f"No period of the traffic shows in polls of {_seconds(poll)}{beside}{blind}"


def class_shares_frame(queues: pl.DataFrame) -> pl.DataFrame:
    """Classes of each port that carry bytes, ports with drops or full queues first, then by bytes."""
    carried = queues.filter(pl.col("share").is_not_null() & (pl.col("share") > 0))
    port = ("device", "port", "direction")
    return carried.with_columns(
        pl.format("{}/{} {}", *port).alias("link"),
        pl.col("discards").fill_null(0).sum().over(port).alias("lost"),
        pl.col("bytes").sum().over(port).alias("carried"),
    ).sort("lost", "carried", "link", "queue", descending=[True, True, False, False])


def class_shares(frame: pl.DataFrame) -> Any:
    """Bytes of each port by queue or class, stacked to the whole.

    Parameters
    ----------
    frame
        Result of ``class_shares_frame``; the first 32 links are drawn.
    """
    links = frame["link"].unique(maintain_order=True).to_list()[:_PORTS_SHOWN]
    shown = frame.filter(pl.col("link").is_in(links))
    queues = shown.group_by("queue").agg(pl.col("bytes").sum()).sort("bytes", "queue", descending=[True, False])["queue"].to_list()
    colours = [_COLOURS[number % len(_COLOURS)] for number in range(len(queues))]
    base = alt.Chart(
        alt.InlineData(
            values=records(shown.select("link", "queue", "share", "bytes", "discards", "loss_ratio", "ecn_ratio", "watermark_us"))
        )
    )
    chart = base.mark_bar(height={"band": 0.66}).encode(
        x=alt.X(
            "share:Q", title="share of the bytes", scale=alt.Scale(domain=[0, 1], nice=False), axis=alt.Axis(format=".0%", tickCount=6)
        ),
        y=alt.Y("link:N", title=None, sort=links, axis=alt.Axis(labelColor=INK, labelLimit=230)),
        color=alt.Color("queue:N", title="queue", scale=alt.Scale(domain=queues, range=colours), legend=alt.Legend(labelColor=MUTED)),
        order=alt.Order("queue:N"),
        tooltip=[
            alt.Tooltip("link:N", title="link"),
            alt.Tooltip("queue:N", title="queue"),
            alt.Tooltip("share:Q", title="share", format=".2%"),
            alt.Tooltip("discards:Q", title="discarded packets", format=","),
            alt.Tooltip("ecn_ratio:Q", title="marked", format=".2%"),
            alt.Tooltip("watermark_us:Q", title="watermark (us)", format=".3~g"),
        ],
    )
    chart = chart.properties(width=WIDTH - 290, height=alt.Step(20))
    total = shown.group_by("queue").agg(pl.col("bytes").sum()).sort("bytes", descending=True)
    first = total.row(0, named=True)
    share = first["bytes"] / float(total["bytes"].sum())
    subtitle = ["Bytes by queue, priority or traffic class; ports that dropped packets first."]
    if frame["link"].n_unique() > len(links):
        subtitle.append(f"{len(links)} of {frame['link'].n_unique():,} links.")
    return titled(
        chart,
        "link-classes",
        f"Queue {first['queue']} carries {format_percent(share, 0)} of the bytes",
        subtitle,
        f"Stacked bars of {plural(len(links), 'link')}.",
    )
