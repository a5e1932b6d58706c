"""`netlab compare` on made pairs: planted regressions must be named first, runs that differ by their seed alone must be called the same.

`python benchmarks/compare_pairs.py --noise 60 --seeds 10` prints the table of docs/comparison.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from netlab.config import load_settings
from netlab.pipeline.analysis import analyse
from netlab.postmortem import Side, compare
from netlab.synth import Truth, write_run
from netlab.synth.plants import LINK_PLANTS
from netlab.verdict.model import Verdict

#: What is planted, the codes of which one must stand first, and whether the finding can name who is hit.
PLANTS = {
    "straggler": ({"RANK_SLOWER"}, "ranks"),
    "lossy-link": ({"LINK_ERRORS", "PACKET_LOSS"}, "ports"),
    "small-buckets": ({"BUCKETS_CHANGED"}, None),
    "socket-fallback": ({"TRANSPORT_CHANGED"}, None),
    "old-nccl": ({"NCCL_VERSION_CHANGED"}, None),
    "slow-fabric": ({"TRANSFER_SLOWER"}, None),
    "slow-pair": ({"TRANSFER_SLOWER", "SLOW_TRANSFER_ELSEWHERE"}, None),
    "no-overlap": ({"OVERLAP_LOST"}, None),
}


#: Pairs without a difference: steps, and the noise of compute and transfer (the made runs' own, and a shared cluster's).
NOISE = ((6, 0.004, 0.01), (20, 0.004, 0.01), (20, 0.10, 0.40))


def side(plant: str, seed: int, **overrides: Any) -> tuple[Side, Truth]:
    """A made run, judged, and its truth."""
    with TemporaryDirectory() as text:
        folder = Path(text) / "run"
        truth = write_run(folder, plant=plant, ranks=8, seed=seed, **overrides)
        analysis = analyse([folder], load_settings([folder]), store=Path(text) / "store")
        return Side(analysis.run, analysis.verdict), truth


def noise(pairs: int, steps: int, compute_noise: float, transfer_noise: float) -> tuple[int, list[float]]:
    """How many of so many pairs are called different, and how much their steps differ, as a share."""
    called, changes = 0, []
    for seed in range(pairs):
        base, run = (
            side("none", 2 * seed + second, steps=steps, compute_noise=compute_noise, transfer_noise=transfer_noise)[0] for second in (0, 1)
        )
        row = compare(base, run).compare
        assert row is not None
        called += row.significant
        old, new = base.verdict.totals.iteration_ms, run.verdict.totals.iteration_ms
        assert old is not None
        assert new is not None
        changes.append(abs(new - old) / old)
    return called, changes


def right(plant: str, seed: int) -> tuple[bool, bool, str]:
    """Whether cause and subject are right, and what was said."""
    slow, truth = side(plant, seed)
    # The base is the same job: as many steps, and counted where the slow run is.
    base, _ = side("none", 1_000 + seed, steps=truth.spec["steps"], counters=plant in LINK_PLANTS)
    verdict: Verdict = compare(base, slow)
    codes, who = PLANTS[plant]
    row, first = verdict.compare, verdict.findings[0] if verdict.findings else None
    if row is None or first is None:
        return False, False, verdict.headline
    named = row.significant and row.cause == truth.cause and first.code in codes
    subject = who is None or set(row.subject.get(who, ())) == set(truth.subject[who])
    return named, named and subject, f"{row.cause} {first.code} {row.subject} (truth {truth.cause} {truth.subject}): {verdict.headline}"


def main() -> int:
    """Print the table; the exit code counts pairs that are wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--noise", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--plants", nargs="*", default=list(PLANTS))
    options = parser.parse_args()
    wrong = 0
    print("| pair | cause first | and who is hit |\n|---|---|---|")
    for plant in options.plants:
        found = [right(plant, seed) for seed in range(options.seeds)]
        cause, whole = sum(row[0] for row in found), sum(row[1] for row in found)
        print(
            f"| `{plant}` against `none` | {cause} of {options.seeds} | {f'{whole} of {options.seeds}' if PLANTS[plant][1] else '-'} |",
            flush=True,
        )
        wrong += options.seeds - cause
        for row in found:
            if not row[1]:
                print(f"  {row[2]}", file=sys.stderr, flush=True)
    for steps, compute_noise, transfer_noise in NOISE if options.noise else ():
        called, changes = noise(options.noise, steps, compute_noise, transfer_noise)
        what = f"two seeds of `none`, {steps} steps, noise {100 * compute_noise:g} % on compute, {100 * transfer_noise:g} % on transfers"
        print(f"| {what} | {called} of {options.noise} called different | steps differ by up to {100 * max(changes):.2f} % |", flush=True)
        wrong += called > options.noise // 20
    return wrong


if __name__ == "__main__":
    sys.exit(main())
