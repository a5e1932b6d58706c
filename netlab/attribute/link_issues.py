"""What the intervals say about the quality of the counters, one sentence per device and kind."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl

from netlab.attribute.link_resets import Resets
from netlab.issues import Issue
from netlab.units import NS_PER_MS, format_ms

__all__ = ["interval_issues", "single_instants"]

_TWIN = r"^if(?:In|Out)[A-Z]"
_CLOCK_WORDS = {
    "uptime_ticks": "its uptime fell as well: it restarted",
    "boot_time_s": "its boot time changed: it restarted",
    "last_clear_ns": "its counters were cleared",
    "discontinuity_ticks": "it reports a discontinuity",
}


def interval_issues(intervals: pl.DataFrame, resets: Resets) -> list[Issue]:
    """Issues of a ``link_intervals`` table: resets, wraps, gaps, saturation, merged polls, and rates beyond the line's."""
    texts = [text for text in intervals["flags"].unique().cast(pl.String) if text]
    issues: list[Issue] = []
    for flag, make in (
        ("reset", _reset),
        ("wrap", _wrap),
        ("wrap_ambiguous", _ambiguous),
        ("gap", _gap),
        ("saturated", _saturated),
        ("stale_repeat", _stale),
        ("above_line_rate", _fast),
    ):
        carriers = [text for text in texts if flag in text.split(",")]
        if not carriers:
            continue
        rows = intervals.filter(pl.col("flags").is_in(carriers)).with_columns(
            pl.col("device", "port", "queue", "direction", "metric").cast(pl.String)
        )
        if flag in ("reset", "wrap", "wrap_ambiguous"):
            # A narrow twin under its own name stands beside the wide counter that is used: its wraps are no news.
            rows = rows.filter(~pl.col("metric").str.contains(_TWIN))
        for (device,), part in rows.sort("device", "t0_ns", "port", "metric", maintain_order=True).group_by("device", maintain_order=True):
            issues.append(make(str(device), part, resets))
    return issues


def _where(part: pl.DataFrame) -> str:
    """Ports and metrics concerned, at most four."""
    names = part.select(pl.concat_str("port", pl.lit(" "), "metric")).to_series().unique(maintain_order=True).to_list()
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _at(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _reset(device: str, part: pl.DataFrame, resets: Resets) -> Issue:
    clock = resets.clock(device)
    why = _CLOCK_WORDS[clock] if clock else "cleared, or the device or its agent restarted"
    message = (
        f"{device}: counters were reset between {_at(part['t0_ns'][0])} and {_at(part['t1_ns'][0])} ({_where(part)}; {why}); "
        f"growth in {part.height} intervals is unknown."
    )
    return Issue(code="COUNTER_RESET", message=message)


def _wrap(device: str, part: pl.DataFrame, _: Resets) -> Issue:
    message = (
        f"{device}: narrow counters wrapped around {part.height} times ({_where(part)}); only one wrap was possible, so the "
        "growth is known. Poll the 64-bit counters instead."
    )
    return Issue(code="COUNTER_WRAP", severity="info", message=message)


def _ambiguous(device: str, part: pl.DataFrame, _: Resets) -> Issue:
    message = (
        f"{device}: {part.height} intervals of narrow counters may have wrapped unseen ({_where(part)}); their growth is "
        "unknown. Poll the 64-bit counters (ifHC...), or give the ports' speed in ports.csv."
    )
    return Issue(code="COUNTER_WRAP", message=message)


def _gap(device: str, part: pl.DataFrame, _: Resets) -> Issue:
    holes = part.select("t0_ns", "t1_ns").unique(maintain_order=True)
    longest = format_ms(float((holes["t1_ns"] - holes["t0_ns"]).max() or 0) / NS_PER_MS)  # type: ignore[arg-type]
    message = (
        f"{device}: {holes.height} gap{'s' if holes.height > 1 else ''} in the samples, the longest of {longest} from "
        f"{_at(int(holes['t0_ns'][0]))} on ({_where(part)}); the mean over a gap is known, a peak in it is not."
    )
    return Issue(code="COUNTER_GAP", message=message)


def _saturated(device: str, part: pl.DataFrame, _: Resets) -> Issue:
    message = (
        f"{device}: counters stand at their largest value ({_where(part)}); their growth is unknown. Clear them, or poll the "
        "extended counters."
    )
    return Issue(code="COUNTER_SATURATED", message=message)


def _stale(device: str, part: pl.DataFrame, _: Resets) -> Issue:
    times = part["t1_ns"].n_unique()
    message = (
        f"{device}: {times} poll{'s' if times > 1 else ''} answered with old values (a missed scrape, or a grid finer than the scrapes); "
        "the growth is counted in the next interval."
    )
    return Issue(code="STALE_REPEAT", severity="info", message=message)


def _fast(device: str, part: pl.DataFrame, _: Resets) -> Issue:
    message = (
        f"{device}: {_where(part)} grow faster than the ports' speed allows in most intervals; no utilisation is given. Check "
        "speed_gbps in ports.csv and the counter's unit."
    )
    return Issue(code="ABOVE_LINE_RATE", message=message)


def single_instants(counters: pl.DataFrame) -> list[Issue]:
    """Devices all of whose timed samples are of one instant: totals, from which no rate follows."""
    spans = counters.lazy().group_by("device").agg(pl.col("ts_ns").min().alias("first"), pl.col("ts_ns").max().alias("last")).collect()
    names = spans.filter(pl.col("first") == pl.col("last"))["device"].cast(pl.String).sort().to_list()
    if not names:
        return []
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    message = (
        f"Counters of {shown} were read at one instant only: totals since they were last cleared, from which no rate "
        "follows. Record them again."
    )
    return [Issue(code="SNAPSHOT_ONLY", severity="info", message=message)]
