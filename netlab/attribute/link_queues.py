"""Queues, priorities and traffic classes of ports: who carries what, how full they were."""

from __future__ import annotations

import polars as pl

from netlab.attribute.link_scale import series_heads
from netlab.schema.traffic import LINK_QUEUES

__all__ = ["link_queues"]

_KEYS = ("device", "port", "direction", "queue")
#: Rings of a driver (bnxt, ena and others number them like this) spread one port's packets over CPUs; they are no classes.
_RINGS = r"^\[\d+\]:|^queue_\d+_[rt]x|^[rt]x_?queue_?\d+|^[rt]x\d+_"
_COUNTED = ("bytes", "packets", "discards", "wred_drops", "ecn_marked", "pause_us", "pause_frames")


def link_queues(
    counters: pl.DataFrame, intervals: pl.DataFrame, ports: pl.DataFrame, window: tuple[int, int] | None = None
) -> pl.DataFrame:
    """One row per queue of each port and direction.

    Parameters
    ----------
    counters
        ``COUNTERS``, aligned: watermarks, and which queues are rings of a driver.
    intervals
        ``LINK_INTERVALS``.
    ports
        ``PORTS``; reads ``speed_gbps``.
    window
        Nanoseconds; an interval that a border cuts counts by its share. None: all samples.

    Returns
    -------
    ``LINK_QUEUES``. ``share`` is of the bytes of all queues that count bytes in that direction of the port.
    """
    if counters["queue"].null_count() == counters.height:
        return LINK_QUEUES.empty()
    queued = counters.filter(pl.col("queue").is_not_null())
    names = queued.select(*_KEYS, "raw_name").unique().with_columns(pl.all().cast(pl.String))
    classes = names.filter(~pl.col("raw_name").str.contains(_RINGS)).select(_KEYS).unique()
    table = classes.join(_growth(intervals, window), on=list(_KEYS), how="left").join(
        _watermarks(queued, window), on=list(_KEYS), how="left"
    )
    table = table.join(ports.select("device", "port", "speed_gbps"), on=["device", "port"], how="left")
    total = pl.col("bytes").sum().over("device", "port", "direction")
    lost = pl.col("discards").fill_null(0)
    return LINK_QUEUES.validate(
        LINK_QUEUES.conform(
            table.with_columns(
                pl.col("queue").str.extract(r"(\d+)$").cast(pl.Int32, strict=False).alias("traffic_class"),
                pl.when(total > 0).then(pl.col("bytes") / total).alias("share"),
                pl.when(pl.col("discards").is_not_null() & (pl.col("packets") + lost > 0))
                .then(lost / (pl.col("packets") + lost))
                .alias("loss_ratio"),
                pl.when(pl.col("packets") > 0).then(pl.col("ecn_marked") / pl.col("packets")).clip(0, 1).alias("ecn_ratio"),
                (pl.col("pause_us") * 1_000 / pl.col("known_ns")).clip(0, 1).alias("pause_ratio"),
                (pl.col("watermark_bytes") * 8 / pl.col("speed_gbps") / 1_000).alias("watermark_us"),
            ).with_columns(pl.col("bytes", "packets", "discards", "pause_frames").round())
        )
    )


def _growth(intervals: pl.DataFrame, window: tuple[int, int] | None) -> pl.DataFrame:
    """Growth of each queue's counters in the window, one column a metric, and the time for which its pause is known."""
    heads = series_heads(intervals).filter(pl.col("queue").is_not_null() & pl.col("metric").is_in(_COUNTED))
    rows = []
    for head in heads.iter_rows(named=True):
        piece = intervals.slice(head["first"], head["rows"]).drop_nulls("delta")
        if window is not None:
            piece = piece.filter((pl.col("t1_ns") > window[0]) & (pl.col("t0_ns") < window[1]))
        if piece.is_empty():
            continue
        length = piece["t1_ns"] - piece["t0_ns"]
        inside = length if window is None else piece["t1_ns"].clip(upper_bound=window[1]) - piece["t0_ns"].clip(lower_bound=window[0])
        part = (piece["delta"] * (inside / length)).sum()
        rows.append({**{name: head[name] for name in _KEYS}, "metric": head["metric"], "part": part, "inside_ns": int(inside.sum())})
    schema = {**dict.fromkeys((*_KEYS, "metric"), pl.String), "part": pl.Float64, "inside_ns": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema)
    return (
        frame.group_by(_KEYS)
        .agg(
            *(pl.col("part").filter(pl.col("metric") == name).sum().alias(name) for name in _COUNTED),
            *(pl.col("metric").eq(name).any().alias(f"{name}_known") for name in _COUNTED),
            pl.col("inside_ns").max().alias("known_ns"),
        )
        .select(*_KEYS, "known_ns", *(pl.when(f"{name}_known").then(name).alias(name) for name in _COUNTED))
    )


def _watermarks(queued: pl.DataFrame, window: tuple[int, int] | None) -> pl.DataFrame:
    """The highest watermark that each queue reached between samples; where it stands still, how high. A snapshot counts at any time."""
    levels = queued.filter((pl.col("metric") == "queue_bytes_watermark") & pl.col("value").is_not_null())
    if window is not None:
        # The level before the window is what a rise is told from.
        before = levels.filter(pl.col("ts_ns") < window[0]).group_by(_KEYS).agg(pl.col("ts_ns").max().alias("last_ns"))
        levels = levels.join(before, on=list(_KEYS), how="left", nulls_equal=True)
        levels = levels.filter(
            pl.col("ts_ns").is_null() | ((pl.col("ts_ns") >= pl.col("last_ns").fill_null(0)) & (pl.col("ts_ns") <= window[1]))
        )
    # A level that differs from the one before was reached in between: it rose, or was cleared and filled again.
    earlier = pl.col("value").shift(1).over(_KEYS)
    new = (earlier.is_not_null() & (pl.col("value") != earlier)).alias("new")
    grouped = (
        levels.sort("ts_ns", nulls_last=False)
        .with_columns(new)
        .group_by(_KEYS)
        .agg(
            pl.when(pl.col("new").any())
            .then(pl.col("value").filter("new").max())
            .otherwise(pl.col("value").max())
            .alias("watermark_bytes"),
            pl.col("new").any().alias("watermark_moved"),
        )
    )
    return grouped.with_columns(pl.col(_KEYS).cast(pl.String))
