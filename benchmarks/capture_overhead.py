"""What netlab.capture costs a training loop: step times with and without it.

Blocks of all variants alternate in one process, so that noise hits all alike.

Run: python benchmarks/capture_overhead.py   (needs netlab[torch])
"""

from __future__ import annotations

import logging
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch

from netlab.recording import capture

BLOCKS, STEPS = 8, 24


def _job() -> Callable[[], None]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [layer for _ in range(12) for layer in (torch.nn.Linear(384, 384), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(256, 384)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


def _plain(step: Callable[[], None]) -> list[float]:
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return times


def _captured(step: Callable[[], None], wait: int, counters_ms: float | None) -> tuple[list[float], float]:
    """Times of the steps before or inside the recorded window, and of the step that writes the trace."""
    times = []
    active = 8
    with tempfile.TemporaryDirectory() as folder:
        recording = capture(folder, wait=wait, warmup=2, active=active, counters_ms=counters_ms, nccl_log=False, flight_recorder=False)
        with recording:
            for number in range(STEPS if wait >= STEPS else wait + 2 + active):
                start = time.perf_counter()
                step()
                recording.step()
                elapsed = time.perf_counter() - start
                if wait >= STEPS or wait + 2 < number < wait + 2 + active - 1:
                    times.append(elapsed)
        written = elapsed if Path(folder, "traces").exists() else 0.0
    return times, written


def main() -> None:
    """Print the median step of each variant and its excess over the plain loop."""
    logging.getLogger("netlab").setLevel(logging.ERROR)
    step = _job()
    for _ in range(STEPS):
        step()
    times: dict[str, list[float]] = defaultdict(list)
    writes: list[float] = []
    for _ in range(BLOCKS):
        times["without"] += _plain(step)
        times["between recordings"] += _captured(step, 10 * STEPS, None)[0]
        times["between recordings, counters every 10 ms"] += _captured(step, 10 * STEPS, 10)[0]
        recorded, written = _captured(step, 1, None)
        times["recording"] += recorded
        writes.append(written)
        times["recording, counters every 10 ms"] += _captured(step, 1, 10)[0]
    base = statistics.median(times["without"])
    for name, values in times.items():
        median = statistics.median(values)
        sys.stdout.write(f"{name:45s} {median * 1e3:8.2f} ms  {100 * (median / base - 1):+6.1f} %  ({len(values)} steps)\n")
    sys.stdout.write(f"writing the trace of 8 steps, once a cycle: {statistics.median(writes) - base:.2f} s\n")


if __name__ == "__main__":
    main()
