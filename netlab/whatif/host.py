"""Host order of a run: launches, waiting calls and step marks, with every gap between them kept.

All threads of a rank are one order. PyTorch's main and autograd threads hand over to each other (forward, backward, optimizer), so their
calls follow one another; a gap between two calls, of whatever thread, is host time and stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.run import Run
from netlab.whatif.arrays import MEMORY, Activities, Steps

__all__ = ["Calls", "HostPoints", "host_points", "raw_calls"]

Ints = NDArray[np.int64]

#: Calls that return when device work is done (CUDA and HIP runtime and driver names).
_WAITING_CALL = r"(?i)^(cuda|hip|cu)(Stream|Device|Event|Ctx)Synchronize|^(cuda|hip)Memcpy(2D|3D|ToSymbol|FromSymbol|HtoD|DtoH)?$"
_EVENT_CALL = r"(?i)EventSynchronize"
_RECORD_CALL = r"(?i)^(cuda|hip|cu)EventRecord"

#: A launch that takes this long waits for room in the launch queue: something launched long ago has to end first.
_BLOCKED_NS = 500_000

LAUNCH, MARK_END, MARK_START, CALL_START, CALL_END = range(5)


@dataclass(frozen=True)
class Calls:
    """Host calls of the raw tables, on the aligned clock. ``stream`` is -1 where the trace does not name it."""

    part: Ints
    start_ns: Ints
    end_ns: Ints
    correlation: Ints
    stream: Ints
    #: Waits for an event, which may stand before work that was launched since.
    event: NDArray[np.bool_]
    #: Correlation of the call that recorded that event, -1 where the trace does not say.
    record: Ints

    @classmethod
    def none(cls) -> Calls:
        """No calls."""
        empty = np.empty(0, np.int64)
        return cls(empty, empty, empty, empty, empty, empty.astype(bool), empty)

    @property
    def size(self) -> int:
        """Number of calls."""
        return len(self.part)


@dataclass(frozen=True)
class HostPoints:
    """Instants of the host of every part, sorted by part and time; the sources of the host chain."""

    part: Ints
    at_ns: Ints
    what: Ints
    #: Row of the steps for marks, of the waiting calls for their two ends, else -1.
    row: Ints

    @property
    def size(self) -> int:
        """Number of instants."""
        return len(self.part)


def host_points(activities: Activities, steps: Steps, waiting: Calls) -> HostPoints:
    """Every known instant of the host: launches (one per call), step marks, both ends of waiting calls."""
    known = activities.launched
    launches = np.unique(np.stack((activities.part[known], activities.launch_ns[known])), axis=1)
    ended = steps.mark_end_ns >= 0
    rows = np.arange(steps.size)
    calls = np.arange(waiting.size)
    part = np.concatenate((launches[0], steps.part[ended], steps.part, waiting.part, waiting.part))
    at = np.concatenate((launches[1], steps.mark_end_ns[ended], steps.mark_start_ns, waiting.start_ns, waiting.end_ns))
    what = np.repeat(
        [LAUNCH, MARK_END, MARK_START, CALL_START, CALL_END],
        [launches.shape[1], int(ended.sum()), steps.size, waiting.size, waiting.size],
    )
    row = np.concatenate((np.full(launches.shape[1], -1), rows[ended], rows, calls, calls))
    # At one instant: a call returns, a step ends, the next begins, then it launches.
    rank_of = np.array([4, 1, 2, 3, 0])
    order = np.lexsort((row, rank_of[what], at, part))
    return HostPoints(part[order], at[order], what[order], row[order])


def raw_calls(run: Run, activities: Activities, steps: Steps) -> tuple[Calls, Calls]:
    """Waiting calls and event-record calls of the raw ``launches`` table, where the run keeps it.

    A copy whose call returned after the copy had ended blocked, whatever its name; so did a launch that took longer than any launch does.
    """
    launches = run.frame("launches")
    span = _part_spans(activities, steps)
    if launches.is_empty() or run.frame("trace_files").is_empty():
        return _blocking_copies(activities, Calls.none()), Calls.none()
    event = pl.col("name").str.contains("(?i)event sync")
    streams = (
        run.frame("sync_events")
        .filter((event | pl.col("name").str.contains("(?i)stream sync")) & pl.col("correlation").is_not_null())
        .select(
            "file",
            "correlation",
            pl.when(event).then("wait_on_stream").otherwise("stream").alias("_stream"),
            pl.when(event).then("wait_on_record_correlation").alias("_record"),
        )
        .unique(["file", "correlation"], keep="first", maintain_order=True)
    )
    found = (
        launches.filter(pl.col("name").str.contains(_WAITING_CALL) | pl.col("name").str.contains(_RECORD_CALL))
        .join(run.frame("trace_files").select("file", "rank"), on="file")
        .join(streams, on=["file", "correlation"], how="left")
        .join(_offsets(run), on="rank", how="left")
        .with_columns(pl.col("start_ns", "end_ns") - pl.col("offset_ns").fill_null(0))
        .join(span, on="rank")
        .filter((pl.col("start_ns") >= pl.col("_first")) & (pl.col("start_ns") <= pl.col("_last")))
        .sort("part", "start_ns")
    )
    waits = found.filter(pl.col("name").str.contains(_WAITING_CALL))
    return _blocking_copies(activities, _calls(waits)), _calls(found.filter(pl.col("name").str.contains(_RECORD_CALL)))


def _calls(frame: pl.DataFrame) -> Calls:
    def ints(name: str) -> Ints:
        return frame[name].cast(pl.Int64).fill_null(-1).to_numpy()

    event = frame["name"].str.contains(_EVENT_CALL).to_numpy()
    return Calls(ints("part"), ints("start_ns"), ints("end_ns"), ints("correlation"), ints("_stream"), event, ints("_record"))


def _blocking_copies(activities: Activities, calls: Calls) -> Calls:
    returned = activities.frame["launch_end_ns"].fill_null(-1).to_numpy()
    copied = (activities.kind == MEMORY) & activities.launched & (returned >= activities.end_ns)
    queued = activities.launched & ~copied & (returned - activities.launch_ns > _BLOCKED_NS)
    blocked = copied | queued
    correlation = activities.frame["correlation"].fill_null(-1).to_numpy()
    blocked &= ~np.isin(correlation, calls.correlation)
    # One call launches all kernels of a graph.
    _, first = np.unique(np.stack((activities.part, activities.launch_ns)), axis=1, return_index=True)
    blocked &= np.isin(np.arange(activities.size), first)
    rows = np.flatnonzero(blocked)
    stream = activities.frame["stream"].fill_null(-1).to_numpy()
    return Calls(
        np.concatenate((calls.part, activities.part[rows])),
        np.concatenate((calls.start_ns, activities.launch_ns[rows] + 1)),
        np.concatenate((calls.end_ns, returned[rows])),
        np.concatenate((calls.correlation, correlation[rows])),
        np.concatenate((calls.stream, stream[rows])),
        np.concatenate((calls.event, queued[rows])),
        np.concatenate((calls.record, np.full(len(rows), -1))),
    )


def _part_spans(activities: Activities, steps: Steps) -> pl.DataFrame:
    spans = pl.DataFrame(
        {
            "part": np.concatenate((activities.part, steps.part)),
            "_first": np.concatenate((activities.start_ns, steps.mark_start_ns)),
            "_last": np.concatenate((activities.end_ns, steps.end_ns)),
        }
    )
    ranks = activities.frame.select("rank").with_columns(pl.Series("part", activities.part)).unique()
    return spans.group_by("part").agg(pl.col("_first").min(), pl.col("_last").max()).join(ranks, on="part")


def _offsets(run: Run) -> pl.DataFrame:
    return run.frame("clocks").select("rank", "offset_ns").unique("rank", keep="first", maintain_order=True)
