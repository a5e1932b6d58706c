"""Interval algebra against brute force on small timelines, and the compiled sweep against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netlab.intervals import cover, exposed, fold_times, mask_segments, mask_times, measure, union
from netlab.intervals.sweep import exposed_sorted

interval = st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 12), st.integers(0, 2))
Rows = list[tuple[int, int, int, int]]


def _column(rows: list[tuple[int, ...]], index: int) -> np.ndarray:
    return np.array([row[index] for row in rows], np.int64)


def _windows(lengths: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    edges = np.concatenate(([3], 3 + np.cumsum(lengths))).astype(np.int64)
    return np.repeat([0, 1], len(lengths)).astype(np.int64), np.tile(edges[:-1], 2), np.tile(edges[1:], 2)


def _instants(rows: Rows, lane: int | None = None) -> set[int]:
    return {t for which, a, d, _ in rows for t in range(a, a + d) if lane is None or which == lane}


@settings(max_examples=60, deadline=None)
@given(st.lists(interval, max_size=25))
def test_union_covers_what_its_intervals_cover(rows: Rows) -> None:
    start, end = union(_column(rows, 1), _column(rows, 1) + _column(rows, 2))
    covered = _instants(rows)
    assert {t for a, b in zip(start, end, strict=True) for t in range(a, b)} == covered
    assert measure(_column(rows, 1), _column(rows, 1) + _column(rows, 2)) == len(covered)
    assert (start[1:] > end[:-1]).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(interval, max_size=25), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_mask_times_equals_a_timeline_counted_by_hand(rows: Rows, lengths: list[int]) -> None:
    lanes, starts, ends = _windows(lengths)
    start = _column(rows, 1)
    got = mask_times(_column(rows, 0), start, start + _column(rows, 2), _column(rows, 3), lanes, starts, ends, 3)
    assert got.sum(axis=1).tolist() == (ends - starts).tolist()
    for window, (lane, a, b) in enumerate(zip(lanes, starts, ends, strict=True)):
        expected = np.zeros(8, np.int64)
        for t in range(a, b):
            expected[sum({1 << bit for which, s, d, bit in rows if which == lane and s <= t < s + d})] += 1
        assert got[window].tolist() == expected.tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(interval, max_size=25), st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 2**40))
def test_the_compiled_sweep_gives_what_numpy_gives(rows: Rows, lengths: list[int], seed: int) -> None:
    lanes, starts, ends = _windows(lengths)
    start = _column(rows, 1)
    table = np.random.default_rng(seed).random((8, 5)) < 0.5
    arguments = (_column(rows, 0), start, start + _column(rows, 2), _column(rows, 3), lanes, starts, ends, table)
    assert fold_times(*arguments, compiled=True).tolist() == fold_times(*arguments, compiled=False).tolist()


def test_an_interval_that_ends_before_it_starts_counts_nothing() -> None:
    zero = np.zeros(1, np.int64)
    arguments = (zero, np.array([5]), np.array([2]), zero, zero, np.array([0]), np.array([9]))
    assert mask_times(*arguments, 1).tolist() == [[9, 0]]
    table = np.array([[0], [1]], bool)
    assert fold_times(*arguments, table, compiled=True).tolist() == fold_times(*arguments, table, compiled=False).tolist() == [[0]]


@settings(max_examples=60, deadline=None)
@given(st.lists(interval, max_size=20), st.lists(interval, max_size=20))
def test_exposed_is_what_the_cover_leaves(rows: Rows, above: Rows) -> None:
    rows, above = sorted(rows, key=lambda row: row[1]), sorted(above, key=lambda row: row[1])
    arrays = [_column(rows, 1), _column(rows, 1) + _column(rows, 2), _column(above, 1), _column(above, 1) + _column(above, 2)]
    left = len(_instants(rows) - _instants(above))
    assert exposed(*arrays) == left
    assert exposed_sorted(*arrays) == left


@settings(max_examples=60, deadline=None)
@given(st.lists(interval, max_size=20), st.lists(interval, max_size=10))
def test_cover_counts_each_lane_and_query_alone(rows: Rows, queries: Rows) -> None:
    start, asked = _column(rows, 1), _column(queries, 1)
    got = cover(_column(rows, 0), start, start + _column(rows, 2), _column(queries, 0), asked, asked + _column(queries, 2))
    assert got.tolist() == [len(_instants(rows, lane) & set(range(a, a + d))) for lane, a, d, _ in queries]


def test_cover_refuses_what_does_not_fit_one_axis() -> None:
    lanes = np.arange(8)
    ends = np.full(8, 2**61)
    with pytest.raises(OverflowError, match="do not fit"):
        cover(lanes, np.zeros(8, np.int64), ends, lanes, np.zeros(8, np.int64), ends)


def test_cover_takes_numbers_of_lanes_that_are_far_apart() -> None:
    lanes = np.array([0, 2**61])
    zero = np.zeros(2, np.int64)
    assert cover(lanes, zero, np.array([5, 9]), lanes, zero, np.array([20, 20])).tolist() == [5, 9]


def test_segments_of_a_window_add_up_to_it() -> None:
    zero = np.zeros(3, np.int64)
    window, _, start, length = mask_segments(zero, np.array([2, 4, 9]), np.array([6, 5, 12]), zero, zero[:1], zero[:1], np.array([10]), 1)
    assert (window.tolist(), start.tolist(), length.sum()) == ([0] * len(window), sorted(start.tolist()), 10)
