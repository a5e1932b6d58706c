"""Compiled twins of the replay; imported only for large graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["kahn", "replay_many", "replay_one"]


def _jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile, with the result cached where numba finds a writable place and without a cache otherwise."""
    try:
        return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # "cannot cache function: no locator available"
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]


def _one(pointer: Any, predecessor: Any, cost: Any, end: Any) -> None:
    for node in range(len(cost)):
        latest = 0.0
        for place in range(pointer[node], pointer[node + 1]):
            value = end[predecessor[place]]
            if value > latest:
                latest = value
        end[node] = latest + cost[node]


def _many(pointer: Any, predecessor: Any, cost: Any, end: Any) -> None:
    # The scenario axis is innermost, so the index of a predecessor is read once for all scenarios.
    scenarios = cost.shape[1]
    for node in range(cost.shape[0]):
        low, high = pointer[node], pointer[node + 1]
        for k in range(scenarios):
            end[node, k] = 0.0
        for place in range(low, high):
            before = predecessor[place]
            for k in range(scenarios):
                if end[before, k] > end[node, k]:
                    end[node, k] = end[before, k]
        for k in range(scenarios):
            end[node, k] += cost[node, k]


def _kahn(pointer: Any, following: Any, degree: Any, order: Any) -> int:
    filled = 0
    for node in range(len(degree)):
        if degree[node] == 0:
            order[filled] = node
            filled += 1
    done = 0
    while done < filled:
        node = order[done]
        done += 1
        for place in range(pointer[node], pointer[node + 1]):
            after = following[place]
            degree[after] -= 1
            if degree[after] == 0:
                order[filled] = after
                filled += 1
    return filled


replay_one = _jit(_one)
replay_many = _jit(_many)
kahn = _jit(_kahn)
