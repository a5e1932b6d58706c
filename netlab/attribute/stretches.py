"""What the members of a collective did since they were last together: the stretch from their previous common collective to this one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from netlab.attribute.arrivals import group_list
from netlab.intervals import Int64s, cover

__all__ = ["CLASSES", "members_since", "stretch_starts"]

#: What a member may have done in the stretch; each instant counts for the first of them that was going on. ``communication`` is that of
#: instances with unseen members: nobody knows whether it moved data or waited.
CLASSES = ("compute", "transfer", "wait", "communication", "input", "copy", "host")

#: A collective holds its members together only if compute covers at most this share of it on each of them: compute that runs on below it
#: carries a lead past it.
LOOSE = 0.1

_HOST_TO_DEVICE = r"(?i)HtoD|host.?to.?device|\bM2D\b"


def stretch_starts(
    late: pl.DataFrame,
    found: pl.DataFrame,
    exposed: pl.DataFrame,
    collectives: pl.DataFrame,
    activities: pl.DataFrame,
    steps: pl.DataFrame,
) -> pl.Series:
    """Instant from which the arrivals of each instance's members are compared.

    It is the last end of the latest measured instance of the same group, or of a group that holds all its members, that ended before the
    last arrival in the same profiler window, and that no member's compute ran through. Without one it is the earliest step start (or
    first activity) of its members in the window.

    Parameters
    ----------
    late
        The instances asked for, rows of ``found``.
    found
        All instances, as `netlab.attribute.instances` gives them.
    exposed
        Result of `netlab.attribute.exposed_members`.
    collectives, activities, steps
        Aligned tables.
    """
    begins = _window_starts(activities, steps)
    members = collectives.join(late.select("instance"), on="instance", how="semi").join(begins, on=["rank", "window"], how="left")
    first = members.group_by("instance").agg(begin=pl.min_horizontal(pl.col("begin_ns").min(), pl.col("start_ns").min()))
    begin = late.select("instance").join(first, on="instance", how="left", maintain_order="left")["begin"].to_numpy()
    holding = found.filter(pl.col("split") == "measured").join(_holding(exposed), on="instance", how="semi").sort("last_end_ns", "instance")
    by_group = holding.with_row_index("row").group_by("group").agg("row")
    rows = {group: np.asarray(places, np.int64) for group, places in by_group.iter_rows()}
    ends, numbers, windows = (holding[name].to_numpy() for name in ("last_end_ns", "instance", "window"))
    holders = _holders(late["group"].unique().to_list(), rows)
    result = begin.copy()
    asked = late.with_row_index("row").group_by("group").agg("row")
    arrival, own, window = (late[name].to_numpy() for name in ("last_start_ns", "instance", "window"))
    for group, places in asked.iter_rows():
        if not holders[group]:
            continue
        mine = np.asarray(places, np.int64)
        candidates = np.sort(np.concatenate([rows[holder] for holder in holders[group]]))
        before = np.searchsorted(ends[candidates], arrival[mine], "right") - 1
        # An instance without transfer ends as its last member arrives and would find itself.
        before = before - ((before >= 0) & (numbers[candidates[before]] == own[mine]))
        chosen = candidates[np.maximum(before, 0)]
        usable = (before >= 0) & (windows[chosen] == window[mine])
        result[mine] = np.where(usable, np.maximum(ends[chosen], begin[mine]), begin[mine])
    return pl.Series("stretch_ns", result, dtype=pl.Int64)


def _holding(exposed: pl.DataFrame) -> pl.DataFrame:
    """Instances through which no member's compute ran on."""
    bare = pl.col("exposed_transfer_ns") + pl.col("exposed_wait_ns")
    loose = bare < (1 - LOOSE) * (pl.col("transfer_ns") + pl.col("wait_ns"))
    return exposed.group_by("instance").agg(loose=loose.fill_null(True).any()).filter(~pl.col("loose")).select("instance")


