"""Sequence alignment over all groups at once; only groups whose ranks differ are looked at one by one."""

from __future__ import annotations

import numpy as np
import polars as pl

from netlab.align.classify import SYNCHRONISING
from netlab.align.sequences import LEAST_FOR_SHIFT, align_lane

__all__ = ["align_lanes", "number_rows"]

#: Ranks whose sequences share less than this do not run one sequence.
_LEAST_ALIGNED = 0.5
#: Members of these exchange messages of their own sizes (uneven splits, a root's larger side), so size does not identify the operation.
_SIZES_DIFFER = ("all_to_all", "gather", "scatter", "send", "recv", "unknown")


def number_rows(events: pl.DataFrame, keys: list[str], name: str = "instance") -> pl.DataFrame:
    """Number the distinct combinations of some columns.

    >>> number_rows(pl.DataFrame({"a": [5, 7, 5]}), ["a"])["instance"].n_unique()
    2
    """
    distinct = events.select(keys).unique().with_row_index(name)
    return events.join(distinct, on=keys, how="left", nulls_equal=True, maintain_order="left").with_columns(pl.col(name).cast(pl.Int64))


def align_lanes(events: pl.DataFrame, lane: list[str]) -> tuple[pl.DataFrame, list[tuple[int, int, int, int, str]]]:
    """Match by order of operations inside each lane.

    Parameters
    ----------
    events
        Sorted by rank and launch order; reads the lane's columns, gid, name_id, rank, op, dtype, bytes, launch_step, end_ns.

    Returns
    -------
    The events with ``instance`` and ``agrees`` (the ranks' sequences agree; else every event is an instance of its own); and what was
    lost: gid, name_id, rank, number of operations, their names.
    """
    events = number_rows(_by_common_steps(events, lane), [*lane, "part"], "lane")
    same_size = pl.when(pl.col("op").is_in(_SIZES_DIFFER)).then(None).otherwise("bytes")
    events = number_rows(events.with_columns(size_key=same_size), ["op", "dtype", "size_key"], "key").drop("size_key")
    events = events.with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64).over("lane", "rank"))
    marks = events.with_columns(mark=_marks(events)).group_by("lane", "rank").agg(pl.col("mark").sum(), length=pl.len())
    uniform = marks.group_by("lane").agg(uniform=(pl.col("mark").n_unique() == 1) & (pl.col("length").n_unique() == 1))
    events = events.join(uniform, on="lane", maintain_order="left")
    synchronises = pl.col("op").is_in(SYNCHRONISING)
    events = events.with_columns(firm=synchronises | ~synchronises.any().over("lane"))
    events = events.with_columns(uniform=pl.col("uniform") & ~pl.col("lane").is_in(_shifted(events).implode()))
    same = number_rows(events.filter("uniform"), ["lane", "place"]).with_columns(agrees=pl.lit(value=True))
    parts, losses, base = [same], [], same.height
    for part in events.filter(~pl.col("uniform")).partition_by("lane", maintain_order=True):
        instance = align_lane(*(part[name].to_numpy() for name in ("rank", "key", "end_ns", "firm")))
        agrees = _agree(part["rank"].to_numpy(), instance)
        part = part.with_columns(
            pl.Series("instance", (instance if agrees else np.arange(part.height)) + base), agrees=pl.lit(value=agrees)
        )
        if agrees:
            losses += _losses(part)
        parts.append(part)
        base += part.height
    return pl.concat(parts).drop("part", "lane", "key", "place", "uniform", "firm"), losses


def _shifted(events: pl.DataFrame) -> pl.Series:
    """Lanes of equal sequences in which some ends do not agree: parts of the sequences may be shifted against each other."""
    same = events.filter(pl.col("uniform") & pl.col("firm")).select("lane", "rank", "place", "end_ns")
    reference = same.filter(pl.col("rank") == pl.col("rank").first().over("lane")).select("lane", "place", reference_ns="end_ns")
    lane = ["lane", "rank"]
    both = same.join(reference, on=["lane", "place"], maintain_order="left").with_columns(
        difference=pl.col("end_ns") - pl.col("reference_ns"), gap=pl.col("reference_ns").diff().abs().over(lane)
    )
    deviation = (pl.col("difference") - pl.col("difference").median()).abs().max()
    scatter = both.group_by(lane).agg(deviation=deviation, gap=pl.col("gap").median(), length=pl.len())
    return scatter.filter((pl.col("length") >= LEAST_FOR_SHIFT) & (pl.col("deviation") > pl.col("gap") / 4))["lane"].unique()


def _marks(events: pl.DataFrame) -> pl.Series:
    """A number per kernel whose sum tells equal sequences apart from others, without comparing them pair by pair."""
    key, place = (events[name].to_numpy().astype(np.uint64) + np.uint64(1) for name in ("key", "place"))
    # Odd constants of splitmix64 (Steele, Lea, Flood 2014); products wrap on purpose.
    mixed = (key * np.uint64(0x9E3779B97F4A7C15)) ^ (key << np.uint64(7))
    product = mixed * ((place * np.uint64(0xBF58476D1CE4E5B9)) | np.uint64(1))
    # Shortened so that the sums of long sequences stay inside 64 bits.
    return pl.Series("mark", (product >> np.uint64(24)).astype(np.int64))


def _by_common_steps(events: pl.DataFrame, lane: list[str]) -> pl.DataFrame:
    """Where ranks recorded different steps, operations are compared step by step; elsewhere as one sequence."""
    steps = (
        events.select(*lane, "rank", "launch_step").unique().group_by(*lane, "rank").agg(steps=pl.col("launch_step").drop_nulls().sort())
    )
    # A rank whose marks were lost has no steps to compare by; its sequence is aligned as a whole.
    differ = steps.group_by(lane).agg(differ=(pl.col("steps").n_unique() > 1) & (pl.col("steps").list.len().min() > 0))
    if not differ["differ"].any():
        return events.with_columns(part=pl.lit(None, pl.Int32))
    events = events.join(differ, on=lane, maintain_order="left", nulls_equal=True)
    return events.with_columns(part=pl.when("differ").then("launch_step")).drop("differ")


def _agree(rank: np.ndarray, instance: np.ndarray) -> bool:
    """Whether some rank shares at least half of its operations with others."""
    ranks = np.unique(rank)
    if len(ranks) == 1:
        return True
    shared = np.bincount(instance)[instance] > 1
    return max(float(shared[rank == one].mean()) for one in ranks) >= _LEAST_ALIGNED


def _losses(part: pl.DataFrame) -> list[tuple[int, int, int, int, str]]:
    """Ranks that lack operations which others of their lane ran."""
    seen = part.group_by("instance", maintain_order=True).agg(pl.col("rank"), op=pl.col("op").first())
    gid, name = part.select("gid", "name_id").row(0)
    found = []
    for rank in sorted(part["rank"].unique().to_list()):
        lost = seen.filter(~pl.col("rank").list.contains(rank))
        if lost.height:
            found.append((gid, name, rank, lost.height, ", ".join(sorted(set(lost["op"].to_list())))))
    return found
