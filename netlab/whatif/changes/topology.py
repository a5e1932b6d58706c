"""Another network: rates, algorithm, NVLink domain, fabric; what lies above the leaves is in `netlab.whatif.changes.placement`.

Only the byte part of transfers changes with rates, and only where the link was the limit; waiting never does.
"""

from __future__ import annotations

import numpy as np

from netlab.whatif import fabric
from netlab.whatif.changes.hosts import Hosts, Mask, on_layer
from netlab.whatif.changes.placement import change_placement
from netlab.whatif.changes.targets import require_split
from netlab.whatif.draft import Draft, Refusal, Setting
from netlab.whatif.scenarios import Topology

__all__ = ["change_topology"]

#: Below this share of the link's rate something else is the limit, and a faster link does not help (notes/whatif.md 3.c).
_LIMITING = 0.60
#: A bus bandwidth this much above the declared rate says that the declaration is wrong.
_IMPOSSIBLE = 1.10
#: RoCE reaches 85 to 95 % of InfiniBand at the same rate: an interval, never a point (seed rules, notes/whatif.md 3.c).
_ROCE = (0.85, 0.95)
_NEEDS = {
    "nvls": "groups within one host",
    "pat": "groups with one GPU per host",
    "hierarchical": "several GPUs per host and both link rates",
}


def change_topology(draft: Draft, setting: Setting, change: Topology) -> None:
    """Apply every key that is given.

    Raises
    ------
    Refusal
        If a present rate, host or layer is needed and not known.
    """
    hosts = Hosts(draft, setting)
    if change.intra_node_gbps is not None:
        _rate(draft, setting, hosts, "intra_node", setting.intra_node_gbps, change.intra_node_gbps)
    if change.inter_node_gbps is not None:
        _rate(draft, setting, hosts, "inter_node", setting.inter_node_gbps, change.inter_node_gbps)
    if change.nvlink_domain is not None:
        _domain(draft, setting, hosts, change.nvlink_domain)
    if change.algorithm is not None:
        _algorithm(draft, setting, hosts, change.algorithm)
    if change.fabric is not None:
        _fabric(draft, setting, hosts, change.fabric)
    if change.efficiency is not None:
        _efficiency(draft, setting, hosts, change)
    change_placement(draft, setting, hosts, change)


def _rate(draft: Draft, setting: Setting, hosts: Hosts, layer: str, old_gbps: float | None, new_gbps: float) -> None:
    key = f"{layer}_gbps"
    chosen = on_layer(draft, setting, hosts, layer)
    if not chosen.any():
        return
    if old_gbps is None:
        raise Refusal(
            f"The present rate of the {layer.replace('_', '-')} links is not known, so {new_gbps:g} Gbit/s cannot be compared with it.",
            (f"links.{key} in netlab.toml (one-direction Gbit/s per GPU)",),
        )
    draft.inputs_used.append(f"links.{key} = {old_gbps:g}")
    best = _best_share(draft, hosts, chosen, layer, old_gbps)
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
    if best < _LIMITING:
        _not_the_limit(draft, chosen, best, old_gbps, speed)
        return
    draft.byte_ns[chosen] /= speed
    draft.lower("calibrated")
    draft.say(
        f"{layer.replace('_', '-').capitalize()} links go from {old_gbps:g} to {new_gbps:g} Gbit/s per GPU; they were the limit "
        f"({100 * best:.0f} % used), and nothing else (PCIe, channels, NVLink) becomes one."
    )


def _not_the_limit(draft: Draft, chosen: Mask, best: float, old_gbps: float, speed: float) -> None:
    """Another rate of links that were never full. What kept them from it may depend on their rate (a protocol that reaches a share of any
    link) or not (channels, PCIe): the point stays with the latter, the interval reaches to the former."""
    point = 1.0 if speed > 1 else max(1.0, best / speed)
    draft.byte_ns[chosen] *= point
    draft.widen(chosen, min(1.0, 1 / speed / point), max(1.0, 1 / speed / point))
    draft.lower("datasheet")
    draft.inputs_missing.append("what keeps transfers from the rate of the links (NCCL log with INIT,GRAPH,TUNING; nccl-tests)")
    used = f"At best {100 * best:.0f} % of {old_gbps:g} Gbit/s was used while data moved"
    if speed > 1:
        draft.say(
            f"An upgrade will not help: the links were not the limit. {used}; "
            "look at NCCL's transport, channels and the GPU-NIC path first. "
            "Only if what limits grows with the link (a protocol that reaches a share of any link), the interval's lower end is reached."
        )
    else:
        draft.say(
            f"The links were not the limit. {used}; they are taken to become it only below that. "
            "If what limits shrinks with the link, the upper end of the interval is reached."
        )


def _best_share(draft: Draft, hosts: Hosts, chosen: Mask, layer: str, gbps: float) -> float:
    """Largest share of the links' rate that a transfer reached; NaN where no message size is known."""
    lanes = np.array([hosts.lanes(m) if layer == "inter_node" else 1 for m in hosts.members])
    share = draft.transfers.bus_gb_per_s() * 8 / (gbps * lanes)
    return float(np.nanmax(share[chosen])) if np.isfinite(share[chosen]).any() else np.nan


