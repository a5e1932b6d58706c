"""Slow phases and slow first steps in a series of step times."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["change_points", "step_series", "warmup_steps"]

#: A phase is at least this many steps long, and so is the rest; shorter ones are single slow steps.
SHORTEST = 3
#: With this level a run without a change raises one in 1 of 100 at most. Half of it goes to changes that last to an end of the run, of
#: which there are few: among all stretches of 12 steps chance alone would hide a clear one.
LEVEL = 0.01
#: Permutations of the steps, for all stretches and for those that touch an end.
PERMUTATIONS = (999, 3999)
#: A change below this share of the usual step is not worth a finding.
SMALLEST_CHANGE = 0.05
#: Longer series are thinned before the search: its cost grows with the square.
LONGEST = 120

#: The first steps are a warm-up if they take this much longer than the median of the others (compiling, autotuning, first allocations).
WARMUP_RATIO, WARMUP_LONGEST = 1.5, 3

_Floats = NDArray[np.float64]


def step_series(pooled: pl.DataFrame) -> pl.DataFrame:
    """Mean step time over ranks, ``window, step, step_ns``, in order."""
    return pooled.group_by("window", "step").agg(pl.col("step_ns").mean()).sort("window", "step")


def warmup_steps(pooled: pl.DataFrame) -> list[int]:
    """First steps (at most 3) that take more than 1.5 times the median of the steps after them; needs 3 of those.

    >>> frame = pl.DataFrame({"window": 0, "step": range(6), "step_ns": [900, 300, 100, 102, 99, 101]})
    >>> warmup_steps(frame)
    [0, 1]
    """
    if "step" not in pooled.columns or not pooled.height:
        return []
    series = step_series(pooled)
    times, steps = series["step_ns"].to_numpy(), series["step"].to_list()
    for count in range(min(WARMUP_LONGEST, len(times) - SHORTEST), 0, -1):
        if (times[:count] > WARMUP_RATIO * np.median(times[count:])).all():
            return [int(step) for step in steps[:count]]
    return []


def change_points(pooled: pl.DataFrame, *, seed: int = 0) -> pl.DataFrame:
    """The stretch of steps whose time differs most from the rest, if chance does not explain it.

    Every stretch of at least 3 steps is compared with the other steps by its standardised mean difference; the largest over all
    stretches is judged by a permutation test, which holds its level for any distribution of step times: first over all, then
    over those that begin or end with the run, each at half the level (Bonferroni). The warm-up is left out.
    Source: the epidemic alternative of Levin and Kline, The CUSUM test of homogeneity, Statistics in Medicine 4 (1985).

    Parameters
    ----------
    pooled
        ``BREAKDOWN`` rows of pooled steps.
    seed
        Of the permutations; the same input gives the same answer.

    Returns
    -------
    No row, or one: ``window, first_step, last_step, usual_ns, changed_ns`` (medians outside and inside), ``p_value``, ``open`` (the run
    ends inside the stretch).
    """
    schema = {"window": pl.Int32, "first_step": pl.Int32, "last_step": pl.Int32, "usual_ns": pl.Float64, "changed_ns": pl.Float64}
    none = pl.DataFrame(schema=schema | {"p_value": pl.Float64, "open": pl.Boolean})
    if "step" not in pooled.columns or not pooled.height:
        return none
    series = step_series(pooled)
    series = series.slice(len(warmup_steps(pooled)))
    if series.height < 2 * SHORTEST:
        return none
    times = series["step_ns"].to_numpy()
    thin = -(-len(times) // LONGEST)
    shown = np.array([np.median(times[at : at + thin]) for at in range(0, len(times), thin)])
    found = _most_unlikely(shown, seed)
    if found is None:
        return none
    begin, end, p_value = found
    begin, end = begin * thin, min(end * thin, len(times))
    inside, outside = times[begin:end], np.concatenate((times[:begin], times[end:]))
    slow, usual = float(np.median(inside)), float(np.median(outside))
    # Where the stretch is the faster one and lies at an end, the slow part is what is left.
    if slow < usual and (begin == 0 or end == len(times)):
        begin, end = (end, len(times)) if begin == 0 else (0, begin)
        slow, usual = usual, slow
    if slow - usual < SMALLEST_CHANGE * usual:
        return none
    row = {
        "window": series["window"][begin],
        "first_step": series["step"][begin],
        "last_step": series["step"][end - 1],
        "usual_ns": usual,
        "changed_ns": slow,
        "p_value": p_value,
        "open": end == len(times),
    }
    return pl.DataFrame([row], schema=none.schema)


_Stretches = tuple[NDArray[np.int64], NDArray[np.int64]]


def _most_unlikely(times: _Floats, seed: int) -> tuple[int, int, float] | None:
    """The strongest stretch of all, else of those at an end, and its probability by chance; None if that is above the level."""
    begin, end = _stretches(len(times))
    anchored = (begin == 0) | (end == len(times))
    for chosen, permutations in zip((np.ones_like(anchored), anchored), PERMUTATIONS, strict=True):
        stretches = begin[chosen], end[chosen]
        score, first, last = _strongest(times, *stretches)
        p_value = 2 * _chance(times, score, stretches, permutations, seed)
        if p_value <= LEVEL:
            return first, last, p_value
    return None


def _stretches(count: int) -> _Stretches:
    begin, end = np.triu_indices(count + 1, SHORTEST)
    fits = end - begin <= count - SHORTEST
    return begin[fits], end[fits]


def _strongest(times: _Floats, begin: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[float, int, int]:
    """The stretch whose mean differs most from the mean of the rest, in units of the spread left after the split."""
    total = np.concatenate(([0.0], np.cumsum(times - times.mean())))
    square = float(np.square(times - times.mean()).sum())
    length = end - begin
    between = (total[end] - total[begin]) ** 2 * (1 / length + 1 / (len(times) - length))
    best = int(between.argmax())
    # The ratio grows with what lies between the parts, so the same stretch is best in both.
    return float(between[best] / max(square - between[best], 1e-9 * max(square, 1.0))), int(begin[best]), int(end[best])


def _chance(times: _Floats, score: float, stretches: _Stretches, permutations: int, seed: int) -> float:
    """How often shuffled steps show as strong a stretch; given up as soon as that is too often."""
    generator = np.random.default_rng(seed)
    enough, reached = int(LEVEL / 2 * (permutations + 1)), 0
    for _ in range(permutations):
        reached += _strongest(generator.permutation(times), *stretches)[0] >= score
        if reached >= enough:
            return 1.0
    return (reached + 1) / (permutations + 1)
