"""Frames of links over time on the axis of the steps: their use, what was counted against them, steps and collectives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from netlab.attribute.links import ERROR_METRICS
from netlab.intervals import union
from netlab.units import NS_PER_S

__all__ = ["collective_band_frame", "link_use_over_time_frame", "step_band_frame"]

_LINKS_SHOWN = 32
_BINS, _FINE_BINS = 120, 360
#: What is drawn as a red mark. Marks of congestion (ECN, credit waits) come with any full link and are left out.
_AGAINST = (*ERROR_METRICS, "link_downed", "carrier_changes", "discards", "wred_drops", "pause_us", "pause_frames")
_CELLS = {"link": pl.String, "t0_s": pl.Float64, "t1_s": pl.Float64, "utilization": pl.Float64, "mean": pl.Float64, "against": pl.String}


def step_band_frame(steps: pl.DataFrame, breakdown: pl.DataFrame) -> pl.DataFrame:
    """Steps on the axis of the links, with the mean of their ranks' exposed communication.

    Parameters
    ----------
    steps
        ``STEPS``; only complete ones are drawn.
    breakdown
        ``BREAKDOWN``.

    Returns
    -------
    Columns ``step``, ``t0_s`` and ``t1_s`` (since the start of the first step), ``exposed_ms`` and ``share`` of the step; by time.
    """
    whole = steps.filter(pl.col("complete"))
    spans = whole.group_by("window", "step").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    means = breakdown.group_by("window", "step").agg(pl.col("exposed_comm_ns").mean().alias("comm"), pl.col("step_ns").mean().alias("all"))
    origin = pl.col("start_ns").min()
    return (
        spans.join(means, on=["window", "step"], how="left")
        .sort("start_ns")
        .select(
            "step",
            ((pl.col("start_ns") - origin) / NS_PER_S).alias("t0_s"),
            ((pl.col("end_ns") - origin) / NS_PER_S).alias("t1_s"),
            (pl.col("comm") / 1e6).alias("exposed_ms"),
            (pl.col("comm") / pl.col("all")).alias("share"),
        )
    )


def collective_band_frame(collectives: pl.DataFrame, start_ns: int, end_ns: int) -> pl.DataFrame:
    """How much of each moment has a collective under way on any rank.

    Parameters
    ----------
    collectives
        ``COLLECTIVES`` or any frame with ``start_ns`` and ``end_ns``.
    start_ns, end_ns
        Window, whose start is the origin.

    Returns
    -------
    Columns ``t0_s``, ``t1_s`` and ``share``, at most 360 rows; neighbours of one share are one row.
    """
    empty = pl.DataFrame(schema={"t0_s": pl.Float64, "t1_s": pl.Float64, "share": pl.Float64})
    start, end = union(collectives["start_ns"].to_numpy(), collectives["end_ns"].to_numpy())
    if not len(start) or end_ns <= start_ns:
        return empty
    edges = np.linspace(start_ns, end_ns, _FINE_BINS + 1)
    at = np.column_stack((start, end)).ravel().astype(np.float64)
    total = np.concatenate(([0.0], np.cumsum(np.where(np.arange(1, len(at)) % 2 == 1, np.diff(at), 0.0))))
    share = np.round(np.diff(np.interp(edges, at, total)) / np.diff(edges), 2)
    first = np.flatnonzero(np.append(True, share[1:] != share[:-1]))
    borders = (edges - start_ns) / NS_PER_S
    last = np.append(first[1:], len(share))
    return pl.DataFrame({"t0_s": borders[first], "t1_s": borders[last], "share": share[first]}).filter(pl.col("share") > 0)


def link_use_over_time_frame(
    intervals: pl.DataFrame, start_ns: int | None = None, end_ns: int | None = None, first: Sequence[str] = ()
) -> pl.DataFrame:
    """Use of links in at most 120 bins of time, and what was counted against them.

    Parameters
    ----------
    intervals
        ``LINK_INTERVALS``; those of ``bytes`` with a known utilisation count; one over a gap for the mean alone.
    start_ns, end_ns
        Window, whose start is the origin; by default that of the samples.
    first
        Links (``device/port direction``) that are drawn before the busiest, in this order.

    Returns
    -------
    Columns ``link``, ``t0_s``, ``t1_s`` (from the window's start), ``utilization`` (highest of the bin, null where bytes have no sample),
    ``mean`` (of the link over the window, weighted by time, the same in all its rows) and ``against`` (errors, losses and pause counted in
    the bin, or null); 32 links.
    """
    used = intervals.filter((pl.col("metric") == "bytes") & pl.col("utilization").is_not_null())
    used = used.with_columns(pl.col("device", "port", "direction", "flags").cast(pl.String))
    used = used.with_columns(pl.format("{}/{} {}", "device", "port", "direction").alias("link"))
    if not used.height:
        return pl.DataFrame(schema=_CELLS)
    begin, end = start_ns, end_ns
    if begin is None or end is None:
        begin, end = int(used["t0_ns"].min()), int(used["t1_ns"].max())  # type: ignore[arg-type]
    means = _means(used, begin, end)
    middle = (pl.col("t0_ns") + pl.col("t1_ns")) // 2
    inside = used.filter((middle >= begin) & (middle < end) & ~pl.col("flags").str.contains("gap"))
    if not inside.height:
        return pl.DataFrame(schema=_CELLS)
    named = pl.DataFrame({"link": list(first), "place": range(len(first))}, schema={"link": pl.String, "place": pl.Int64})
    peaks = inside.group_by("link").agg(pl.col("utilization").max()).join(named, on="link", how="left")
    best = peaks.sort("place", "utilization", "link", descending=[False, True, False], nulls_last=True)["link"].head(_LINKS_SHOWN)
    inside = inside.filter(pl.col("link").is_in(best.implode()))
    typical = float(inside.select((pl.col("t1_ns") - pl.col("t0_ns")).median()).item())
    width = max(typical, (end - begin) / _BINS)
    number = ((middle - begin) / width).floor().cast(pl.Int64).alias("bin")
    cells = inside.group_by("link", number).agg(pl.col("utilization").max())
    # What was counted in a moment without a sample of bytes counts, too.
    cells = cells.join(_against(intervals, inside, number, begin, end), on=["link", "bin"], how="full", coalesce=True)
    cells = cells.join(means, on="link", how="left")
    order = pl.DataFrame({"link": best, "order": range(len(best))})
    return (
        cells.join(order, on="link", how="left")
        .sort("order", "bin")
        .select(
            "link",
            (pl.col("bin") * width / NS_PER_S).alias("t0_s"),
            ((pl.col("bin") + 1) * width / NS_PER_S).clip(upper_bound=(end - begin) / NS_PER_S).alias("t1_s"),
            "utilization",
            "mean",
            "against",
        )
    )


def _means(used: pl.DataFrame, begin: int, end: int) -> pl.DataFrame:
    """Mean use over the window, each interval weighted by its time in it: the figure of the ``links`` table."""
    overlap = (pl.min_horizontal("t1_ns", pl.lit(end)) - pl.max_horizontal("t0_ns", pl.lit(begin))).alias("inside")
    weighed = used.with_columns(overlap).filter(pl.col("inside") > 0)
    mean = (pl.col("utilization") * pl.col("inside")).sum() / pl.col("inside").sum()
    return weighed.group_by("link").agg(mean.alias("mean"))


def _against(intervals: pl.DataFrame, inside: pl.DataFrame, number: pl.Expr, begin: int, end: int) -> pl.DataFrame:
    """Text per link and bin of what its port counted; a counter without a direction speaks against both."""
    ports = inside.select("device", "port", "link", "direction").unique()
    grown = intervals.filter(
        pl.col("metric").is_in(_AGAINST) & (pl.col("delta") > 0) & (pl.col("t0_ns") >= begin) & (pl.col("t1_ns") <= end)
    )
    grown = grown.select(
        "t0_ns", "t1_ns", "delta", pl.col("device", "port", "metric").cast(pl.String), way=pl.col("direction").cast(pl.String)
    )
    joined = grown.join(ports, on=["device", "port"]).filter((pl.col("way") == "none") | (pl.col("way") == pl.col("direction")))
    counts = joined.group_by("link", number, "metric").agg(pl.col("delta").sum()).sort("link", "bin", "metric")
    text = pl.format("{} {}", "delta", pl.col("metric").str.replace_all("_", " "))
    return counts.group_by("link", "bin", maintain_order=True).agg(text.str.join(", ").alias("against"))
