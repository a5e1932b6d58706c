"""Sequence alignment: find the same collective on several ranks when nothing numbers them.

Ranks of one group run the same operations in the same order, so whole sequences are compared first. Where they differ, kernels
were lost, and
order alone cannot tell which of several equal operations; the common end of a collective can. Nothing is ever shifted through a gap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEAST_FOR_SHIFT", "align_lane", "match_by_time", "stray_pairs"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Widths at which ends of one collective are tried to agree: device clocks of one host, of several hosts, host threads (Gloo).
_END_WIDTHS_NS = (20_000, 100_000, 1_000_000, 10_000_000)
#: Share of kernels whose ends must agree at a width before it is believed.
_AGREEMENT = 0.5
_VOTERS = 256
#: With fewer pairs, differences of ends tell nothing about a shift.
LEAST_FOR_SHIFT = 4
#: Equal sequences are only re-matched by time if at least this share finds a partner.
_LEAST_PLACED = 0.8
_TREND_POINTS = 64


def align_lane(rank: Int64s, key: Int64s, end_ns: Int64s, firm: Bools | None = None) -> Int64s:
    """Number the instances of one group.

    Parameters
    ----------
    rank, key, end_ns
        One entry per kernel, in launch order within each rank: its rank, a number for (op, dtype, size), its end on the rank's own clock.
    firm
        Whether the kernel's operation ends on all ranks at once; the others are placed between those. By default all do.

    Returns
    -------
    Instance number of every kernel, 0 upwards; kernels of different ranks with one number are one collective.

    Examples
    --------
    Rank 1 lost the second of three equal kernels; the ends tell which.

    >>> align_lane(np.array([0, 0, 0, 1, 1]), np.zeros(5, np.int64), np.array([10, 1_000_000, 9_000_000, 12, 9_000_002])).tolist()
    [0, 1, 2, 0, 2]
    """
    firm = np.ones(len(rank), bool) if firm is None else firm
    instance = np.full(len(rank), -1, np.int64)
    count = 0
    while (instance < 0).any():
        open_rows = np.flatnonzero(instance < 0)
        ranks, sizes = np.unique(rank[open_rows], return_counts=True)
        reference = open_rows[rank[open_rows] == ranks[np.argmax(sizes)]]
        instance[reference] = count + np.arange(len(reference))
        for other in ranks:
            rows = open_rows[(rank[open_rows] == other) & (instance[open_rows] < 0)]
            if not len(rows):
                continue
            place = match_by_time(key[reference], end_ns[reference], key[rows], end_ns[rows], firm[reference], firm[rows])
            found = place >= 0
            instance[rows[found]] = count + place[found]
        count += len(reference)
    return instance


def match_by_time(
    key: Int64s, end_ns: Int64s, other_key: Int64s, other_end_ns: Int64s, firm: Bools | None = None, other_firm: Bools | None = None
) -> Int64s:
    """Place of each kernel of one rank in the sequence of another, -1 where it has none. Places rise strictly.

    Equal sequences are matched by order, unless ends show that parts of them are shifted: each rank may have lost a kernel of its own.
    Where ends agree at no width, only what both sequences begin and end with is matched.
    """
    firm = np.ones(len(key), bool) if firm is None else firm
    other_firm = np.ones(len(other_key), bool) if other_firm is None else other_firm
    if other_firm.sum() < LEAST_FOR_SHIFT or firm.sum() < LEAST_FOR_SHIFT:
        firm, other_firm = np.ones(len(key), bool), np.ones(len(other_key), bool)
    equal = len(key) == len(other_key) and bool((key == other_key).all())
    by_order = np.arange(len(other_key))
    strays = stray_pairs(end_ns[firm], other_end_ns[other_firm]) if equal else 0
    if equal and not strays:
        return by_order
    offset, width, agreement = _clock_offset(key[firm], end_ns[firm], other_key[other_firm], other_end_ns[other_firm])
    if agreement < _AGREEMENT:
        return by_order if equal else _common_ends(key, other_key)
    aligned_ns = other_end_ns - offset
    reach = np.where(other_firm, _usual_gap(end_ns[firm]) / 4, np.inf)
    place = _rising(_place(np.full(len(other_key), -1, np.int64), key, end_ns, other_key, aligned_ns, firm, other_firm, width))
    place = _fill_between(place, key, other_key, end_ns, aligned_ns, reach)
    # What a stretch of unequal length leaves open is placed by time too, whatever the operation.
    place = _rising(_place(place, key, end_ns, other_key, aligned_ns, ~firm, ~other_firm, width))
    place = _fill_between(place, key, other_key, end_ns, aligned_ns, reach)
    if not equal:
        return place
    kept = np.flatnonzero((place >= 0) & other_firm)
    better = stray_pairs(end_ns[place[kept]], other_end_ns[kept]) * 2 < strays
    return place if better and (place >= 0).mean() >= _LEAST_PLACED else by_order


def _place(
    place: Int64s,
    key: Int64s,
    end_ns: Int64s,
    other_key: Int64s,
    other_end_ns: Int64s,
    among: Bools,
    other_among: Bools,
    width: int,
) -> Int64s:
    """Give open kernels of a kind the free place of their key whose end is nearest."""
    placed, free = place.copy(), among.copy()
    free[place[place >= 0]] = False
    wanted = other_among & (place < 0)
    for value in np.unique(other_key[wanted]):
        mine, theirs = np.flatnonzero((other_key == value) & wanted), np.flatnonzero((key == value) & free)
        if len(theirs):
            placed[mine] = _nearest(end_ns[theirs], theirs, other_end_ns[mine], width)
    return placed


def stray_pairs(end_ns: Int64s, other_end_ns: Int64s) -> int:
    """How many paired ends lie further apart than the two clocks do, by more than a quarter of the usual distance between ends.

    A drift of one clock against the other is taken off first.

    >>> stray_pairs(np.array([0, 10, 30, 60, 100]), np.array([100, 110, 130, 160, 200]))
    0
    >>> stray_pairs(np.array([0, 10, 30, 60, 100]), np.array([110, 130, 130, 160, 200]))
    2
    """
    if len(end_ns) < LEAST_FOR_SHIFT:
        return 0
    difference = (other_end_ns - end_ns).astype(np.float64)
    at = (end_ns - end_ns[0]).astype(np.float64)
    chosen = np.unique(np.linspace(0, len(at) - 1, min(len(at), _TREND_POINTS)).astype(np.int64))
    early, late = np.triu_indices(len(chosen), 1)
    span = at[chosen[late]] - at[chosen[early]]
    apart = span > 0
    if apart.any():
        slopes = (difference[chosen[late]] - difference[chosen[early]])[apart] / span[apart]
        difference -= np.median(slopes) * at
    return int((np.abs(difference - np.median(difference)) > _usual_gap(end_ns) / 4).sum())


def _usual_gap(end_ns: Int64s) -> float:
    return float(np.median(np.abs(np.diff(end_ns)))) if len(end_ns) > 1 else np.inf


def _common_ends(key: Int64s, other_key: Int64s) -> Int64s:
    """Match what both sequences begin with and what both end with."""
    place = np.full(len(other_key), -1, np.int64)
    shorter = min(len(key), len(other_key))
    head = int(np.argmin(np.append(key[:shorter] == other_key[:shorter], False)))
    tail = int(np.argmin(np.append(key[::-1][:shorter] == other_key[::-1][:shorter], False)))
    place[:head] = np.arange(head)
    tail = min(tail, shorter - head)
    if tail:
        place[len(other_key) - tail :] = np.arange(len(key) - tail, len(key))
    return place


def _clock_offset(key: Int64s, end_ns: Int64s, other_key: Int64s, other_end_ns: Int64s) -> tuple[int, int, float]:
    """The difference of two clocks that most pairs of equal kernels agree on, the width at which they do, and how many do."""
    if not len(key) or not len(other_key):
        return 0, _END_WIDTHS_NS[-1], 0.0
    voters = np.unique(np.linspace(0, len(other_key) - 1, min(len(other_key), _VOTERS)).astype(np.int64))
    slack = abs(len(key) - len(other_key)) + 16
    scale = len(key) / max(len(other_key), 1)
    differences, owners = [], []
    for voter in voters:
        low = max(0, int(min(voter, voter * scale)) - slack)
        near = np.arange(low, min(len(key), int(max(voter, voter * scale)) + slack + 1))
        near = near[key[near] == other_key[voter]]
        differences.append(other_end_ns[voter] - end_ns[near])
        owners.append(np.full(len(near), voter))
    difference, owner = np.concatenate(differences), np.concatenate(owners)
    if not len(difference):
        return 0, _END_WIDTHS_NS[-1], 0.0
    order = np.argsort(difference, kind="stable")
    difference, owner = difference[order], owner[order]
    best = (0, 0, 0.0)
    for width in _END_WIDTHS_NS:
        last = np.searchsorted(difference, difference + width, side="right")
        votes = last - np.arange(len(difference))
        # Repeats of one voter inside a window count once; exact counting is only needed for the leaders.
        leaders = np.argsort(-votes, kind="stable")[:32]
        ranked = sorted(
            (-len(np.unique(owner[first : last[first]])), abs(int(np.median(difference[first : last[first]]))), int(first))
            for first in leaders
        )
        agreeing, _, first = ranked[0]
        best = (int(np.median(difference[first : last[first]])), width, -agreeing / len(voters))
        if best[2] >= _AGREEMENT:
            break
    return best


def _nearest(ends: Int64s, places: Int64s, wanted: Int64s, width: int) -> Int64s:
    """The place whose end is nearest, unless it is further off than ends of one collective are."""
    order = np.argsort(ends, kind="stable")
    ends, places = ends[order], places[order]
    right = np.clip(np.searchsorted(ends, wanted), 0, len(ends) - 1)
    left = np.maximum(right - 1, 0)
    nearer = np.where(np.abs(ends[left] - wanted) <= np.abs(ends[right] - wanted), left, right)
    return np.where(np.abs(ends[nearer] - wanted) <= 5 * width, places[nearer], -1)


def _rising(place: Int64s) -> Int64s:
    """Keep the longest strictly rising run of places, drop the rest (patience method)."""
    rows = np.flatnonzero(place >= 0)
    if (np.diff(place[rows]) > 0).all():
        return place
    tails: list[int] = []
    tail_rows: list[int] = []
    before = np.full(len(place), -1, np.int64)
    for row in rows.tolist():
        at = int(np.searchsorted(np.array(tails, np.int64), place[row])) if tails and place[row] <= tails[-1] else len(tails)
        before[row] = tail_rows[at - 1] if at else -1
        tails[at : at + 1] = [int(place[row])]
        tail_rows[at : at + 1] = [row]
    kept = np.full(len(place), -1, np.int64)
    row = tail_rows[-1] if tail_rows else -1
    while row >= 0:
        kept[row] = place[row]
        row = int(before[row])
    return kept


def _fill_between(
    place: Int64s, key: Int64s, other_key: Int64s, end_ns: Int64s, other_end_ns: Int64s, reach_ns: NDArray[np.float64]
) -> Int64s:
    """Between two matched kernels, equal stretches of unmatched ones belong together in order, if their ends do not contradict it."""
    anchors = np.flatnonzero(place >= 0)
    starts = np.concatenate(([-1], anchors))
    stops = np.concatenate((anchors, [len(place)]))
    filled = place.copy()
    for start, stop in zip(starts[stops - starts > 1].tolist(), stops[stops - starts > 1].tolist(), strict=True):
        low = int(place[start]) + 1 if start >= 0 else 0
        high = int(place[stop]) if stop < len(place) else len(key)
        mine = slice(start + 1, stop)
        if high - low != stop - start - 1 or not (key[low:high] == other_key[mine]).all():
            continue
        near = np.abs(other_end_ns[mine] - end_ns[low:high]) <= reach_ns[mine]
        filled[mine] = np.where(near, np.arange(low, high), -1)
    return filled
