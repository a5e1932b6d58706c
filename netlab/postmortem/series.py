"""Two runs step by step: how much longer a step became, in which part, and whether that is more than noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.attribute import pooled_rows, warmup_steps
from netlab.chance import welch_p_value
from netlab.run import Run
from netlab.units import NS_PER_MS

__all__ = ["LAYERS", "PARTS", "SMALLEST_CHANGE", "Difference", "compared_rows", "difference", "layer_means", "part_means", "step_times"]

#: The parts that add up to a step.
PARTS = ("compute", "exposed_transfer", "exposed_wait", "exposed_memory", "idle")
#: Where transfer ran; its exposed times of the three add up to ``exposed_transfer``.
LAYERS = ("inter_node", "intra_node", "unplaced")
#: Level of the test, and the smallest change of the step that is worth a word.
LEVEL, SMALLEST_CHANGE = 0.01, 0.02
#: With fewer steps the variation is not known, and only a change that nobody would take for noise counts.
FEW_STEPS, CLEAR_CHANGE = 3, 0.10

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """Run minus base. ``delta_ms`` by part; ``p_value`` null with too few steps."""

    base_ms: float
    run_ms: float
    delta_ms: dict[str, float]
    p_value: float | None
    significant: bool

    @property
    def step_ms(self) -> float:
        """Change of the step."""
        return self.run_ms - self.base_ms


def compared_rows(run: Run) -> pl.DataFrame:
    """Pooled rows without the warm-up; the captured span where a run has no steps."""
    if run.facts.window == "capture":
        return run.frame("spans")
    pooled = pooled_rows(run.frame("breakdown"))
    slow = warmup_steps(pooled)
    return pooled.filter(~pl.col("step").is_in(slow)) if slow else pooled


def step_times(run: Run) -> _Floats:
    """Mean step time over ranks of each step, in order, in milliseconds; the warm-up is left out."""
    rows = compared_rows(run)
    if "step" not in rows.columns:
        return np.zeros(0)
    series = rows.group_by("window", "step").agg(pl.col("step_ns").mean()).sort("window", "step")
    return series["step_ns"].to_numpy() / NS_PER_MS


def part_means(run: Run) -> pl.DataFrame:
    """Mean of each part per rank, in milliseconds: ``rank, step, compute, exposed_transfer, ...``."""
    rows = compared_rows(run)
    means = [(pl.col(f"{part}_ns").mean() / NS_PER_MS).alias(part) for part in ("step", *PARTS, "hidden_transfer")]
    return rows.group_by("rank").agg(means).sort("rank")


def layer_means(run: Run) -> dict[str, float]:
    """Exposed transfer by layer in milliseconds, a mean over ranks like those of `part_means`. Unknown waiting is in ``unplaced``."""
    layers = [pl.col(f"exposed_transfer_{name}_ns").mean().alias(name) for name in LAYERS]
    means = compared_rows(run).group_by("rank").agg(layers).select(pl.col(LAYERS).mean()).row(0, named=True)
    return {name: (value or 0.0) / NS_PER_MS for name, value in means.items()}


def difference(base: Run, run: Run) -> Difference | None:
    """How the pooled step changed from base to run; None if either has no step.

    Significant means: Welch's t over the step times at the 1 % level, and a change of at least 2 % of the step, since two runs of one job
    differ by more than their own steps tell. With fewer than 3 steps on a side only a change of 10 % counts.
    """
    if base.frame("spans").is_empty() or run.frame("spans").is_empty() or base.facts.window != run.facts.window:
        return None
    means = [part_means(side).select(pl.exclude("rank").mean()).row(0, named=True) for side in (base, run)]
    delta = {part: means[1][part] - means[0][part] for part in PARTS}
    old, new = means[0]["step"], means[1]["step"]
    p_value = welch_p_value(step_times(base), step_times(run))
    limit = CLEAR_CHANGE if p_value is None else SMALLEST_CHANGE
    significant = abs(new - old) > limit * old and (p_value is None or p_value < LEVEL)
    return Difference(base_ms=old, run_ms=new, delta_ms=delta, p_value=p_value, significant=significant)
