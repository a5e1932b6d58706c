"""Whole commands on one trace, netlab and HolisticTraceAnalysis 0.5.0 in turn: CPU seconds, wall seconds, peak memory of the process tree.

Run `python -m benchmarks.peers TRACE.json.gz`; the peer is installed into an environment of its own, `.peers`, the first time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.command import NETLAB, Figures, measure

PEER = "HolisticTraceAnalysis==0.5.0"
ENVIRONMENT = Path(__file__).resolve().parents[1] / ".peers"
_TWO_ANALYSES = """
import sys, warnings
warnings.filterwarnings("ignore")
from hta.trace_analysis import TraceAnalysis
if len(sys.argv) > 1:
    trace = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
    trace.get_temporal_breakdown(visualize=False)
    trace.get_comm_comp_overlap(visualize=False)
"""
_EMPTY = '{"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": []}'


def main() -> None:
    """Interleave the commands and print medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("trace", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if not ENVIRONMENT.is_dir():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        subprocess.run([ENVIRONMENT / "bin/pip", "install", "--quiet", PEER], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "empty.json").write_text(_EMPTY)
        peer, netlab = str(ENVIRONMENT / "bin/python"), [*NETLAB, "check"]
        trace, quiet = str(options.trace.resolve()), ["--quiet", "--fail-on", "never"]
        warm, cold = folder / "warm", folder / "cold"
        commands = {
            "netlab, first time": ([*netlab, trace, *quiet], cold),
            "netlab, seen before": ([*netlab, trace, *quiet], warm),
            "netlab, empty trace": ([*netlab, str(folder / "empty.json"), *quiet], warm),
            PEER: ([peer, "-c", _TWO_ANALYSES, trace], warm),
            "peer, imports only": ([peer, "-c", _TWO_ANALYSES], warm),
        }
        figures: dict[str, list[Figures]] = {name: [] for name in commands}
        for turn in range(options.rounds + 1):
            for name, (command, cache) in commands.items():
                shutil.rmtree(cold, ignore_errors=True)
                figure = measure(command, {**os.environ, "XDG_CACHE_HOME": str(cache)}, codes=(0, 1))
                if turn:
                    figures[name].append(figure)
        print(f"{options.trace.name}, medians of {options.rounds} interleaved rounds")
        for name, rows in figures.items():
            cpu, wall, peak = (statistics.median(getattr(row, name) for row in rows) for name in ("cpu_s", "wall_s", "peak_mb"))
            print(f"  {name:<32} {cpu:6.2f} s CPU {wall:6.2f} s wall {peak:6.0f} MB")


if __name__ == "__main__":
    main()
