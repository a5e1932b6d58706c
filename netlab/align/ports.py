"""The ``ports`` table: what all inputs together say about each port, its cable, and the ranks behind it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from netlab.align.counters import align_counters, apply_file_options
from netlab.align.leaves import add_leaves, leaf_members
from netlab.align.port_names import has_own_management, is_host_interface, logical_role, port_key, spelled
from netlab.align.rails import infer_rails
from netlab.issues import Issue
from netlab.schema.counters import CABLES, COUNTERS, PORT_FACTS, PORTS, RANK_MAP, SWITCH_MEMBERS
from netlab.schema.timeline import RANKS
from netlab.topology import Fabric, Hop

__all__ = ["align_counters", "apply_file_options", "build_ports"]

_FACTS = ("speed_gbps", "role", "lag", "rail", "plane", "host", "nic")
Port = tuple[str, str]


def build_ports(raw: Mapping[str, pl.DataFrame]) -> tuple[pl.DataFrame, list[Issue]]:
    """One row per port that any input names.

    A person's word (ports.csv, links.csv) wins over a device's; between devices the first in order of files. Names are matched without
    regard to spelling (``Eth1/1`` is ``Ethernet1/1``); the spelling of the counters is kept where there is one. Roles that nobody gives
    follow from names (bundles, VLANs, management, RDMA devices) and from the cables (toward hosts, up, down).

    Parameters
    ----------
    raw
        Any of ``counters`` (aligned), ``port_facts``, ``cables``, ``rank_map``, ``ranks``, ``switch_members``; absent ones count as empty.

    Returns
    -------
    ``PORTS`` and the issues: a port cabled twice (MISCABLED), a device and a person that disagree about a speed (ABOVE_LINE_RATE).
    """
    counters, facts, cables = (
        raw.get("counters", COUNTERS.empty()),
        raw.get("port_facts", PORT_FACTS.empty()),
        raw.get("cables", CABLES.empty()),
    )
    names = _Names(counters, facts, cables)
    rows: dict[Port, dict[str, object]] = {port: {} for port in names.ports}
    issues = _add_facts(rows, names, facts)
    _add_speeds(rows, names, counters)
    issues += _add_cables(rows, names, cables)
    hosts = _hosts(rows, raw, cables)
    _add_roles(rows, hosts)
    _add_hosts(rows, hosts)
    members = leaf_members(raw.get("switch_members", SWITCH_MEMBERS.empty()))
    add_leaves(rows, hosts, members)
    _add_ranks(rows, raw)
    _add_ranks_above(rows, members)
    issues += infer_rails(rows)
    issues += _unmapped(rows, names, counters)
    table = [{"device": device, "port": port, **values} for (device, port), values in rows.items()]
    frame = pl.DataFrame(table, schema=dict(PORTS.schema)) if table else PORTS.empty()
    return PORTS.validate(PORTS.conform(frame)), issues


class _Names:
    """The spelling under which each port stands in the run."""

    def __init__(self, counters: pl.DataFrame, facts: pl.DataFrame, cables: pl.DataFrame) -> None:
        counted = counters.filter(pl.col("port") != "").select(pl.col("device", "port").cast(pl.String)).unique()
        ends = [cables.select(pl.col(f"{end}_device").alias("device"), pl.col(f"{end}_port").alias("port")) for end in "ab"]
        every = pl.concat([counted, facts.select("device", "port"), *ends]).unique().sort("device", "port")
        own = set(counted.iter_rows())
        groups: dict[Port, list[str]] = {}
        for device, port in every.iter_rows():
            groups.setdefault((device, port_key(port)), []).append(port)
        self._kept = {key: spelled(ports, {port for port in ports if (key[0], port) in own}) for key, ports in groups.items()}

    @property
    def ports(self) -> list[Port]:
        """All ports under their kept spelling."""
        return sorted((device, port) for (device, _), port in self._kept.items())

    def find(self, device: str, port: str) -> Port:
        """A port under its kept spelling."""
        return device, self._kept[device, port_key(port)]


def _add_facts(rows: dict[Port, dict[str, object]], names: _Names, facts: pl.DataFrame) -> list[Issue]:
    issues = []
    for fact in facts.sort("declared", "source", descending=[True, False], maintain_order=True).iter_rows(named=True):
        row = rows[names.find(fact["device"], fact["port"])]
        for name in _FACTS:
            if fact[name] is not None and row.get(name) is None:
                row[name] = fact[name]
            elif name == "speed_gbps" and fact[name] is not None and row[name] != fact[name] and not fact["declared"]:
                message = (
                    f"{fact['device']}/{fact['port']}: declared with {row[name]:g} Gbit/s, {fact['source']} reports "
                    f"{fact[name]:g}; the declared speed is used. Correct ports.csv if the device is right."
                )
                issues.append(Issue(code="ABOVE_LINE_RATE", severity="info", source=fact["source"], message=message))
    return issues


def _add_speeds(rows: dict[Port, dict[str, object]], names: _Names, counters: pl.DataFrame) -> None:
    """Speeds that devices report as gauges; the last sample counts, and 0 or the end of a 32-bit gauge is none."""
    gauges = counters.filter((pl.col("metric") == "speed_bps") & (pl.col("value") > 0) & (pl.col("port") != ""))
    latest = gauges.sort("ts_ns", nulls_last=False).group_by("device", "port").agg(pl.col("value").last())
    for device, port, speed in latest.with_columns(pl.col("device", "port").cast(pl.String)).iter_rows():
        row = rows[names.find(device, port)]
        if row.get("speed_gbps") is None:
            row["speed_gbps"] = speed / 1e9


def _add_cables(rows: dict[Port, dict[str, object]], names: _Names, cables: pl.DataFrame) -> list[Issue]:
    conflicts: dict[str, list[str]] = {}
    for cable in cables.sort("declared", "source", descending=[True, False], maintain_order=True).iter_rows(named=True):
        a, b = names.find(cable["a_device"], cable["a_port"]), names.find(cable["b_device"], cable["b_port"])
        for own, other in ((a, b), (b, a)):
            row = rows[own]
            known = (row.get("peer_device"), row.get("peer_port"))
            if known[0] is not None and known != other:
                first, second = f"{known[0]}/{known[1]}", f"{other[0]}/{other[1]}"
                conflicts.setdefault(cable["source"], []).append(f"{own[0]}/{own[1]} is cabled to {first} and to {second}")
                continue
            row["peer_device"], row["peer_port"] = other
            for name in ("speed_gbps", "rail", "plane", "lag"):
                if row.get(name) is None:
                    row[name] = cable[name]
        if cable["role"] is not None and rows[a].get("role") is None:
            rows[a]["role"] = cable["role"]
    issues = []
    for source, found in sorted(conflicts.items()):
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        message = f"{source}: {'; '.join(found[:3])}{more}; the first is used. Check the cabling."
        issues.append(Issue(code="MISCABLED", source=source, message=message))
    return issues


def _hosts(rows: Mapping[Port, Mapping[str, object]], raw: Mapping[str, pl.DataFrame], cables: pl.DataFrame) -> set[str]:
    """Devices that are hosts: named as such by ranks, cables or ports, or owners of interfaces that only hosts have."""
    found = {str(row["host"]) for row in rows.values() if row.get("host") is not None}
    for name, table in (("rank_map", RANK_MAP), ("ranks", RANKS)):
        found |= set(raw.get(name, table.empty())["host"].drop_nulls().to_list())
    members = raw.get("switch_members", SWITCH_MEMBERS.empty())
    found |= set(members.filter(pl.col("kind") == "host")["member"].to_list()) & {device for device, _ in rows}
    for end in "ab":
        found |= set(cables.filter(pl.col(f"{end}_kind") == "host")[f"{end}_device"].to_list())
    found |= {device for (device, port), row in rows.items() if row.get("role") == "hca" or is_host_interface(port)}
    for (device, _), row in rows.items():
        if row.get("role") == "host" and row.get("peer_device") is not None:
            found.add(str(row["peer_device"]))
        if row.get("role") in ("up", "down", "peer", "host"):
            found.discard(device)
    return found


def _add_roles(rows: dict[Port, dict[str, object]], hosts: set[str]) -> None:
    pairs = [
        (device, port, str(row["peer_device"]), str(row["peer_port"]))
        for (device, port), row in rows.items()
        if row.get("peer_device") is not None
    ]
    fabric = Fabric.from_cables(pairs, hosts)
    names: dict[str, list[str]] = {}
    for device, port in rows:
        names.setdefault(device, []).append(port)
    switches = {device for device, own in names.items() if has_own_management(own)}
    for (device, port), row in rows.items():
        if row.get("role") is not None:
            continue
        named = "mgmt" if device in switches and re.fullmatch(r"eth\d+", port) else logical_role(port)
        if named is not None:
            row["role"] = named
        elif device in hosts and (is_host_interface(port) or row.get("peer_device") is not None):
            row["role"] = "hca"
        elif row.get("peer_device") is not None:
            row["role"] = fabric.role(Hop(device, port, str(row["peer_device"]), str(row["peer_port"])))
        elif row.get("host") is not None:
            row["role"] = "host"


def _add_hosts(rows: dict[Port, dict[str, object]], hosts: set[str]) -> None:
    """The host and NIC behind each port: its owner for a NIC, the cable's other end for a switch port."""
    for (device, port), row in rows.items():
        if row.get("role") == "hca":
            row.setdefault("host", device)
            row["host"], row["nic"] = row["host"] or device, row.get("nic") or port.split("/")[0]
        elif row.get("peer_device") in hosts:
            row["host"] = row.get("host") or row["peer_device"]
            row["nic"] = row.get("nic") or str(row["peer_port"]).split("/")[0]


