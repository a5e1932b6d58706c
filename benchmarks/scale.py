"""Whole `netlab check` on made runs of more and more ranks: wall, CPU seconds and peak memory of the process tree.

    python -m benchmarks.scale [--ranks 8 64 512 1024] [--steps 14] [--workers 1] [--keep DIR]

Fourteen steps give each rank about 2,000 activities. Making 1,024 ranks takes minutes; ``--keep`` keeps them. A second check of the same
files shows what is left when nothing has to be parsed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import polars as pl

from benchmarks.command import NETLAB, Figures, measure
from netlab.synth import write_run


def check(run: Path, store: Path, workers: int) -> Figures:
    """One check of a run."""
    options = ["--store", str(store), "--workers", str(workers), "--quiet", "--fail-on", "never"]
    return measure([*NETLAB, "check", str(run), *options])


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
            per = first.cpu_s / max(1, sum(counts)) * 1e6
            cells = [f"{ranks:,}", f"{sum(counts):,}", f"{first.wall_s:.1f}", f"{first.cpu_s:.1f}", f"{per:.0f}", f"{first.peak_mb:,.0f}"]
            print(f"| {' | '.join([*cells, f'{again.wall_s:.1f}', f'{again.cpu_s:.1f}'])} |", flush=True)


if __name__ == "__main__":
    main()
