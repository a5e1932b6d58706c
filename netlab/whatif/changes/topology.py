"""Another network: rates, oversubscription, algorithm, NVLink domain, fabric, rank order.

Only the byte part of transfers changes with rates, and only where the link was the limit; waiting never does.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from netlab.whatif import fabric
from netlab.whatif.changes.targets import require_split
from netlab.whatif.draft import Draft, Refusal, Setting
from netlab.whatif.scenarios import Topology

__all__ = ["change_topology"]

Mask = NDArray[np.bool_]

#: Below this share of the link's rate something else is the limit, and a faster link does not help (notes/whatif.md 3.c).
_LIMITING = 0.60
#: A bus bandwidth this much above the declared rate says that the declaration is wrong.
_IMPOSSIBLE = 1.10
#: RoCE reaches 85 to 95 % of InfiniBand at the same rate: an interval, never a point (seed rules, notes/whatif.md 3.c).
_ROCE = (0.85, 0.95)


def change_topology(draft: Draft, setting: Setting, change: Topology) -> None:
    """Apply every key that is given.

    Raises
    ------
    Refusal
        If a present rate, host or layer is needed and not known.
    """
    places = _Places(draft, setting)
    if change.intra_node_gbps is not None:
        _rate(draft, setting, places, "intra_node", setting.intra_node_gbps, change.intra_node_gbps)
    if change.inter_node_gbps is not None:
        _rate(draft, setting, places, "inter_node", setting.inter_node_gbps, change.inter_node_gbps)
    if change.nvlink_domain is not None:
        _domain(draft, setting, places, change.nvlink_domain)
    if change.algorithm is not None:
        _algorithm(draft, setting, places, change.algorithm)
    if change.fabric is not None:
        _fabric(draft, setting, places, change.fabric)
    if change.oversubscription is not None or change.layout is not None:
        _oversubscription(draft, setting, places, change)
    if change.rank_order is not None:
        _rank_order(draft, setting, places, change)


class _Places:
    """Hosts of the ranks, where known, and which transfers cross them."""

    def __init__(self, draft: Draft, setting: Setting) -> None:
        t = draft.transfers
        names: dict[int, str] = {rank: host for host, ranks in setting.run.facts.hosts.items() for rank in ranks}
        for rank, host in setting.run.frame("ranks").select("rank", "host").drop_nulls().iter_rows():
            names.setdefault(rank, host)
        numbers = {name: number for number, name in enumerate(sorted(set(names.values())))}
        self.host_of: Mapping[int, int] = {rank: numbers[name] for rank, name in names.items()}
        self.members = [[int(rank) for rank in str(group or "").split(",") if rank.strip().isdigit()] for group in t.group]
        self.inter: Mask = t.layer == "inter_node"
        self.intra: Mask = t.layer == "intra_node"
        self.unplaced: Mask = ~(self.inter | self.intra)

    def hosts(self, members: list[int]) -> int | None:
        """Number of hosts of a group; None where one is not known."""
        found = [self.host_of.get(rank) for rank in members]
        return len(set(found)) if found and None not in found else None

    def lanes(self, members: list[int]) -> int:
        """GPUs of the group on the host that has fewest of them: so many NICs carry a ring between hosts."""
        found = [self.host_of[rank] for rank in members if rank in self.host_of]
        return min((found.count(host) for host in set(found)), default=1) or 1


def _layer(draft: Draft, setting: Setting, places: _Places, layer: str) -> Mask:
    """Transfers on a layer; those whose layer is unknown count as this one where no transfer is known to be on it."""
    chosen = places.inter if layer == "inter_node" else places.intra
    if not chosen.any() and places.unplaced.any():
        chosen = places.unplaced
        draft.say(f"Which ranks share a host is not known; all communication is taken to be {layer.replace('_', '-')}.")
        draft.inputs_missing.append("hosts of the ranks (host names in the traces, ranks.csv, or run.gpus_per_node)")
        draft.lower("datasheet")
    elif places.unplaced.any():
        draft.say("Transfers whose layer is not known stay as they are.")
    if not chosen.any():
        draft.say(f"The run has no {layer.replace('_', '-')} communication, so its rate changes nothing.")
    require_split(draft, setting, chosen, "a change of the network")
    return np.asarray(chosen & ~draft.transfers.of("unknown"), bool)


def _rate(draft: Draft, setting: Setting, places: _Places, layer: str, old_gbps: float | None, new_gbps: float) -> None:
    key = f"{layer}_gbps"
    chosen = _layer(draft, setting, places, layer)
    if not chosen.any():
        return
    if old_gbps is None:
        raise Refusal(
            f"The present rate of the {layer.replace('_', '-')} links is not known, so {new_gbps:g} Gbit/s cannot be compared with it.",
            (f"links.{key} in netlab.toml (one-direction Gbit/s per GPU)",),
        )
    draft.inputs_used.append(f"links.{key} = {old_gbps:g}")
    reached = draft.transfers.bus_gb_per_s() * 8
    lanes = np.array([places.lanes(m) if layer == "inter_node" else 1 for m in places.members])
    share = reached / (old_gbps * lanes)
    best = float(np.nanmax(share[chosen])) if np.isfinite(share[chosen]).any() else np.nan
    speed = new_gbps / old_gbps
    if np.isnan(best):
        draft.lower("datasheet")
        draft.inputs_missing.append("message sizes (record_shapes or collective metadata)")
        draft.say("How much of the link the run used is not known (no message sizes); the link is taken to be the limit.")
        draft.byte_ns[chosen] /= speed
        return
    if best > _IMPOSSIBLE:
        draft.lower("datasheet")
        draft.say(f"The run reached {best * old_gbps:.4g} Gbit/s per GPU, more than the declared {old_gbps:g}: check the declaration.")
    if best < _LIMITING and speed > 1:
        draft.say(
            f"An upgrade will not help: the links were not the limit. At best {100 * best:.0f} % of {old_gbps:g} Gbit/s was "
            "used while data moved; "
            f"look at NCCL's transport, channels and the GPU-NIC path first."
        )
        return
    if best < _LIMITING:
        # Something else limits until the new link is slower than that.
        draft.byte_ns[chosen] *= max(1.0, best / speed)
        draft.say(f"The links were used to {100 * best:.0f} % at best; they become the limit only below that.")
        return
    draft.byte_ns[chosen] /= speed
    draft.lower("calibrated")
    draft.say(
        f"{layer.replace('_', '-').capitalize()} links go from {old_gbps:g} to {new_gbps:g} Gbit/s per GPU; they were the limit "
        f"({100 * best:.0f} % used), and nothing else (PCIe, channels, NVLink) becomes one."
    )


def _domain(draft: Draft, setting: Setting, places: _Places, domain: int) -> None:
    chosen = np.array([len(m) > 1 and len({rank // domain for rank in m}) == 1 for m in places.members], bool) & ~places.intra
    chosen &= ~draft.transfers.of("unknown")
    if setting.intra_node_gbps is None or setting.inter_node_gbps is None:
        raise Refusal("Moving groups into an NVLink domain needs both present rates.", ("links.intra_node_gbps and links.inter_node_gbps",))
    require_split(draft, setting, chosen, "an NVLink domain")
    lanes = np.array([places.lanes(m) for m in places.members])
    old = np.minimum(setting.inter_node_gbps * lanes, setting.intra_node_gbps)
    draft.byte_ns[chosen] *= old[chosen] / setting.intra_node_gbps
    draft.lower("datasheet")
    draft.say(
        f"Groups that fit into {domain} consecutive ranks ({int(chosen.sum())} transfers) move to NVLink rate; kernels keep their time."
    )


def _algorithm(draft: Draft, setting: Setting, places: _Places, algorithm: str) -> None:
    t = draft.transfers
    chosen = np.asarray((t.op == "all_reduce") & ~t.of("unknown"), bool)
    if not chosen.any():
        raise Refusal(f"The run has no all_reduce whose transfer is known, so algorithm {algorithm} has nothing to change.")
    require_split(draft, setting, np.asarray(t.op == "all_reduce", bool), "another algorithm")
    refused = 0
    for place in np.flatnonzero(chosen):
        members = places.members[place] or list(range(int(t.group_size[place])))
        hosts = places.hosts(members) or (1 if places.intra[place] else len(members))
        factor = fabric.algorithm_factor(
            algorithm, len(members), hosts, intra_gbps=setting.intra_node_gbps, inter_gbps=setting.inter_node_gbps
        )
        if factor is None:
            refused += 1
            continue
        draft.byte_ns[place] *= factor
        draft.latency_ns[place] *= fabric.latency_rounds(algorithm, len(members), hosts) / fabric.latency_rounds(
            "ring", len(members), hosts
        )
    if refused == int(chosen.sum()):
        needs = "groups within one host" if algorithm == "nvls" else "several GPUs per host and both link rates"
        raise Refusal(
            f"Algorithm {algorithm} needs {needs}; no all_reduce of the run fits.", ("links.intra_node_gbps and links.inter_node_gbps",)
        )
    draft.lower("datasheet")
    draft.say(f"All-reduces run as rings now and as {algorithm} then, by NCCL factors; real efficiency is not measured.")


def _fabric(draft: Draft, setting: Setting, places: _Places, wanted: str) -> None:
    present = {str(n).lower() for n in setting.run.frame("connections")["network"].drop_nulls().unique().to_list()}
    now = "roce" if "roce" in present else "ib"
    if not present & {"ib", "roce"}:
        draft.inputs_missing.append("NCCL log (which network the run uses)")
        draft.say("The run is taken to use InfiniBand now." if wanted == "roce" else "The run is taken to use RoCE now.")
        now = "ib" if wanted == "roce" else "roce"
    chosen = _layer(draft, setting, places, "inter_node")
    if now == wanted:
        draft.say(f"The run already uses {wanted}.")
        return
    middle = sum(_ROCE) / 2
    low, high = (1 / _ROCE[1], 1 / _ROCE[0]) if wanted == "roce" else _ROCE
    point = 1 / middle if wanted == "roce" else middle
    draft.byte_ns[chosen] *= point
    draft.byte_range = (draft.byte_range[0] * low / point, draft.byte_range[1] * high / point)
    draft.lower("datasheet")
    draft.say("RoCE reaches 85 to 95 % of InfiniBand at the same rate; congestion control and loss are not modelled.")


def _oversubscription(draft: Draft, setting: Setting, places: _Places, change: Topology) -> None:
    chosen = _layer(draft, setting, places, "inter_node")
    ratio = change.oversubscription or 1.0
    t = draft.transfers
    low, high = np.ones(t.size), np.ones(t.size)
    for place in np.flatnonzero(chosen):
        low[place], high[place] = _slower(places, places.members[place], str(t.op[place]), ratio, change)
    middle = np.sqrt(low * high)
    draft.byte_ns *= middle
    if (high > low).any():
        draft.byte_range = (draft.byte_range[0] * float((low / middle).min()), draft.byte_range[1] * float((high / middle).max()))
        draft.lower("bound-only")
        draft.inputs_missing.append("hosts_per_leaf (which hosts share a leaf switch)")
    draft.lower("datasheet")
    layout = f" in a {change.layout} layout" if change.layout else ""
    draft.say(f"Uplinks are oversubscribed {ratio:g}:1{layout}; the run's own fabric is taken to be non-blocking; no incast.")


def _slower(places: _Places, members: list[int], op: str, ratio: float, change: Topology) -> tuple[float, float]:
    """Range of the factor on byte time: uplinks carry ``ratio`` times what they can, for the share of the traffic that crosses them."""
    worst = {"dragonfly": 2.0 * ratio}.get(change.layout or "", ratio)
    hosts = sorted({places.host_of[rank] for rank in members if rank in places.host_of})
    if change.layout == "rail" and op != "all_to_all":
        return 1.0, 1.0
    if change.hosts_per_leaf is None:
        return (ratio, worst) if op == "all_to_all" else (1.0, worst)
    leaves = {host: host // change.hosts_per_leaf for host in hosts} or {rank: rank // change.hosts_per_leaf for rank in members}
    if len(set(leaves.values())) < 2:
        return 1.0, 1.0
    if op == "all_to_all":
        crossing = 1 - change.hosts_per_leaf / max(len(leaves), 1)
        return max(1.0, ratio * crossing), max(1.0, worst * crossing)
    order = list(leaves)
    uplink = change.hosts_per_leaf / ratio
    slow = 1 / min(1.0, fabric.ring_gbps(order, {h: h for h in order}, 1.0, leaves, uplink))
    return slow, slow * worst / ratio


def _rank_order(draft: Draft, setting: Setting, places: _Places, change: Topology) -> None:
    order = change.rank_order or []
    world = setting.run.facts.world_size or len(order)
    if len(order) != world:
        raise Refusal(f"rank_order names {len(order)} ranks, the run has {world}.")
    if any(rank not in places.host_of for rank in order):
        raise Refusal(
            "Which ranks share a host is not known, so their order has no meaning.",
            ("hosts of the ranks (ranks.csv or run.gpus_per_node)",),
        )
    chosen = _layer(draft, setting, places, "inter_node")
    place_of = {rank: host // (change.hosts_per_leaf or 1) for rank, host in places.host_of.items()}
    position = {rank: number for number, rank in enumerate(order)}
    for place in np.flatnonzero(chosen):
        members = places.members[place]
        now = max(fabric.crossing_edges(sorted(members), place_of).values(), default=1)
        then = max(fabric.crossing_edges(sorted(members, key=position.__getitem__), place_of).values(), default=1)
        draft.byte_ns[place] *= then / now
    draft.lower("datasheet")
    draft.say("Rings are taken to follow the rank order, now and then; the busiest host's (or leaf's) outgoing edges share its links.")