def _unmapped(rows: Mapping[Port, Mapping[str, object]], names: _Names, counters: pl.DataFrame) -> list[Issue]:
    """What stays unknown of the ports that have counters: without a speed no utilisation, without a cable no localisation."""
    counted = (
        counters.filter((pl.col("port") != "") & (pl.col("kind") == "counter")).select(pl.col("device", "port").cast(pl.String)).unique()
    )
    ports = sorted({names.find(device, port) for device, port in counted.iter_rows()})
    ports = [port for port in ports if rows[port].get("role") not in ("lag", "vlan", "mgmt")]
    issues = []
    for what, lacking, cure in (
        (
            "speed, so no utilisation is given",
            [port for port in ports if rows[port].get("speed_gbps") is None],
            "ports.csv with speed_gbps",
        ),
        ("cable, so nobody knows whose traffic they carry", [port for port in ports if rows[port].get("peer_device") is None], "links.csv"),
    ):
        if lacking:
            devices = sorted({device for device, _ in lacking})
            shown = ", ".join(devices[:4]) + (f" and {len(devices) - 4} more devices" if len(devices) > 4 else "")
            message = f"{len(lacking)} of {len(ports)} counted interfaces have no known {what} (on {shown}); add {cure}."
            issues.append(Issue(code="UNMAPPED", severity="info", message=message))
    return issues


