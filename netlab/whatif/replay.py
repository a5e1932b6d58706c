"""Replay: one pass over a graph in topological order, for one or several scenarios at once.

Small graphs run in plain Python, because starting the compiler costs more than the replay; both give the same numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netlab.errors import RunError

__all__ = ["COMPILED_FROM", "critical_path", "replay", "topological_order"]

#: Nodes times scenarios from which compiled code pays for its start-up: loading numba takes about 1 s of CPU, plain Python 1 us per node.
COMPILED_FROM = 1_000_000

#: The same once the compiler is loaded, for this or another part of the analysis.
_LOADED_FROM = 100_000
#: Scenarios from which array operations per node beat plain loops.
_ROWS_FROM = 6

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def replay(pointer: Ints, predecessor: NDArray[np.int32], cost_ns: Floats, *, compiled: bool | None = None) -> Floats:
    """End of every node: the latest end of its predecessors (or 0) plus its own cost.

    Parameters
    ----------
    pointer, predecessor
        CSR predecessors; every predecessor comes before its node.
    cost_ns
        Shape (nodes,) or (nodes, scenarios).
    compiled
        None chooses by size.

    Returns
    -------
    Ends, of the shape of ``cost_ns``.

    Examples
    --------
    Node 2 waits for 0 and 1; the second scenario halves node 1:

    >>> cost = np.array([[3.0, 3.0], [8.0, 4.0], [1.0, 1.0]])
    >>> replay(np.array([0, 0, 0, 2]), np.array([0, 1], np.int32), cost)[2].tolist()
    [9.0, 5.0]
    """
    if compiled is None:
        compiled = _pays(cost_ns.size)
    if compiled:
        end = np.empty(cost_ns.shape)
        if cost_ns.ndim == 1:
            _kernels()["one"](pointer, predecessor, np.ascontiguousarray(cost_ns), end)
        else:
            _kernels()["many"](pointer, predecessor, np.ascontiguousarray(cost_ns), end)
        return end
    if cost_ns.ndim == 1:
        return _replay_python(pointer, predecessor, cost_ns)
    if cost_ns.shape[1] >= _ROWS_FROM:
        return _replay_rows(pointer, predecessor, cost_ns)
    return np.stack([_replay_python(pointer, predecessor, cost_ns[:, k]) for k in range(cost_ns.shape[1])], axis=1)


def _replay_rows(pointer: Ints, predecessor: NDArray[np.int32], cost_ns: Floats) -> Floats:
    """Many scenarios without a compiler: one array operation per node."""
    end = cost_ns.astype(np.float64, copy=True)
    bounds = pointer.tolist()
    for node in range(len(cost_ns)):
        low, high = bounds[node], bounds[node + 1]
        if high - low == 1:
            end[node] += np.maximum(end[predecessor[low]], 0.0)
        elif high > low:
            end[node] += np.maximum(end[predecessor[low:high]].max(axis=0), 0.0)
    return end


def _pays(work: int) -> bool:
    return work >= (_LOADED_FROM if "numba" in sys.modules else COMPILED_FROM)


def _replay_python(pointer: Ints, predecessor: NDArray[np.int32], cost_ns: Floats) -> Floats:
    bounds, before, cost = pointer.tolist(), predecessor.tolist(), cost_ns.tolist()
    end: list[float] = []
    low = 0
    for high, own in zip(bounds[1:], cost, strict=True):
        latest = 0.0
        for place in range(low, high):
            value = end[before[place]]
            if value > latest:
                latest = value
        end.append(latest + own)
        low = high
    return np.array(end)


def critical_path(pointer: Ints, predecessor: NDArray[np.int32], end_ns: Floats, last: int) -> list[int]:
    """Nodes that decide when ``last`` ends, first to last.

    >>> critical_path(np.array([0, 0, 0, 2]), np.array([0, 1], np.int32), np.array([3.0, 8.0, 9.0]), 2)
    [1, 2]
    """
    path = [last]
    while (low := int(pointer[path[-1]])) < (high := int(pointer[path[-1] + 1])):
        before = predecessor[low:high]
        latest = int(before[int(np.argmax(end_ns[before]))])
        if end_ns[latest] <= 0:
            break
        path.append(latest)
    return path[::-1]


def topological_order(size: int, source: Ints, target: Ints, preferred: Ints) -> Ints:
    """An order in which every source comes before its target: ``preferred`` itself if it is one already.

    Raises
    ------
    RunError
        If the edges close a cycle.
    """
    place = np.empty(size, np.int64)
    place[preferred] = np.arange(size)
    if not len(source) or bool((place[source] < place[target]).all()):
        return preferred
    by_source = np.argsort(place[source], kind="stable")
    pointer = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(place[source], minlength=size), out=pointer[1:])
    following = place[target][by_source]
    degree = np.bincount(place[target], minlength=size).astype(np.int64)
    order = np.empty(size, np.int64)
    done = _kahn_compiled(pointer, following, degree, order) if _pays(size) else _kahn_python(pointer, following, degree, order)
    if done < size:
        raise RunError(
            "The measured order of the run contradicts itself: its dependencies close a cycle. Check the clocks (netlab "
            "check) or drop a rank."
        )
    return preferred[order]


def _kahn_python(pointer: Ints, following: Ints, degree: Ints, order: Ints) -> int:
    bounds, after, waiting = pointer.tolist(), following.tolist(), degree.tolist()
    ready = [node for node, count in enumerate(waiting) if count == 0]
    for node in ready:
        for place in range(bounds[node], bounds[node + 1]):
            waiting[after[place]] -= 1
            if waiting[after[place]] == 0:
                ready.append(after[place])
    order[: len(ready)] = ready
    return len(ready)


def _kahn_compiled(pointer: Ints, following: Ints, degree: Ints, order: Ints) -> int:
    return int(_kernels()["kahn"](pointer, following, degree, order))


_COMPILED: dict[str, Callable[..., Any]] = {}


def _kernels() -> dict[str, Callable[..., Any]]:
    if not _COMPILED:
        from netlab.whatif import compiled

        _COMPILED.update(one=compiled.replay_one, many=compiled.replay_many, kahn=compiled.kahn)
    return _COMPILED
