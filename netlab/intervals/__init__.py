"""Interval algebra on integer nanoseconds. An interval is half-open: [start, end).

Everything here is plain arrays in, plain arrays out. A *lane* is a timeline of its own (a rank); intervals of different lanes never meet.
Large inputs go through the compiled sweep of ``netlab.intervals.sweep``; small ones stay in numpy, because loading compiled code costs
more than it saves there. Both give the same integers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["COMPILED_FROM", "Int64s", "cover", "exposed", "fold_times", "mask_segments", "mask_times", "measure", "union"]

Int64s = NDArray[np.int64]

#: Intervals from which the compiled sweep pays: below, numpy needs less than loading the compiled code takes (about 0.3 s).
COMPILED_FROM = 300_000


def union(start_ns: Int64s, end_ns: Int64s) -> tuple[Int64s, Int64s]:
    """Disjoint sorted intervals that cover exactly what the given ones cover; empty intervals vanish.

    >>> union(np.array([5, 0, 2]), np.array([9, 3, 4]))
    (array([0, 5]), array([4, 9]))
    """
    keep = end_ns > start_ns
    start, end = start_ns[keep], end_ns[keep]
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate(([True], start[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return start[first], reach[last]


def measure(start_ns: Int64s, end_ns: Int64s) -> int:
    """Length of the union.

    >>> measure(np.array([0, 2, 10]), np.array([4, 6, 11]))
    7
    """
    start, end = union(start_ns, end_ns)
    return int((end - start).sum())


def exposed(start_ns: Int64s, end_ns: Int64s, cover_start_ns: Int64s, cover_end_ns: Int64s) -> int:
    """Length of what the first intervals cover and the second do not. Both must be sorted by start; they may overlap among themselves.

    >>> exposed(np.array([0, 4]), np.array([6, 9]), np.array([2, 8]), np.array([5, 20]))
    5
    """
    if len(start_ns) + len(cover_start_ns) >= COMPILED_FROM:
        from netlab.intervals.sweep import exposed_sorted

        return int(exposed_sorted(start_ns, end_ns, cover_start_ns, cover_end_ns))
    both = measure(np.concatenate((start_ns, cover_start_ns)), np.concatenate((end_ns, cover_end_ns)))
    return both - measure(cover_start_ns, cover_end_ns)


def cover(
    lane: Int64s,
    start_ns: Int64s,
    end_ns: Int64s,
    query_lane: Int64s,
    query_start_ns: Int64s,
    query_end_ns: Int64s,
) -> Int64s:
    """How much of each query interval the intervals of its lane cover. Queries may overlap.

    >>> zero = np.zeros(2, np.int64)
    >>> cover(zero, np.array([0, 8]), np.array([4, 10]), zero, np.array([2, 0]), np.array([9, 20]))
    array([3, 6])
    """
    result = np.zeros(len(query_lane), np.int64)
    if not len(lane) or not len(query_lane):
        return result
    # All lanes are laid end to end on one axis, so that one union and one search serve them all.
    low = min(int(start_ns.min()), int(query_start_ns.min()))
    span = max(int(end_ns.max()), int(query_end_ns.max())) - low + 1
    first = min(int(lane.min()), int(query_lane.min()))
    width = max(int(lane.max()), int(query_lane.max())) - first + 1
    place: Int64s = np.concatenate((lane, query_lane)) - first
    if width * span >= 2**63:  # numbers of lanes far apart: count them instead
        names, place = np.unique(place, return_inverse=True)
        width = len(names)
    if width * span >= 2**63:
        raise OverflowError(f"{width} timelines of {span} ns do not fit one axis of 64 bits.")
    shift = place.astype(np.int64) * span - low
    own, asked = shift[: len(lane)], shift[len(lane) :]
    start, end = union(start_ns + own, end_ns + own)
    if not len(start):
        return result
    before = np.concatenate(([0], np.cumsum(end - start)))
    until_end = _covered_until(start, end, before, query_end_ns + asked)
    covered: Int64s = np.maximum(until_end - _covered_until(start, end, before, query_start_ns + asked), 0)
    return covered


def _covered_until(start: Int64s, end: Int64s, before: Int64s, at: Int64s) -> Int64s:
    """Covered time up to an instant, for disjoint sorted intervals with their running sum."""
    index = np.searchsorted(start, at, "right")
    inside = np.where(index > 0, np.minimum(at, end[index - 1]) - start[index - 1], 0)
    return before[np.maximum(index - 1, 0)] + inside


def mask_segments(
    lane: Int64s,
    start_ns: Int64s,
    end_ns: Int64s,
    bit: Int64s,
    window_lane: Int64s,
    window_start_ns: Int64s,
    window_end_ns: Int64s,
    bits: int,
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Cut each window wherever a class begins or ends.

    Arguments are those of `mask_times`. Returns the window, the mask of active classes, the start and the length of each segment, by
    window's lane and time; the segments of a window add up to its length.

    >>> one = np.zeros(1, np.int64)
    >>> mask_segments(one, np.array([2]), np.array([5]), one, one, one, np.array([9]), 1)
    (array([0, 0, 0]), array([0, 1, 0]), array([0, 2, 5]), array([2, 3, 4]))
    """
    rows, windows = len(lane), len(window_lane)
    number = np.arange(windows, dtype=np.int64)
    edge_lane = np.concatenate((lane, lane, window_lane, window_lane))
    edge_at = np.concatenate((start_ns, end_ns, window_start_ns, window_end_ns))
    order = np.lexsort((edge_at, edge_lane))
    at = edge_at[order]
    length = np.diff(at, append=at[-1:])
    # An interval that ends before it starts is empty: both of its edges count nothing.
    live = (end_ns > start_ns).astype(np.int64)
    change = np.concatenate((live, -live, np.zeros(2 * windows, np.int64)))[order]
    edge_bit = np.concatenate((bit, bit, np.full(2 * windows, -1, np.int64)))[order]
    mask = np.zeros(len(order), np.int64)
    for b in range(bits):
        mask |= (np.cumsum(np.where(edge_bit == b, change, 0)) > 0).astype(np.int64) << b
    opens = np.concatenate((np.zeros(2 * rows, np.int64), np.ones(windows, np.int64), -np.ones(windows, np.int64)))[order]
    keep = (np.cumsum(opens) > 0) & (length > 0)
    named = np.concatenate((np.zeros(2 * rows, np.int64), number, np.zeros(windows, np.int64)))[order]
    latest = np.maximum.accumulate(np.where(opens > 0, np.arange(len(order)), 0))
    return named[latest][keep], mask[keep], at[keep], length[keep]