def _add_ranks(rows: dict[Port, dict[str, object]], raw: Mapping[str, pl.DataFrame]) -> None:
    """Ranks behind each port: those that name its NIC; on a host with one NIC, all of the host's. Rails of ranks.csv go to their NICs."""
    by_nic: dict[Port, set[int]] = {}
    by_host: dict[str, set[int]] = {}
    rails: dict[Port, str] = {}
    named = pl.concat(
        [
            raw.get("rank_map", RANK_MAP.empty()).select("rank", "host", "nic", "rail"),
            raw.get("ranks", RANKS.empty()).select("rank", "host", "nic", pl.lit(None, dtype=pl.String).alias("rail")),
        ]
    )
    for rank, host, nic, rail in named.iter_rows():
        if host is None:
            continue
        by_host.setdefault(host, set()).add(rank)
        for name in (nic or "").split(","):
            if name:
                by_nic.setdefault((host, port_key(name.strip())), set()).add(rank)
                if rail is not None:
                    rails[host, port_key(name.strip())] = rail
    nics: dict[str, set[str]] = {}
    for row in rows.values():
        if row.get("host") is not None and row.get("nic") is not None:
            nics.setdefault(str(row["host"]), set()).add(port_key(str(row["nic"])))
    for row in rows.values():
        if row.get("host") is None or row.get("nic") is None:
            continue
        key = (str(row["host"]), port_key(str(row["nic"])))
        ranks = by_nic.get(key)
        if ranks is None and len(nics[key[0]]) == 1 and not any(host == key[0] for host, _ in by_nic):
            ranks = by_host.get(key[0])
        row["ranks"] = sorted(ranks) if ranks else None
        row["rail"] = row.get("rail") or rails.get(key)


def _add_ranks_above(rows: dict[Port, dict[str, object]], members: Mapping[str, set[str]]) -> None:
    """Ranks of links between switches: those below the leaf at their lower end, whose traffic may use them."""
    below: dict[str, set[int]] = {}
    by_host: dict[str, set[int]] = {}
    for (device, _), row in rows.items():
        if not isinstance(row.get("ranks"), list):
            continue
        if row.get("role") == "host":
            below.setdefault(device, set()).update(row["ranks"])  # type: ignore[arg-type]
        by_host.setdefault(str(row.get("host")), set()).update(row["ranks"])  # type: ignore[arg-type]
    for switch, hosts in members.items():
        # Cables say more exactly what is below; where there are none, the scheduler's tree does.
        if switch not in below:
            below[switch] = set().union(*(by_host.get(host, set()) for host in hosts))
    for (device, _), row in rows.items():
        lower = device if row.get("role") == "up" else str(row.get("peer_device")) if row.get("role") == "down" else ""
        if below.get(lower):
            row["ranks"] = sorted(below[lower])
