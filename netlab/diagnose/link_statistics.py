"""The test behind a localisation: does one link's counter move with the slow cells beyond what its peers and chance explain?

Method: outcome and series are ranked; each series is regressed on the leave-one-out mean of its peers, the outcome on their common course;
one-sided correlation of the residuals (partial Spearman), the largest over lags; its null by resampling the outcome in blocks (circular
shifts where there are enough of them), and the maximum over all series, so that the level holds for the whole search. Sources: Roy et al.,
NSDI 2017 (peers as controls); Romano and Tirlea 2020 (permutation tests fail under dependence, hence blocks); Westfall and Young 1993
(maximum statistic).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Tested", "autocorrelation_time", "effective_size", "max_null_test", "outcome_residual", "peer_residuals", "ranked"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LAGS = (-1, 0, 1)
#: Resamples; with 499 the smallest p is 0.002, which leaves room below the level of 0.01.
_RESAMPLES = 499
_FEWEST_SHIFTS = 199


@dataclass(frozen=True)
class Tested:
    """Results by series: statistic (best over lags), its lag, family-wise p; and the statistic that 1 % of nulls reach."""

    statistic: Floats
    lag: Ints
    p_value: Floats
    critical: float
    resamples: int


def autocorrelation_time(series: Floats) -> float:
    """Cells over which a series depends on itself: (1 + f) / (1 - f) with the lag-1 autocorrelation f, at least 1.

    >>> round(autocorrelation_time(np.array([1.0, -1.0] * 50)), 2)
    1.0
    """
    phi = _lag1(series)
    return (1 + phi) / (1 - phi)


def effective_size(series: Floats) -> float:
    """Independent cells that a series is worth: n (1 - f) / (1 + f)."""
    return len(series) / autocorrelation_time(series)


def _lag1(series: Floats) -> float:
    centred = series - series.mean()
    total = float(centred @ centred)
    return 0.0 if total == 0 else min(0.99, max(0.0, float(centred[1:] @ centred[:-1]) / total))


def peer_residuals(series: Floats, peers: Ints) -> Floats:
    """Each row less what the mean of the other rows of its peer group explains (least squares with intercept).

    The mean, not the median: the median of sparse counters is zero and removes nothing (60 to 97 % false alarms). Rows alone in their group
    are only centred.

    >>> common = np.array([0.0, 1.0, 0.0, 2.0])
    >>> float(np.abs(peer_residuals(np.stack([common, 2 * common, common]), np.zeros(3, np.int64))).max()) < 1e-12
    True
    """
    result: Floats = series - series.mean(axis=1, keepdims=True)
    for group in np.unique(peers):
        rows = np.flatnonzero(peers == group)
        if len(rows) < 2:
            continue
        own = result[rows]
        others = (own.sum(axis=0, keepdims=True) - own) / (len(rows) - 1)
        power = (others**2).sum(axis=1)
        slope = np.divide((own * others).sum(axis=1), power, out=np.zeros(len(rows)), where=power > 1e-300)
        result[rows] = own - slope[:, None] * others
    return result


def ranked(series: Floats) -> Floats:
    """Ranks within each row from 0 to 1, ties share theirs.

    Ranks come before the regressions, not after: the residual of an outcome with ties (slow or not) differs from cell to cell by the common
    course alone, however little, and ranks of it would show nothing else (41 % false alarms where 1 % were meant).

    >>> ranked(np.array([[5.0, 1.0, 5.0]])).tolist()
    [[0.75, 0.0, 0.75]]
    """
    order, count = np.argsort(series, axis=1, kind="stable"), series.shape[1]
    rows = np.arange(series.shape[0])[:, None]
    values = np.take_along_axis(series, order, axis=1)
    new = np.concatenate((np.ones((len(series), 1), bool), np.diff(values, axis=1) > 0), axis=1)
    flat = np.cumsum(new, axis=1) - 1 + rows * count
    sums = np.bincount(flat.ravel(), np.broadcast_to(np.arange(count, dtype=np.float64), series.shape).ravel(), series.size)
    sizes = np.bincount(flat.ravel(), minlength=series.size)
    mean = np.divide(sums, sizes, out=np.zeros(series.size), where=sizes > 0)
    result = np.empty(series.shape)
    result[rows, order] = mean[flat] / max(1, count - 1)
    return result


def _unit(series: Floats) -> Floats:
    """Rows centred and of unit length; constant rows become zero."""
    centred = series - series.mean(axis=1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    scaled: Floats = np.divide(centred, length, out=np.zeros_like(centred), where=length > 1e-9)
    return scaled


def max_null_test(outcome: Floats, series: Floats, seed: int = 0, resamples: int = _RESAMPLES) -> Tested:
    """Family-wise one-sided test of every series against the outcome.

    Parameters
    ----------
    outcome
        Residual of the ranked outcome per cell, shape (T,).
    series
        Residuals of the ranked series, shape (L, T).
    seed
        Of the resampling; the same inputs give the same answer.

    Returns
    -------
    ``Tested``; ``p_value`` = (1 + number of nulls whose largest statistic over all series and lags is at least this one) / (1 + nulls).
    """
    rows, target = _unit(series), _unit(outcome[None, :])[0]
    lagged = np.stack([np.roll(target, lag) for lag in _LAGS])
    observed = rows @ lagged.T
    best = observed.argmax(axis=1)
    statistic = observed.max(axis=1)
    nulls = _resampled(target, autocorrelation_time(outcome), np.random.default_rng(seed), resamples)
    largest = np.zeros(len(nulls))
    for lag in _LAGS:
        # The series are rolled back instead of every null forward.
        rolled = np.roll(rows, -lag, axis=1)
        for begin in range(0, len(rolled), 2048):
            largest = np.maximum(largest, (rolled[begin : begin + 2048] @ nulls.T).max(axis=0))
    order = np.sort(largest)
    above = len(order) - np.searchsorted(order, statistic - 1e-12)
    critical = float(order[min(len(order) - 1, int(np.ceil(0.99 * (len(order) + 1))) - 1)])
    return Tested(statistic, np.asarray(_LAGS)[best], (1 + above) / (1 + len(order)), critical, len(nulls))


def _resampled(target: Floats, tau: float, chance: np.random.Generator, resamples: int) -> Floats:
    """Outcomes under the null: circular shifts by at least twice the autocorrelation time; where too few differ, blocks in random order."""
    count = len(target)
    nearest = max(2 + max(_LAGS), int(np.ceil(2 * tau)) + max(_LAGS))
    shifts = np.arange(nearest, count - nearest + 1)
    if len(shifts) >= _FEWEST_SHIFTS:
        chosen = chance.choice(shifts, min(resamples, len(shifts)), replace=False)
        return np.stack([np.roll(target, int(shift)) for shift in chosen])
    length = min(max(2, int(np.ceil(2 * tau))), max(2, count // 4))
    mixed = []
    for _ in range(resamples):
        rolled = np.roll(target, int(chance.integers(count)))
        starts = np.arange(0, count, length)
        mixed.append(np.concatenate([rolled[start : start + length] for start in chance.permutation(starts)]))
    return np.stack(mixed)


def outcome_residual(outcome: Floats, series: Floats, peers: Ints) -> Floats:
    """The outcome less what the common course of each peer group explains.

    The common course of a cell is the mean over the group without its two largest and two smallest values (one each below eight rows): one
    link with events of its own is no common cause, and removing it would remove the very effect that is looked for. Groups of fewer than
    five rows have none.
    """
    columns = [np.ones(len(outcome))]
    for group in np.unique(peers):
        rows = series[peers == group]
        if len(rows) >= 5:
            cut = 2 if len(rows) >= 8 else 1
            common = np.sort(rows, axis=0)[cut:-cut].mean(axis=0)
            if common.std() > 1e-9:
                columns.append(common)
    design = np.stack(columns, axis=1)
    solution, *_ = np.linalg.lstsq(design, outcome, rcond=None)
    return np.asarray(outcome - design @ solution, np.float64)
