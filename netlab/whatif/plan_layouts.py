"""What a planned job's collectives meet above the leaves, by layout of the fabric."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, get_args

import msgspec
import numpy as np

from netlab.whatif.layouts import VALIANT, Demand, Layout, LayoutKind, all_to_all_demand, ring_demand, ring_edges
from netlab.whatif.load_balance import slowest_flow

if TYPE_CHECKING:
    from netlab.whatif.plan import Job

__all__ = ["LayoutTime", "layout_times"]

_WHY = {
    "rail": "NIC i of every host below leaf i: rings and, with PXN, all-to-alls stay below the leaves of a pod",
    "leaf-spine": "all NICs of a host below one leaf: a ring leaves each leaf once, an all-to-all almost always",
    "fat-tree": "leaf-spine pods below core switches, where hashed flows meet a second time",
    "dragonfly": "groups joined directly: between minimal routing and a detour over a random group",
}


class LayoutTime(msgspec.Struct, frozen=True, kw_only=True):
    """One layout: the data-parallel ring, and how much longer than its NICs need an all-to-all over all hosts takes.

    Each is [even, hashed]: evenly spread (adaptive routing, spraying), and with ECMP in all but 1 of 40 draws.
    """

    layout: str
    all_reduce_ms: tuple[float, float]
    all_to_all_slowdown: tuple[float, float]
    why: str


def layout_times(job: Job, ring_ms: float) -> list[LayoutTime]:
    """Every layout; none for a job on one host.

    ``ring_ms`` is the data-parallel ring on links that nothing shares. Its neighbours are taken to be placed next to each other.
    """
    hosts = math.ceil(job.ranks / job.gpus_per_node)
    if hosts < 2:
        return []
    ring_hosts = min(hosts, math.ceil(job.data / job.members_per_node))
    # Data-parallel groups that skip hosts meet each other on the same links: all of them together use every host once.
    edges = ring_edges(range(hosts), {host: host for host in range(hosts)}) if ring_hosts > 1 else []
    leaf_of = tuple(host // job.hosts_per_leaf for host in range(hosts))
    times = []
    for kind in get_args(LayoutKind):
        layout = Layout(kind, leaf_of, lanes=job.gpus_per_node, oversubscription=job.oversubscription)
        ring, every = ring_demand(layout, edges), all_to_all_demand(layout)
        slow = _range(layout, ring) if edges else (1.0, 1.0)
        times.append(
            LayoutTime(
                layout=kind,
                all_reduce_ms=(ring_ms * slow[0], ring_ms * slow[1]),
                all_to_all_slowdown=_range(layout, every),
                why=_WHY[kind],
            )
        )
    return times


def _range(layout: Layout, demand: Demand) -> tuple[float, float]:
    """Slowest flow over what the NICs alone need: evenly spread, and hashed."""
    even = float(slowest_flow(layout, demand)[0])
    hashed = float(np.quantile(slowest_flow(layout, demand, "ecmp"), 0.975))
    detour = VALIANT if layout.kind == "dragonfly" and layout.leaves > 1 else 1.0
    return even / demand.nic_load, max(even * detour, hashed) / demand.nic_load
