"""How often netlab finds the fault that was planted, and only that: made runs with known truth, several seeds of each plant.

Run: python benchmarks/planted_faults.py [SEEDS] [PLANT...]   (SEEDS seeds of every plant; 3 if left out)
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import netlab
from netlab.findings import Subject
from netlab.synth import PLANTS, Truth, write_run
from netlab.verdict.model import Verdict

#: Causes that a correct verdict may give, where more than one is right.
_ALSO_RIGHT = {
    "small-buckets": {"schedule", "fabric"},
    "old-nccl": {"fabric", "intra_node", "unknown"},
    "no-overlap": {"schedule", "fabric"},
}


def _problems(truth: Truth, verdict: Verdict) -> list[str]:
    """What the verdict says that is not so, or does not say that is."""
    problems = []
    causes = _ALSO_RIGHT.get(truth.plant, {truth.cause})
    if verdict.cause not in causes:
        problems.append(f"cause {verdict.cause}, expected {' or '.join(sorted(causes))}")
    weighty = [finding for finding in verdict.findings if finding.severity != "info"]
    if truth.finding is None:
        if truth.plant == "none":
            problems += [f"alarm {finding.code}" for finding in weighty]
    else:
        named = [finding.subject for finding in weighty if finding.code == truth.finding]
        if not named:
            problems.append(f"no finding {truth.finding}")
        problems += _subject_problems(truth, named)
    accused = {f"{link.device}/{link.port}" for link in verdict.links if link.localised == "localised"}
    guilty = set(truth.subject["ports"]) if truth.plant == "lossy-link" else set()
    if accused != guilty:
        problems.append(f"localised {sorted(accused)}, expected {sorted(guilty)}")
    return problems


def _subject_problems(truth: Truth, named: list[Subject]) -> list[str]:
    problems = []
    for kind in ("ranks", "groups", "ports"):
        wanted = set(truth.subject[kind])
        found = {item for subject in named for item in getattr(subject, kind)}
        if wanted and named and not wanted <= found:
            problems.append(f"{kind} {sorted(found)}, expected {sorted(wanted)}")
    return problems


def main() -> None:
    """Print one line per plant: how many of its runs were judged right, and what was wrong in the others."""
    arguments = sys.argv[1:]
    seeds = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else 3
    total = right = 0
    for plant in arguments or PLANTS:
        start, wrong = time.perf_counter(), []
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / "run"
                truth = write_run(folder, plant=plant, seed=seed, counters=True if plant == "none" else None)
                problems = _problems(truth, netlab.check(netlab.open(folder, store=Path(scratch) / "store")))
            if problems:
                wrong.append(f"seed {seed}: {'; '.join(problems)}")
        total, right = total + seeds, right + seeds - len(wrong)
        sys.stdout.write(f"{plant:16s} {seeds - len(wrong)} of {seeds} right, {(time.perf_counter() - start) / seeds:.1f} s a run\n")
        sys.stdout.write("".join(f"    {line}\n" for line in wrong))
        sys.stdout.flush()
    sys.stdout.write(f"all              {right} of {total} right\n")


if __name__ == "__main__":
    main()
