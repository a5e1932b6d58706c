"""How well each device was counted: what a report says before any figure about links."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

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
    counted = counters.filter(pl.col("port") != "")
    if counted.is_empty():
        return COUNTER_COVERAGE.empty()
    physical = physical_ports(ports, counted.select("device", "port").unique())
    table = _ports(physical, ports)
    for part in (_times(counted), _polls(intervals, physical), _flags(intervals, physical), _kinds(counted, physical), _readings(counted)):
        table = table.join(part, on="device", how="left")
    filled = table.with_columns(
        pl.col("gaps", "resets", "stale_polls", "single_readings").fill_null(0), pl.col("absent").fill_null(", ".join(_KINDS))
    )
    return COUNTER_COVERAGE.validate(COUNTER_COVERAGE.conform(filled))


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


def _times(counted: pl.DataFrame) -> pl.DataFrame:
    return (
        counted.group_by("device")
        .agg(
            pl.col("ts_ns").min().alias("first_ns"),
            pl.col("ts_ns").max().alias("last_ns"),
            pl.col("ts_source").filter(pl.col("ts_ns").is_not_null()).first().alias("ts_source"),
        )
        .with_columns(pl.col("device", "ts_source").cast(pl.String))
    )


def _of(intervals: pl.DataFrame, physical: pl.DataFrame) -> pl.DataFrame:
    """Intervals of physical ports whose growth could be of use, one series of polls each."""
    keys = physical.select(pl.col("device", "port").cast(pl.Categorical))
    return intervals.select("device", "port", "metric", "t0_ns", "t1_ns", "delta", "flags").join(keys, on=["device", "port"], how="semi")


def _polls(intervals: pl.DataFrame, physical: pl.DataFrame) -> pl.DataFrame:
    length = pl.col("t1_ns") - pl.col("t0_ns")
    grouped = (
        _of(intervals, physical)
        .group_by("device")
        .agg(
            (length.median() / 1e6).alias("poll_ms"),
            (length.quantile(0.95, "lower") / 1e6).alias("poll_p95_ms"),
            pl.col("delta").is_null().mean().alias("unknown_share"),
        )
    )
    return grouped.with_columns(pl.col("device").cast(pl.String))


def _flags(intervals: pl.DataFrame, physical: pl.DataFrame) -> pl.DataFrame:
    """Holes, resets and stale polls, each counted once per device and instant."""
    texts = [text for text in intervals["flags"].unique().cast(pl.String) if text]
    odd = _of(intervals.filter(pl.col("flags").is_in(texts)), physical)

    def carries(flag: str) -> pl.Expr:
        return pl.col("flags").is_in([text for text in texts if flag in text.split(",")])

    span = pl.col("t1_ns") - pl.col("t0_ns")
    holes = odd.filter(carries("gap")).unique(["device", "t0_ns", "t1_ns"]).with_columns(span.alias("span"))
    whole = intervals.group_by("device").agg((pl.col("t1_ns").max() - pl.col("t0_ns").min()).alias("whole"))
    counted = odd.group_by("device").agg(
        pl.col("t1_ns").filter(carries("reset")).n_unique().alias("resets"),
        pl.col("t1_ns").filter(carries("stale_repeat")).n_unique().alias("stale_polls"),
    )
    gaps = holes.group_by("device").agg(pl.len().cast(pl.Int64).alias("gaps"), pl.col("span").sum())
    table = whole.join(gaps, on="device", how="left").join(counted, on="device", how="left")
    share = (pl.col("span").fill_null(0) / pl.col("whole")).clip(0, 1).alias("gap_share")
    return table.select(pl.col("device").cast(pl.String), "gaps", share, pl.col("resets", "stale_polls").cast(pl.Int64))


def _kinds(counted: pl.DataFrame, physical: pl.DataFrame) -> pl.DataFrame:
    metrics = counted.select(pl.col("device", "port", "metric").cast(pl.String)).unique().join(physical, on=["device", "port"], how="semi")
    rows = []
    for (device,), part in metrics.group_by("device", maintain_order=True):
        present = set(part["metric"])
        rows.append((device, ", ".join(kind for kind, names in _KINDS.items() if not present & set(names))))
    return pl.DataFrame(rows, schema={"device": pl.String, "absent": pl.String}, orient="row")


def _readings(counted: pl.DataFrame) -> pl.DataFrame:
    """Counters with fewer than two instants."""
    series = (
        counted.filter(pl.col("kind") == "counter")
        .group_by("device", "port", "queue", "direction", "metric")
        .agg(pl.col("ts_ns").n_unique())
    )
    grouped = series.group_by("device").agg((pl.col("ts_ns") < 2).sum().cast(pl.Int64).alias("single_readings"))
    return grouped.with_columns(pl.col("device").cast(pl.String))
