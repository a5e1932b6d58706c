"""What interval sweeps cost: exposed communication over 10 million stored sorted intervals, and the breakdown's sweep against numpy.

Run ``python benchmarks/intervals.py [MILLIONS]``. Compiling is done before the clock starts and printed apart.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from netlab.intervals import exposed, fold_times


def _timeline(count: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorted intervals that overlap now and then, as kernels of two streams do."""
    random = np.random.default_rng(seed)
    start = np.cumsum(random.integers(1, 2_000, count))
    return start, start + random.integers(1, int(2_000 * share * 2), count)


def _timed(what: str, call: object) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()  # type: ignore[operator]
    print(f"{what:<58} {time.perf_counter() - wall:7.3f} s wall {time.process_time() - cpu:7.3f} s CPU  -> {result}")


def main() -> None:
    """Print the figures."""
    millions = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    count = int(millions * 1e6)
    compute, communication = _timeline(count * 4 // 5, 0.45, 1), _timeline(count // 5, 0.3, 2)
    communication = tuple(column * 4 for column in communication)
    small = [column[:400_000] for column in (*communication, *compute)]
    _timed("first call, with compiling or loading", lambda: exposed(*small))
    _timed(f"exposed communication of {millions:g} million sorted intervals", lambda: exposed(*communication, *compute))

    rows = min(count, 2_000_000)
    start, end = _timeline(rows, 0.6, 3)
    lane, bit = np.zeros(rows, np.int64), np.arange(rows) % 12
    borders = np.linspace(0, int(end.max()), 21).astype(np.int64)
    windows = (np.zeros(20, np.int64), borders[:-1], borders[1:])
    table = np.random.default_rng(4).random((1 << 12, 20)) < 0.5
    arguments = (lane, start, end, bit, *windows, table)
    fold_times(*(column[:1000] for column in (lane, start, end, bit)), *windows, table, compiled=True)
    _timed(f"12 classes into 20 measures, {rows:,} intervals, compiled", lambda: int(fold_times(*arguments, compiled=True).sum()))
    _timed(f"12 classes into 20 measures, {rows:,} intervals, numpy", lambda: int(fold_times(*arguments, compiled=False).sum()))


if __name__ == "__main__":
    main()
