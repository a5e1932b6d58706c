"""Recorded hand-overs between threads: the backward of an operator waits for its forward (the profiler's fwdbwd flows).

On a GPU run all threads of a rank are one host order, which holds these hand-overs already. On a CPU run threads are lanes, and a flow that
leads to another thread is the only record of who waited for whom.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.run import Run
from netlab.whatif.arrays import COMMUNICATION, Activities, grouped
from netlab.whatif.graph import EdgeKind, GraphBuilder

__all__ = ["forward_to_backward"]

Ints = NDArray[np.int64]


def forward_to_backward(builder: GraphBuilder, run: Run, a: Activities, end: Ints, first: Ints) -> None:
    """Let the first activity of each backward operator wait for the first of its forward.

    An operator's flow lies at its own start; what runs is the leaf operator that begins there or next on its thread.
    """
    pairs = _flows(run)
    if pairs.is_empty():
        return
    stream = a.frame["stream"].fill_null(-1).cast(pl.Int64).to_numpy()
    own = np.flatnonzero(a.kind != COMMUNICATION)
    lanes = grouped(a.rank[own], stream[own])
    source, target = (_next(a, own, lanes, pairs, side) for side in ("forward", "backward"))
    good = (source >= 0) & (target >= 0)
    good[good] &= (a.part[source[good]] == a.part[target[good]]) & (a.end_ns[source[good]] <= a.start_ns[target[good]])
    builder.edges(end[source[good]], first[target[good]], EdgeKind.HOST_ORDER)


def _flows(run: Run) -> pl.DataFrame:
    """Both ends of every flow: rank, and thread and instant (on the aligned clock) of forward and backward."""
    files = run.frame("trace_files").select("file", "rank")
    offsets = run.frame("clocks").select("rank", "offset_ns").unique("rank", keep="first", maintain_order=True)
    flows = run.frame("flows").join(files, on="file").join(offsets, on="rank", how="left")
    flows = flows.with_columns(at_ns=pl.col("at_ns") - pl.col("offset_ns").fill_null(0)).unique(["file", "flow", "phase"], keep="first")
    ends = [
        flows.filter(pl.col("phase") == phase).select("file", "rank", "flow", pl.col("thread", "at_ns").name.prefix(f"{side}_"))
        for phase, side in (("s", "forward"), ("f", "backward"))
    ]
    return ends[0].join(ends[1], on=["file", "rank", "flow"]).drop_nulls().sort("file", "flow")


def _next(a: Activities, own: Ints, lanes: dict[tuple[int, ...], Ints], pairs: pl.DataFrame, side: str) -> Ints:
    """Row of the first activity of a rank's thread that starts at an instant or later; -1 where there is none."""
    rank, thread, at = (pairs[name].cast(pl.Int64).to_numpy() for name in ("rank", f"{side}_thread", f"{side}_at_ns"))
    found = np.full(len(at), -1, np.int64)
    for key, asked in grouped(rank, thread).items():
        rows = own[lanes[key]] if key in lanes else np.empty(0, np.int64)
        rows = rows[np.argsort(a.start_ns[rows], kind="stable")]
        place = np.searchsorted(a.start_ns[rows], at[asked])
        there = place < len(rows)
        found[asked[there]] = rows[place[there]]
    return found
