"""How wrong an answer may be: step-to-step variation, cost of the transfers, and the model's own error."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

__all__ = ["MIN_STEPS", "Residual", "Spread", "block_bootstrap", "half_width", "model_error", "residuals"]

Floats = NDArray[np.float64]

#: With fewer steps nothing is said about variation between steps.
MIN_STEPS = 5
_RESAMPLES = 2_000
#: So many profiler windows can be drawn as blocks.
_MANY_WINDOWS = 4
_SEED = 20260101
#: The model's error is never taken to be smaller than this, however well the validation went.
_LEAST_ERROR = 0.01
#: Changes smaller than this (a quarter of the step) are as uncertain as one of this size.
_LEAST_CHANGE = 0.25


@dataclass(frozen=True)
class Residual:
    """One checked prediction: set-up, kinds of change, predicted over measured minus 1, and the logarithm of predicted over unchanged."""

    setup: str
    case: str
    kinds: tuple[str, ...]
    error: float
    change: float
    #: How far above its point the answer said that the truth may lie (ranks that share cores), relative to the point.
    declared: float = 0.0

    @property
    def score(self) -> float:
        """Error per size of the change: what moves a step further from what was measured may be wrong by more.

        Intervals carry declared ranges beside the model's error, so what a range held is no error of the model.

        >>> Residual("a", "b", ("straggler",), -0.25, -0.5, declared=0.5).score, Residual("a", "b", ("straggler",), -0.25, -0.5).score
        (0.0, 0.5)
        """
        error = min(0.0, (1 + self.error) * (1 + self.declared) - 1) if self.error < 0 else self.error
        return abs(error) / max(_LEAST_CHANGE, abs(self.change))


@dataclass(frozen=True)
class Spread:
    """Relative half widths of an interval at 80 and 95 %."""

    half80: float
    half95: float


@lru_cache(maxsize=1)
def residuals() -> tuple[Residual, ...]:
    """Errors of checked predictions, as docs/whatif_validation.md lists them."""
    text = resources.files("netlab.whatif").joinpath("residuals.json").read_text(encoding="utf-8")
    return tuple(Residual(**row | {"kinds": tuple(row["kinds"])}) for row in json.loads(text)["residuals"])


def model_error(kinds: tuple[str, ...], ratio: float = 1.0, exclude_setup: str | None = None) -> Spread:
    """Relative error to expect of an answer, from predictions of other kinds of change and other set-ups than the one judged.

    Split-conformal on the scores: the smallest that at least 80 (95) % of the left-over ones stay below. What is exchangeable is a set-up,
    not a row, so every set-up weighs the same however many rows it has, and the finite-sample correction (n + 1) of Vovk et al. counts
    set-ups. Where too few are left for that, the largest with up to half of it on top, by how much rarer the level is than what they can
    show. The score times the size of the change is the half width.

    Parameters
    ----------
    kinds
        Kinds of change of the answer; none means that nothing was changed.
    ratio
        Predicted over unchanged step time.
    exclude_setup
        The set-up that is judged, when the residuals themselves are.

    Examples
    --------
    >>> model_error(()).half95
    0.0
    >>> model_error(("compression",), 0.25).half95 > model_error(("compression",), 0.9).half95 > 0.01
    True
    """
    if not kinds:
        return Spread(0.0, 0.0)
    others = [r for r in residuals() if r.setup != exclude_setup]
    left = [r for r in others if not set(r.kinds) & set(kinds)] or others
    size = max(_LEAST_CHANGE, abs(float(np.log(ratio)))) if ratio > 0 else _LEAST_CHANGE
    return Spread(max(_LEAST_ERROR, _quantile(left, 0.80) * size), max(_LEAST_ERROR, _quantile(left, 0.95) * size))


def _quantile(left: list[Residual], level: float) -> float:
    if not left:
        return 1.0
    rows = Counter(r.setup for r in left)
    reached = 0.0
    for residual in sorted(left, key=lambda r: r.score):
        reached += 1 / (rows[residual.setup] * (len(rows) + 1))
        if reached >= level - 1e-9:
            return residual.score
    rarest = 1 / (len(rows) + 1)
    beyond = np.log(rarest / (1 - level)) / np.log(rarest / 0.05) if rarest > 0.05 else 0.0
    return float(1 + 0.5 * beyond) * max(r.score for r in left)


def block_bootstrap(step_ms: Floats, repeated_ms: Floats | None = None, windows: int = 1) -> Floats:
    """Means of resampled runs of steps: blocks of neighbouring steps keep what makes neighbours alike.

    Block length is the cube root of the number of steps (Kunsch 1989). Steps of one profiler window share what the machine was doing, and
    between windows lies time: where there are four or more, blocks are at least as long as they are. The seed is fixed: equal inputs give
    equal intervals.

    Parameters
    ----------
    step_ms
        Length of each step in its order.
    repeated_ms
        What a scenario repeats, as each step has it: its median went into every step, and varies with the steps that were drawn.
    windows
        Profiler windows that hold the steps.

    >>> bool(np.allclose(block_bootstrap(np.full(8, 3.0)), 3.0))
    True
    """
    count = len(step_ms)
    length = max(1, round(count ** (1 / 3)), count // windows if windows >= _MANY_WINDOWS else 1)
    blocks = int(np.ceil(count / length))
    generator = np.random.default_rng(_SEED)
    starts = generator.integers(0, count - length + 1, (_RESAMPLES, blocks))
    places = (starts[:, :, None] + np.arange(length)).reshape(_RESAMPLES, -1)[:, :count]
    means: Floats = step_ms[places].mean(axis=1)
    if repeated_ms is not None:
        means = means + np.median(repeated_ms[places], axis=1) - np.median(repeated_ms)
    return means


def half_width(center: float, low: float, high: float) -> tuple[float, float]:
    """Distance of an interval's ends from its centre, none below 0.

    >>> half_width(10.0, 8.0, 11.0)
    (2.0, 1.0)
    """
    return max(0.0, center - low), max(0.0, high - center)
