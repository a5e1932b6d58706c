"""Whose counter it is, by the labels of Prometheus and the tags of telegraf."""

from __future__ import annotations

import re
from collections.abc import Mapping

from netlab.readers.counters.meaning import DIRECTIONS

__all__ = ["VARIABLE_MAP", "direction_of", "owner_of"]

#: Labels that name the device, in order of preference.
VARIABLE_MAP: dict[str, tuple[str, ...]] = {
    "device": (
        *("hostname", "sysName", "switch_name", "switch", "local_name", "node_name", "nodename", "node", "host", "source"),
        *("instance", "exported_instance", "target", "agent_host"),
    ),
    "port": ("ifName", "interface", "ifDescr", "interface_name", "name", "port_name"),
    "number": ("port", "port_num", "local_port", "port_number"),
    "guid": ("guid", "node_guid", "local_guid", "switch_guid", "lid"),
    "queue": ("queue", "priority", "prio", "tc", "traffic_class", "pg", "queue_id", "queue_name"),
}
_LISTENER = re.compile(r":\d{2,5}$")


def _plain(name: str) -> str:
    """A label without case and joints: exporters write ifName, if_name and ifname."""
    return name.lower().replace("_", "").replace("-", "")


_ORDER = {role: tuple(dict.fromkeys(map(_plain, names))) for role, names in VARIABLE_MAP.items()}


def _first(labels: Mapping[str, str], role: str) -> str | None:
    return next((labels[name] for name in _ORDER[role] if labels.get(name)), None)


def owner_of(labels: Mapping[str, str]) -> tuple[str | None, str, str | None]:
    """(device, port, queue) of a series. The port an exporter listens on is no part of the device's name.

    >>> owner_of({"instance": "leaf01:9116", "ifName": "Ethernet1/1"})
    ('leaf01', 'Ethernet1/1', None)
    >>> owner_of({"instance": "h1:9100", "device": "mlx5_0", "port": "1"})
    ('h1', 'mlx5_0/1', None)
    >>> owner_of({"local_name": "leaf1", "local_port": "9"}), owner_of({"NodeGUID": "0xc42a10300a9b026", "port": "9"})
    (('leaf1', '9', None), ('0xc42a10300a9b026', '9', None))
    """
    known = {_plain(name): value for name, value in labels.items() if not name.startswith("__")}
    device, port, number = _first(known, "device"), _first(known, "port"), _first(known, "number")
    nic = known.get("device") or known.get("hca")
    if port is None and nic is not None and number is not None:
        port = f"{nic}/{number}"
    elif port is None:
        gpu = known.get("gpu")
        port = nic or number or (f"gpu{gpu}" if gpu is not None else "")
        port = port or known.get("ifindex", "")
    guid = _first(known, "guid")
    if device is None and guid is not None:
        device = f"lid {guid}" if guid.isdigit() and "lid" in known else guid
    return (_LISTENER.sub("", device) if device else None), port, _first(known, "queue")


def direction_of(labels: Mapping[str, str]) -> str | None:
    """rx or tx where a label says so and the counter's name may not.

    >>> direction_of({"direction": "Ingress"}), direction_of({"ifName": "e0"})
    ('rx', None)
    """
    known = {_plain(name): value for name, value in labels.items()}
    return DIRECTIONS.get((known.get("direction") or known.get("dir") or "").lower())
