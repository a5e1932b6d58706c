"""Replay: by hand, by another road (plain loops, arrays, compiled), and what must always hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netlab.errors import RunError
from netlab.whatif.graph import EdgeKind, GraphBuilder, NodeKind, csr
from netlab.whatif.replay import critical_path, replay, topological_order


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    size = draw(st.integers(1, 30))
    pairs = draw(st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=60))
    edges = sorted((min(pair), max(pair)) for pair in pairs if pair[0] != pair[1])
    source, target = np.array([e[0] for e in edges], np.int64), np.array([e[1] for e in edges], np.int64)
    pointer, predecessor, _ = csr(size, source, target, np.zeros(len(edges), np.uint8))
    cost = np.array(draw(st.lists(st.integers(0, 1_000), min_size=size * 7, max_size=size * 7)), float).reshape(size, 7)
    return pointer, predecessor, cost


def _by_recursion(pointer: np.ndarray, predecessor: np.ndarray, cost: np.ndarray) -> list[float]:
    end: list[float] = []
    for node in range(len(cost)):
        before = [end[p] for p in predecessor[pointer[node] : pointer[node + 1]]]
        end.append(max(before, default=0.0) + cost[node])
    return end


@given(_graphs())
def test_arrays_and_loops_agree(graph: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    pointer, predecessor, cost = graph
    many = replay(pointer, predecessor, cost, compiled=False)
    for k in range(cost.shape[1]):
        assert many[:, k].tolist() == _by_recursion(pointer, predecessor, cost[:, k])
        assert replay(pointer, predecessor, cost[:, k], compiled=False).tolist() == many[:, k].tolist()
    assert np.array_equal(replay(pointer, predecessor, cost[:, :3], compiled=False), many[:, :3])


@settings(max_examples=20, deadline=None)
@given(_graphs())
def test_compiled_code_gives_the_same_numbers(graph: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    pointer, predecessor, cost = graph
    assert np.array_equal(replay(pointer, predecessor, cost, compiled=True), replay(pointer, predecessor, cost, compiled=False))
    assert np.array_equal(replay(pointer, predecessor, cost[:, 0], compiled=True), replay(pointer, predecessor, cost[:, 0], compiled=False))


@given(_graphs(), st.integers(0, 29), st.integers(1, 500))
def test_a_shorter_node_never_delays_any_other(graph: tuple[np.ndarray, np.ndarray, np.ndarray], node: int, less: int) -> None:
    pointer, predecessor, cost = graph
    shorter = cost[:, 0].copy()
    shorter[node % len(shorter)] = max(0.0, shorter[node % len(shorter)] - less)
    assert (replay(pointer, predecessor, shorter) <= replay(pointer, predecessor, cost[:, 0])).all()


@given(_graphs())
def test_the_critical_path_adds_up_to_the_end(graph: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    pointer, predecessor, cost = graph
    end = replay(pointer, predecessor, cost[:, 0])
    last = int(np.argmax(end))
    path = critical_path(pointer, predecessor, end, last)
    assert sum(cost[path, 0]) == pytest.approx(end[last])


def test_a_cycle_is_refused() -> None:
    with pytest.raises(RunError, match="cycle"):
        topological_order(2, np.array([0, 1]), np.array([1, 0]), np.arange(2))


def test_order_of_input_does_not_change_the_graph() -> None:
    def built(order: list[int]) -> list[float]:
        builder = GraphBuilder()
        end = np.array([10, 25, 40, 47])[order]
        duration = np.array([10, 12, 15, 5])[order]
        handles = builder.nodes(NodeKind.COMPUTE, np.zeros(4), end, duration)
        place = {original: handles[new] for new, original in enumerate(order)}
        for source, target in ((0, 1), (1, 2), (0, 3), (2, 3)):
            builder.edges(np.array([place[source]]), np.array([place[target]]), EdgeKind.STREAM)
        graph = builder.build()
        return replay(graph.pointer, graph.predecessor, graph.cost_ns).tolist()

    assert built([0, 1, 2, 3]) == built([3, 1, 0, 2]) == [10.0, 25.0, 40.0, 47.0]


def test_gaps_are_kept_whatever_explains_them() -> None:
    builder = GraphBuilder()
    nodes = builder.nodes(NodeKind.COMPUTE, np.zeros(2), np.array([10, 100]), np.array([10, 20]))
    builder.edges(nodes[:1], nodes[1:], EdgeKind.STREAM)
    assert builder.build().lag_ns.tolist() == [0.0, 70.0]