def mask_times(
    lane: Int64s,
    start_ns: Int64s,
    end_ns: Int64s,
    bit: Int64s,
    window_lane: Int64s,
    window_start_ns: Int64s,
    window_end_ns: Int64s,
    bits: int,
) -> Int64s:
    """Time that each window spends in each combination of classes.

    Parameters
    ----------
    lane, start_ns, end_ns, bit
        One row per interval: its lane, its ends, and the number of its class (0 <= bit < bits).
    window_lane, window_start_ns, window_end_ns
        Windows to measure in. Windows of one lane must not overlap. Intervals are cut at their borders.
    bits
        Number of classes.

    Returns
    -------
    Array of shape (windows, 2**bits) in nanoseconds: entry [w, m] is the time in window w during which exactly the classes whose bits are
    set in m were active. A row adds up to the window's length, so any shares made from it add up too.

    Examples
    --------
    Class 0 runs in [0, 7), class 1 in [4, 10): 4 alone, 3 together, 3 alone, in a window of 12.

    >>> zero = np.zeros(2, np.int64)
    >>> mask_times(zero, np.array([0, 4]), np.array([7, 10]), np.array([0, 1]), zero[:1], np.array([0]), np.array([12]), 2)
    array([[2, 4, 3, 3]])
    """
    result = np.zeros((len(window_lane), 1 << bits), np.int64)
    if len(window_lane):
        window, mask, _, length = mask_segments(lane, start_ns, end_ns, bit, window_lane, window_start_ns, window_end_ns, bits)
        np.add.at(result, (window, mask), length)
    return result


def fold_times(
    lane: Int64s,
    start_ns: Int64s,
    end_ns: Int64s,
    bit: Int64s,
    window_lane: Int64s,
    window_start_ns: Int64s,
    window_end_ns: Int64s,
    table: NDArray[np.bool_],
    *,
    compiled: bool | None = None,
) -> Int64s:
    """Time that each window spends in each of several measures, a measure being a set of combinations of classes.

    As `mask_times`, but folded at once, so many classes cost no memory.

    Parameters
    ----------
    table
        Shape (2**bits, measures): whether the combination counts for the measure.
    compiled
        Force the compiled sweep (True) or numpy (False); by default the size decides.

    Returns
    -------
    Array of shape (windows, measures) in nanoseconds.

    Examples
    --------
    Measures: class 1 without class 0, and nothing at all.

    >>> zero = np.zeros(2, np.int64)
    >>> table = np.array([[0, 1], [0, 0], [1, 0], [0, 0]], bool)
    >>> fold_times(zero, np.array([0, 4]), np.array([7, 10]), np.array([0, 1]), zero[:1], np.array([0]), np.array([12]), table)
    array([[3, 2]])
    """
    size, measures = table.shape
    bits = size.bit_length() - 1
    result = np.zeros((len(window_lane), measures), np.int64)
    if not len(window_lane):
        return result
    if compiled if compiled is not None else len(lane) >= COMPILED_FROM:
        from netlab.intervals.sweep import fold_sorted

        rows = _by_lane_and_start(lane, start_ns)
        windows = _by_lane_and_start(window_lane, window_start_ns)
        packed = (table.astype(np.int64) << np.arange(measures, dtype=np.int64)).sum(axis=1)
        folded = np.zeros_like(result)
        fold_sorted(
            lane[rows],
            start_ns[rows],
            end_ns[rows],
            bit[rows],
            window_lane[windows],
            window_start_ns[windows],
            window_end_ns[windows],
            bits,
            packed,
            folded,
        )
        result[windows] = folded
        return result
    window, mask, _, length = mask_segments(lane, start_ns, end_ns, bit, window_lane, window_start_ns, window_end_ns, bits)
    for column in range(measures):
        counted = table[mask, column]
        np.add.at(result[:, column], window[counted], length[counted])
    return result


def _by_lane_and_start(lane: Int64s, start_ns: Int64s) -> Int64s | slice:
    """Order by lane and start; nothing to do where rows already stand so."""
    same = lane[1:] == lane[:-1]
    if bool(np.all((lane[1:] > lane[:-1]) | (same & (start_ns[1:] >= start_ns[:-1])))):
        return slice(None)
    return np.lexsort((start_ns, lane))
