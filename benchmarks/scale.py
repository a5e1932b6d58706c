"""Whole `netlab check` on made runs of more and more ranks: wall, CPU seconds and peak memory of the process tree.

    python -m benchmarks.scale [--ranks 8 64 512 1024] [--steps 14] [--workers 1] [--keep DIR]

Fourteen steps give each rank about 2,000 activities. Making 1,024 ranks takes minutes; ``--keep`` keeps them. A second check of the same
files shows what is left when nothing has to be parsed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import polars as pl

from netlab.synth import write_run

_NETLAB = [sys.executable, "-c", "from netlab.cli import main; main()"]


def tree_mb(root: int) -> float:
    """Resident memory of a process and all its descendants; pages that they share count once for each."""
    children: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            resident[int(entry.name)] = int(fields[21])
    waiting, total = [root], 0
    while waiting:
        process = waiting.pop()
        total += resident.get(process, 0)
        waiting += children.get(process, [])
    return total * os.sysconf("SC_PAGE_SIZE") / 1e6


def check(run: Path, store: Path, workers: int) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak memory (MB) of one check."""
    command = [*_NETLAB, "check", str(run), "--store", str(store), "--workers", str(workers), "--quiet", "--fail-on", "never"]
    began, peak = time.monotonic(), 0.0
    process = subprocess.Popen(command)
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.02):
            peak = max(peak, tree_mb(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, used = os.wait4(process.pid, 0)
    ended.set()
    watcher.join()
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"netlab check of {run} failed")
    return time.monotonic() - began, used.ru_utime + used.ru_stime, peak


def main() -> None:
    """Make the runs, check each twice, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 512, 1024])
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    print("| ranks | activities | first time: wall s | CPU s | us CPU per activity | peak MB | seen before: wall s | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for ranks in options.ranks:
            run = (options.keep or Path(scratch)) / f"ranks{ranks}"
            if not run.exists():
                write_run(run, "none", ranks=ranks, steps=options.steps, counters=False)
            store = Path(scratch) / f"store{ranks}"
            first, again = check(run, store, options.workers), check(run, store, options.workers)
            counts = [pl.scan_parquet(part).select(pl.len()).collect().item() for part in store.glob("files/*/device_events/*.parquet")]
            per = first[1] / max(1, sum(counts)) * 1e6
            cells = [f"{ranks:,}", f"{sum(counts):,}", f"{first[0]:.1f}", f"{first[1]:.1f}", f"{per:.0f}", f"{first[2]:,.0f}"]
            print(f"| {' | '.join([*cells, f'{again[0]:.1f}', f'{again[1]:.1f}'])} |", flush=True)


if __name__ == "__main__":
    main()
