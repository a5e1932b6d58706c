"""The same place on different ranks: nodes of a step, between the same collectives, in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.arrays import grouped
from netlab.whatif.build import Model
from netlab.whatif.graph import NodeKind

__all__ = ["Places", "places"]

_FAR = int(np.iinfo(np.int64).max)

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """Nodes of every step by rank, in order, with the segment in which each lies: between which two collectives of the rank's order."""

    #: step to rank to (nodes, segment of each).
    steps: dict[int, dict[int, tuple[Ints, Ints]]]
    kinds: NDArray[np.uint8]

    def alike(self) -> Iterator[tuple[list[int], Ints]]:
        """Ranks that issue the same kinds of nodes in a step, two or more: the ranks, and their nodes as rows."""
        for by_rank in self.steps.values():
            found: dict[bytes, list[int]] = {}
            for rank, (nodes, _) in by_rank.items():
                found.setdefault(self.kinds[nodes].tobytes(), []).append(rank)
            for ranks in found.values():
                if len(ranks) > 1:
                    yield ranks, np.stack([by_rank[rank][0] for rank in ranks])

    def unlike(self, rank: int) -> Iterator[tuple[Ints, list[Ints]]]:
        """Segments of a rank in steps in which no other rank issues the same nodes, with what other ranks do at that place."""
        for by_rank in self.steps.values():
            if rank not in by_rank:
                continue
            nodes, segment = by_rank[rank]
            kinds = self.kinds[nodes].tobytes()
            others = {peer: placed for peer, placed in by_rank.items() if peer != rank}
            if any(self.kinds[placed[0]].tobytes() == kinds for placed in others.values()):
                continue
            for number in np.unique(segment).tolist():
                there = [placed[0][placed[1] == number] for placed in others.values()]
                if there := [peer for peer in there if len(peer)]:
                    yield nodes[segment == number], there


def places(model: Model) -> Places:
    """Cut every rank's own work into segments between its collectives.

    Host instants are placed by their own order among collective launches, device work by the order of its launches (of its start where
    launches are not known).
    """
    graph, a, s = model.graph, model.activities, model.steps
    # A float cannot hold an instant since the epoch to the nanosecond.
    at = np.rint(graph.end_ns).astype(np.int64) + graph.origin_ns
    order_ns = at.copy()
    rows = np.arange(a.size)
    own = np.where(model.arrival_node >= 0, model.arrival_node, model.end_node)
    order_ns[own] = np.where(a.launched, a.launch_ns, a.start_ns)[rows]
    members = graph.kind == NodeKind.ARRIVAL
    kinds = np.isin(graph.kind, (NodeKind.HOST, NodeKind.SYNC, NodeKind.COMPUTE, NodeKind.MEMORY, NodeKind.ARRIVAL))
    part_of = np.full(graph.size, -1, np.int64)
    part_of[own] = a.part
    steps: dict[int, dict[int, tuple[Ints, Ints]]] = {}
    by_rank = grouped(np.where(kinds, graph.rank, -1).astype(np.int64), part_of)
    nothing = np.empty(0, np.int64)
    rows_of = grouped(s.part)
    for part, rank in {int(p): int(r) for p, r in zip(a.part, a.rank, strict=True)}.items():
        rows = rows_of.get((part,), nothing)
        rows = rows[np.argsort(s.mark_start_ns[rows], kind="stable")]
        # Host instants carry no part; those of other windows fall out by their time.
        nodes = np.concatenate((by_rank.get((rank, part), nothing), by_rank.get((rank, -1), nothing)))
        inside = (order_ns[nodes] >= s.mark_start_ns[rows].min(initial=_FAR)) & (order_ns[nodes] <= s.end_ns[rows].max(initial=-_FAR))
        nodes = nodes[inside]
        # At one instant the host comes first, then what it launches.
        nodes = nodes[np.lexsort((nodes, graph.kind[nodes], order_ns[nodes]))]
        placed = np.searchsorted(s.mark_start_ns[rows], order_ns[nodes], side="right") - 1
        for place in np.unique(placed).tolist():
            chosen = nodes[placed == place]
            segment = np.cumsum(members[chosen]) - members[chosen]
            steps.setdefault(int(s.step[rows[place]]), {})[rank] = (chosen, segment)
    return Places(steps, graph.kind)
