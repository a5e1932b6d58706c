"""Algorithm and bus bandwidth of collectives, from transfer alone.

Formulas and units are those of nccl-tests (doc/PERFORMANCE.md): algbw = bytes / time, busbw = algbw x factor, 1 GB/s = 1e9 byte/s.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from netlab.attribute.arrivals import QUALITY, group_list
from netlab.units import ms_from_ns

__all__ = ["AT_ONCE", "bus_factor", "collective_rows", "fits", "tails", "with_bandwidth"]

#: Operations that move bytes as soon as a pair has met; transfer counted from the last arrival is then a lower bound of their transfer.
AT_ONCE = ("all_to_all", "broadcast", "reduce", "gather", "scatter", "unknown")

#: A bandwidth of those is printed only if arrivals spread less than this share of the transfer.
SPREAD_LIMIT = 0.1

#: A straight line through fewer points, or through sizes that do not span this factor, says nothing about latency.
FIT_SAMPLES, FIT_SPAN = 8, 4


def bus_factor(op: str, size: int) -> float | None:
    """Factor from algorithm to bus bandwidth; None for a barrier, which has no bytes, and for a group of one.

    Source: nccl-tests doc/PERFORMANCE.md, section "Bus bandwidth".

    >>> bus_factor("all_reduce", 4), bus_factor("all_gather", 4), bus_factor("send", 2), bus_factor("barrier", 8)
    (1.5, 0.75, 1.0, None)
    """
    if op == "barrier" or size < 2:
        return None
    if op == "all_reduce":
        return 2 * (size - 1) / size
    return (size - 1) / size if op in ("all_gather", "reduce_scatter", "all_to_all") else 1.0


def with_bandwidth(found: pl.DataFrame, batched: pl.DataFrame | None = None) -> pl.DataFrame:
    """Add ``algbw_gb_per_s`` and ``busbw_gb_per_s`` to instances; null where the time may include waiting or no bytes are known.

    Parameters
    ----------
    found
        Result of `netlab.attribute.instances`.
    batched
        Instances (column ``instance``) whose kernel served several peers at once: the rule of `AT_ONCE` holds for them, too.

    Examples
    --------
    >>> frame = pl.DataFrame({
    ...     "instance": [0], "op": ["all_reduce"], "bytes": [1_073_741_824], "members": [2], "split": ["measured"],
    ...     "first_start_ns": [0], "last_start_ns": [0], "transfer_ns": [60_000_000]})
    >>> round(with_bandwidth(frame)["busbw_gb_per_s"][0], 6)
    17.895697
    """
    size, op = pl.col("members").cast(pl.Float64), pl.col("op")
    factor = (
        pl.when((op == "barrier") | (size < 2))
        .then(None)
        .when(op == "all_reduce")
        .then(2 * (size - 1) / size)
        .when(op.is_in(["all_gather", "reduce_scatter", "all_to_all"]))
        .then((size - 1) / size)
        .otherwise(1.0)
    )
    spread = pl.col("last_start_ns") - pl.col("first_start_ns")
    early = op.is_in(AT_ONCE)
    if batched is not None and batched.height:
        early = early | pl.col("instance").is_in(batched["instance"].implode())
    sound = (pl.col("split") == "measured") & (pl.col("bytes") > 0) & (pl.col("transfer_ns") > 0) & (size >= 2) & (op != "barrier")
    sound = sound & (~early | (spread < SPREAD_LIMIT * pl.col("transfer_ns")))
    frame = found.with_columns(algbw_gb_per_s=pl.when(sound).then(pl.col("bytes") / pl.col("transfer_ns")))
    return frame.with_columns(busbw_gb_per_s=pl.col("algbw_gb_per_s") * factor)


def collective_rows(with_rates: pl.DataFrame) -> list[dict[str, Any]]:
    """Instances pooled by group, operation, type and size, as rows of ``netlab.check/1``; the most transfer first.

    Parameters
    ----------
    with_rates
        Result of `with_bandwidth`.

    Returns
    -------
    ``count`` counts instances; median and 95th percentile are over instances whose transfer is known (where bounded: at most);
    ``wait_ms_mean`` is per member. Bandwidths divide the size by the median time of the instances that give one.
    """
    keys = ["group", "op", "dtype", "bytes"]
    quality = pl.col("split").replace_strict({name: place for place, name in enumerate(QUALITY)}, return_dtype=pl.Int8)
    sound = pl.col("algbw_gb_per_s").is_not_null()
    rows = (
        with_rates.group_by(keys)
        .agg(
            count=pl.len(),
            median=pl.col("transfer_ns").median(),
            p95=pl.col("transfer_ns").quantile(0.95, "linear"),
            total=pl.col("transfer_ns").sum(),
            wait=(pl.col("wait_ns") / pl.col("seen")).mean(),
            time=pl.col("transfer_ns").filter(sound).median(),
            factor=(pl.col("busbw_gb_per_s") / pl.col("algbw_gb_per_s")).filter(sound).median(),
            quality=quality.max(),
        )
        .with_columns(algbw=pl.col("bytes") / pl.col("time"))
        .sort("total", *keys, descending=[True, False, False, False, False], nulls_last=True)
    )
    return [
        {
            "group": group_list(row["group"]),
            "op": row["op"],
            "dtype": row["dtype"],
            "bytes": row["bytes"],
            "count": row["count"],
            "transfer_ms_median": ms_from_ns(row["median"]),
            "transfer_ms_p95": ms_from_ns(row["p95"]),
            "wait_ms_mean": ms_from_ns(row["wait"]),
            "algbw_gb_per_s": row["algbw"],
            "busbw_gb_per_s": None if row["algbw"] is None or row["factor"] is None else row["algbw"] * row["factor"],
            "split": QUALITY[row["quality"]],
        }
        for row in rows.iter_rows(named=True)
    ]


def tails(found: pl.DataFrame) -> pl.DataFrame:
    """Median, 95th and 99th percentile and worst transfer of each (group, op, bytes), with the worst instance and its step.

    Returns
    -------
    Sorted by ``tail_ns`` (worst minus median), longest tail first: ``group, op, bytes, count, p50_ns, p95_ns, p99_ns, max_ns, tail_ns,
    worst_instance, worst_step``.
    """
    known = found.filter(pl.col("transfer_ns").is_not_null())
    worst = pl.col("transfer_ns").arg_max()
    rows = known.group_by("group", "op", "bytes").agg(
        count=pl.len(),
        p50_ns=pl.col("transfer_ns").quantile(0.5, "linear"),
        p95_ns=pl.col("transfer_ns").quantile(0.95, "linear"),
        p99_ns=pl.col("transfer_ns").quantile(0.99, "linear"),
        max_ns=pl.col("transfer_ns").max(),
        worst_instance=pl.col("instance").get(worst),
        worst_step=pl.col("step").get(worst),
    )
    rows = rows.with_columns(tail_ns=pl.col("max_ns") - pl.col("p50_ns"))
    order = ["group", "op", "bytes", "count", "p50_ns", "p95_ns", "p99_ns", "max_ns", "tail_ns", "worst_instance", "worst_step"]
    return rows.select(order).sort("tail_ns", "group", "op", "bytes", descending=[True, False, False, False], nulls_last=True)


def fits(with_rates: pl.DataFrame) -> pl.DataFrame:
    """Latency and rate that each group reached: transfer = alpha + bytes / beta, a robust line through its split transfers.

    Theil-Sen over the medians of each size, weighted by nothing: half of the sizes may be disturbed before the slope breaks.
    Source: Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968).

    Returns
    -------
    One row per (group, op): ``samples``, ``alpha_us``, ``beta_gb_per_s`` and ``refused``, which says why there is no fit: fewer than 8
    samples, sizes that do not span a factor of 4, or time that does not grow with size.
    """
    keys = ["group", "op"]
    known = with_rates.filter(pl.col("algbw_gb_per_s").is_not_null())
    sizes = known.group_by(*keys, "bytes").agg(time=pl.col("transfer_ns").median(), n=pl.len())
    pairs = sizes.join(sizes, on=keys, suffix="_b").filter(pl.col("bytes") < pl.col("bytes_b"))
    slope = (pl.col("time_b") - pl.col("time")) / (pl.col("bytes_b") - pl.col("bytes"))
    slopes = pairs.group_by(keys).agg(slope=slope.median())
    about = sizes.group_by(keys).agg(samples=pl.col("n").sum(), span=pl.col("bytes").max() / pl.col("bytes").min())
    lines = sizes.join(slopes, on=keys).group_by(keys).agg(intercept=(pl.col("time") - pl.col("slope") * pl.col("bytes")).median())
    frame = about.join(slopes, on=keys, how="left").join(lines, on=keys, how="left").sort(keys)
    refused = (
        pl.when(pl.col("samples") < FIT_SAMPLES)
        .then(pl.format("{} split transfers; a fit needs {}", "samples", pl.lit(FIT_SAMPLES)))
        .when(pl.col("span") < FIT_SPAN)
        .then(pl.lit(f"sizes do not span a factor of {FIT_SPAN}"))
        .when(pl.col("slope") <= 0)
        .then(pl.lit("time does not grow with size"))
    )
    frame = frame.with_columns(refused=refused)
    fitted = pl.col("refused").is_null()
    return frame.select(
        *keys,
        "samples",
        pl.when(fitted).then(pl.col("intercept").clip(lower_bound=0) / 1000).alias("alpha_us"),
        pl.when(fitted).then(1 / pl.col("slope")).alias("beta_gb_per_s"),
        "refused",
    )
