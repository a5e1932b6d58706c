"""Whether counters are in the unit that they claim: both ends of a cable must agree, and packets must have a possible size."""

from __future__ import annotations

import numpy as np
import polars as pl

from netlab.issues import Issue

__all__ = ["scale_issues", "series_heads"]

_SERIES = ("device", "port", "queue", "direction", "metric")
#: Smallest and largest mean size of packets on a wire: 64-byte Ethernet and InfiniBand frames, jumbo frames with their headers.
_LEAST_BYTES, _MOST_BYTES = 20.0, 9_300.0
#: Ends of a cable differ by headers and by when they are polled; beyond this over a minute, unit or cabling is wrong.
_TOLERANCE, _FEWEST_S, _FEWEST_BYTES = 0.05, 60.0, 1e7
_MOST_ISSUES = 5


def series_heads(intervals: pl.DataFrame) -> pl.DataFrame:
    """One row per series of a sorted table: its names as text, its first row and its number of rows."""
    if intervals.is_empty():
        return pl.DataFrame(schema={**dict.fromkeys(_SERIES, pl.String), "first": pl.Int64, "rows": pl.Int64})
    new = np.ones(len(intervals), np.bool_)
    new[1:] = False
    for name in _SERIES:
        codes = intervals[name].to_physical().fill_null(2**32 - 1).to_numpy()
        new[1:] |= codes[1:] != codes[:-1]
    first = np.flatnonzero(new)
    names = intervals.select(_SERIES)[first].with_columns(pl.all().cast(pl.String))
    return names.with_columns(pl.Series("first", first), pl.Series("rows", np.diff(np.append(first, len(intervals)))))


def scale_issues(intervals: pl.DataFrame, ports: pl.DataFrame) -> list[Issue]:
    """Doubts about units: the ends of a cable differ (by four: words instead of bytes), or packets of impossible size."""
    heads = series_heads(intervals).filter(
        pl.col("metric").is_in(("bytes", "packets")) & pl.col("queue").is_null() & (pl.col("direction") != "none")
    )
    totals: dict[tuple[str, str, str, str], tuple[float, float]] = {}
    for head in heads.iter_rows(named=True):
        piece = intervals.slice(head["first"], head["rows"]).drop_nulls("delta")
        seconds = float((piece["t1_ns"] - piece["t0_ns"]).sum()) / 1e9
        totals[head["device"], head["port"], head["direction"], head["metric"]] = (float(piece["delta"].sum()), seconds)
    return [*_sizes(totals), *_ends(totals, ports)]


def _sizes(totals: dict[tuple[str, str, str, str], tuple[float, float]]) -> list[Issue]:
    issues = []
    for (device, port, direction, metric), (packets, _) in totals.items():
        size = totals.get((device, port, direction, "bytes"), (0.0, 0.0))[0]
        if metric != "packets" or packets < 1000 or not size or _LEAST_BYTES <= size / packets <= _MOST_BYTES:
            continue
        message = (
            f"{device}/{port}: {direction} packets of {size / packets:.4g} bytes on average are impossible; check the unit of its bytes."
        )
        issues.append(Issue(code="SCALE_MISMATCH", message=message))
    return _first(issues)


def _ends(totals: dict[tuple[str, str, str, str], tuple[float, float]], ports: pl.DataFrame) -> list[Issue]:
    issues = []
    cabled = ports.filter(pl.col("peer_device").is_not_null() & pl.col("peer_port").is_not_null())
    for device, port, peer_device, peer_port in cabled.select("device", "port", "peer_device", "peer_port").iter_rows():
        sent, received = totals.get((device, port, "tx", "bytes")), totals.get((peer_device, peer_port, "rx", "bytes"))
        if sent is None or received is None or min(sent[1], received[1]) < _FEWEST_S or max(sent[0], received[0]) < _FEWEST_BYTES:
            continue
        rates = sent[0] / sent[1], received[0] / received[1]
        ratio = max(rates) / min(rates) if min(rates) > 0 else float("inf")
        if ratio <= 1 + _TOLERANCE or abs(sent[1] - received[1]) > _TOLERANCE * sent[1]:
            continue
        words = abs(ratio - 4) < 4 * _TOLERANCE
        why = "one of them counts 4-byte words" if words else "the cable is another one, a unit is wrong, or samples are missing"
        message = (
            f"{device}/{port} sends {rates[0]:.4g} bytes/s, {peer_device}/{peer_port} at the other end receives {rates[1]:.4g}, "
            f"{ratio:.3g} times {'less' if rates[1] < rates[0] else 'more'}: {why}."
        )
        issues.append(Issue(code="SCALE_MISMATCH", message=message))
    return _first(issues)


def _first(issues: list[Issue]) -> list[Issue]:
    """The first few, and how many more there are."""
    if len(issues) <= _MOST_ISSUES:
        return issues
    rest = Issue(code="SCALE_MISMATCH", message=f"{len(issues) - _MOST_ISSUES} more ports disagree in the same ways.")
    return [*issues[:_MOST_ISSUES], rest]
