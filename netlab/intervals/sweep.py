"""Compiled sweeps over intervals sorted by start: one pass, no sorting of ends, no memory beside the result.

A class is active at an instant exactly if some interval of it that has started reaches beyond that instant. So the sweep keeps one
number per class, the furthest end seen so far, and never looks at an end twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["exposed_sorted", "fold_sorted"]

_Int64s = NDArray[np.int64]
_Function = TypeVar("_Function", bound=Callable[..., Any])
_NEVER = -(2**62)


def _jit(function: _Function) -> _Function:
    """Compile on first call; numba keeps the result beside the package or in the user's cache, where either can be written."""
    try:
        return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba found no place for a cache
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]


@_jit
def exposed_sorted(start_ns: _Int64s, end_ns: _Int64s, cover_start_ns: _Int64s, cover_end_ns: _Int64s) -> int:
    """Length of the union of the first intervals minus the union of the second; both sorted by start."""
    total = 0
    at = _NEVER
    k, count = 0, len(cover_start_ns)
    reach = _NEVER
    for i in range(len(start_ns)):
        end = end_ns[i]
        if end <= at:
            continue
        now = max(at, start_ns[i])
        while now < end:
            while k < count and cover_start_ns[k] <= now:
                reach = max(reach, cover_end_ns[k])
                k += 1
            if reach > now:
                now = min(reach, end)
                continue
            stop = end
            if k < count and cover_start_ns[k] < stop:
                stop = cover_start_ns[k]
            total += stop - now
            now = stop
        at = end
    return total


@_jit
def fold_sorted(
    lane: _Int64s,
    start_ns: _Int64s,
    end_ns: _Int64s,
    bit: _Int64s,
    window_lane: _Int64s,
    window_start_ns: _Int64s,
    window_end_ns: _Int64s,
    bits: int,
    packed: _Int64s,
    result: _Int64s,
) -> None:
    """Add to ``result[w, k]`` the time that window w spends in masks m with bit k of ``packed[m]`` set; all sorted by lane and start."""
    reach = np.full(bits, _NEVER, np.int64)
    i, count = 0, len(lane)
    for w in range(len(window_lane)):
        here, now, end = window_lane[w], window_start_ns[w], window_end_ns[w]
        if w == 0 or window_lane[w - 1] != here:
            reach[:] = _NEVER
            while i < count and lane[i] < here:
                i += 1
        while now < end:
            while i < count and lane[i] == here and start_ns[i] <= now:
                reach[bit[i]] = max(reach[bit[i]], end_ns[i])
                i += 1
            stop = end
            if i < count and lane[i] == here and start_ns[i] < stop:
                stop = start_ns[i]
            mask = 0
            for b in range(bits):
                if reach[b] > now:
                    mask |= 1 << b
                    stop = min(stop, reach[b])
            measures, column = packed[mask], 0
            while measures:
                if measures & 1:
                    result[w, column] += stop - now
                measures >>= 1
                column += 1
            now = stop
