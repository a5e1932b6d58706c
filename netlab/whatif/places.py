"""The same place on different ranks: nodes of a step, between the same collectives, in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.build import Model
from netlab.whatif.graph import NodeKind

__all__ = ["Places", "places"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """Nodes of every (step, segment) by rank; a segment lies between two collectives of the rank's order."""

    #: (step, segment) to rank to nodes in order.
    segments: dict[tuple[int, int], dict[int, Ints]]
    #: The kinds of those nodes as bytes: equal kinds can be compared one by one.
    signature: dict[tuple[int, int], dict[int, bytes]]

    def aligned(self, rank: int) -> Iterator[tuple[Ints, Ints]]:
        """Segments of a rank whose nodes match those of others one by one: own nodes, and the peers' as rows."""
        for key, by_rank in self.segments.items():
            peers = self._peers(key, rank)
            if peers:
                yield by_rank[rank], np.stack([by_rank[peer] for peer in peers])

    def scaled(self, rank: int) -> Iterator[tuple[Ints, list[Ints]]]:
        """Segments of a rank in which no other rank has the same nodes, but others run a segment at that place."""
        for key, by_rank in self.segments.items():
            others = [nodes for peer, nodes in by_rank.items() if peer != rank]
            if rank in by_rank and others and not self._peers(key, rank):
                yield by_rank[rank], others

    def _peers(self, key: tuple[int, int], rank: int) -> list[int]:
        kinds = self.signature[key]
        if rank not in kinds:
            return []
        return [peer for peer, value in kinds.items() if peer != rank and value == kinds[rank]]


def places(model: Model) -> Places:
    """Cut every rank's own work into segments between its collectives.

    Host instants are placed by their own order among collective launches, device work by the order of its launches (of its start where
    launches are not known).
    """
    graph, a, s = model.graph, model.activities, model.steps
    # A float cannot hold an instant since the epoch to the nanosecond.
    at = np.rint(graph.end_ns).astype(np.int64) + graph.origin_ns
    node_order_time = at.copy()
    rows = np.arange(a.size)
    own = np.where(model.arrival_node >= 0, model.arrival_node, model.end_node)
    node_order_time[own] = np.where(a.launched, a.launch_ns, a.start_ns)[rows]
    members = graph.kind == NodeKind.ARRIVAL
    kinds = np.isin(graph.kind, (NodeKind.HOST, NodeKind.SYNC, NodeKind.COMPUTE, NodeKind.MEMORY, NodeKind.ARRIVAL))
    step_of, part_of = np.full(graph.size, -1, np.int64), np.full(graph.size, -1, np.int64)
    part_of[own] = a.part
    rank_parts = {(int(p)): int(r) for p, r in zip(a.part, a.rank, strict=True)}
    segments: dict[tuple[int, int], dict[int, Ints]] = {}
    signature: dict[tuple[int, int], dict[int, bytes]] = {}
    for part, rank in rank_parts.items():
        steps = np.flatnonzero(s.part == part)
        steps = steps[np.argsort(s.mark_start_ns[steps], kind="stable")]
        nodes = np.flatnonzero(kinds & (graph.rank == rank) & ((part_of == part) | (part_of < 0)))
        placed = np.searchsorted(s.mark_start_ns[steps], node_order_time[nodes], side="right") - 1
        nodes, placed = nodes[placed >= 0], placed[placed >= 0]
        nodes = nodes[np.isin(placed, np.arange(len(steps)))]
        last = s.end_ns[steps].max(initial=0)
        nodes = nodes[node_order_time[nodes] <= last]
        # At one instant the host comes first, then what it launches.
        nodes = nodes[np.lexsort((nodes, graph.kind[nodes], node_order_time[nodes]))]
        placed = np.searchsorted(s.mark_start_ns[steps], node_order_time[nodes], side="right") - 1
        step_of[nodes] = s.step[steps[placed]]
        for place in np.unique(placed):
            inside = nodes[placed == place]
            segment = np.cumsum(members[inside]) - members[inside]
            step = int(s.step[steps[place]])
            for number in np.unique(segment):
                chosen = inside[segment == number]
                segments.setdefault((step, int(number)), {})[rank] = chosen
                signature.setdefault((step, int(number)), {})[rank] = graph.kind[chosen].tobytes()
    return Places(segments, signature)
