"""Communication kernels read back from a stored run of 5 million activities: one scan with the predicate and the columns pushed down.

python -m benchmarks.read_back [--rows N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from netlab.run import Run, RunFacts
from netlab.schema import TABLES

_RANKS, _COMM_EVERY, _PASSES = 8, 20, 5


def _activities(rows: int) -> pl.DataFrame:
    """Kernels of eight ranks one after the other, every twentieth of them communication."""
    each = rows // _RANKS
    place = np.tile(np.arange(each), _RANKS)
    comm = place % _COMM_EVERY == 0
    start = place * 10_000
    frame = pl.DataFrame(
        {
            "activity": np.arange(each * _RANKS),
            "rank": np.repeat(np.arange(_RANKS), each),
            "start_ns": start,
            "end_ns": start + 8_000,
            "kind": np.where(comm, "communication", "compute"),
            "name": np.where(comm, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "gemm_bf16_128x128"),
            "stream": np.where(comm, 20, 7),
        }
    )
    table = TABLES["activities"]
    fill = {column.name: False if column.dtype == pl.Boolean else "" if column.dtype == pl.String else 0 for column in table.columns}
    named = {name: value for name, value in fill.items() if name not in frame.columns and not _may_be_null(name)}
    return table.conform(frame.sort(table.key), **named)


def _may_be_null(name: str) -> bool:
    return next(column.nullable for column in TABLES["activities"].columns if column.name == name)


def main() -> int:
    """Store, read back, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=5_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        Run.from_frames({"activities": _activities(rows)}, RunFacts(name="r", ranks=list(range(_RANKS)))).save(folder)
        size_mb = (folder / "activities.parquet").stat().st_size / 1e6
        walls, cpus, height = [], [], 0
        for _ in range(_PASSES):
            wall, cpu = time.perf_counter(), time.process_time()
            scan = Run.open(folder).lazy("activities").filter(pl.col("kind") == "communication")
            height = scan.select("rank", "start_ns", "end_ns", "name").collect().height
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
    print(f"{height:,} communication kernels from {rows:,} activities ({size_mb:.0f} MB): {min(walls):.3f} s wall, {min(cpus):.3f} s CPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
