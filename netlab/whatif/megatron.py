"""Straggler analysis of operation-level Megatron traces: how much faster the job were if no operation stood out.

The method is that of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025, arXiv 2505.05713): replay every
step with its own times, then with the mean time of each kind of compute and the median of each kind of communication; S is the ratio of
the mean step times. Communication counts from the last member's start. Written anew on our replay: operations of the first step are the
program, its dependencies hold for every step and data-parallel rank, and steps are the scenarios of one pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.errors import RunError
from netlab.units import NS_PER_MS
from netlab.whatif.megatron_program import Program, build_program
from netlab.whatif.replay import replay

__all__ = ["Job", "Slowdown", "open_job", "slowdown"]

Floats = NDArray[np.float64]

#: A member that ended this long before the last one started did not take part in the transfer (a send that was buffered).
_BUFFERED_NS = 10_000_000

_EVEN_BY_MEDIAN = (
    "forward-send",
    "forward-recv",
    "backward-send",
    "backward-recv",
    "params-all-gather",
    "separate-grads-all-reduce",
    "grads-reduce-scatter",
    "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
    "optimizer-clip-main-grad",
)


@dataclass(frozen=True)
class Slowdown:
    """Straggler slowdown of a job: replayed with own times over replayed with even times, means over steps."""

    slowdown: float
    replayed_ms: float
    even_ms: float
    measured_ms: float
    steps: int
    operations: int

    @property
    def replay_error(self) -> float:
        """Replayed over measured step time, minus 1. Launch delays, which the method leaves out, are in it."""
        return self.replayed_ms / self.measured_ms - 1

    @property
    def wasted_share(self) -> float:
        """Share of the GPU-hours that even operations would save."""
        return 1 - 1 / self.slowdown


@dataclass(frozen=True)
class Job:
    """One job, ready to be replayed. Times are (operation, data-parallel rank, step) in ns."""

    program: Program
    ranks: int
    own: Floats
    measured_ms: float
    operations: int

    def even(self, keep: Iterable[str] = ()) -> Floats:
        """Each operation with the mean (compute) or median (communication) of its kind; kinds in ``keep`` with their own times."""
        even = self.own.copy()
        for op in sorted({*self.program.ops} - {*keep}):
            rows = np.array([place for place, name in enumerate(self.program.ops) if name == op])
            even[rows] = np.median(self.own[rows]) if op in _EVEN_BY_MEDIAN else self.own[rows].mean()
        return even

    def step_ms(self, times: Floats) -> float:
        """Mean step when operations take these times."""
        return float(_step_times(self.program, times, self.ranks).mean()) / NS_PER_MS


def open_job(operations: pl.DataFrame) -> Job:
    """Program and times of one job.

    Parameters
    ----------
    operations
        ``JOB_OPERATIONS`` rows of one source. Steps that lack operations of the first one are left out.

    Raises
    ------
    RunError
        If the rows hold more than one job, no complete step, or a schedule whose dependencies close a cycle.
    """
    if operations["source"].n_unique() != 1:
        raise RunError("Straggler analysis takes the operations of one job; filter job_operations by source.")
    frame = _complete(operations.with_columns(pl.concat_str("op", pl.lit("/"), "sequence", pl.lit("/"), "stage").alias("name")))
    ranks = int(frame["dp_rank"].max()) + 1  # type: ignore[arg-type]
    first = frame.filter((pl.col("dp_rank") == 0) & (pl.col("step") == frame["step"].min()))
    program = build_program(first, ranks)
    start, end = _matrix(frame, program, "start_ns"), _matrix(frame, program, "end_ns")
    measured = end.max(axis=(0, 1)) - start.min(axis=(0, 1))
    own = _own_times(program, start, end)
    return Job(program=program, ranks=ranks, own=own, measured_ms=float(measured.mean()) / NS_PER_MS, operations=frame.height)


def slowdown(operations: pl.DataFrame, *, keep: Iterable[str] = ()) -> Slowdown:
    """Straggler slowdown of one job.

    Parameters
    ----------
    operations
        As in ``open_job``, which raises what this raises.
    keep
        Kinds of operation that keep their own times in the even replay: the slowdown of the others.
    """
    job = open_job(operations)
    replayed, evened = job.step_ms(job.own), job.step_ms(job.even(keep))
    return Slowdown(
        slowdown=replayed / evened,
        replayed_ms=replayed,
        even_ms=evened,
        measured_ms=job.measured_ms,
        steps=job.own.shape[2],
        operations=job.operations,
    )


def _complete(frame: pl.DataFrame) -> pl.DataFrame:
    counts = frame.group_by("step").agg(pl.len().alias("n"), pl.struct("name", "dp_rank").n_unique().alias("kinds"))
    usual = counts["n"].mode().max()
    kept = counts.filter((pl.col("n") == usual) & (pl.col("kinds") == usual))
    if kept.is_empty():
        raise RunError("No step of the job has every operation exactly once per rank; record whole steps.")
    return frame.join(kept.select("step"), on="step", how="semi")


def _matrix(frame: pl.DataFrame, program: Program, column: str) -> Floats:
    """Values as (operation, data-parallel rank, step), from the start of each step."""
    order = {name: place for place, name in enumerate(program.names)}
    ordered = frame.with_columns(pl.col("name").replace_strict(order, return_dtype=pl.Int64).alias("place")).sort(
        "place", "dp_rank", "step"
    )
    origin = frame.group_by("step").agg(pl.col("start_ns").min().alias("origin"))
    ordered = ordered.join(origin, on="step", how="left", maintain_order="left")
    values = (ordered[column] - ordered["origin"]).to_numpy().astype(float)
    return values.reshape(len(program.names), -1, frame["step"].n_unique())


def _own_times(program: Program, start: Floats, end: Floats) -> Floats:
    """Length of each operation; for communication, from the start of its last member."""
    own = end - start
    for members, all_ranks in program.groups:
        last = start[members].max(axis=0)
        if all_ranks:
            last = np.broadcast_to(last.max(axis=0), last.shape)
        own[members] = end[members] - last
    buffered = np.zeros(len(program.names), bool)
    for members, _ in program.groups:
        buffered[members] = True
    own[buffered] = np.where(own[buffered] <= -_BUFFERED_NS, 0.0, own[buffered])
    return own


def _step_times(program: Program, own: Floats, ranks: int) -> Floats:
    """Replay every step at once: nodes are (operation, rank), the scenario axis is the step."""
    cost = np.zeros((program.size, own.shape[2]))
    places = program.end_node[:, None] * ranks + np.arange(ranks)
    cost[program.position[places]] = own
    ends = replay(program.pointer, program.predecessor, cost)
    final = np.array([place for place, name in enumerate(program.ops) if name == "optimizer"])
    result: Floats = ends[program.position[places[final]].ravel()].max(axis=0)
    return result
