"""Wait and transfer: a matched collective moves data only once its last member has arrived."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.align.options import AlignOptions

__all__ = ["collective_rows", "message_rows", "split_instances"]

Int64s = NDArray[np.int64]

# Part of the message that must cross the link of at least one member, whatever the algorithm (in-network reduction included).
_FEWER = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")


def split_instances(matched: pl.DataFrame, options: AlignOptions) -> pl.DataFrame:
    """Split every member of every instance into wait and transfer.

    For member r: wait = [start_r, last start), transfer = [max(start_r, last start), end_r). Where only part of the members was
    seen, the last start that was seen bounds the transfer from above; with one member nothing can be told.

    Parameters
    ----------
    matched
        One row per member: instance, rank, start_ns, end_ns (corrected clocks), members, certain, loose, op, bytes, layer,
        per_node (members in the fullest host), error_ns.
    options
        Declared link rates give the lower bound where members are missing.

    Returns
    -------
    ``matched`` sorted by instance and rank, with seen, split, arrival_ns (last start), finish_ns (last end), transfer_start_ns,
    transfer_start_low_ns, transfer_start_high_ns, wait_ns, transfer_ns.
    """
    matched = matched.sort("instance", "rank", "start_ns")
    if matched.is_empty():
        empty = [pl.lit(None, pl.Int64).alias(name) for name in ("arrival_ns", "finish_ns", *_RESULTS)]
        return matched.with_columns(*empty, seen=pl.lit(0, pl.Int32), split=pl.lit("unknown"))
    start, end = matched["start_ns"].to_numpy(), matched["end_ns"].to_numpy()
    instance = matched["instance"].to_numpy()
    first = np.flatnonzero(np.concatenate(([True], instance[1:] != instance[:-1])))
    seen_each = np.diff(np.append(first, len(instance)))
    seen = np.repeat(seen_each, seen_each)
    arrival = np.repeat(np.maximum.reduceat(start, first), seen_each)
    finish = np.repeat(np.maximum.reduceat(end, first), seen_each)
    second = np.repeat(_second_smallest(start, instance, first, seen_each), seen_each)
    members, certain, loose = (matched[name].to_numpy() for name in ("members", "certain", "loose"))
    whole = (seen >= members) & certain
    alone = (seen == 1) & ~whole
    error = matched["error_ns"].fill_null(0).to_numpy()
    begin = np.minimum(end, np.maximum(start, arrival))
    # Bytes may move from the second arrival on; a missing member may have been the first of all.
    earliest = np.where(loose, np.where(whole, second, start), arrival)
    high = np.where(alone, start, np.minimum(begin, np.maximum(start, earliest - error)))
    # A member that left before the last one came has not waited for it.
    high = np.where(loose & (end <= arrival), start, high)
    low = np.where(
        whole, np.minimum(end, np.maximum(start, arrival + error)), np.maximum(begin, end - _least_transfer_ns(matched, options))
    )
    low = np.where(alone, np.maximum(start, end - _least_transfer_ns(matched, options)), low)
    low = np.where(members == 1, begin, low)
    split = np.where(whole, "measured", np.where(alone, "unknown", "bounded"))
    known = ~alone
    return matched.with_columns(
        pl.Series("seen", seen, dtype=pl.Int32),
        pl.Series("split", split.tolist(), dtype=pl.String),
        pl.Series("arrival_ns", arrival),
        pl.Series("finish_ns", finish),
        pl.Series("known", known),
        pl.Series("transfer_start_ns", begin),
        pl.Series("transfer_start_low_ns", low),
        pl.Series("transfer_start_high_ns", high),
        pl.Series("wait_ns", begin - start),
        pl.Series("transfer_ns", end - begin),
    ).with_columns(pl.when("known").then(pl.col(name)).alias(name) for name in ("transfer_start_ns", "wait_ns", "transfer_ns"))


_RESULTS = ("transfer_start_ns", "transfer_start_low_ns", "transfer_start_high_ns", "wait_ns", "transfer_ns")


def _second_smallest(start: Int64s, instance: Int64s, first: Int64s, seen: Int64s) -> Int64s:
    """Second arrival of each instance; the only one where there is one."""
    order = np.lexsort((start, instance))
    return start[order][first + np.minimum(seen - 1, 1)]


def _least_transfer_ns(matched: pl.DataFrame, options: AlignOptions) -> Int64s:
    """Nanoseconds that the message needs at the declared link rate; 0 where none is declared."""
    layer = pl.col("layer")
    # A collective over hosts can use the network link of every member in a host at once.
    gbps = (
        pl.when(layer == "intra_node")
        .then(pl.lit(options.intra_node_gbps, pl.Float64))
        .when(layer == "inter_node")
        .then(pl.lit(options.inter_node_gbps, pl.Float64) * pl.col("per_node"))
    )
    share = pl.when(pl.col("op").is_in(_FEWER)).then(1 - 1 / pl.col("members")).otherwise(1.0)
    least = pl.when(gbps > 0).then(pl.col("bytes") * 8 * share / gbps).fill_null(0.0)
    return matched.select(least.floor().cast(pl.Int64)).to_series().to_numpy()


def collective_rows(split: pl.DataFrame) -> pl.DataFrame:
    """The ``collectives`` table of split instances."""
    return split.select(
        "instance",
        "group",
        "group_name",
        "seq",
        "op",
        "dtype",
        "bytes",
        "rank",
        "activity",
        "window",
        "step",
        "start_ns",
        "end_ns",
        "wait_ns",
        "transfer_ns",
        "split",
        "layer",
        "members",
        "seen",
        "error_ns",
    )


def message_rows(split: pl.DataFrame) -> pl.DataFrame:
    """The ``p2p`` table: messages of which both ends were seen."""
    both = split.filter(pl.col("src").is_not_null() & (pl.col("seen") == 2))
    sender = both.filter(pl.col("rank") == pl.col("src"))
    partner = both.select("instance", other="rank", other_wait_ns="wait_ns")
    sends = sender.join(partner, on="instance").filter(pl.col("other") == pl.col("dst"))
    return sends.select(
        "instance",
        "src",
        "dst",
        "bytes",
        start_ns=pl.col("arrival_ns"),
        transfer_ns=pl.max_horizontal(pl.col("finish_ns") - pl.col("arrival_ns"), 0),
        wait_src_ns=pl.col("wait_ns"),
        wait_dst_ns=pl.col("other_wait_ns"),
        step=pl.col("step"),
        split=pl.col("split"),
    )
