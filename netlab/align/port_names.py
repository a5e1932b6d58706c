"""Spellings of port names: which of them mean one port, and which belong to bundles, VLANs and management."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["has_own_management", "is_host_interface", "is_nic", "logical_role", "port_key", "spelled"]

_TYPES = (
    ("ethernet", ("ethernet", "eth", "et", "e")),
    ("hundredgige", ("hundredgige", "hundredgigabitethernet", "hu", "hundredgigabit")),
    ("gigabitethernet", ("gigabitethernet", "gige", "gi")),
    ("tengigabitethernet", ("tengigabitethernet", "tengige", "te")),
    ("fourhundredgige", ("fourhundredgige", "fourhundredgigabitethernet", "fo")),
    ("portchannel", ("portchannel", "port-channel", "po")),
    ("bundle-ether", ("bundle-ether", "be")),
    ("management", ("management", "mgmt", "ma")),
    ("vlan", ("vlan", "vl")),
)
_ALIASES = {alias: canonical for canonical, aliases in _TYPES for alias in aliases}
_NAME = re.compile(r"([A-Za-z][A-Za-z-]*?)[ ]?(\d[\d/:.,]*)")
_NIC = re.compile(r"(?:mlx\d|bnxt_re|irdma|efa|rdmap|hfi\d|qedr|i40iw|cxi|ionic|erdma|hns)", re.I)
#: systemd's predictable names and those of IPoIB; no switch calls its ports so.
_HOST_IF = re.compile(r"(?:en|ib|roce|rdma)[opsx]\w*\d\w*|ib\d+", re.I)
_LAG = r"port-?channel\d+|m?po\d+|bond\w*\d*|bundle-ether\d+|be\d+|ae\d+|reth\d+|team\d+|lag[-_ ]?\d+|trunk\d+|peerlink"
_LAG += r"|eth-trunk\d+|bridge-aggregation\d+"
_INSIDE = r"vlan\w*|vl\d+|bvi\d+|irb|.*\.\d+|br[_-]?default|br\d+|bridge|lo\d*|loopback.*|null\d*|nve\d*|vxlan\d*|tunnel\d*"
_INSIDE += r"|ethernet-(?:bp|rec|ib)\d*.*|cpu"
#: What containers and virtual machines see of a host's interfaces.
_VIRTUAL = r"docker\w*|br-\w+|virbr\w*|veth\w*|cni\d*|cali\w*|lxc\w*|kube-\w+|flannel\S*|cilium\w*|tunl\d+|tap\w*|tun\d*"
_VIRTUAL += r"|vnet\d+|dummy\d+|ifb\d+|ovs-\w+"
_MANAGEMENT = r"management[\d/]*|mgmt[\d/]*|mgmteth\S*|ma\d[\d/]*|meth[\d/]+|fxp\d|em\d|me\d|sup-eth\S*"
_LOGICAL = (
    ("lag", re.compile(_LAG, re.I)),
    ("vlan", re.compile(f"{_INSIDE}|{_VIRTUAL}", re.I)),
    ("mgmt", re.compile(_MANAGEMENT, re.I)),
)
_SWITCH_PORT = re.compile(r"swp\d\w*|Ethernet\d+")


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


def is_host_interface(port: str) -> bool:
    """Whether only a host calls an interface so.

    >>> is_host_interface("ens1f0np0"), is_host_interface("ib0"), is_host_interface("swp1"), is_host_interface("Ethernet0")
    (True, True, False, False)
    """
    return is_nic(port) or _HOST_IF.fullmatch(port) is not None


def has_own_management(ports: Iterable[str]) -> bool:
    """Whether a device's ``eth0`` is its management port: a switch that runs Linux calls its front ports otherwise.

    >>> has_own_management(["swp1", "eth0"]), has_own_management(["eth0", "eth1"])
    (True, False)
    """
    return any(_SWITCH_PORT.fullmatch(port) for port in ports)


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
