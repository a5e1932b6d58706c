"""CPU time of matching and splitting, at several sizes: 64 ranks, one all-reduce group and eight groups of eight, with and without Seq.

    python benchmarks/matching.py [--ranks 64] [--sizes 1000 10000]

Two figures a size: the match stage alone (matching, clocks, wait and transfer) and the whole align stage from raw tables. The first call is
a warm-up and not counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from unittest.mock import patch

import numpy as np
import polars as pl

from netlab.align import assemble
from netlab.align.options import AlignOptions
from netlab.schema.traces import DEVICE_EVENTS, LAUNCHES, PROCESS_GROUPS, TRACE_FILES

_STAGES = ("match_collectives", "measure_clocks", "split_instances")
_PERIOD_NS = 1_000_000


def raw_tables(ranks: int, collectives: int, *, numbered: bool, seed: int = 7) -> dict[str, pl.DataFrame]:
    """Raw tables of a run in which every rank alternates between an all-reduce of the world and one of its group of eight."""
    random = np.random.default_rng(seed)
    number = np.arange(collectives)
    late_ns = random.integers(0, 400_000, (ranks, collectives))
    finish_ns = (number + 1) * _PERIOD_NS
    in_world = number % 2 == 0
    frames, groups = [], []
    for rank in range(ranks):
        first = rank // 8 * 8
        local = list(range(first, min(first + 8, ranks)))
        start = number * _PERIOD_NS + 200_000 + late_ns[rank]
        end = finish_ns + random.integers(-1_000, 1_000, collectives)
        frames.append(
            pl.DataFrame(
                {
                    "file": np.full(collectives, rank),
                    "event": number,
                    "start_ns": start,
                    "end_ns": end,
                    "correlation": number + 1,
                    "group_name": np.where(in_world, "0", "1"),
                    "group_ranks": np.where(in_world, str(list(range(ranks)) if ranks <= 30 else [*range(30)])[:-1] + ", ...]", str(local)),
                    "group_size": np.where(in_world, ranks, len(local)),
                    "seq": number // 2 + 1,
                }
            )
        )
        groups.append((rank, "0", "default_pg", ranks, list(range(ranks))))
        groups.append((rank, "1", "tp", len(local), local))
    events = pl.concat(frames).with_columns(
        category=pl.lit("kernel"),
        name=pl.lit("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
        device=pl.lit(0),
        stream=pl.lit(20),
        collective=pl.lit("allreduce"),
        in_elements=pl.lit(1 << 20),
        out_elements=pl.lit(1 << 20),
        dtype=pl.lit("BFloat16"),
        seq=pl.col("seq") if numbered else pl.lit(None, pl.Int64),
    )
    launches = events.select("file", "correlation", name=pl.lit("cudaLaunchKernel"), thread=1, start_ns=pl.col("start_ns") - 20_000)
    files = [
        {"file": rank, "path": f"rank{rank}.json", "rank": rank, "world_size": ranks, "base_time_ns": 0, "complete": True}
        | {"device_event_count": collectives}
        for rank in range(ranks)
    ]
    return {
        "trace_files": TRACE_FILES.conform(pl.DataFrame(files, schema_overrides={"file": pl.Int32})),
        "process_groups": PROCESS_GROUPS.conform(
            pl.DataFrame(groups, schema=["file", "name", "description", "size", "ranks"], orient="row"), backend="nccl"
        ),
        "device_events": DEVICE_EVENTS.conform(events),
        "launches": LAUNCHES.conform(launches.with_columns(end_ns=pl.col("start_ns") + 5_000)),
    }


def measure(raw: dict[str, pl.DataFrame]) -> tuple[float, float, float]:
    """CPU seconds of the match stage, and CPU and wall seconds of the whole align stage."""
    spent = dict.fromkeys(_STAGES, 0.0)

    def timed(name: str) -> object:
        inner = getattr(assemble, name)

        def call(*args: object, **kwargs: object) -> object:
            begin = time.process_time()
            result = inner(*args, **kwargs)
            spent[name] += time.process_time() - begin
            return result

        return call

    with patch.multiple(assemble, **{name: timed(name) for name in _STAGES}):
        cpu, wall = time.process_time(), time.perf_counter()
        result = assemble.align(raw, {}, AlignOptions())
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    splits = result.frames["collectives"]["split"].unique().to_list()
    if splits != ["measured"]:
        raise SystemExit(f"matching failed: splits are {splits}")
    return sum(spent.values()), cpu, wall


def main() -> None:
    """Print one line a size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    args = parser.parse_args()
    measure(raw_tables(8, 100, numbered=True))
    out = sys.stdout.write
    out(f"{'matching by':<14}{'ranks':>6}{'collectives':>13}{'match CPU s':>13}{'align CPU s':>13}{'align wall s':>14}\n")
    for numbered in (True, False):
        for size in args.sizes:
            match, cpu, wall = measure(raw_tables(args.ranks, size, numbered=numbered))
            out(f"{'Seq' if numbered else 'sequence':<14}{args.ranks:>6}{size:>13,}{match:>13.2f}{cpu:>13.2f}{wall:>14.2f}\n")


if __name__ == "__main__":
    main()
