"""How fast and how exactly traces are read: CPU seconds, wall time and peak memory at three sizes, against the generator's truth.

    python -m benchmarks.ingest [--sizes 200 500 1000] [--folder DIR]

Every file is read by the whole ``netlab ingest``, with a cache of its own (a file seen before is not parsed), and by the reader alone
in a process of its own, whose rows and sums are compared. The start-up that is taken off is that of an empty trace in the same way; loading
the compiled code is part of the figure. Memory is that of the whole process tree. The targets: 150 MB of raw JSON per CPU second, 350 MB of
memory, no nanosecond of error, growth in proportion to the size; with pysimdjson installed also, at 500 MB, 30 % of what one core can do
at most (``benchmarks.limit``, measured beside it on the same file).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.command import NETLAB, Figures
from benchmarks.command import measure as measure_command
from benchmarks.generate_trace import Truth, write_trace
from benchmarks.limit import limit_mb_per_cpu_s

__all__ = ["Reading", "ingest", "main", "measure"]

_TARGET_MB_PER_CPU_S, _TARGET_PEAK_MB = 150, 350
_TARGET_OF_LIMIT, _LIMIT_AT_MB = 0.3, 500


@dataclass(frozen=True)
class Reading:
    """One file read in a process of its own; ``sums`` are (rows, sum of starts, sum of durations) per table."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    sums: dict[str, list[int]]


def measure(path: Path, passes: int = 1) -> Reading:
    """Read a file in a fresh process; with several passes the one of least CPU time counts."""
    readings = []
    for _ in range(passes):
        done = subprocess.run([sys.executable, "-m", "benchmarks.ingest", "--one", str(path)], capture_output=True, text=True, check=True)
        readings.append(Reading(**json.loads(done.stdout)))
    return min(readings, key=lambda reading: reading.cpu_s)


def ingest(path: Path, passes: int = 1) -> Figures:
    """The whole command on a file that was not seen before; of several passes that of least CPU time, with the largest peak of all."""
    found = []
    for _ in range(passes):
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            environment = {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache"}
            found.append(measure_command([*NETLAB, "ingest", str(path), "--store", f"{folder}/run", "--quiet"], environment))
    return replace(min(found, key=lambda figures: figures.cpu_s), peak_mb=max(figures.peak_mb for figures in found))


def _read_one(path: Path) -> Reading:
    """Read a file to Parquet parts; sums are made after the clocks have stopped."""
    import polars as pl

    from netlab.readers.base import Sink
    from netlab.readers.kineto import KinetoReader

    with tempfile.TemporaryDirectory() as folder:
        sink = Sink(Path(folder))
        begin = time.perf_counter()
        KinetoReader().read(path, sink, path.name)
        wall_s = time.perf_counter() - begin
        usage = resource.getrusage(resource.RUSAGE_SELF)
        sums = {}
        for table in sorted(Path(folder).iterdir()):
            frame = pl.scan_parquet(table / "*.parquet")
            if "start_ns" in frame.collect_schema():
                start, end = pl.col("start_ns").cast(pl.Int128), pl.col("end_ns").cast(pl.Int128)
                row = frame.select(pl.len(), start.sum().alias("start"), (end - start).sum().alias("duration")).collect().row(0)
                sums[table.name] = [int(value) for value in row]
    return Reading(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024, sums)


def _is_exact(reading: Reading, truth: Truth) -> bool:
    expected = {table: [truth.rows[table], truth.start_ns[table], truth.duration_ns[table]] for table in truth.rows}
    return reading.sums == expected


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description="Speed, memory and exactness of reading traces.")
    parser.add_argument("--sizes", type=float, nargs="+", default=[200, 500, 1000], help="raw sizes in MB")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the made traces go (default: a temporary folder, removed at the end)")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(vars(_read_one(given.one))))
        return 0
    folder = given.folder or Path(tempfile.mkdtemp(prefix="netlab-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return _report(folder, given.sizes, given.passes)
    finally:
        if given.folder is None:
            shutil.rmtree(folder)


def _report(folder: Path, sizes: list[float], passes: int) -> int:
    empty = folder / "empty.json"
    empty.write_text('{"schemaVersion": 1, "traceEvents": []}')
    write_trace(folder / "warm.json", 20)
    measure(folder / "warm.json")  # compiles, where that was not done before
    start_up = measure(empty, passes)
    ingest(empty)
    nothing = ingest(empty, passes)
    print(f"start-up of the command: {nothing.cpu_s:.2f} s CPU, {nothing.peak_mb:.0f} MB; of the reader {start_up.cpu_s:.2f} s")
    print("whole command, then the reader alone: CPU s, MB per CPU s net of start-up, wall s, peak MB")
    columns = f"{'CPU':>5} {'net':>4} {'wall':>5} {'peak':>4}"
    print(f"{'trace':12} {'raw MB':>6} | {columns} | {columns} | of the limit  exact")
    missed = False
    for size in sizes:
        for name, style, stacks, packed in (("ns", "ns", False, False), ("ns, gzip", "ns", False, True), ("us, stacks", "us", True, False)):
            path = folder / "trace.json"
            truth = write_trace(path, size, style, stacks)
            raw_mb = path.stat().st_size / 1e6
            if packed:
                path = _pack(path)
            reading = measure(path, passes)
            limit = limit_mb_per_cpu_s(path)
            whole = ingest(path, passes)
            speeds = [raw_mb / (cpu_s - idle_s) for cpu_s, idle_s in ((whole.cpu_s, nothing.cpu_s), (reading.cpu_s, start_up.cpu_s))]
            exact = _is_exact(reading, truth)
            missed |= speeds[0] < _TARGET_MB_PER_CPU_S or whole.peak_mb > _TARGET_PEAK_MB or not exact
            missed |= limit is not None and size == _LIMIT_AT_MB and speeds[0] < _TARGET_OF_LIMIT * limit
            shares = "not measured" if limit is None else " ".join(f"{speed / limit:5.0%}" for speed in speeds)
            cells = [
                f"{taken.cpu_s:5.2f} {speed:4.0f} {taken.wall_s:5.2f} {taken.peak_mb:4.0f}"
                for taken, speed in zip((whole, reading), speeds, strict=True)
            ]
            print(f"{name:12} {raw_mb:6.0f} | {' | '.join(cells)} | {shares:>12}  {'yes' if exact else 'NO'}", flush=True)
            path.unlink()
    print("a target was missed" if missed else "all targets hold")
    return int(missed)


def _pack(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    with path.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    path.unlink()
    return packed


if __name__ == "__main__":
    raise SystemExit(main())
