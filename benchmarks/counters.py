"""Ten million counter samples to intervals: CPU seconds and memory.

    python benchmarks/counters.py [--ports 1000] [--metrics 10] [--polls 1000]

The samples are made as a stored, sorted ``counters`` table and read back from Parquet, as the pipeline does. Printed: CPU seconds of
``link_intervals``, ``links`` and the tables about traffic (all threads), and the peak of resident memory of the whole process.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

METRICS = (
    "bytes",
    "discards",
    "ecn_marked",
    "errors",
    "multicast_packets",
    "packets",
    "pause_frames",
    "pause_us",
    "unicast_packets",
    "wred_drops",
)
S = 1_000_000_000


def make(path: Path, ports: int, metrics: int, polls: int) -> None:
    """Write a sorted table of cumulative samples, ports of fifty switches."""
    import numpy as np
    import polars as pl

    from netlab.schema.counters import COUNTERS

    chance = np.random.default_rng(1)
    parts = []
    for number in range(ports):
        device, port = f"leaf{number // 20:04d}", f"Ethernet{number % 20:03d}"
        for metric in METRICS[:metrics]:
            steps = chance.integers(1, 10**9, polls, dtype=np.uint64)
            part = pl.DataFrame({"ts_ns": np.arange(polls) * 10 * S + 1_767_225_600 * S, "value_int": np.cumsum(steps, dtype=np.uint64)})
            part = part.with_columns(pl.col("value_int").cast(pl.Float64).alias("value"))
            fill = {"device": device, "port": port, "queue": None, "direction": "rx", "metric": metric, "kind": "counter", "width_bits": 64}
            fill |= {"overflow": "wrap", "flags": "", "raw_name": metric, "ts_source": "collector", "source": "made.csv"}
            parts.append(COUNTERS.conform(part, **fill))
    pl.concat(parts).write_parquet(path, compression="zstd", compression_level=1)


def measure(path: Path, ports: int) -> None:
    """Read the table, difference it, measure the links; print times and memory."""
    import polars as pl

    from netlab.attribute.counter_coverage import counter_coverage
    from netlab.attribute.link_queues import link_queues
    from netlab.attribute.link_traffic import link_traffic
    from netlab.attribute.links import link_intervals, links
    from netlab.schema.counters import PORTS

    names = [(f"leaf{number // 20:04d}", f"Ethernet{number % 20:03d}") for number in range(ports)]
    table = PORTS.conform(pl.DataFrame(names, schema=["device", "port"], orient="row"), speed_gbps=400.0, role="host")
    began = time.process_time()
    counters = pl.read_parquet(path)
    read_s = time.process_time() - began
    began, wall = time.process_time(), time.perf_counter()
    intervals, issues = link_intervals(counters, table)
    intervals_s, intervals_wall = time.process_time() - began, time.perf_counter() - wall
    began = time.process_time()
    result = links(intervals, table)
    links_s = time.process_time() - began
    began = time.process_time()
    queues, course = link_queues(counters, intervals, table), link_traffic(intervals, result)
    coverage = counter_coverage(counters, intervals, table)
    further_s = time.process_time() - began
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{counters.height:,} samples, {intervals.height:,} intervals, {result.height:,} links, {len(issues)} issues")
    print(
        f"read {read_s:.2f} s CPU; link_intervals {intervals_s:.2f} s CPU ({intervals_wall:.2f} s wall); "
        f"links {links_s:.2f} s CPU; queues ({queues.height:,}), course ({course.height:,}) and coverage ({coverage.height:,}) "
        f"{further_s:.2f} s CPU; peak {peak_gb:.2f} GB"
    )


def main() -> None:
    """Make the table in one process, measure in another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ports", type=int, default=1000)
    parser.add_argument("--metrics", type=int, default=10)
    parser.add_argument("--polls", type=int, default=1000)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table is not None:
        measure(options.table, options.ports)
        return
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "counters.parquet"
        make(table, options.ports, options.metrics, options.polls)
        subprocess.run([sys.executable, __file__, "--table", str(table), "--ports", str(options.ports)], check=True)


if __name__ == "__main__":
    main()
