"""Made runs with known truth through the whole pipeline: is the cause right, is the planted link accused, and nobody else?

    python benchmarks/localise_runs.py [--seeds 20]

Five kinds of run: a lossy link, a pausing host, oversubscribed leaves, a straggler beside an unrelated error counter, and clean ones.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from netlab.config import load_settings
from netlab.pipeline.analysis import analyse
from netlab.synth.write import write_run

KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("lossy-link", {}),
    ("slow-receiver", {}),
    ("oversubscribed", {}),
    ("straggler", {"noisy_port": True, "steps": 80}),
    ("none", {"steps": 80}),
)


def judge(plant: str, seed: int, overrides: dict[str, Any]) -> tuple[bool, bool, set[str]]:
    """(cause right, subject right, localised ports that are not the planted one)."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        truth = write_run(run, plant, seed=seed, counters=True, **overrides)
        verdict = analyse([run], load_settings([run]), store=Path(folder) / "store").verdict
    planted = set(truth.subject["ports"])
    localised = {f"{link.device}/{link.port}" for link in verdict.links if link.localised == "localised"}
    of_kind = [finding for finding in verdict.findings if finding.code == truth.finding]
    named = {port for finding in of_kind for port in finding.subject.ports}
    ranks = {rank for finding in of_kind for rank in finding.subject.ranks}
    subject = named == planted if planted else ranks == set(truth.subject["ranks"])
    if plant == "lossy-link":
        subject = subject and localised == planted
    return verdict.cause == truth.cause, subject, localised - planted


def main() -> None:
    """Print one line per kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    for plant, overrides in KINDS:
        results = [judge(plant, seed, overrides) for seed in range(options.first, options.first + options.seeds)]
        causes, subjects = sum(cause for cause, _, _ in results), sum(subject for _, subject, _ in results)
        wrong = sorted({port for _, _, others in results for port in others})
        print(
            f"{plant}: cause right in {causes}, subject right in {subjects} of {len(results)}; accused wrongly: {wrong or 'nobody'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
