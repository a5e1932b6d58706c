"""Where the ranks of a run are, and which of its transfers go over which layer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.changes.targets import require_split
from netlab.whatif.costs import ring_lanes
from netlab.whatif.draft import Draft, Setting

__all__ = ["Hosts", "Mask", "on_layer"]

Mask = NDArray[np.bool_]


class Hosts:
    """Hosts of the ranks, where known, and which transfers cross them."""

    def __init__(self, draft: Draft, setting: Setting) -> None:
        t = draft.transfers
        names: dict[int, str] = {rank: host for host, ranks in setting.run.facts.hosts.items() for rank in ranks}
        for rank, host in setting.run.frame("ranks").select("rank", "host").drop_nulls().iter_rows():
            names.setdefault(rank, host)
        numbers = {name: number for number, name in enumerate(sorted(set(names.values())))}
        self.host_of: Mapping[int, int] = {rank: numbers[name] for rank, name in names.items()}
        self.names: Mapping[int, str] = {number: name for name, number in numbers.items()}
        self.members = [[int(rank) for rank in str(group or "").split(",") if rank.strip().isdigit()] for group in t.group]
        self.inter: Mask = t.layer == "inter_node"
        self.intra: Mask = t.layer == "intra_node"
        self.unplaced: Mask = ~(self.inter | self.intra)

    def count(self, members: list[int]) -> int | None:
        """Number of hosts of a group; None where one is not known."""
        found = [self.host_of.get(rank) for rank in members]
        return len(set(found)) if found and None not in found else None

    def lanes(self, members: list[int]) -> int:
        """GPUs of the group on the host that has fewest of them: so many NICs carry a ring between hosts."""
        return ring_lanes(members, self.host_of)


def on_layer(draft: Draft, setting: Setting, hosts: Hosts, layer: str) -> Mask:
    """Transfers on a layer; those whose layer is unknown count as this one where no transfer is known to be on it."""
    chosen = hosts.inter if layer == "inter_node" else hosts.intra
    if not chosen.any() and hosts.unplaced.any():
        chosen = hosts.unplaced
        draft.say(f"Which ranks share a host is not known; all communication is taken to be {layer.replace('_', '-')}.")
        draft.inputs_missing.append("hosts of the ranks (host names in the traces, ranks.csv, or run.gpus_per_node)")
        draft.lower("datasheet")
    elif hosts.unplaced.any():
        draft.say("Transfers whose layer is not known stay as they are.")
    if not chosen.any():
        draft.say(f"The run has no {layer.replace('_', '-')} communication, so its rate changes nothing.")
    require_split(draft, setting, chosen, "a change of the network")
    return np.asarray(chosen & ~draft.transfers.of("unknown"), bool)
