"""Record every variant in a network of namespaces, predict it from the profiled baseline alone, and print how far off that was.

    sudo python -m benchmarks.whatif_live [--rounds 5] [--write] [--keep DIR]

Needs root, ip, tc and netlab[torch]; some five minutes on an otherwise idle machine. With ``--write``: docs/whatif_live.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import netlab
from benchmarks.whatif_live.cases import SETUPS, Setup, schedule
from benchmarks.whatif_live.network import inside, racks, unavailable
from netlab.whatif import Compression, Rates, Scenario, what_if

ROOT = Path(__file__).resolve().parents[2]
_LINK_GBPS = 1.0


@dataclass(frozen=True)
class Row:
    """One predicted case."""

    setup: str
    case: str
    predicted_ms: float
    interval95_ms: tuple[float, float]
    measured_ms: float

    @property
    def error(self) -> float:
        """Predicted over measured, minus 1."""
        return self.predicted_ms / self.measured_ms - 1

    @property
    def covered(self) -> bool:
        """Whether the interval holds what was measured."""
        return self.interval95_ms[0] <= self.measured_ms <= self.interval95_ms[1]


def record(setup: Setup, out: Path, rounds: int, steps: int) -> None:
    """Launch the job once for each placement of its ranks."""
    for number, placement in enumerate(setup.placements):
        folder = out / f"launch{number}"
        folder.mkdir(parents=True)
        plan = folder / "schedule.json"
        plan.write_text(json.dumps(schedule(setup, placement, rounds, steps)))
        with racks(placement) as hosts:
            ranks = []
            for rank, host in enumerate(hosts):
                place = {"RANK": str(rank), "WORLD_SIZE": str(len(hosts)), "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1"}
                network = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29511", "GLOO_SOCKET_IFNAME": "eth0"}
                command = inside(host, sys.executable, "-m", "benchmarks.whatif_live.worker", str(plan), str(folder))
                ranks.append(subprocess.Popen(command, env=os.environ | place | network, cwd=ROOT))
            codes = [process.wait(timeout=900) for process in ranks]
        if any(codes):
            raise SystemExit(f"{setup.name}: a rank failed, exit codes {codes}")


def measured(out: Path) -> dict[str, list[float]]:
    """Every case's steps, each the mean over ranks (ms)."""
    cases: dict[str, list[float]] = {}
    for launch in sorted(out.glob("launch*")):
        per_rank: list[list[dict[str, Any]]] = [json.loads(path.read_text()) for path in sorted(launch.glob("times-r*.json"))]
        for blocks in zip(*per_rank, strict=True):
            cases.setdefault(blocks[0]["case"], []).extend(statistics.mean(step) for step in zip(*(b["ms"] for b in blocks), strict=True))
    return cases


def predict(setup: Setup, out: Path) -> list[Row]:
    """Ask netlab about every case, with nothing but the profiled baseline and the cast measured beside it."""
    times = measured(out)
    run = netlab.open(*sorted((out / "launch0").glob("*.pt.trace.json")), store=out / "store")
    codec_ms = statistics.median(times["codec"])

    def with_codec(change: Any) -> Any:
        return msgspec.structs.replace(change, codec_ms=codec_ms) if isinstance(change, Compression) else change

    scenarios = [Scenario(name=case.name, changes=tuple(map(with_codec, case.changes))) for case in setup.cases]
    document = what_if(run, scenarios, links=Rates(None, _LINK_GBPS))
    base = document.baseline
    replayed = base.replayed_ms / base.measured_ms - 1
    profiled, plain = base.measured_median_ms, statistics.median(times["baseline"])
    print(f"{setup.name}: baseline {plain:.0f} ms, profiled {profiled:.0f} ms, replay {100 * replayed:+.1f} %", flush=True)
    rows = []
    for case, answer in zip(setup.cases, document.scenarios, strict=True):
        if answer.predicted_ms is None:
            raise SystemExit(f"{case.name} was refused: {answer.refused}")
        scale = answer.predicted_median_ms / answer.predicted_ms
        low, high = (bound * scale for bound in answer.interval95_ms)
        rows.append(Row(setup.name, case.name, answer.predicted_median_ms, (low, high), statistics.median(times[case.name])))
    return rows


def table(rows: list[Row]) -> str:
    """The error table, and one line that sums it up."""
    lines = ["| set-up | case | predicted ms [95 %] | measured ms | error | in the interval |", "|---|---|---|---|---|---|"]
    for row in rows:
        low, high = row.interval95_ms
        lines.append(
            f"| {row.setup} | {row.case} | {row.predicted_ms:.0f} [{low:.0f} to {high:.0f}] | {row.measured_ms:.0f} | "
            f"{100 * row.error:+.1f} % | {'yes' if row.covered else 'no'} |"
        )
    errors = [abs(row.error) for row in rows]
    lines += [
        "",
        f"Median error {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %; "
        f"{sum(row.covered for row in rows)} of {len(rows)} measured medians lie in their 95 % interval.",
        "",
    ]
    return "\n".join(lines)


def page(rows: list[Row], rounds: int, steps: int) -> str:
    """docs/whatif_live.md."""
    return f"""# What-if against a live network

Generated by `sudo python -m benchmarks.whatif_live --write`; do not edit. Anyone with root, `ip`, `tc` and torch can run it again.

DDP over Gloo in network namespaces: every rank a host of its own behind a token bucket of 1 Gbit/s, racks joined by shaped
uplinks. All variants run in turn inside the same processes, {rounds} rounds of {steps} steps each, so that noise hits all alike. Every
prediction uses only the profiled baseline of its set-up and the cost of the cast measured beside it; nothing is fitted to
what is predicted. Both sides are medians over steps of the ranks' mean.

{table(rows)}
Not covered: NCCL, GPUs, delay, loss, congestion control, other tenants. The ranks share one machine's cores; each is pinned to its own
where there are enough. The late rank works and does not sleep: a sleeping one would lend its core to the others.
"""


def main() -> None:
    """Record, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--keep", type=Path, help="keep the recording here; one that is there already is not made again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rows = []
        for number, setup in enumerate(SETUPS):
            out = (options.keep or Path(scratch)) / f"setup{number}"
            if not out.exists():
                if reason := unavailable():
                    raise SystemExit(f"The live experiment {reason}.")
                record(setup, out, options.rounds, options.steps)
            rows += predict(setup, out)
    print(table(rows))
    if options.write:
        (ROOT / "docs/whatif_live.md").write_text(page(rows, options.rounds, options.steps))


if __name__ == "__main__":
    main()
