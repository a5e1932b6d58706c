"""Interval algebra against brute force on small timelines."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from netlab.intervals import mask_times, measure, union

interval = st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 12), st.integers(0, 2))


def _column(rows: list[tuple[int, ...]], index: int) -> np.ndarray:
    return np.array([row[index] for row in rows], np.int64)


@given(st.lists(interval, max_size=25))
def test_union_covers_what_its_intervals_cover(rows: list[tuple[int, int, int, int]]) -> None:
    start, end = union(_column(rows, 1), _column(rows, 1) + _column(rows, 2))
    covered = {t for _, a, d, _ in rows for t in range(a, a + d)}
    assert {t for a, b in zip(start, end, strict=True) for t in range(a, b)} == covered
    assert measure(_column(rows, 1), _column(rows, 1) + _column(rows, 2)) == len(covered)
    assert (start[1:] > end[:-1]).all()


@given(st.lists(interval, max_size=25), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_mask_times_equals_a_timeline_counted_by_hand(rows: list[tuple[int, int, int, int]], lengths: list[int]) -> None:
    edges = np.concatenate(([3], 3 + np.cumsum(lengths))).astype(np.int64)
    lanes = np.repeat([0, 1], len(lengths)).astype(np.int64)
    starts, ends = np.tile(edges[:-1], 2), np.tile(edges[1:], 2)
    start = _column(rows, 1)
    got = mask_times(_column(rows, 0), start, start + _column(rows, 2), _column(rows, 3), lanes, starts, ends, 3)
    assert got.sum(axis=1).tolist() == (ends - starts).tolist()
    for window, (lane, a, b) in enumerate(zip(lanes, starts, ends, strict=True)):
        expected = np.zeros(8, np.int64)
        for t in range(a, b):
            expected[sum({1 << bit for which, s, d, bit in rows if which == lane and s <= t < s + d})] += 1
        assert got[window].tolist() == expected.tolist()
