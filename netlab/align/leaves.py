"""Which leaf each host hangs on: by its cables, else by the scheduler's tree of switches."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

__all__ = ["add_leaves", "leaf_members"]

Port = tuple[str, str]


def leaf_members(members: pl.DataFrame) -> dict[str, set[str]]:
    """Hosts of each switch (or block) of ``SWITCH_MEMBERS`` that has hosts of its own.

    >>> rows = {"switch": ["leaf1", "root"], "member": ["nodea", "leaf1"], "kind": ["host", "switch"]}
    >>> leaf_members(pl.DataFrame(rows))
    {'leaf1': {'nodea'}}
    """
    found: dict[str, set[str]] = {}
    for switch, member in members.filter(pl.col("kind") == "host").select("switch", "member").sort("switch", "member").iter_rows():
        found.setdefault(switch, set()).add(member)
    return found


def add_leaves(rows: Mapping[Port, dict[str, object]], hosts: set[str], members: Mapping[str, set[str]]) -> None:
    """Fill in ``leaf`` of ports of hosts and of the switch ports that face them.

    A host's cable says which leaf each of its NICs meets. Slurm names one switch per host: it counts where no cable does, and only if
    that is one switch.
    """
    named: dict[str, set[str]] = {}
    for switch, inside in members.items():
        for name in inside:
            named.setdefault(name, set()).add(switch)
    for (device, _), row in rows.items():
        host = row.get("host")
        if row.get("role") == "hca" and row.get("peer_device") is not None:
            row["leaf"] = row["peer_device"]
        elif row.get("role") == "host" and device not in hosts:
            row["leaf"] = device
        elif host is not None and len(named.get(str(host), ())) == 1:
            row["leaf"] = next(iter(named[str(host)]))
