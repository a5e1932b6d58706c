"""Closed forms of the fabric: rings over hosts and leaves, algorithms relative to a ring, layouts, ECMP.

Rates are decimal Gbit/s in one direction, per host or per GPU as each function says.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from netlab.attribute.bandwidth import bus_factor

__all__ = ["algorithm_factor", "collective_ms", "crossing_edges", "latency_rounds", "ring_gbps"]

#: Efficiency of NCCL's double tree, of NVLS (on Hopper) and of PAT against their link (src/graph/tuning.cc, v2.30).
_TREE_EFFICIENCY, _NVLS_EFFICIENCY, _PAT_EFFICIENCY = 0.92, 0.85, 0.75


def crossing_edges(order: Sequence[int], place_of: Mapping[int, int]) -> Counter[int]:
    """How many edges of the ring ``order`` leave each place (host or leaf).

    >>> crossing_edges([0, 1, 2, 3], {0: 0, 1: 0, 2: 1, 3: 1}), crossing_edges([0, 2, 1, 3], {0: 0, 1: 0, 2: 1, 3: 1})
    (Counter({0: 1, 1: 1}), Counter({0: 2, 1: 2}))
    """
    following = [*order[1:], *order[:1]]
    return Counter(place_of[a] for a, b in zip(order, following, strict=True) if place_of[a] != place_of[b])


def ring_gbps(
    order: Sequence[int],
    host_of: Mapping[int, int],
    host_gbps: float,
    leaf_of: Mapping[int, int] | None = None,
    uplink_gbps: float | None = None,
) -> float:
    """Rate at which data goes round a ring: the link whose rate per crossing edge is smallest.

    Examples
    --------
    Four hosts under two leaves with a 1 Gbit/s uplink: a well-ordered ring uses each uplink once, a badly ordered one twice.

    >>> hosts, leaves = {r: r for r in range(4)}, {0: 0, 1: 0, 2: 1, 3: 1}
    >>> ring_gbps([0, 1, 2, 3], hosts, 1.0, leaves, 1.0), ring_gbps([0, 2, 1, 3], hosts, 1.0, leaves, 1.0)
    (1.0, 0.5)
    """
    rates = [host_gbps / count for count in crossing_edges(order, host_of).values()]
    if leaf_of is not None and uplink_gbps is not None:
        rates += [uplink_gbps / count for count in crossing_edges(order, leaf_of).values()]
    return min(rates, default=math.inf)


def collective_ms(op: str, size_bytes: float, members: int, gb_per_s: float, latency_ms: float = 0.0) -> float:
    """Time of a ring collective at a bus bandwidth.

    >>> round(collective_ms("all_reduce", 16 * 2**20, 4, 0.117), 1)
    215.1
    """
    return latency_ms + (bus_factor(op, members) or 1.0) * size_bytes / gb_per_s / 1e6


def algorithm_factor(
    algorithm: str, members: int, hosts: int, *, intra_gbps: float | None = None, inter_gbps: float | None = None
) -> float | None:
    """Byte time of an all-reduce (PAT: of an all-gather or reduce-scatter) by an algorithm over that of a ring; None where it does not fit.

    ring: 2 (n - 1) / n. tree: every rank sends and receives the message twice at 0.92 of the link. sharp: the switch adds, every rank sends
    it once: at most 2x. nvls: the same inside the NVLink domain, at 0.85 of the link. hierarchical: reduce-scatter in the node, all-reduce
    of the shards between nodes, all-gather in the node, one after the other; None where both rates are not known. pat: the bytes of a ring
    at 0.75 of the link, in log2(n) rounds, for one GPU per host.

    >>> algorithm_factor("sharp", 8, 8)
    0.5714285714285714
    >>> round(algorithm_factor("hierarchical", 64, 8, intra_gbps=3600, inter_gbps=400), 3)
    1.679
    """
    ring = 2 * (members - 1) / members
    if algorithm == "ring" or members < 2:
        return 1.0
    if algorithm == "tree":
        return 2 / _TREE_EFFICIENCY / ring
    if algorithm == "sharp":
        return 1 / ring
    if algorithm == "pat":
        return 1 / _PAT_EFFICIENCY if members == hosts else None
    if algorithm == "nvls":
        return 1 / _NVLS_EFFICIENCY / ring if hosts == 1 else None
    per_host = members / hosts
    if intra_gbps is None or inter_gbps is None or per_host < 2 or hosts < 2:
        return None
    inside = 2 * (per_host - 1) / per_host / intra_gbps
    between = 2 * (hosts - 1) / hosts / per_host / inter_gbps
    return (inside + between) / (ring / min(intra_gbps, per_host * inter_gbps))


def latency_rounds(algorithm: str, members: int, hosts: int) -> float:
    """Network steps of an all-reduce in a row (twice those of an all-gather or reduce-scatter): the latency part grows with them.

    >>> latency_rounds("ring", 8, 8), latency_rounds("tree", 8, 8), latency_rounds("sharp", 8, 8)
    (14.0, 6.0, 2.0)
    """
    if algorithm == "tree":
        return 2 * max(1.0, math.log2(max(2, hosts)) + (members / hosts - 1))
    if algorithm in ("sharp", "nvls"):
        return 2.0
    if algorithm == "pat":
        return 2.0 * math.ceil(math.log2(members))
    if algorithm == "hierarchical":
        return 2.0 * (max(2, hosts) - 1) + 2 * (members / hosts - 1)
    return 2.0 * (members - 1)
