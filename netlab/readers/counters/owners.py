"""Whose counter it is, by the labels of Prometheus and the tags of telegraf."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["VARIABLE_MAP", "owner_of"]

#: Labels that name the device, in order of preference.
VARIABLE_MAP: dict[str, tuple[str, ...]] = {
    "device": (
        *("hostname", "Hostname", "sysName", "switch_name", "switch", "node", "host", "source"),
        *("instance", "exported_instance", "target", "agent_host"),
    ),
    "port": ("ifName", "interface", "ifname", "if_name", "ifDescr", "interface_name", "name", "port_name"),
    "queue": ("queue", "priority", "prio", "tc", "traffic_class", "pg"),
}
_LISTENER = re.compile(r":\d{2,5}$")


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)


def owner_of(labels: Mapping[str, str]) -> tuple[str | None, str, str | None]:
    """(device, port, queue) of a series. The port an exporter listens on is no part of the device's name.

    >>> owner_of({"instance": "leaf01:9116", "ifName": "Ethernet1/1"})
    ('leaf01', 'Ethernet1/1', None)
    >>> owner_of({"instance": "h1:9100", "device": "mlx5_0", "port": "1"})
    ('h1', 'mlx5_0/1', None)
    """
    device = _first(labels, VARIABLE_MAP["device"])
    port = _first(labels, VARIABLE_MAP["port"])
    number = labels.get("port") or labels.get("port_num")
    nic = labels.get("device")
    if port is None and nic is not None and number is not None:
        port = f"{nic}/{number}"
    elif port is None:
        gpu = labels.get("gpu")
        port = nic or number or (f"gpu{gpu}" if gpu is not None else "")
    if device is None and "guid" in labels:
        device = labels["guid"]
    return (_LISTENER.sub("", device) if device else None), port, _first(labels, VARIABLE_MAP["queue"])
