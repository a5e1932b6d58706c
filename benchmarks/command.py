"""One command measured: CPU seconds, wall seconds and peak memory of the whole process tree."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["NETLAB", "Figures", "measure"]

#: The command line of this environment's netlab.
NETLAB = (sys.executable, "-c", "from netlab.cli import main; main()")
_EVERY_S = 0.02


@dataclass(frozen=True)
class Figures:
    """What one run of a command took."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def measure(command: Sequence[str], environment: Mapping[str, str] | None = None, codes: Sequence[int] = (0,)) -> Figures:
    """Run a command; anything but the given exit codes ends the benchmark."""
    began, peak = time.monotonic(), 0.0
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(_EVERY_S):
            peak = max(peak, _tree_mb(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - began
    ended.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in codes:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return Figures(used.ru_utime + used.ru_stime, wall_s, peak)


def _tree_mb(root: int) -> float:
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
