"""False accusations and power of the localisation test in the situations of the design notes, and its cost over 1,000 links.

    python benchmarks/localise.py [--runs 300] [--markdown docs/localisation.md]

64 links, 200 cells, as measured before: a common cause (half of the outcome's variance), equal or uneven loadings, dense (Gaussian) or
sparse (log1p of Poisson counts) series, AR(1) with 0.9 or 0.5. An accusation is a family-wise p of at most 0.01 with an effective sample of
at least 30; without that guard in the column beside.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netlab.diagnose.link_statistics import effective_size, max_null_test, outcome_residual, peer_residuals, ranked

Floats = NDArray[np.float64]
LINKS = 64


@dataclass(frozen=True)
class Situation:
    """One row of the table: kind of series, loadings of the common cause, autocorrelation, cells, and the planted R²."""

    name: str
    sparse: bool
    common: bool
    uneven: bool
    phi: float
    cells: int = 200
    r2: float = 0.0


NULLS = (
    Situation("dense, equal loadings, AR .9", False, True, False, 0.9),
    Situation("dense, uneven loadings, AR .9", False, True, True, 0.9),
    Situation("sparse, equal loadings, AR .9", True, True, False, 0.9),
    Situation("sparse, uneven loadings, AR .9", True, True, True, 0.9),
    Situation("sparse, no common cause, AR .9", True, False, False, 0.9),
    Situation("dense, uneven, AR .5", False, True, True, 0.5),
    Situation("sparse, uneven, AR .5", True, True, True, 0.5),
)
POWERS = (
    Situation("dense R2=.25, AR .5, n=200", False, True, True, 0.5, 200, 0.25),
    Situation("sparse R2=.25, AR .5, n=200", True, True, True, 0.5, 200, 0.25),
    Situation("dense R2=.10, AR .5, n=200", False, True, True, 0.5, 200, 0.10),
    Situation("dense R2=.10, AR .5, n=1000", False, True, True, 0.5, 1000, 0.10),
    Situation("dense R2=.25, AR .9, n=200", False, True, True, 0.9, 200, 0.25),
    Situation("dense R2=.25, AR .9, n=1000", False, True, True, 0.9, 1000, 0.25),
)


def _ar(chance: np.random.Generator, rows: int, cells: int, phi: float) -> Floats:
    """Unit-variance AR(1) series."""
    noise = chance.standard_normal((rows, cells))
    result = np.empty_like(noise)
    result[:, 0] = noise[:, 0]
    scale = np.sqrt(1 - phi**2)
    for cell in range(1, cells):
        result[:, cell] = phi * result[:, cell - 1] + scale * noise[:, cell]
    return result


def simulate(situation: Situation, chance: np.random.Generator) -> tuple[Floats, Floats]:
    """Outcome and series; link 0 is the culprit if the situation plants one."""
    cause = _ar(chance, 1, situation.cells, situation.phi)[0]
    own = _ar(chance, LINKS, situation.cells, situation.phi)
    loading = np.zeros(LINKS)
    if situation.common:
        loading = chance.uniform(0.2, 0.95, LINKS) if situation.uneven else np.full(LINKS, np.sqrt(0.5))
    latent = loading[:, None] * cause + np.sqrt(1 - loading**2)[:, None] * own
    series = np.log1p(chance.poisson(np.exp(-1.5 + latent))) if situation.sparse else latent
    noise = _ar(chance, 1, situation.cells, situation.phi)[0]
    outcome = (np.sqrt(0.5) * cause if situation.common else 0) + np.sqrt(0.5 if situation.common else 1.0) * noise
    if situation.r2:
        # The culprit's own part explains r2 of the outcome's variance.
        part = own[0] if not situation.sparse else series[0] - loading[0] * series.mean(axis=0)
        part = (part - part.mean()) / part.std()
        outcome = np.sqrt(1 - situation.r2) * outcome / outcome.std() + np.sqrt(situation.r2) * part
    return outcome, np.asarray(series, np.float64)


def accuse(outcome: Floats, series: Floats, seed: int) -> tuple[int, float, float]:
    """(accused link, its p, effective size)."""
    peers = np.zeros(len(series), np.int64)
    outcome, series = ranked(outcome[None, :])[0], ranked(series)
    residual = outcome_residual(outcome, series, peers)
    tested = max_null_test(residual, peer_residuals(series, peers), seed)
    best = int(tested.statistic.argmax())
    return best, float(tested.p_value[best]), effective_size(residual)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    lines = ["| situation (no bad link) | accused at .01 | without size guard | at .05 without guard |", "|---|---|---|---|"]
    for number, situation in enumerate(NULLS):
        results = [accuse(*simulate(situation, np.random.default_rng([7, number, run])), run) for run in range(options.runs)]
        strict = np.mean([p <= 0.01 and size >= 30 for _, p, size in results])
        loose, looser = np.mean([p <= 0.01 for _, p, _ in results]), np.mean([p <= 0.05 for _, p, _ in results])
        lines.append(f"| {situation.name} | {100 * strict:.1f} % | {100 * loose:.1f} % | {100 * looser:.1f} % |")
    lines += ["", "| situation (link 0 is bad) | link 0 named at .01 | another named | cannot tell (size) |", "|---|---|---|---|"]
    for number, situation in enumerate(POWERS):
        results = [accuse(*simulate(situation, np.random.default_rng([8, number, run])), run) for run in range(options.runs // 3)]
        right = np.mean([link == 0 and p <= 0.01 and size >= 30 for link, p, size in results])
        wrong = np.mean([link != 0 and p <= 0.01 and size >= 30 for link, p, size in results])
        lines.append(
            f"| {situation.name} | {100 * right:.0f} % | {100 * wrong:.0f} % | {100 * np.mean([size < 30 for *_, size in results]):.0f} % |"
        )
    chance = np.random.default_rng(9)
    began = time.process_time()
    series = chance.standard_normal((1000 * 8, 1000))
    max_null_test(chance.standard_normal(1000), peer_residuals(series, np.repeat(np.arange(8), 1000)), 1)
    lines += ["", f"1,000 links x 8 metrics x 1,000 cells: {time.process_time() - began:.1f} s of CPU."]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.markdown is not None:
        head = "# Localisation: false accusations and power\n\n"
        head += f"Made by `python benchmarks/localise.py --runs {options.runs}`; see there for what is simulated.\n\n"
        # What follows the simulations comes from benchmarks/localise_runs.py and stays.
        rest = options.markdown.read_text().partition("\n## ") if options.markdown.exists() else ("", "", "")
        options.markdown.write_text(head + text + rest[1] + rest[2])


if __name__ == "__main__":
    main()
