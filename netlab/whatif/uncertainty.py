"""How wrong an answer may be: step-to-step variation, cost of the transfers, and the model's own error."""

from __future__ import annotations

import json
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
_SEED = 20260101
#: The model's error is never taken to be smaller than this, however well the validation went.
_LEAST_ERROR = 0.01
#: Changes smaller than this (a quarter of the step) are as uncertain as one of this size.
_LEAST_CHANGE = 0.25


@dataclass(frozen=True)
class Residual:
    """One checked prediction: set-up, kinds of change, predicted over measured minus 1, and the logarithm of predicted over unchanged."""

    setup: str
    kinds: tuple[str, ...]
    error: float
    change: float

    @property
    def score(self) -> float:
        """Error per size of the change: what moves a step further from what was measured may be wrong by more."""
        return abs(self.error) / max(_LEAST_CHANGE, abs(self.change))


@dataclass(frozen=True)
class Spread:
    """Relative half widths of an interval at 80 and 95 %."""

    half80: float
    half95: float


@lru_cache(maxsize=1)
def residuals() -> tuple[Residual, ...]:
    """Errors of checked predictions, as docs/whatif_validation.md lists them."""
    text = resources.files("netlab.whatif").joinpath("residuals.json").read_text(encoding="utf-8")
    return tuple(Residual(row["setup"], tuple(row["kinds"]), row["error"], row["change"]) for row in json.loads(text)["residuals"])


def model_error(kinds: tuple[str, ...], ratio: float = 1.0, exclude_setup: str | None = None) -> Spread:
    """Relative error to expect of an answer, from predictions of other kinds of change and other set-ups than the one judged.

    Split-conformal on the scores: the smallest that at least 80 (95) % of the left-over ones stay below, with the finite-sample correction
    (n + 1) of Vovk et al.; where too few are left for that, the largest with half of it on top. The score times the size of the change is
    the half width.

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
    left = sorted(r.score for r in others if not set(r.kinds) & set(kinds)) or sorted(r.score for r in others)
    size = max(_LEAST_CHANGE, abs(float(np.log(ratio)))) if ratio > 0 else _LEAST_CHANGE
    return Spread(max(_LEAST_ERROR, _quantile(left, 0.80) * size), max(_LEAST_ERROR, _quantile(left, 0.95) * size))


def _quantile(ordered: list[float], level: float) -> float:
    if not ordered:
        return 1.0
    place = int(np.ceil(level * (len(ordered) + 1))) - 1
    return ordered[place] if place < len(ordered) else 1.5 * ordered[-1]


def block_bootstrap(step_ms: Floats) -> Floats:
    """Means of resampled runs of steps: blocks of neighbouring steps keep what makes neighbours alike.

    Block length is the cube root of the number of steps (Kunsch 1989). The seed is fixed: equal inputs give equal intervals.

    >>> bool(np.allclose(block_bootstrap(np.full(8, 3.0)), 3.0))
    True
    """
    count = len(step_ms)
    length = max(1, round(count ** (1 / 3)))
    blocks = int(np.ceil(count / length))
    generator = np.random.default_rng(_SEED)
    starts = generator.integers(0, count - length + 1, (_RESAMPLES, blocks))
    places = (starts[:, :, None] + np.arange(length)).reshape(_RESAMPLES, -1)[:, :count]
    means: Floats = step_ms[places].mean(axis=1)
    return means


def half_width(center: float, low: float, high: float) -> tuple[float, float]:
    """Distance of an interval's ends from its centre, none below 0.

    >>> half_width(10.0, 8.0, 11.0)
    (2.0, 1.0)
    """
    return max(0.0, center - low), max(0.0, high - center)
