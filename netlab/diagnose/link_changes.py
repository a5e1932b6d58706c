"""The change-point form of localisation: a fault that comes and stays leaves no cells to compare, but its beginning can be compared.

One change is one observation, so the best it can give is an association: the outcome shifts once, and an error counter begins within two
cells of it. Chance is judged by moving the change over all cells (Falcon, arXiv 2410.12588, keeps changes of 10 % and more).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["change_of", "onset_of", "onsets_near_change"]

Floats = NDArray[np.float64]
_SHORTEST, _SHIFT, _NEAR = 10, 0.10, 2
#: Standardised difference of the two sides; Gaussian noise over 2,000 positions stays below it in 99 of 100 series.
_CLEAR = 4.5


def change_of(values: Floats) -> int | None:
    """First cell of a lasting rise of at least 10 % of the mean; None if there is no clear one.

    >>> change_of(np.concatenate((np.tile([10.0, 11.0], 20), np.tile([20.0, 21.0], 20))))
    40
    """
    count = len(values)
    if count < 2 * _SHORTEST:
        return None
    positions = np.arange(_SHORTEST, count - _SHORTEST + 1)
    total, squares = np.cumsum(values), np.cumsum(values**2)
    before, after = total[positions - 1] / positions, (total[-1] - total[positions - 1]) / (count - positions)
    inside = squares[-1] - positions * before**2 - (count - positions) * after**2
    spread = np.sqrt(np.maximum(inside / (count - 2), 1e-300))
    score = (after - before) / (spread * np.sqrt(1 / positions + 1 / (count - positions)))
    best = int(score.argmax())
    enough = after[best] - before[best] >= _SHIFT * max(abs(float(values.mean())), 1e-300)
    return int(positions[best]) if score[best] >= _CLEAR and enough else None


def onset_of(events: Floats) -> int | None:
    """First cell from which a counter moves that stood still before, for good; None if it always did or hardly does.

    >>> onset_of(np.array([0.0] * 20 + [3.0] * 20))
    20
    """
    moving = events >= 0.5
    if moving.sum() < _SHORTEST / 2:
        return None
    first = int(moving.argmax())
    # Stray events before and silence after are allowed in one cell of ten.
    change = change_of(moving.astype(np.float64) + np.linspace(0, 1e-9, len(moving)))
    if change is None:
        return first if first >= _SHORTEST and moving[first:].mean() >= 0.5 else None
    quiet, busy = moving[:change].mean(), moving[change:].mean()
    return change if quiet <= 0.1 and busy >= 0.5 else None


def onsets_near_change(outcome: Floats, events: list[Floats]) -> tuple[list[int], float, int] | None:
    """Counters whose beginning lies within two cells of the outcome's change, the chance of that, and the change; None without both.

    The chance is the share of all cells (as positions of the change) near which at least one of the counters begins.
    """
    change = change_of(outcome)
    if change is None:
        return None
    onsets = {number: onset for number, series in enumerate(events) if (onset := onset_of(series)) is not None}
    near = [number for number, onset in onsets.items() if abs(onset - change) <= _NEAR]
    if not near:
        return None
    places = np.arange(_SHORTEST, len(outcome) - _SHORTEST + 1)
    hit = np.zeros(len(places), np.bool_)
    for onset in onsets.values():
        hit |= np.abs(places - onset) <= _NEAR
    return near, float(hit.mean()), change
