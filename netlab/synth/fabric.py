"""Switches and cables of a made cluster: a leaf per host, spines above, other jobs' hosts beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from netlab.synth.spec import Spec

__all__ = ["Cable", "Port", "cables", "nic_of", "noisy_port", "ports", "rank_rows", "stalled_port", "uplinks"]

#: Ports of each leaf that lead to hosts of other jobs: silent peers of the job's own ports.
_SPARE_PORTS = 4
_FIRST_SPARE = 16
_FIRST_UPLINK = 32
_SPINES = 2


@dataclass(frozen=True, kw_only=True)
class Port:
    """A port: of a leaf, a spine or a host (its NIC). ``ranks`` are those whose traffic crosses it."""

    device: str
    name: str
    speed_gbps: float
    role: str
    host: str | None = None
    nic: str | None = None
    ranks: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """``device/port`` as findings name it."""
        return f"{self.device}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class Cable:
    """Two ports and what is between them."""

    a: Port
    b: Port


def nic_of(spec: Spec, rank: int) -> tuple[str, str]:
    """Host and NIC that carry a rank's traffic.

    >>> from netlab.synth.plants import spec_for
    >>> nic_of(spec_for("none"), 5)
    ('node1', 'mlx5_1')
    """
    return spec.hosts[spec.node_of(rank)], f"mlx5_{spec.local_rank(rank)}"


def uplinks(spec: Spec) -> tuple[int, float]:
    """Number of uplinks of a leaf and the speed of each: as much as its host ports, or that over the oversubscription on two of them."""
    if spec.oversubscription <= 1:
        return spec.gpus_per_node, spec.cable_gbps
    return 2, spec.gpus_per_node * spec.cable_gbps / spec.oversubscription / 2


def cables(spec: Spec) -> list[Cable]:
    """Every cable of the cluster; a leaf's flows are spread evenly over its uplinks."""
    count, speed = uplinks(spec)
    nominal = spec.cable_gbps
    found: list[Cable] = []
    for node, host in enumerate(spec.hosts):
        leaf = f"leaf{node}"
        for local in range(spec.gpus_per_node):
            place: dict[str, Any] = {
                "speed_gbps": nominal,
                "host": host,
                "nic": f"mlx5_{local}",
                "ranks": (node * spec.gpus_per_node + local,),
            }
            nic = Port(device=host, name=f"mlx5_{local}", role="hca", **place)
            own = Port(device=leaf, name=f"Ethernet{local}", role="host", **place)
            found.append(Cable(a=own, b=nic))
        for spare in range(_SPARE_PORTS):
            other = f"other{node * _SPARE_PORTS + spare}"
            place = {"speed_gbps": nominal, "host": other, "nic": "mlx5_0"}
            nic = Port(device=other, name="mlx5_0", role="hca", **place)
            own = Port(device=leaf, name=f"Ethernet{_FIRST_SPARE + spare}", role="host", **place)
            found.append(Cable(a=own, b=nic))
        for up in range(count):
            ranks = tuple(rank for rank in range(spec.ranks) if spec.node_of(rank) == node and spec.local_rank(rank) % count == up)
            own = Port(device=leaf, name=f"Ethernet{_FIRST_UPLINK + up}", speed_gbps=speed, role="up", ranks=ranks)
            spine = Port(device=f"spine{up % _SPINES}", name=f"Ethernet{node * count + up}", speed_gbps=speed, role="down", ranks=ranks)
            found.append(Cable(a=own, b=spine))
    return found


def ports(spec: Spec) -> list[Port]:
    """Every port, by device and name."""
    return sorted(
        (port for cable in cables(spec) for port in (cable.a, cable.b)), key=lambda port: (port.device, len(port.name), port.name)
    )


def stalled_port(spec: Spec) -> str | None:
    """``leaf/port`` at the stalled NIC: its switch counts the corrupted packets that come in, or the pauses.

    >>> from netlab.synth.plants import spec_for
    >>> stalled_port(spec_for("lossy-link", stalled_rank=5))
    'leaf1/Ethernet1'
    """
    if spec.stalled_rank is None:
        return None
    return f"leaf{spec.node_of(spec.stalled_rank)}/Ethernet{spec.local_rank(spec.stalled_rank)}"


def noisy_port(spec: Spec) -> str | None:
    """``leaf/port`` that counts errors all the time and is on no path of the job."""
    return f"leaf0/Ethernet{_FIRST_SPARE + 1}" if spec.noisy_port else None


def rank_rows(spec: Spec) -> list[tuple[int, str, int, int, str, int, int]]:
    """Rows of ranks.csv: rank, host, local rank, GPU, NIC, NIC port, rail."""
    return [(rank, *_place(spec, rank)) for rank in range(spec.ranks)]


def _place(spec: Spec, rank: int) -> tuple[str, int, int, str, int, int]:
    host, nic = nic_of(spec, rank)
    local = spec.local_rank(rank)
    return host, local, local, nic, 1, local
