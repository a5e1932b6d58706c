"""Whether losses come at one time of day or in one phase of the step: systematic, where random loss keeps to no clock."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netlab.units import NS_PER_S

__all__ = ["DAY_NS", "loss_rhythm", "phase_lock"]

Floats = NDArray[np.float64]
DAY_NS = 86_400 * NS_PER_S
_HOURS, _MOST_BINS = 24, 24
_SHIFTS = 999
_SURE = 0.01


def phase_lock(at_ns: NDArray[np.int64], counts: Floats, period_ns: float, bins: int, seed: int = 0) -> tuple[float, float, int] | None:
    """Whether events keep to one phase of a period.

    The turns of the period are laid under each other; the statistic is the share of all events in the fullest phase. Chance is judged by
    turning every turn by an amount of its own, which leaves bursts whole. None if there are fewer than three turns or no events.

    Parameters
    ----------
    at_ns
        Middle of each interval.
    counts
        Events of each interval.
    period_ns
        The period; a phase is a ``bins``-th of it.
    bins
        Number of phases; intervals should be shorter than one.

    Returns
    -------
    (p, share of the events in the fullest phase, its number), p one-sided with 999 turnings.

    Examples
    --------
    >>> at = np.arange(100, dtype=np.int64)
    >>> p, share, phase = phase_lock(at, (at % 10 == 3).astype(float), 10, 10)
    >>> p < 0.01, share, phase
    (True, 1.0, 3)
    """
    turn = ((at_ns - at_ns.min() + at_ns.min() % int(period_ns)) // period_ns).astype(np.int64)
    phase = np.minimum(((at_ns % int(period_ns)) / period_ns * bins).astype(np.int64), bins - 1)
    table = np.zeros((int(turn.max()) + 1, bins))
    np.add.at(table, (turn, phase), counts)
    table = table[table.sum(axis=1) > 0]
    total = float(table.sum())
    if len(table) < 3 or not total:
        return None
    share = float(table.sum(axis=0).max()) / total
    chance = np.random.default_rng(seed)
    columns = np.arange(bins)
    reached = 0
    for shift in chance.integers(0, bins, (_SHIFTS, len(table))):
        turned = np.take_along_axis(table, (columns + shift[:, None]) % bins, axis=1)
        reached += float(turned.sum(axis=0).max()) / total >= share - 1e-12
    return (1 + reached) / (1 + _SHIFTS), share, int(table.sum(axis=0).argmax())


def loss_rhythm(at_ns: NDArray[np.int64], counts: Floats, poll_ns: float, step_ns: float | None) -> list[dict[str, Any]]:
    """Evidence rows for losses that come at one hour of the day or in one phase of the step; empty where neither shows or can be told."""
    found: list[dict[str, Any]] = []
    if poll_ns <= DAY_NS / _HOURS:
        locked = phase_lock(at_ns, counts, DAY_NS, _HOURS)
        if locked is not None and locked[0] <= _SURE:
            found.append({"systematic": "one time of day", "hour_utc": locked[2], "share": round(locked[1], 3), "p_value": locked[0]})
    bins = 0 if step_ns is None else min(_MOST_BINS, int(step_ns / poll_ns))
    if step_ns is not None and bins >= 3:
        locked = phase_lock(at_ns, counts, step_ns, bins)
        if locked is not None and locked[0] <= _SURE:
            row = {"systematic": "one phase of the step", "phase": round((locked[2] + 0.5) / bins, 3)}
            found.append({**row, "share": round(locked[1], 3), "p_value": locked[0]})
    return found
