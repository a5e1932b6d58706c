"""Layouts of a fabric as leaves and the links above them, and what a collective asks of them.

Capacities and loads are in units of one NIC's rate: a host has ``lanes`` NICs, and a flow that has a NIC to itself takes one unit of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["VALIANT", "Demand", "Layout", "LayoutKind", "all_to_all_demand", "ring_demand", "ring_edges"]

LayoutKind = Literal["rail", "leaf-spine", "fat-tree", "dragonfly"]
Floats = NDArray[np.float64]

#: A dragonfly's global links carry a flow once on the minimal path, twice over a random group in between (Valiant).
VALIANT = 2.0


@dataclass(frozen=True)
class Layout:
    """Where hosts are plugged in, and how wide the links above the leaves are.

    In a rail layout NIC ``i`` of every host of a pod is on leaf ``i`` of that pod, and ``leaf_of`` names pods. In the others all NICs of
    a host are on one leaf. Leaves of a fat tree are joined in pods of ``leaves_per_pod``, the pods by core switches that never limit more
    than the leaves' uplinks do.

    >>> layout = Layout("leaf-spine", (0, 0, 1, 1), oversubscription=4.0)
    >>> layout.uplinks, layout.uplink_capacity
    (1, 0.5)
    """

    kind: LayoutKind
    #: Leaf (pod, for rails) of each host, numbered from 0.
    leaf_of: tuple[int, ...]
    lanes: int = 1
    oversubscription: float = 1.0
    leaves_per_pod: int = 8

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return len(self.leaf_of)

    @property
    def leaves(self) -> int:
        """Number of leaf switches."""
        return (max(self.leaf_of, default=-1) + 1) * (self.lanes if self.kind == "rail" else 1)

    @property
    def down_links(self) -> int:
        """NICs on the fullest leaf."""
        return int(np.bincount(self.leaf_of, minlength=1).max()) * (1 if self.kind == "rail" else self.lanes)

    @property
    def uplinks(self) -> int:
        """Links from each leaf upwards; each goes to another spine."""
        return max(1, round(self.down_links / self.oversubscription))

    @property
    def uplink_capacity(self) -> float:
        """Capacity of one uplink, so that all together carry the NICs' rate over the oversubscription."""
        return self.down_links / self.oversubscription / self.uplinks


@dataclass(frozen=True)
class Demand:
    """What a collective asks for at once: flows from leaf to leaf (the diagonal stays below a leaf), and on the busiest NIC."""

    flows: Floats
    nic_load: float


def ring_edges(order: Sequence[int], host_of: Mapping[int, int]) -> list[tuple[int, int]]:
    """Edges of the ring ``order`` (of ranks) that go from one host to another.

    >>> ring_edges([0, 1, 2, 3], {0: 0, 1: 0, 2: 1, 3: 1})
    [(0, 1), (1, 0)]
    """
    following = [*order[1:], *order[:1]]
    pairs = ((host_of[a], host_of[b]) for a, b in zip(order, following, strict=True))
    return [(a, b) for a, b in pairs if a != b]


def ring_demand(layout: Layout, edges: Iterable[tuple[int, int]]) -> Demand:
    """Rings over hosts, one for each lane: every edge is one flow on the same NIC of both hosts."""
    flows = np.zeros((layout.leaves, layout.leaves))
    out = np.zeros(layout.hosts)
    into = np.zeros(layout.hosts)
    for a, b in edges:
        out[a] += 1
        into[b] += 1
        one, other = layout.leaf_of[a], layout.leaf_of[b]
        if layout.kind == "rail":
            for lane in range(layout.lanes):
                flows[one * layout.lanes + lane, other * layout.lanes + lane] += 1
        else:
            flows[one, other] += layout.lanes
    return Demand(flows, float(max(out.max(initial=0), into.max(initial=0))))


def all_to_all_demand(layout: Layout, *, pxn: bool = True) -> Demand:
    """Every GPU to every GPU of another host. With PXN data changes the lane over NVLink first, so rails stay apart."""
    hosts_on = np.bincount(layout.leaf_of).astype(float)
    own = np.bincount(layout.leaf_of).astype(float)  # pairs of a host with itself, which use no network
    pairs = np.outer(hosts_on, hosts_on) - np.diag(own)
    if layout.kind != "rail":
        flows = pairs * layout.lanes**2
    elif pxn:
        flows = np.kron(pairs, np.eye(layout.lanes) * layout.lanes)
    else:
        flows = np.kron(pairs, np.ones((layout.lanes, layout.lanes)))
    return Demand(flows, float(layout.lanes * (layout.hosts - 1)))
