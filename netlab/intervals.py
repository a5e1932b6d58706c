"""Interval algebra on integer nanoseconds. An interval is half-open: [start, end).

Everything here is plain arrays in, plain arrays out. A *lane* is a timeline of its own (a rank); intervals of different lanes never meet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Int64s", "mask_times", "measure", "union"]

Int64s = NDArray[np.int64]


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
    windows = len(window_lane)
    result = np.zeros((windows, 1 << bits), np.int64)
    if not windows:
        return result
    rows, number = len(lane), np.arange(windows, dtype=np.int64)
    edge_lane = np.concatenate((lane, lane, window_lane, window_lane))
    edge_at = np.concatenate((start_ns, end_ns, window_start_ns, window_end_ns))
    order = np.lexsort((edge_at, edge_lane))
    length = np.diff(edge_at[order], append=0)
    change = np.concatenate((np.ones(rows, np.int64), -np.ones(rows, np.int64), np.zeros(2 * windows, np.int64)))[order]
    edge_bit = np.concatenate((bit, bit, np.full(2 * windows, -1, np.int64)))[order]
    mask = np.zeros(len(order), np.int64)
    for b in range(bits):
        mask |= (np.cumsum(np.where(edge_bit == b, change, 0)) > 0).astype(np.int64) << b
    opens = np.concatenate((np.zeros(2 * rows, np.int64), np.ones(windows, np.int64), -np.ones(windows, np.int64)))[order]
    inside = np.cumsum(opens) > 0
    named = np.concatenate((np.zeros(2 * rows, np.int64), number, np.zeros(windows, np.int64)))[order]
    latest = np.maximum.accumulate(np.where(opens > 0, np.arange(len(order)), 0))
    np.add.at(result, (named[latest][inside], mask[inside]), length[inside])
    return result
