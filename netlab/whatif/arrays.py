"""The columns of an aligned run as plain arrays, one place for the casts that the graph needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.run import Run

__all__ = ["COMMUNICATION", "COMPUTE", "MEMORY", "ROUNDING_NS", "Activities", "Steps", "grouped", "load_activities", "load_steps"]

COMPUTE, MEMORY, COMMUNICATION = 0, 1, 2
#: Two instants this close are one: traces round to 1 ns (older ones to 1 us), start and length each on its own.
ROUNDING_NS = 2_000
_KINDS = {"compute": COMPUTE, "memory": MEMORY, "communication": COMMUNICATION}
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Activities:
    """Rows of ``activities`` in table order. An absent number is -1; an absent launch is the far past."""

    frame: pl.DataFrame
    rank: Ints
    window: Ints
    #: Running number of (rank, window): what happens in two windows does not depend on each other.
    part: Ints
    #: Running number of (part, device, stream).
    lane: Ints
    kind: Ints
    start_ns: Ints
    end_ns: Ints
    launch_ns: Ints
    instance: Ints
    bytes: Ints
    step: Ints

    @property
    def size(self) -> int:
        """Number of activities."""
        return len(self.rank)

    @property
    def launched(self) -> NDArray[np.bool_]:
        """Whether the launching host call is known."""
        return self.launch_ns > np.iinfo(np.int64).min


@dataclass(frozen=True)
class Steps:
    """Rows of ``steps`` by (part, start)."""

    frame: pl.DataFrame
    part: Ints
    step: Ints
    start_ns: Ints
    end_ns: Ints
    mark_start_ns: Ints
    mark_end_ns: Ints
    #: The next row is the step right behind this one.
    followed: NDArray[np.bool_]

    @property
    def size(self) -> int:
        """Number of (rank, step)."""
        return len(self.part)


def grouped(*keys: Ints) -> dict[tuple[int, ...], Ints]:
    """Places of equal key tuples, each in ascending order; one sort, however many groups there are.

    >>> {key: rows.tolist() for key, rows in grouped(np.array([1, 0, 1]), np.array([5, 5, 5])).items()}
    {(0, 5): [1], (1, 5): [0, 2]}
    """
    if not len(keys[0]):
        return {}
    order = np.lexsort(keys[::-1])
    changes = np.zeros(len(order) - 1, bool)
    for key in keys:
        changes |= np.diff(key[order]) != 0
    runs = np.split(order, np.flatnonzero(changes) + 1)
    return {tuple(int(key[run[0]]) for key in keys): run for run in runs}


def load_activities(run: Run) -> Activities:
    """Activities of a run as arrays."""
    frame = run.frame("activities").with_columns(
        (pl.struct("rank", "window").rank("dense") - 1).cast(pl.Int64).alias("_part"),
    )
    frame = frame.with_columns((pl.struct("_part", "device", "stream").rank("dense") - 1).cast(pl.Int64).alias("_lane"))

    def ints(name: str, absent: int = -1) -> Ints:
        return frame[name].cast(pl.Int64).fill_null(absent).to_numpy()

    return Activities(
        frame=frame.drop("_part", "_lane"),
        rank=ints("rank"),
        window=ints("window"),
        part=ints("_part"),
        lane=ints("_lane"),
        kind=frame["kind"].replace_strict(_KINDS, default=COMPUTE, return_dtype=pl.Int64).to_numpy(),
        start_ns=ints("start_ns"),
        end_ns=np.maximum(ints("end_ns"), ints("start_ns")),
        launch_ns=ints("launch_start_ns", int(np.iinfo(np.int64).min)),
        instance=ints("instance"),
        bytes=ints("bytes"),
        step=ints("step"),
    )


def load_steps(run: Run, activities: Activities) -> Steps:
    """Steps of a run as arrays; without step marks, one row per part from its first to its last activity."""
    parts = activities.frame.select("rank", "window").with_columns(pl.Series("part", activities.part)).unique().sort("part")
    frame = run.frame("steps").join(parts, on=["rank", "window"], how="inner", maintain_order="left")
    if frame.is_empty():
        frame = _spans(activities, parts)
    frame = frame.sort("part", "start_ns", maintain_order=True)
    part, start, end = (frame[name].cast(pl.Int64).to_numpy() for name in ("part", "start_ns", "end_ns"))
    followed = np.zeros(len(part), bool)
    followed[:-1] = (part[1:] == part[:-1]) & (start[1:] == end[:-1])
    mark_start, mark_end = frame["mark_start_ns"].to_numpy(), frame["mark_end_ns"].fill_null(-1).to_numpy().copy()
    # Start and length of a mark are rounded on their own, so it may seem to end after the next one began.
    over = np.flatnonzero((part[1:] == part[:-1]) & (mark_end[:-1] > mark_start[1:]) & (mark_end[:-1] <= mark_start[1:] + ROUNDING_NS))
    mark_end[over] = mark_start[over + 1]
    return Steps(
        frame=frame.drop("part"),
        part=part,
        step=frame["step"].cast(pl.Int64).to_numpy(),
        start_ns=start,
        end_ns=end,
        mark_start_ns=mark_start,
        mark_end_ns=mark_end,
        followed=followed,
    )


def _spans(activities: Activities, parts: pl.DataFrame) -> pl.DataFrame:
    spans = (
        activities.frame.with_columns(pl.Series("part", activities.part))
        .group_by("part")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .join(parts, on="part")
    )
    return spans.with_columns(
        pl.lit(0, pl.Int32).alias("step"),
        pl.lit(True).alias("complete"),
        pl.lit(None, pl.String).alias("reason"),
        pl.col("start_ns").alias("mark_start_ns"),
        pl.col("end_ns").alias("mark_end_ns"),
    ).select("rank", "window", "step", "start_ns", "end_ns", "complete", "reason", "mark_start_ns", "mark_end_ns", "part")
