"""Wait and transfer: a matched collective moves data only once its last member has arrived."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.align.options import AlignOptions

__all__ = ["message_rows", "number_in_time", "split_instances"]

Int64s = NDArray[np.int64]

# Operations of which a member needs only the other members' parts to cross its link.
_FEWER = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")


def number_in_time(matched: pl.DataFrame) -> pl.DataFrame:
    """Renumber ``instance`` by first start (then by row), and sort by instance and rank.

    >>> frame = pl.DataFrame({"instance": [7, 3], "row": [0, 1], "rank": [0, 0], "start_ns": [20, 10]})
    >>> number_in_time(frame).rows()
    [(0, 1, 0, 10), (1, 0, 0, 20)]
    """
    if matched.is_empty():
        return matched
    _, dense = np.unique(matched["instance"].to_numpy(), return_inverse=True)
    start, row = matched["start_ns"].to_numpy(), matched["row"].to_numpy()
    order = np.lexsort((row, start, dense))
    first = order[np.flatnonzero(np.concatenate(([True], np.diff(dense[order]) > 0)))]
    number = np.empty(len(first), np.int64)
    number[np.lexsort((row[first], start[first]))] = np.arange(len(first))
    return matched.with_columns(pl.Series("instance", number[dense])).sort("instance", "rank", "start_ns", "row")


def split_instances(matched: pl.DataFrame, options: AlignOptions) -> pl.DataFrame:
    """Split every member of every instance into wait and transfer.

    For member r: wait = [start_r, last start), transfer = [max(start_r, last start), end_r). Where only part of the members was seen, the
    last start that was seen bounds the transfer from above; with one member nothing can be told.

    Parameters
    ----------
    matched
        One row per member, sorted by instance: instance, rank, start_ns, end_ns (corrected clocks), size (members of the group), certain
        (all are known), loose (bytes move as soon as a pair has met), op, bytes, layer, per_node (members in the fullest host), domain
        (number of the clock domain) and domain_error_ns (null if unknown).
    options
        Declared link rates give the lower bound where members are missing.

    Returns
    -------
    ``matched`` with seen, split, error_ns, arrival_ns (last start), finish_ns (last end), transfer_start_ns, transfer_start_low_ns,
    transfer_start_high_ns, wait_ns and transfer_ns.
    """
    start, end, instance = (matched[name].to_numpy() for name in ("start_ns", "end_ns", "instance"))
    first = np.flatnonzero(np.diff(instance, prepend=-1))
    each = np.diff(np.append(first, len(instance)))

    def spread(values: Int64s) -> Int64s:
        return np.repeat(values, each)

    seen = spread(each)
    arrival = spread(np.maximum.reduceat(start, first)) if len(first) else start
    finish = spread(np.maximum.reduceat(end, first)) if len(first) else end
    second = spread(_second_smallest(start, instance, first, each))
    size, certain, loose = (matched[name].to_numpy() for name in ("size", "certain", "loose"))
    whole = (seen >= size) & certain
    alone = (seen == 1) & ~whole
    error = _instance_errors(matched, first)
    margin = spread(np.maximum(error, 0))
    least = _least_transfer_ns(matched, options)
    begin = np.minimum(end, np.maximum(start, arrival))
    # Bytes may move from the second arrival on, and a missing member may have been the first of all.
    earliest = np.where(loose, np.where(whole, second, start), arrival)
    high = np.where(alone, start, np.minimum(begin, np.maximum(start, earliest - margin)))
    # A member that left before the last one came has not waited for it: buffers took its bytes.
    high = np.where((end <= arrival) & (seen > 1), start, high)
    low = np.where(whole, np.minimum(end, np.maximum(start, arrival + margin)), np.maximum(np.where(alone, start, begin), end - least))
    low = np.where(size == 1, begin, low)
    quality = np.where(whole, 0, np.where(alone, 2, 1))
    columns = {
        "seen": seen.astype(np.int32),
        "error_ns": spread(error),
        "arrival_ns": arrival,
        "finish_ns": finish,
        "transfer_start_ns": begin,
        "transfer_start_low_ns": low,
        "transfer_start_high_ns": high,
        "wait_ns": begin - start,
        "transfer_ns": end - begin,
    }
    known = pl.col("split") != "unknown"
    return matched.with_columns(
        *(pl.Series(name, values) for name, values in columns.items()),
        split=pl.Series(quality).replace_strict({0: "measured", 1: "bounded", 2: "unknown"}, return_dtype=pl.String),
    ).with_columns(
        *(pl.when(known).then(pl.col(name)).alias(name) for name in ("transfer_start_ns", "wait_ns", "transfer_ns")),
        error_ns=pl.when(pl.col("error_ns") >= 0).then("error_ns"),
    )


def _second_smallest(start: Int64s, instance: Int64s, first: Int64s, seen: Int64s) -> Int64s:
    """Second arrival of each instance; the only one where there is one."""
    order = np.lexsort((start, instance))
    return np.asarray(start[order][first + np.minimum(seen - 1, 1)])


def _instance_errors(matched: pl.DataFrame, first: Int64s) -> Int64s:
    """Clock error of each instance: its domain's, or the sum of the two largest where domains meet; -1 if one is unknown."""
    if not len(first):
        return first
    error, domain = matched["domain_error_ns"].fill_null(-1).to_numpy(), matched["domain"].to_numpy()
    instance = matched["instance"].to_numpy()
    order = np.lexsort((-error, instance))
    error_down, domain_down = error[order], domain[order]
    largest, largest_domain = error_down[first], domain_down[first]
    each = np.diff(np.append(first, len(instance)))
    elsewhere = np.where(domain_down == np.repeat(largest_domain, each), 0, error_down)
    unknown = np.minimum.reduceat(error, first) < 0
    return np.where(unknown, -1, largest + np.maximum.reduceat(elsewhere, first))


