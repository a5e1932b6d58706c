"""Where the members of a collective were last together: the end of their previous common collective."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from netlab.attribute.arrivals import group_list

__all__ = ["stretch_starts"]


def stretch_starts(
    late: pl.DataFrame,
    found: pl.DataFrame,
    collectives: pl.DataFrame,
    activities: pl.DataFrame,
    steps: pl.DataFrame,
) -> pl.Series:
    """Instant from which the arrivals of each instance's members are compared.

    It is the last end of the latest measured instance of the same group, or of a group that holds all its members, which ended before the
    last arrival, in the same profiler window. Without one it is the earliest step start (or first activity) of its members in the window.

    Parameters
    ----------
    late
        The instances asked for, rows of ``found``.
    found
        All instances, as `netlab.attribute.instances` gives them.
    collectives, activities, steps
        Aligned tables.
    """
    begins = _window_starts(activities, steps)
    members = collectives.join(late.select("instance"), on="instance", how="semi").join(begins, on=["rank", "window"], how="left")
    first = members.group_by("instance").agg(begin=pl.min_horizontal(pl.col("begin").min(), pl.col("start_ns").min()))
    begin = late.select("instance").join(first, on="instance", how="left", maintain_order="left")["begin"].to_numpy()
    measured = found.filter(pl.col("split") == "measured").sort("last_end_ns", "instance")
    by_group = measured.with_row_index("row").group_by("group").agg("row")
    rows = {group: np.asarray(places, np.int64) for group, places in by_group.iter_rows()}
    ends, numbers = measured["last_end_ns"].to_numpy(), measured["instance"].to_numpy()
    windows = measured["window"].to_numpy()
    holders = _holders(late["group"].unique().to_list(), rows)
    result = begin.copy()
    asked = late.with_row_index("row").group_by("group").agg("row")
    arrival, own, window = late["last_start_ns"].to_numpy(), late["instance"].to_numpy(), late["window"].to_numpy()
    for group, places in asked.iter_rows():
        mine = np.asarray(places, np.int64)
        candidates = np.sort(np.concatenate([rows[holder] for holder in holders[group]]))
        before = np.searchsorted(ends[candidates], arrival[mine], "right") - 1
        # An instance without transfer ends as its last member arrives and would find itself.
        itself = (before >= 0) & (numbers[candidates[before]] == own[mine])
        before = before - itself
        chosen = candidates[np.maximum(before, 0)]
        usable = (before >= 0) & (windows[chosen] == window[mine])
        result[mine] = np.where(usable, np.maximum(ends[chosen], begin[mine]), begin[mine])
    return pl.Series("stretch_ns", result, dtype=pl.Int64)


def _window_starts(activities: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """When each rank's window begins: its first step, or its first launch or activity where there are no steps."""
    marked = steps.group_by("rank", "window").agg(begin=pl.col("start_ns").min())
    seen = activities.group_by("rank", "window").agg(first=pl.min_horizontal("start_ns", "launch_start_ns").min())
    both = seen.join(marked, on=["rank", "window"], how="left")
    return both.select("rank", "window", begin=pl.col("begin").fill_null(pl.col("first")))


def _holders(asked: Iterable[str], groups: Iterable[str]) -> dict[str, list[str]]:
    """For each group the groups that hold all its members, itself included."""
    members = {group: frozenset(group_list(group)) for group in groups}
    by_rank: dict[int, list[str]] = {}
    for group, ranks in members.items():
        for rank in ranks:
            by_rank.setdefault(rank, []).append(group)
    result = {}
    for group in asked:
        mine = members[group]
        # Only groups of its least shared member can hold it: a few, where all pairs would be millions.
        rarest = min(mine, key=lambda rank: len(by_rank[rank]))
        result[group] = sorted(other for other in by_rank[rarest] if mine <= members[other])
    return result
