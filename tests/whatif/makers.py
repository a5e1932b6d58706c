"""Runs written by hand: a few lines of kernels become the tables that the graph reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from netlab.run import Run, RunFacts
from netlab.schema.timeline import ACTIVITIES, COLLECTIVES, STEPS

MS = 1_000_000


@dataclass(frozen=True)
class Kernel:
    """One activity in milliseconds; ``instance`` makes it communication. Launched 20 us before its start unless said otherwise."""

    rank: int
    start: float
    end: float
    stream: int = 7
    instance: int | None = None
    bytes: int | None = None
    op: str = "all_reduce"
    launch: float | None = None
    layer: str = "inter_node"
    kind: str = ""
    #: Members of the collective; all ranks of the run if left out.
    group: str | None = None


def make_run(
    kernels: Sequence[Kernel],
    steps: Sequence[tuple[int, int, float, float]],
    *,
    world: int | None = None,
    backend: str = "device",
    split: str = "measured",
) -> Run:
    """A run from kernels and steps ``(rank, step, start, end)`` in ms."""
    ranks = sorted({k.rank for k in kernels})
    group = ",".join(map(str, ranks))
    rows = []
    arrivals: dict[int, list[float]] = {}
    for k in kernels:
        if k.instance is not None:
            arrivals.setdefault(k.instance, []).append(k.start)
    for number, k in enumerate(kernels):
        communication = k.instance is not None
        launch = k.launch if k.launch is not None else max(0.0, k.start - 0.02)
        begin = max(arrivals[k.instance]) if k.instance is not None and split == "measured" else None
        rows.append(
            {
                "rank": k.rank,
                "activity": number,
                "device": k.rank,
                "stream": k.stream,
                "kind": k.kind or ("communication" if communication else "compute"),
                "name": "ncclDevKernel_AllReduce" if communication else "gemm",
                "start_ns": round(k.start * MS),
                "end_ns": round(k.end * MS),
                "launch_start_ns": round(launch * MS) if backend == "device" else None,
                "launch_end_ns": round(launch * MS) + 5_000 if backend == "device" else None,
                "launch_thread": 1 if backend == "device" else None,
                "window": 0,
                "step": next((step for rank, step, start, end in steps if rank == k.rank and start <= k.start < end), None),
                "instance": k.instance,
                "group": (k.group or group) if communication else None,
                "op": k.op if communication else None,
                "dtype": "Float" if communication else None,
                "bytes": k.bytes,
                "layer": k.layer if communication else None,
                "split": split if communication else None,
                "transfer_start_ns": round(begin * MS) if begin is not None else None,
                "transfer_start_low_ns": round((begin if begin is not None else k.end) * MS) if communication else None,
                "transfer_start_high_ns": round((begin if begin is not None else k.start) * MS) if communication else None,
            }
        )
    activities = ACTIVITIES.conform(pl.DataFrame(rows, infer_schema_length=None))
    collectives = activities.filter(pl.col("instance").is_not_null()).select(
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
        (pl.max_horizontal("transfer_start_ns", "start_ns") - pl.col("start_ns")).alias("wait_ns"),
        (pl.col("end_ns") - pl.max_horizontal("transfer_start_ns", "start_ns")).alias("transfer_ns"),
        "split",
        "layer",
        pl.lit(world or len(ranks)).alias("members"),
        pl.lit(len(ranks)).alias("seen"),
        pl.lit(0, pl.Int64).alias("error_ns"),
    )
    marks = STEPS.conform(
        pl.DataFrame(
            [
                {
                    "rank": rank,
                    "window": 0,
                    "step": step,
                    "start_ns": round(start * MS),
                    "end_ns": round(end * MS),
                    "complete": True,
                    "mark_start_ns": round(start * MS),
                    "mark_end_ns": round(end * MS),
                }
                for rank, step, start, end in steps
            ]
        )
    )
    facts = RunFacts(
        name="hand",
        world_size=world or len(ranks),
        ranks=ranks,
        missing_ranks=[r for r in range(world or 0) if r not in ranks],
        steps=sorted({s[1] for s in steps}),
        backend=backend,
        clock_aligned=True,
    )
    return Run.from_frames({"activities": activities, "collectives": COLLECTIVES.conform(collectives), "steps": marks}, facts)


def overlapped() -> Run:
    """Two equal ranks: compute 0-70, an all-reduce of 1 GiB 40-100, the step 0-100."""
    kernels = []
    for rank in (0, 1):
        kernels += [Kernel(rank, 0, 70), Kernel(rank, 40, 100, stream=20, instance=0, bytes=2**30)]
    return make_run(kernels, [(0, 10, 0, 100), (1, 10, 0, 100)])


def late_rank() -> Run:
    """Rank 1 computes 16 ms, rank 0 only 8; the all-reduce moves data for 2 ms, then 2 ms of compute follow."""
    kernels = []
    for rank, compute in ((0, 8), (1, 16)):
        kernels += [
            Kernel(rank, 0, compute),
            Kernel(rank, compute, 18, stream=20, instance=0, bytes=4 * 2**20),
            Kernel(rank, 18, 20),
        ]
    return make_run(kernels, [(0, 7, 0, 20), (1, 7, 0, 20)])