def _least_transfer_ns(matched: pl.DataFrame, options: AlignOptions) -> Int64s:
    """Nanoseconds that the message needs at the declared link rate; 0 where none is declared."""
    if not options.intra_node_gbps and not options.inter_node_gbps:
        return np.zeros(matched.height, np.int64)
    # A collective over hosts can use the network link of every member in a host at once.
    gbps = (
        pl.when(pl.col("layer") == "intra_node")
        .then(pl.lit(options.intra_node_gbps, pl.Float64))
        .when(pl.col("layer") == "inter_node")
        .then(pl.lit(options.inter_node_gbps, pl.Float64) * pl.col("per_node"))
    )
    share = pl.when(pl.col("op").is_in(_FEWER)).then(1 - 1 / pl.col("size")).otherwise(1.0)
    least = pl.when(gbps > 0).then(pl.col("bytes") * 8 * share / gbps).fill_null(0.0)
    return np.asarray(matched.select(least.floor().cast(pl.Int64)).to_series().to_numpy())


def message_rows(split: pl.DataFrame) -> pl.DataFrame:
    """The ``p2p`` table: messages of which both ends were seen.

    A send may end before its receive starts: nothing is then left to transfer.
    """
    both = split.filter(pl.col("src").is_not_null() & (pl.col("seen") == 2))
    partner = both.select("instance", other="rank", wait_dst_ns="wait_ns")
    sends = both.filter(pl.col("rank") == pl.col("src")).join(partner, on="instance").filter(pl.col("other") == pl.col("dst"))
    return sends.select(
        "instance",
        "src",
        "dst",
        "bytes",
        "wait_dst_ns",
        "step",
        "split",
        start_ns=pl.col("arrival_ns"),
        transfer_ns=pl.max_horizontal(pl.col("finish_ns") - pl.col("arrival_ns"), 0),
        wait_src_ns=pl.col("wait_ns"),
    )
