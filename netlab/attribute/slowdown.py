"""How much slower compute runs while communication overlaps it."""

from __future__ import annotations

import numpy as np
import polars as pl

from netlab.intervals import cover

__all__ = ["compute_slowdown"]

#: A kernel counts as overlapped from this share of its time on, as free below the second; between them it is left out.
OVERLAPPED, FREE = 0.9, 0.1
#: Fewer runs of either sort say nothing about a kernel.
SAMPLES = 3


def compute_slowdown(activities: pl.DataFrame) -> pl.DataFrame:
    """Median time of the same kernel with the same launch grid, overlapped by communication against free of it.

    Overlapped kernels share memory bandwidth and multiprocessors with the collective (NVIDIA/nccl issue 689), so hiding communication is
    not free.

    Returns
    -------
    One row per (rank, name, grid) with at least 3 runs of both sorts, the most lost time first: ``rank, name, grid, overlapped, free``
    (runs), ``overlapped_ns, free_ns`` (medians), ``slowdown`` (their ratio) and ``lost_ns`` (excess over all overlapped runs).
    """
    communication = activities.filter(pl.col("kind") == "communication")
    compute = activities.filter((pl.col("kind") == "compute") & (pl.col("end_ns") > pl.col("start_ns")))
    compute = compute.join(communication.select("rank").unique(), on="rank", how="semi", maintain_order="left")
    lane, begin, until = (communication[name].to_numpy().astype(np.int64) for name in ("rank", "start_ns", "end_ns"))
    rank, start, end = (compute[name].to_numpy().astype(np.int64) for name in ("rank", "start_ns", "end_ns"))
    duration = pl.col("end_ns") - pl.col("start_ns")
    frame = compute.select("rank", "name", "grid", time=duration).with_columns(
        part=pl.Series(cover(lane, begin, until, rank, start, end), dtype=pl.Int64) / pl.col("time")
    )
    over, free = pl.col("part") >= OVERLAPPED, pl.col("part") <= FREE
    rows = frame.group_by("rank", "name", "grid").agg(
        overlapped=over.sum().cast(pl.Int64),
        free=free.sum().cast(pl.Int64),
        overlapped_ns=pl.col("time").filter(over).median(),
        free_ns=pl.col("time").filter(free).median(),
    )
    rows = rows.filter((pl.col("overlapped") >= SAMPLES) & (pl.col("free") >= SAMPLES) & (pl.col("free_ns") > 0))
    return rows.with_columns(
        slowdown=pl.col("overlapped_ns") / pl.col("free_ns"),
        lost_ns=(pl.col("overlapped_ns") - pl.col("free_ns")) * pl.col("overlapped"),
    ).sort("lost_ns", "rank", "name", "grid", descending=[True, False, False, False])
