"""The same place on different ranks: nodes of a step, between the same collectives, in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.arrays import COMPUTE, grouped
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
    #: Name of compute as a number, else 0.
    names: Ints

    def alike(self) -> Iterator[tuple[list[int], Ints]]:
        """Ranks that do the same in a step, two or more: the ranks, and their nodes as rows."""
        for by_rank in self.steps.values():
            placed, found, _ = self._match(by_rank)
            for ranks in found:
                if len(ranks) > 1:
                    yield ranks, np.stack([placed[rank] for rank in ranks])

    def unlike(self, rank: int) -> Iterator[tuple[Ints, list[Ints]]]:
        """What `alike` leaves out: segments of a rank in steps in which no other rank does the same, with what others do at that place; the
        host of a step of which only the device is the same."""
        for by_rank in self.steps.values():
            if rank not in by_rank:
                continue
            _, found, device_only = self._match(by_rank)
            nodes, segment = by_rank[rank]
            others = {peer: placed for peer, placed in by_rank.items() if peer != rank}
            peers = next(ranks for ranks in found if rank in ranks)
            if len(peers) > 1:
                if device_only:
                    yield nodes[self._host(nodes)], [by_rank[peer][0][self._host(by_rank[peer][0])] for peer in peers if peer != rank]
                continue
            for number in np.unique(segment).tolist():
                there = [placed[0][placed[1] == number] for placed in others.values()]
                if there := [peer for peer in there if len(peer)]:
                    yield nodes[segment == number], there

    def _match(self, by_rank: dict[int, tuple[Ints, Ints]]) -> tuple[dict[int, Ints], list[list[int]], bool]:
        """Nodes of each rank in the order in which they are compared, ranks that are alike, and whether that is the device's work only.

        Ranks issue the same kinds of nodes in the same order, as a rule. A late one launches its collectives elsewhere among its compute:
        where no rule holds for all, those are alike whose devices do as much of each kind, and the same compute in the same order.
        """
        placed = {rank: nodes for rank, (nodes, _) in by_rank.items()}
        found = _grouped({rank: self.kinds[nodes].tobytes() for rank, nodes in placed.items()})
        if len(found) == 1:
            return placed, found, False
        device = {rank: nodes[~self._host(nodes)] for rank, nodes in placed.items()}
        device = {rank: nodes[np.argsort(self.kinds[nodes], kind="stable")] for rank, nodes in device.items()}
        again = _grouped({rank: self.kinds[nodes].tobytes() + self.names[nodes].tobytes() for rank, nodes in device.items()})
        return (device, again, True) if len(again) < len(found) else (placed, found, False)

    def _host(self, nodes: Ints) -> NDArray[np.bool_]:
        return np.isin(self.kinds[nodes], (NodeKind.HOST, NodeKind.SYNC))


def _grouped(keys: dict[int, bytes]) -> list[list[int]]:
    found: dict[bytes, list[int]] = {}
    for rank, key in keys.items():
        found.setdefault(key, []).append(rank)
    return list(found.values())


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
    names = np.zeros(graph.size, np.int64)
    compute = np.flatnonzero(a.kind == COMPUTE)
    names[model.end_node[compute]] = a.frame["name"].fill_null("").rank("dense").to_numpy()[compute]
    return Places(steps, graph.kind, names)
