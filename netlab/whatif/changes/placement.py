"""What lies above the leaves, and who stands where: layout, oversubscription, load balancing, rank order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from netlab.topology import fabric_of
from netlab.whatif.changes.hosts import Hosts, on_layer
from netlab.whatif.draft import Draft, Refusal, Setting
from netlab.whatif.layouts import VALIANT, Layout, all_to_all_demand, ring_demand, ring_edges
from netlab.whatif.load_balance import slowest_flow
from netlab.whatif.scenarios import Topology

__all__ = ["change_placement", "order_matters"]

_KEYS = ("oversubscription", "layout", "load_balancing", "rank_order")


@dataclass(frozen=True)
class _Factor:
    """By how much byte time grows: as likely as not, and at both ends of a range."""

    low: float
    middle: float
    high: float


def change_placement(draft: Draft, setting: Setting, hosts: Hosts, change: Topology) -> None:
    """Re-time the transfers between hosts by what their flows meet above the leaves, now and then.

    The run's own fabric is taken to be non-blocking and evenly used, with rings in the order of ranks.

    Raises
    ------
    Refusal
        If a rank order is given that does not fit the run, or hosts are not known.
    """
    if all(getattr(change, key) is None for key in _KEYS):
        return
    order = _order(draft, setting, hosts, change)
    chosen = on_layer(draft, setting, hosts, "inter_node")
    leaves = _leaves(draft, setting, hosts, change)
    t = draft.transfers
    found: dict[tuple[tuple[int, ...], bool], _Factor] = {}
    factors = {}
    for place in np.flatnonzero(chosen).tolist():
        members = hosts.members[place] or list(range(int(t.group_size[place])))
        key = (tuple(members), str(t.op[place]) == "all_to_all")
        if key not in found:
            found[key] = _factor(hosts, members, key[1], order, leaves, change)
        factors[place] = found[key]
        draft.byte_ns[place] *= found[key].middle
    low = min((factor.low / factor.middle for factor in factors.values()), default=1.0)
    high = max((factor.high / factor.middle for factor in factors.values()), default=1.0)
    draft.widen(chosen, low, high)
    draft.lower("datasheet")
    _say(draft, change, leaves is not None, spread=high > low)


def order_matters(setting: Setting) -> bool:
    """Whether another order of ranks is known to shorten transfers: leaves are known, and rings cross them more often than they must."""
    draft = Draft.of(setting)
    hosts = Hosts(draft, setting)
    cabled = _cabled(setting)
    if cabled is None or not hosts.names or not set(hosts.names.values()) <= set(cabled):
        return False
    leaf_of = {rank: cabled[hosts.names[host]] for rank, host in hosts.host_of.items()}
    for place in np.flatnonzero(hosts.inter).tolist():
        members = [rank for rank in hosts.members[place] if rank in leaf_of]
        leaves = len({leaf_of[rank] for rank in members})
        if leaves > 1 and len(ring_edges(sorted(members), leaf_of)) > leaves:
            return True
    return False


def _factor(
    hosts: Hosts,
    members: Sequence[int],
    every_pair: bool,
    order: Mapping[int, int] | None,
    leaves: Mapping[int, int] | None,
    change: Topology,
) -> _Factor:
    host_of = {rank: hosts.host_of.get(rank, rank) for rank in members}
    numbers = {host: number for number, host in enumerate(sorted(set(host_of.values())))}
    number_of = {rank: numbers[host] for rank, host in host_of.items()}
    now = ring_edges(sorted(members), number_of)
    then = now if order is None else ring_edges(sorted(members, key=order.__getitem__), number_of)
    kind = change.layout or "leaf-spine"

    def ratio(leaf_of: Sequence[int]) -> _Factor:
        before = Layout(kind, tuple(leaf_of), lanes=hosts.lanes(list(members)))
        after = replace(before, oversubscription=change.oversubscription or 1.0)
        pxn = change.pxn is not False
        one = all_to_all_demand(before, pxn=pxn) if every_pair else ring_demand(before, now)
        other = all_to_all_demand(after, pxn=pxn) if every_pair else ring_demand(after, then)
        base = float(slowest_flow(before, one)[0]) or 1.0
        times = slowest_flow(after, other, change.load_balancing or "adaptive", queue_pairs=change.queue_pairs or 1)
        low, middle, high = np.quantile(times, (0.025, 0.5, 0.975)) / base
        return _Factor(float(low), float(middle), float(high) * (VALIANT if kind == "dragonfly" and len(set(leaf_of)) > 1 else 1.0))

    if leaves is not None:
        names = [leaves[host] for host in numbers]
        compact = {leaf: number for number, leaf in enumerate(sorted(set(names)))}
        return ratio([compact[leaf] for leaf in names])
    near, far = ratio([0] * len(numbers)), ratio(range(len(numbers)))
    if kind == "rail":
        return near
    if every_pair:
        return far
    return _Factor(near.low, (near.middle * far.middle) ** 0.5, far.high)


def _leaves(draft: Draft, setting: Setting, hosts: Hosts, change: Topology) -> Mapping[int, int] | None:
    """Leaf of every host: declared, or read from the cables; None where nobody says, or where nothing above a leaf is asked about."""
    every = sorted(set(hosts.host_of.values())) or list(range(len(setting.run.facts.ranks)))
    if change.hosts_per_leaf is not None:
        known = set(every) | {rank for members in hosts.members for rank in members if rank not in hosts.host_of}
        return {host: host // change.hosts_per_leaf for host in sorted(known)}
    cabled = _cabled(setting)
    if cabled is not None and set(hosts.names.values()) <= set(cabled):
        draft.inputs_used.append("cables between hosts and leaves")
        return {number: cabled[hosts.names[number]] for number in every}
    if change.oversubscription is None and change.layout is None and change.load_balancing is None:
        return dict.fromkeys(every, 0)
    return None


def _cabled(setting: Setting) -> Mapping[str, int] | None:
    """Leaf, or set of leaves, of each cabled host, numbered."""
    fabric = fabric_of(setting.run.frame("ports"))
    above = {host: tuple(sorted({hop.peer_device for hop in fabric.hops.get(host, ())})) for host in sorted(fabric.hosts)}
    above = {host: leaves for host, leaves in above.items() if leaves}
    numbers = {leaves: number for number, leaves in enumerate(sorted(set(above.values())))}
    return {host: numbers[leaves] for host, leaves in above.items()} or None


def _order(draft: Draft, setting: Setting, hosts: Hosts, change: Topology) -> Mapping[int, int] | None:
    """Position of each rank in the order that is asked about."""
    if change.rank_order is None:
        return None
    world = setting.run.facts.world_size or len(setting.run.facts.ranks)
    order = change.rank_order if isinstance(change.rank_order, list) else range(world)
    if len(order) != world:
        raise Refusal(f"rank_order names {len(order)} ranks, the run has {world}.")
    if any(rank not in hosts.host_of for rank in order):
        raise Refusal(
            "Which ranks share a host is not known, so their order has no meaning.",
            ("hosts of the ranks (ranks.csv or run.gpus_per_node)",),
        )
    if change.rank_order == "best":
        leaves = _leaves(draft, setting, hosts, change) or {}
        order = sorted(order, key=lambda rank: (leaves.get(hosts.host_of[rank], 0), hosts.host_of[rank], rank))
        draft.say(f"Proposed order of ranks: {','.join(map(str, order))}. Members of a leaf, and of a host, are neighbours in every ring.")
    return {rank: number for number, rank in enumerate(order)}


def _say(draft: Draft, change: Topology, leaves_known: bool, *, spread: bool) -> None:
    if change.rank_order is not None:
        draft.say("Rings are taken to follow the rank order, now and then; the busiest host's (or leaf's) outgoing edges share its links.")
    if change.oversubscription is not None or change.layout is not None or change.load_balancing is not None:
        layout = f" in a {change.layout} layout" if change.layout else ""
        ratio = change.oversubscription or 1.0
        draft.say(f"Uplinks are oversubscribed {ratio:g}:1{layout}; the run's own fabric is taken to be non-blocking; no incast.")
        if not leaves_known and spread:
            draft.lower("bound-only")
            draft.inputs_missing.append("hosts_per_leaf (which hosts share a leaf switch)")
    if change.load_balancing == "ecmp":
        flows = change.queue_pairs or 1
        draft.say(
            f"ECMP hashes {flows} flow{'s' if flows > 1 else ''} per NIC pair; the range is that of 400 drawn hashes, all flows at once."
        )