def _efficiency(draft: Draft, setting: Setting, hosts: Hosts, change: Topology) -> None:
    """Links that congestion control and loss leave a part of. Links with rate to spare lose that first."""
    low, high = change.efficiency or (1.0, 1.0)
    chosen = on_layer(draft, setting, hosts, "inter_node")
    old = setting.inter_node_gbps
    best = np.nan if old is None else _best_share(draft, hosts, chosen, "inter_node", old)
    faster = 1.0 if old is None or change.inter_node_gbps is None else change.inter_node_gbps / old
    spare = faster / best if best < _LIMITING else 1.0
    slower = [max(1.0, 1 / (share * spare)) for share in (high, (low + high) / 2, low)]
    draft.byte_ns[chosen] *= slower[1]
    draft.widen(chosen, slower[0] / slower[1], slower[2] / slower[1])
    draft.lower("datasheet")
    draft.say(f"Congestion control and loss leave {100 * low:g} to {100 * high:g} % of the links, as declared; they are not simulated.")


def _domain(draft: Draft, setting: Setting, hosts: Hosts, domain: int) -> None:
    chosen = np.array([len(m) > 1 and len({rank // domain for rank in m}) == 1 for m in hosts.members], bool) & ~hosts.intra
    chosen &= ~draft.transfers.of("unknown")
    if setting.intra_node_gbps is None or setting.inter_node_gbps is None:
        raise Refusal("Moving groups into an NVLink domain needs both present rates.", ("links.intra_node_gbps and links.inter_node_gbps",))
    require_split(draft, setting, chosen, "an NVLink domain")
    lanes = np.array([hosts.lanes(m) for m in hosts.members])
    old = np.minimum(setting.inter_node_gbps * lanes, setting.intra_node_gbps)
    draft.byte_ns[chosen] *= old[chosen] / setting.intra_node_gbps
    draft.lower("datasheet")
    draft.say(
        f"Groups that fit into {domain} consecutive ranks ({int(chosen.sum())} transfers) move to NVLink rate; kernels keep their time."
    )


def _algorithm(draft: Draft, setting: Setting, hosts: Hosts, algorithm: str) -> None:
    t = draft.transfers
    ops = ("all_gather", "reduce_scatter") if algorithm == "pat" else ("all_reduce",)
    of_ops = np.isin(t.op.astype(str), ops)
    chosen = np.asarray(of_ops & ~t.of("unknown"), bool)
    what = " or ".join(ops)
    if not chosen.any():
        raise Refusal(f"The run has no {what} whose transfer is known, so algorithm {algorithm} has nothing to change.")
    require_split(draft, setting, of_ops, "another algorithm")
    rates = {"intra_gbps": setting.intra_node_gbps, "inter_gbps": setting.inter_node_gbps}
    refused = 0
    for place in np.flatnonzero(chosen):
        members = hosts.members[place] or list(range(int(t.group_size[place])))
        size, count = len(members), hosts.count(members) or (1 if hosts.intra[place] else len(members))
        factor = fabric.algorithm_factor(algorithm, size, count, **rates)
        if factor is None:
            refused += 1
            continue
        draft.byte_ns[place] *= factor
        draft.latency_ns[place] *= fabric.latency_rounds(algorithm, size, count) / fabric.latency_rounds("ring", size, count)
    if refused == int(chosen.sum()):
        missing = ("links.intra_node_gbps and links.inter_node_gbps",) if algorithm == "hierarchical" else ()
        raise Refusal(f"Algorithm {algorithm} needs {_NEEDS[algorithm]}; no {what} of the run fits.", missing)
    draft.lower("datasheet")
    draft.say(f"Every {what} runs as a ring now and as {algorithm} then, by NCCL's factors; real efficiency is not measured.")


def _fabric(draft: Draft, setting: Setting, hosts: Hosts, wanted: str) -> None:
    present = {str(n).lower() for n in setting.run.frame("connections")["network"].drop_nulls().unique().to_list()}
    now = "roce" if "roce" in present else "ib"
    if not present & {"ib", "roce"}:
        draft.inputs_missing.append("NCCL log (which network the run uses)")
        draft.say("The run is taken to use InfiniBand now." if wanted == "roce" else "The run is taken to use RoCE now.")
        now = "ib" if wanted == "roce" else "roce"
    chosen = on_layer(draft, setting, hosts, "inter_node")
    if now == wanted:
        draft.say(f"The run already uses {wanted}.")
        return
    middle = sum(_ROCE) / 2
    low, high = (1 / _ROCE[1], 1 / _ROCE[0]) if wanted == "roce" else _ROCE
    point = 1 / middle if wanted == "roce" else middle
    draft.byte_ns[chosen] *= point
    draft.widen(chosen, low / point, high / point)
    draft.lower("datasheet")
    draft.say("RoCE reaches 85 to 95 % of InfiniBand at the same rate; congestion control and loss are not modelled.")
