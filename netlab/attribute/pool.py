"""Pooled shares: sums over sums, decided in integers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import polars as pl

from netlab.run import ExcludedStep
from netlab.units import NS_PER_MS, share_above

__all__ = ["pool", "pooled_rows", "unpooled"]

#: Shown as null where more than 1 % of the communication has no known split; 1 % as DESIGN's rule for the quality of a run.
_SPLIT_EXPOSED = (
    "exposed_transfer",
    "exposed_wait",
    "exposed_transfer_inter_node",
    "exposed_transfer_intra_node",
    "exposed_transfer_unplaced",
)
_SPLIT_HIDDEN = ("hidden_transfer", "hidden_wait")
_PLAIN = ("compute", "comm", "hidden_comm", "exposed_comm", "exposed_memory", "idle")

_FIELDS = (
    "iterations",
    "iteration_ms",
    "compute_ms",
    "comm_ms",
    "hidden_comm_ms",
    "hidden_transfer_ms",
    "hidden_wait_ms",
    "exposed_comm_ms",
    "exposed_transfer_ms",
    "exposed_wait_ms",
    "exposed_memory_ms",
    "idle_ms",
    "exposed_transfer_inter_node_ms",
    "exposed_transfer_intra_node_ms",
    "exposed_transfer_unplaced_ms",
    "network_share",
    "network_share_low",
    "network_share_high",
    "comm_share",
    "wait_share",
    "fabric_share",
    "network_delay_share",
    "overlap_efficiency",
    "split",
    "basis",
    "flagged",
    "flag_certain",
)


def pooled_rows(breakdown: pl.DataFrame) -> pl.DataFrame:
    """The rows that totals pool: steps seen on every captured rank, if there is at least one, else all.

    A step that only some ranks have would weigh those ranks more. Rows of ``SPANS`` are all kept.

    >>> frame = pl.DataFrame({"rank": [0, 0, 1], "window": [0, 0, 0], "step": [3, 4, 4]})
    >>> pooled_rows(frame).rows()
    [(0, 0, 4), (1, 0, 4)]
    """
    if "step" not in breakdown.columns or not breakdown.height:
        return breakdown
    ranks = breakdown["rank"].n_unique()
    common = breakdown.group_by("window", "step").agg(seen=pl.col("rank").n_unique()).filter(pl.col("seen") == ranks)
    if not common.height:
        return breakdown
    return breakdown.join(common, on=["window", "step"], how="semi", maintain_order="left")


def unpooled(breakdown: pl.DataFrame) -> list[ExcludedStep]:
    """Rows that have figures of their own, but stay out of the totals because not every captured rank has the step.

    >>> unpooled(pl.DataFrame({"rank": [0, 0, 1], "window": [0, 0, 0], "step": [3, 4, 4]}))[0].step
    3
    """
    kept = pooled_rows(breakdown)
    left = breakdown.join(kept, on=["rank", "window", "step"], how="anti") if "step" in breakdown.columns else breakdown.clear()
    rows = left.select("step", "rank").unique().sort("step", "rank").iter_rows() if left.height else []
    return [ExcludedStep(step=step, rank=rank, reason="not seen on every captured rank") for step, rank in rows]


def pool(frame: pl.DataFrame, by: Sequence[str], threshold: Fraction, *, iteration: bool = True) -> pl.DataFrame:
    """Mean times and shares of groups of (rank, step) rows, as the BREAKDOWN rows of ``netlab.check/1``.

    Parameters
    ----------
    frame
        ``BREAKDOWN`` or ``SPANS`` rows.
    by
        Columns to group by; none gives one row over everything (with null figures if the frame is empty).
    threshold
        A share is flagged strictly above it; decided on integer sums.
    iteration
        False leaves ``iteration_ms`` null, for figures over a whole capture.

    Returns
    -------
    One row per group, sorted by ``by``: those columns, then the fields of BREAKDOWN. Times are means per row in milliseconds; shares
    divide sums. ``iterations`` counts (rank, step) rows, null for spans. ``network_share`` counts all communication of unknown split, so
    there it is an upper bound and ``basis`` says so; transfer, wait and their shares are null where more than 1 % of the communication
    they divide has no known split.

    Examples
    --------
    >>> from netlab.schema.analysis import BREAKDOWN
    >>> names = [c.name for c in BREAKDOWN.columns if c.name.endswith("_ns")]
    >>> row = {name: [0] for name in names} | {"step_ns": [100], "compute_ns": [70], "comm_ns": [60], "hidden_comm_ns": [30]}
    >>> row |= {"exposed_comm_ns": [30], "exposed_transfer_ns": [30], "exposed_transfer_low_ns": [30], "exposed_transfer_high_ns": [30]}
    >>> row |= {"rank": [0], "window": [0], "step": [3]}
    >>> pool(pl.DataFrame(row), ["step"], Fraction(1, 4)).select("step", "network_share", "flagged", "flag_certain").row(0)
    (3, 0.3, True, True)
    """
    keys = list(by)
    sums = [pl.col(name).sum() for name in frame.columns if name.endswith("_ns") and name not in ("start_ns", "end_ns", "idle_unqueued_ns")]
    steps = pl.len() if "step" in frame.columns else pl.lit(None, pl.Int64)
    totals = [*sums, pl.len().alias("rows"), steps.alias("iterations")]
    added = frame.group_by(keys).agg(totals).sort(keys) if keys else frame.select(totals)
    return _shares(added, threshold, iteration).select(*keys, *_FIELDS)


def _shares(added: pl.DataFrame, threshold: Fraction, iteration: bool) -> pl.DataFrame:
    step, comm, hidden = pl.col("step_ns"), pl.col("exposed_comm_ns"), pl.col("hidden_comm_ns")
    exposed_unknown, hidden_unknown = pl.col("exposed_unknown_ns"), pl.col("hidden_unknown_ns")
    split_known = 100 * exposed_unknown <= comm
    hidden_known = 100 * hidden_unknown <= hidden
    any_exposed = comm > 0
    base = pl.when(any_exposed).then(comm).otherwise(pl.col("comm_ns"))
    unknown = pl.when(any_exposed).then(exposed_unknown).otherwise(hidden_unknown)
    bounded = pl.when(any_exposed).then("exposed_bounded_ns").otherwise(0)
    quality = pl.when(100 * unknown > base).then(pl.lit("unknown")).when(100 * (unknown + bounded) > base).then(pl.lit("bounded"))
    basis = pl.when(2 * exposed_unknown > pl.col("exposed_transfer_ns")).then(pl.lit("communication")).otherwise(pl.lit("transfer"))
    seen = pl.col("rows") > 0
    transfer = pl.col("hidden_transfer_ns") + pl.col("exposed_transfer_ns")
    frame = added.with_columns(
        pl.when(seen).then("iterations").alias("iterations"),
        _mean("step").alias("iteration_ms") if iteration else pl.lit(None, pl.Float64).alias("iteration_ms"),
        *(_mean(name).alias(f"{name}_ms") for name in _PLAIN),
        *(pl.when(split_known).then(_mean(name)).alias(f"{name}_ms") for name in _SPLIT_EXPOSED),
        *(pl.when(hidden_known).then(_mean(name)).alias(f"{name}_ms") for name in _SPLIT_HIDDEN),
        _ratio(pl.col("exposed_transfer_ns"), step).alias("network_share"),
        _ratio(pl.col("exposed_transfer_low_ns"), step).alias("network_share_low"),
        _ratio(pl.col("exposed_transfer_high_ns"), step).alias("network_share_high"),
        _ratio(comm, step).alias("comm_share"),
        pl.when(split_known).then(_ratio(pl.col("exposed_wait_ns"), step)).alias("wait_share"),
        pl.when(split_known).then(_ratio(pl.col("exposed_transfer_inter_node_ns"), step)).alias("fabric_share"),
        pl.when(split_known).then(_ratio(pl.col("exposed_delay_ns"), step)).alias("network_delay_share"),
        pl.when(split_known & hidden_known).then(_ratio(pl.col("hidden_transfer_ns"), transfer)).alias("overlap_efficiency"),
        pl.when(seen).then(quality.otherwise(pl.lit("measured"))).alias("split"),
        pl.when(seen).then(basis).alias("basis"),
    )
    return frame.with_columns(
        flagged=_above(added, "exposed_transfer_ns", threshold),
        flag_certain=_above(added, "exposed_transfer_low_ns", threshold),
    )


def _mean(name: str) -> pl.Expr:
    return pl.when(pl.col("rows") > 0).then(pl.col(f"{name}_ns") / pl.col("rows") / NS_PER_MS)


def _ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return pl.when(whole > 0).then(part / whole)


def _above(added: pl.DataFrame, part: str, threshold: Fraction) -> pl.Series:
    # Python integers: part x denominator of a long decimal threshold leaves 64 bits.
    pairs = zip(added[part].to_list(), added["step_ns"].to_list(), strict=True)
    return pl.Series([share_above(some, whole, threshold) for some, whole in pairs], dtype=pl.Boolean)