def _holders(asked: Iterable[str], groups: Iterable[str]) -> dict[str, list[str]]:
    """For each group the groups that hold all its members, itself included."""
    members = {group: frozenset(group_list(group)) for group in groups}
    by_rank: dict[int, list[str]] = {}
    for group, ranks in members.items():
        for rank in ranks:
            by_rank.setdefault(rank, []).append(group)
    result = {}
    for group in asked:
        mine = frozenset(group_list(group))
        # Only groups of its least shared member can hold it: a few, where all pairs would be millions.
        fewest = min((by_rank.get(rank, []) for rank in mine), key=len)
        result[group] = sorted(other for other in fewest if mine <= members[other])
    return result


def members_since(late: pl.DataFrame, collectives: pl.DataFrame, activities: pl.DataFrame, inputs: pl.DataFrame | None) -> pl.DataFrame:
    """Time of every member in every class between the start of the stretch and its arrival.

    Parameters
    ----------
    late
        Instances with ``late_rank`` and ``stretch_ns``.
    collectives, activities
        Aligned tables.
    inputs
        Stretches in which hosts waited for data, or None.

    Returns
    -------
    One row per (instance, member), sorted so: ``instance, rank, late_rank``, ``since_ns`` (arrival after the first) and a column in
    nanoseconds for each of `CLASSES`.
    """
    rows = collectives.join(late.select("instance", "late_rank", "stretch_ns"), on="instance")
    rows = rows.with_columns(until=pl.max_horizontal("start_ns", "stretch_ns")).sort("instance", "rank")
    rank, begin, until = (rows[name].to_numpy().astype(np.int64) for name in ("rank", "stretch_ns", "until"))
    ranks = activities.join(rows.select("rank").unique(), on="rank", how="semi")
    kind, copy = pl.col("kind"), pl.col("name").str.contains(_HOST_TO_DEVICE)
    moving = pl.col("transfer_start_ns").fill_null(pl.col("start_ns")).clip(pl.col("start_ns"), pl.col("end_ns"))
    communication, seen = ranks.filter(kind == "communication"), pl.col("split") == "measured"
    layers = {
        "compute": ranks.filter(kind == "compute"),
        "transfer": communication.filter(seen).with_columns(start_ns=moving),
        "wait": communication.filter(seen).with_columns(end_ns=moving),
        "communication": communication.filter(~seen.fill_null(False)),
        "input": ranks.filter((kind == "memory") & copy),
        "copy": ranks.filter((kind == "memory") & ~copy),
    }
    layers = {name: frame.select(pl.col("rank").cast(pl.Int64), "start_ns", "end_ns") for name, frame in layers.items()}
    if inputs is not None:
        layers["input"] = pl.concat([layers["input"], inputs.select(pl.col("rank").cast(pl.Int64), "start_ns", "end_ns")])
    # Every class takes what the classes before it left: the union grows, and the growth is the class's own time.
    below, so_far, columns = np.zeros(len(rank), np.int64), [], {}
    for name, frame in layers.items():
        so_far.append(frame)
        covered = _cover(pl.concat(so_far), rank, begin, until)
        columns[name], below = covered - below, covered
    columns["host"] = until - begin - below
    since = pl.col("start_ns") - pl.col("start_ns").min().over("instance")
    return rows.select("instance", "rank", "late_rank", since_ns=since).hstack(pl.DataFrame(columns))


def _cover(frame: pl.DataFrame, rank: Int64s, begin: Int64s, until: Int64s) -> Int64s:
    lane, start, end = (frame[name].to_numpy() for name in ("rank", "start_ns", "end_ns"))
    return cover(lane, start, end, rank, begin, until)


def _window_starts(activities: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """When each rank's window begins: its first step, or its first launch or activity where there are no steps."""
    marked = steps.group_by("rank", "window").agg(step_ns=pl.col("start_ns").min())
    seen = activities.group_by("rank", "window").agg(first_ns=pl.min_horizontal("start_ns", "launch_start_ns").min())
    both = seen.join(marked, on=["rank", "window"], how="left")
    return both.select("rank", "window", begin_ns=pl.col("step_ns").fill_null(pl.col("first_ns")))
