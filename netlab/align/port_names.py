"""Spellings of port names: which of them mean one port, and which belong to bundles, VLANs and management."""

from __future__ import annotations

import re

__all__ = ["is_nic", "logical_role", "port_key", "spelled"]

_TYPES = (
    ("ethernet", ("ethernet", "eth", "et", "e")),
    ("hundredgige", ("hundredgige", "hundredgigabitethernet", "hu", "hundredgigabit")),
    ("gigabitethernet", ("gigabitethernet", "gige", "gi")),
    ("tengigabitethernet", ("tengigabitethernet", "tengige", "te")),
    ("fourhundredgige", ("fourhundredgige", "fourhundredgigabitethernet", "fo")),
    ("portchannel", ("portchannel", "port-channel", "po")),
    ("management", ("management", "mgmt", "ma")),
    ("vlan", ("vlan", "vl")),
)
_ALIASES = {alias: canonical for canonical, aliases in _TYPES for alias in aliases}
_NAME = re.compile(r"([A-Za-z][A-Za-z-]*?)[ ]?(\d[\d/:.,]*)")
_NIC = re.compile(r"(?:mlx\d|bnxt_re|irdma|efa|rdmap|hfi\d|qedr|i40iw|cxi|ionic|erdma|hns)", re.I)
_HOST_IF = re.compile(r"(?:ibp|ibs|ib|enp|ens|eno|roce|rail)\w*", re.I)
_LOGICAL = (
    ("lag", re.compile(r"port-?channel\d+|po\d+|bond\w*\d*|bundle-ether\d+|ae\d+|team\d+|lag[-_ ]?\d+|trunk\d+|peerlink", re.I)),
    (
        "vlan",
        re.compile(
            r"vlan\w*|vl\d+|bvi\d+|irb|.*\.\d+|br[_-]?default|br\d+|docker\w*|virbr\w*|veth\w*|lo\d*|loopback.*|null\d*|nve\d*|vxlan\d*|tunnel\d*|ethernet-(?:bp|rec|ib)\d*.*|cpu",
            re.I,
        ),
    ),
    ("mgmt", re.compile(r"management[\d/]*|mgmt[\d/]*|ma\d[\d/]*|fxp\d|em0|me\d", re.I)),
)


def port_key(port: str) -> str:
    """One spelling for a port: ``Eth1/1``, ``Ethernet1/1`` and ``et1/1`` agree, and so do ``mlx5_0`` and ``mlx5_0/1``.

    >>> port_key("Eth1/1") == port_key("ethernet1/1"), port_key("mlx5_0/1"), port_key("mlx5_0/2")
    (True, 'mlx5_0', 'mlx5_0/2')
    """
    text = port.strip()
    if is_nic(text):
        return text.lower().removesuffix("/1").removesuffix(":1")
    match = _NAME.fullmatch(text)
    if match is None:
        return text.lower()
    kind, number = match[1].lower(), match[2]
    # A kernel's eth0 and a switch's Ethernet0 are different ports; only slot/port numbers show a switch.
    if kind == "eth" and "/" not in number:
        return text.lower()
    return f"{_ALIASES.get(kind, kind)}{number}"


def is_nic(port: str) -> bool:
    """Whether the name is one of an RDMA device.

    >>> is_nic("mlx5_0/1"), is_nic("Ethernet0")
    (True, False)
    """
    return _NIC.match(port) is not None


def logical_role(port: str) -> str | None:
    """lag, vlan or mgmt where the name says so: such a port carries bytes that others count already (or none of the fabric's).

    >>> logical_role("PortChannel1"), logical_role("Vlan100"), logical_role("Ethernet1/1"), logical_role("mlx5_bond_0")
    ('lag', 'vlan', None, None)
    """
    return next((role for role, pattern in _LOGICAL if pattern.fullmatch(port)), None)


def spelled(names: list[str], preferred: set[str]) -> str:
    """Which of several spellings to keep: a preferred one, else the longest, else the first in order.

    >>> spelled(["Eth1/1", "Ethernet1/1"], set())
    'Ethernet1/1'
    """
    pool = [name for name in names if name in preferred] or names
    return min(pool, key=lambda name: (-len(name), name))
