"""How well each device was counted: what a report says before any figure about links."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from netlab.attribute.link_scale import series_heads
from netlab.attribute.links import physical_ports
from netlab.schema.traffic import COUNTER_COVERAGE

__all__ = ["counter_coverage", "with_clocks"]

#: Kinds of counters that questions about a network need, and the metrics that answer.
_KINDS = {
    "bytes": ("bytes",),
    "packets": ("packets",),
    "errors": ("errors", "fcs_errors", "symbol_errors", "fec_uncorrected", "local_link_integrity_errors"),
    "discards": ("discards", "wred_drops", "out_of_buffer"),
    "link downs": ("link_downed", "carrier_changes"),
    "pause or credit wait": ("pause_us", "pause_frames", "pause_quanta", "xmit_wait"),
    "ECN marks": ("ecn_marked", "cnp_sent", "cnp_handled"),
}


def counter_coverage(counters: pl.DataFrame, intervals: pl.DataFrame, ports: pl.DataFrame) -> pl.DataFrame:
    """One row per device with counters.

    Parameters
    ----------
    counters, intervals, ports
        ``COUNTERS`` (aligned), ``LINK_INTERVALS`` and ``PORTS``.

    Returns
    -------
    ``COUNTER_COVERAGE``; the columns of the clock are null until ``with_clocks``.
    """
    series = _series(counters)
    if series.is_empty():
        return COUNTER_COVERAGE.empty()
    physical = physical_ports(ports, series.select("device", "port").unique())
    # Millions of rows are looked at by series: a table sorted by its key has each in one piece.
    heads = series_heads(intervals).join(physical, on=["device", "port"], how="semi", maintain_order="left")
    table = _ports(physical, ports)
    for part in (_times(series), _polls(intervals, heads), _flags(intervals, physical), _kinds(series, physical), _readings(series)):
        table = table.join(part, on="device", how="left")
    filled = table.with_columns(
        pl.col("gaps", "resets", "stale_polls", "single_readings").fill_null(0), pl.col("absent").fill_null(", ".join(_KINDS))
    )
    return COUNTER_COVERAGE.validate(COUNTER_COVERAGE.conform(filled))


def _series(counters: pl.DataFrame) -> pl.DataFrame:
    """Series of ports with their kind, first and last instant and whose clock stamped them."""
    heads = series_heads(counters)
    first, last = counters[heads["first"]], counters["ts_ns"].gather(heads["first"] + heads["rows"] - 1)
    # Samples without time stand first; then the first instant is not known, and the last is a good stand-in.
    begin = first["ts_ns"].fill_null(pl.Series(last))
    named = heads.with_columns(
        first["kind"].cast(pl.String), first["ts_source"].cast(pl.String), begin.alias("first_ns"), pl.Series("last_ns", last)
    )
    return named.filter(pl.col("port") != "")


def with_clocks(coverage: pl.DataFrame, clocks: Mapping[str, tuple[int, int, int]]) -> pl.DataFrame:
    """The coverage with the offset, and its low and high end, of each device whose clock was found (nanoseconds)."""
    rows = [(device, *(value / 1e6 for value in offsets)) for device, offsets in sorted(clocks.items())]
    names = ("clock_offset_ms", "clock_low_ms", "clock_high_ms")
    found = pl.DataFrame(rows, schema={"device": pl.String, **dict.fromkeys(names, pl.Float64)}, orient="row")
    return COUNTER_COVERAGE.conform(coverage.drop(names).join(found, on="device", how="left"))


def _ports(physical: pl.DataFrame, ports: pl.DataFrame) -> pl.DataFrame:
    known = physical.join(ports.select("device", "port", "speed_gbps", "peer_device"), on=["device", "port"], how="left")
    return known.group_by("device").agg(
        pl.len().cast(pl.Int32).alias("ports"),
        pl.col("speed_gbps").is_not_null().sum().cast(pl.Int32).alias("ports_with_speed"),
        pl.col("peer_device").is_not_null().sum().cast(pl.Int32).alias("ports_cabled"),
    )


def _times(series: pl.DataFrame) -> pl.DataFrame:
    return series.group_by("device").agg(
        pl.col("first_ns").min(), pl.col("last_ns").max(), pl.col("ts_source").filter(pl.col("last_ns").is_not_null()).first()
    )


def _polls(intervals: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
    """Lengths of polls, from the byte counters where there are any, and the share of intervals whose growth is unknown."""
    rows = []
    for (device,), part in heads.group_by("device", maintain_order=True):
        pieces = [intervals.slice(first, count) for first, count in part.select("first", "rows").iter_rows()]
        unknown = sum(piece["delta"].null_count() for piece in pieces)
        bytes_ = (part["metric"] == "bytes").to_list()
        chosen = [piece for piece, wanted in zip(pieces, bytes_, strict=True) if wanted] or pieces
        length = np.concatenate([(piece["t1_ns"] - piece["t0_ns"]).to_numpy() for piece in chosen]) / 1e6
        rows.append((device, float(np.median(length)), float(np.quantile(length, 0.95, method="lower")), unknown / int(part["rows"].sum())))
    schema = {"device": pl.String, **dict.fromkeys(("poll_ms", "poll_p95_ms", "unknown_share"), pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _flags(intervals: pl.DataFrame, physical: pl.DataFrame) -> pl.DataFrame:
    """Holes, resets and stale polls, each counted once per device and instant."""
    texts = [text for text in intervals["flags"].unique().cast(pl.String) if text]
    keys = physical.select(pl.col("device", "port").cast(pl.Categorical))
    odd = intervals.filter(pl.col("flags").is_in(texts)).join(keys, on=["device", "port"], how="semi")

    def carries(flag: str) -> pl.Expr:
        return pl.col("flags").is_in([text for text in texts if flag in text.split(",")])

    span = pl.col("t1_ns") - pl.col("t0_ns")
    holes = odd.filter(carries("gap")).unique(["device", "t0_ns", "t1_ns"]).with_columns(span.alias("span"))
    whole = intervals.lazy().group_by("device").agg((pl.col("t1_ns").max() - pl.col("t0_ns").min()).alias("whole")).collect()
    counted = odd.group_by("device").agg(
        pl.col("t1_ns").filter(carries("reset")).n_unique().alias("resets"),
        pl.col("t1_ns").filter(carries("stale_repeat")).n_unique().alias("stale_polls"),
    )
    gaps = holes.group_by("device").agg(pl.len().cast(pl.Int64).alias("gaps"), pl.col("span").sum())
    table = whole.join(gaps, on="device", how="left").join(counted, on="device", how="left")
    share = (pl.col("span").fill_null(0) / pl.col("whole")).clip(0, 1).alias("gap_share")
    return table.select(pl.col("device").cast(pl.String), "gaps", share, pl.col("resets", "stale_polls").cast(pl.Int64))


def _kinds(series: pl.DataFrame, physical: pl.DataFrame) -> pl.DataFrame:
    metrics = series.select("device", "port", "metric").unique().join(physical, on=["device", "port"], how="semi")
    rows = []
    for (device,), part in metrics.group_by("device", maintain_order=True):
        present = set(part["metric"])
        rows.append((device, ", ".join(kind for kind, names in _KINDS.items() if not present & set(names))))
    return pl.DataFrame(rows, schema={"device": pl.String, "absent": pl.String}, orient="row")


def _readings(series: pl.DataFrame) -> pl.DataFrame:
    """Counters with fewer than two instants."""
    once = pl.col("last_ns").is_null() | (pl.col("first_ns") == pl.col("last_ns"))
    counted = series.filter(pl.col("kind") == "counter")
    return counted.group_by("device").agg(once.sum().cast(pl.Int64).alias("single_readings"))
