"""Whole commands on real traces, netlab and its peers in turn: CPU seconds, wall seconds, peak memory of the process tree.

    python -m benchmarks.peers [TRACE_OR_FOLDER ...] [--rounds N]

A folder is one run. Without arguments: the shared real runs, where they are there. The peers, HolisticTraceAnalysis 0.5.0 and its
successor traceinsight, are installed into environments of their own below `.peers/` the first time. They parse, and give a temporary
breakdown and the overlap of communication, which is the part of `netlab check` that they have.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.command import NETLAB, Figures, measure

PEERS = {"HTA": "HolisticTraceAnalysis==0.5.0", "traceinsight": "traceinsight==0.6.1"}
ENVIRONMENTS = Path(__file__).resolve().parents[1] / ".peers"
SHARED = Path(__file__).resolve().parents[2] / "shared/data/traces"
#: Smaller runs are start-up alone.
_SMALLEST_BYTES = 100_000
_TWO_ANALYSES = """
import sys, warnings
warnings.filterwarnings("ignore")
from hta.trace_analysis import TraceAnalysis
if len(sys.argv) > 1:
    trace = TraceAnalysis(trace_files=dict(enumerate(sys.argv[1:])), trace_dir="/")
    trace.get_temporal_breakdown(visualize=False)
    trace.get_comm_comp_overlap(visualize=False)
"""
_EMPTY = '{"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": []}'
_QUIET = ("--quiet", "--fail-on", "never")


def _interpreter(name: str) -> str:
    """The Python of a peer, which is installed first where it is not."""
    folder = ENVIRONMENTS / name
    if not (folder / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", PEERS[name]], check=True)
    return str(folder / "bin/python")


def _files(run: Path) -> list[str]:
    found = sorted(run.glob("*.json.gz")) + sorted(run.glob("*.json")) if run.is_dir() else [run]
    return [str(path.resolve()) for path in found]


def _raw_mb(files: list[str]) -> float:
    total = 0
    for name in files:
        with gzip.open(name) if name.endswith(".gz") else Path(name).open("rb") as stream:
            while block := stream.read(1 << 20):
                total += len(block)
    return total / 1e6


def _shared_runs() -> list[Path]:
    folders = [path for path in sorted(SHARED.iterdir()) if path.is_dir() and (path / "rank0.json.gz").exists()]
    files = [path for path in sorted(SHARED.glob("*/*.json.gz")) if path.parent not in folders and path.stat().st_size > _SMALLEST_BYTES]
    return [*folders, *(path for path in files if path.parent.name != "bytedance_straggler")]


def _commands(files: list[str], folder: Path, run: Path | None) -> dict[str, tuple[list[str], Path]]:
    """What is run, and with which cache; for start-up alone without a run."""
    target = str(folder / "empty.json") if run is None else str(run.resolve())
    warm, cold = folder / "warm", folder / "cold"
    ours = [*NETLAB, "check", target, *_QUIET]
    peers = {name: ([_interpreter(name), "-c", _TWO_ANALYSES, *files], warm) for name in PEERS}
    return {"netlab": (ours, cold), "seen before": (ours, warm), **peers}


def _medians(commands: dict[str, tuple[list[str], Path]], rounds: int, cold: Path) -> dict[str, Figures | None]:
    """Medians of interleaved rounds after one that is not counted; None for a command that fails."""
    taken: dict[str, list[Figures]] = {name: [] for name in commands}
    failed = set()
    for turn in range(rounds + 1):
        for name, (command, cache) in commands.items():
            if name in failed:
                continue
            shutil.rmtree(cold, ignore_errors=True)
            try:
                figures = measure(command, {**os.environ, "XDG_CACHE_HOME": str(cache)})
            except SystemExit:
                failed.add(name)
                continue
            if turn:
                taken[name].append(figures)
    return {name: None if name in failed else _median(rows) for name, rows in taken.items()}


def _median(rows: list[Figures]) -> Figures:
    return Figures(*(statistics.median(values) for values in zip(*((row.cpu_s, row.wall_s, row.peak_mb) for row in rows), strict=True)))


def _cell(figures: Figures | None) -> str:
    return "fails" if figures is None else f"{figures.wall_s:.2f} / {figures.cpu_s:.2f} / {figures.peak_mb:.0f}"


def main() -> int:
    """Interleave the commands run by run, and print a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    runs = options.runs or (_shared_runs() if SHARED.is_dir() else [])
    if not runs:
        print("no run was given, and the shared ones are not there")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "empty.json").write_text(_EMPTY)
        print(f"medians of {options.rounds} interleaved rounds: wall s / CPU s / peak MB of the process tree\n")
        print(f"| run | raw MB | netlab check | seen before | {' | '.join(PEERS)} |\n|---|---|---|---|{'---|' * len(PEERS)}")
        for run in (None, *runs):
            files = [] if run is None else _files(run)
            found = _medians(_commands(files, folder, run), options.rounds, folder / "cold")
            title = "(start-up alone)" if run is None else run.name.removesuffix(".json.gz")
            print(f"| {title} | {_raw_mb(files):.1f} | {' | '.join(_cell(figures) for figures in found.values())} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
