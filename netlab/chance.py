"""How likely a difference is by chance alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["outlier_p_value", "student_tail", "welch_p_value"]

_Floats = NDArray[np.float64]


def student_tail(t: float, freedom: float) -> float:
    """Probability that |T| of Student's distribution exceeds t.

    The density is integrated in the angle atan(t / sqrt(freedom)), where it is smooth and bounded.

    >>> round(student_tail(2.228, 10), 3)
    0.05
    """
    angle = np.linspace(math.atan(t / math.sqrt(freedom)), math.pi / 2, 2001)
    height = np.cos(angle) ** (freedom - 1)
    whole = math.sqrt(math.pi) * math.exp(math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2)) / 2
    return float(np.trapezoid(height, angle) / whole)


def welch_p_value(first: _Floats, second: _Floats, fewest: int = 3) -> float | None:
    """Two-sided p-value of Welch's unequal-variances t-test (Biometrika 34, 1947); None with fewer values on a side.

    >>> round(welch_p_value(np.array([10.0, 11, 12, 11]), np.array([15.0, 16, 14, 15])), 4)
    0.0004
    """
    if min(len(first), len(second)) < fewest:
        return None
    variances = [float(side.var(ddof=1)) / len(side) for side in (first, second)]
    total = sum(variances)
    gap = abs(float(first.mean() - second.mean()))
    if total == 0.0:
        return 1.0 if gap == 0.0 else 0.0
    squares = sum(v**2 / (len(side) - 1) for v, side in zip(variances, (first, second), strict=True))
    return student_tail(gap / math.sqrt(total), total**2 / squares)


def outlier_p_value(past: _Floats, value: float) -> float | None:
    """Two-sided p-value that a new value comes from the same normal distribution as the past ones; None with fewer than 3.

    The prediction of one further value: (x - mean) / (s sqrt(1 + 1/n)) follows Student's distribution with n - 1 degrees of freedom.

    >>> round(outlier_p_value(np.array([10.0, 11, 12, 11]), 15.0), 3)
    0.022
    """
    if len(past) < 3:
        return None
    spread = float(past.std(ddof=1)) * math.sqrt(1 + 1 / len(past))
    gap = abs(value - float(past.mean()))
    if spread == 0.0:
        return 1.0 if gap == 0.0 else 0.0
    return student_tail(gap / spread, len(past) - 1)
