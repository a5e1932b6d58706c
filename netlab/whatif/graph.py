"""The dependency graph of a measured run: structure of arrays, predecessors in CSR form, gaps kept.

A node ends at ``max(end of its predecessors) + lag_ns + duration_ns``. The lag is what no known predecessor explains; it is measured and
kept, so replaying the graph with its own numbers gives back every measured instant, and a changed number moves only what depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from netlab.errors import RunError
from netlab.whatif.replay import topological_order

__all__ = ["EdgeKind", "Floats", "Graph", "GraphBuilder", "Ints", "NodeKind", "csr"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class NodeKind(IntEnum):
    """What a node stands for."""

    HOST = 0  #: a host call begins, or a step mark
    SYNC = 1  #: a host call that waited returns
    COMPUTE = 2
    MEMORY = 3
    ARRIVAL = 4  #: a member's communication kernel begins
    JOIN = 5  #: the last member of an instance has arrived; data moves from here on
    MEMBER = 6  #: a member's communication kernel ends
    CODEC = 7  #: encoding or decoding that a scenario adds


class EdgeKind(IntEnum):
    """Why a node waits for another."""

    HOST_ORDER = 0
    LAUNCH = 1
    STREAM = 2
    EVENT = 3  #: recorded event wait
    SYNC_CALL = 4
    COLLECTIVE = 5
    INFERRED = 6  #: not recorded; read off the measured instants
    ADDED = 7  #: by a scenario


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order. ``pointer[i]:pointer[i + 1]`` are the places of node i's predecessors in ``predecessor``."""

    kind: NDArray[np.uint8]
    rank: NDArray[np.int32]
    lag_ns: Floats
    duration_ns: Floats
    end_ns: Floats
    pointer: Ints
    predecessor: NDArray[np.int32]
    edge_kind: NDArray[np.uint8]
    #: What the node belongs to: row of the activities for device nodes, position of the instance for joins, else -1.
    row: Ints
    #: Node of each handle that the builder gave out.
    node: Ints
    origin_ns: int = 0

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.kind)

    @property
    def cost_ns(self) -> Floats:
        """Lag plus duration of each node, the only number that replay needs."""
        return self.lag_ns + self.duration_ns

    @property
    def inferred_share(self) -> float:
        """Share of the edges that were read off the measured instants."""
        return float((self.edge_kind == EdgeKind.INFERRED).mean()) if len(self.edge_kind) else 0.0


class GraphBuilder:
    """Collects nodes and edges in any order and puts them into a `Graph`.

    Handles are running numbers; they stay valid through ``graph.node[handle]``.

    Examples
    --------
    Two kernels on one stream, 3 ns apart:

    >>> builder = GraphBuilder()
    >>> kernels = builder.nodes(NodeKind.COMPUTE, np.zeros(2), np.array([5, 18]), np.array([5, 10]))
    >>> builder.edges(kernels[:1], kernels[1:], EdgeKind.STREAM)
    >>> graph = builder.build()
    >>> graph.lag_ns.tolist(), graph.cost_ns.tolist()
    ([0.0, 3.0], [5.0, 13.0])
    """

    def __init__(self) -> None:
        self._kind: list[NDArray[np.uint8]] = []
        self._rank: list[NDArray[np.int32]] = []
        self._end: list[Ints] = []
        self._duration: list[Ints] = []
        self._row: list[Ints] = []
        self._edges: list[tuple[Ints, Ints, NDArray[np.uint8]]] = []
        self._count = 0

    def nodes(
        self, kind: NodeKind, rank: NDArray[np.generic], end_ns: Ints, duration_ns: Ints | None = None, row: Ints | None = None
    ) -> Ints:
        """Add nodes that were measured to end at ``end_ns``; returns their handles."""
        count = len(end_ns)
        self._kind.append(np.full(count, kind, np.uint8))
        self._rank.append(rank.astype(np.int32))
        self._end.append(end_ns.astype(np.int64))
        self._duration.append(np.zeros(count, np.int64) if duration_ns is None else duration_ns.astype(np.int64))
        self._row.append(np.full(count, -1, np.int64) if row is None else row.astype(np.int64))
        self._count += count
        return np.arange(self._count - count, self._count)

    def edges(self, source: Ints, target: Ints, kind: EdgeKind) -> None:
        """Let each ``target`` wait for its ``source``; pairs with a negative handle are left out."""
        keep = (source >= 0) & (target >= 0)
        self._edges.append((source[keep].astype(np.int64), target[keep].astype(np.int64), np.full(int(keep.sum()), kind, np.uint8)))

    def chain(self, nodes: Ints, lane: Ints, kind: EdgeKind) -> None:
        """Let each node wait for the one before it in its lane; ``nodes`` come sorted by lane, then time."""
        same = lane[1:] == lane[:-1]
        self.edges(nodes[:-1][same], nodes[1:][same], kind)

    def latest(self) -> tuple[Ints, Ints]:
        """Measured end of each node, and the end of its latest predecessor so far (a very early instant where it has none)."""
        end = np.concatenate(self._end) if self._end else np.empty(0, np.int64)
        known = np.full(len(end), np.iinfo(np.int64).min // 4)
        for source, target, _ in self._edges:
            np.maximum.at(known, target, end[source])
        return end, known

    def build(self) -> Graph:
        """Order the nodes, measure the lags, lay out the predecessors.

        Raises
        ------
        RunError
            If the dependencies close a cycle: the measured order contradicts itself.
        """
        if not self._count:
            raise RunError("There is nothing to replay: the run holds no activities. Give traces with device events or Gloo spans.")
        end = np.concatenate(self._end)
        duration = np.concatenate(self._duration)
        source = np.concatenate([e[0] for e in self._edges] or [np.empty(0, np.int64)])
        target = np.concatenate([e[1] for e in self._edges] or [np.empty(0, np.int64)])
        kinds = np.concatenate([e[2] for e in self._edges] or [np.empty(0, np.uint8)])
        kind = np.concatenate(self._kind)
        # A node without length that ends when another with length ends comes after it.
        by_time = np.lexsort((np.arange(self._count), kind, duration == 0, end))
        order = topological_order(self._count, source, target, by_time)
        place = np.empty(self._count, np.int64)
        place[order] = np.arange(self._count)
        pointer, predecessor, kinds = csr(self._count, place[source], place[target], kinds)
        origin = int((end - duration).min())
        ready = np.zeros(self._count, np.int64)
        np.maximum.at(ready, target, end[source] - origin)
        waits = np.zeros(self._count, bool)
        waits[target] = True
        ready[~waits] = 0
        lag = end - duration - origin - ready
        return Graph(
            kind=kind[order],
            rank=np.concatenate(self._rank)[order],
            lag_ns=lag[order].astype(np.float64),
            duration_ns=duration[order].astype(np.float64),
            end_ns=(end - origin)[order].astype(np.float64),
            pointer=pointer,
            predecessor=predecessor,
            edge_kind=kinds,
            row=np.concatenate(self._row)[order],
            node=place,
            origin_ns=origin,
        )


def csr(size: int, source: Ints, target: Ints, kinds: NDArray[np.uint8]) -> tuple[Ints, NDArray[np.int32], NDArray[np.uint8]]:
    """Predecessors of each node laid out one after the other."""
    order = np.argsort(target, kind="stable")
    pointer = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(target, minlength=size), out=pointer[1:])
    return pointer, source[order].astype(np.int32), kinds[order]
