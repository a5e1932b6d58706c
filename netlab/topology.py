"""The fabric as a graph of devices and cables: tiers, and the ports that traffic between two hosts may use."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

__all__ = ["Fabric", "Hop", "fabric_of", "guid_key"]


@dataclass(frozen=True, order=True)
class Hop:
    """One direction of a cable: traffic leaves ``device`` through ``port`` and enters ``peer_device`` through ``peer_port``."""

    device: str
    port: str
    peer_device: str
    peer_port: str


@dataclass(frozen=True)
class Fabric:
    """Devices and cables. ``hosts`` are the devices at the edge; everything else switches.

    Examples
    --------
    >>> fabric = Fabric.from_cables([("h0", "nic", "leaf", "1"), ("h1", "nic", "leaf", "2")], hosts={"h0", "h1"})
    >>> [(hop.device, hop.port) for hop in sorted(fabric.path_hops("h0", "h1"))]
    [('h0', 'nic'), ('leaf', '2')]
    """

    hosts: frozenset[str]
    hops: Mapping[str, tuple[Hop, ...]]
    _tiers: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def from_cables(cls, cables: Iterable[tuple[str, str, str, str]], hosts: Iterable[str]) -> Fabric:
        """A fabric of (device, port, device, port) pairs; a pair given twice or turned round is one cable."""
        seen: dict[str, set[Hop]] = {}
        for a_device, a_port, b_device, b_port in cables:
            seen.setdefault(a_device, set()).add(Hop(a_device, a_port, b_device, b_port))
            seen.setdefault(b_device, set()).add(Hop(b_device, b_port, a_device, a_port))
        return cls(frozenset(hosts), {device: tuple(sorted(hops)) for device, hops in sorted(seen.items())})

    def tiers(self) -> Mapping[str, int]:
        """Cables between each device and the nearest host: hosts 0, leaves 1, spines 2. A part without hosts is absent."""
        if not self._tiers:
            distance = {host: 0 for host in sorted(self.hosts) if host in self.hops}
            waiting = deque(distance)
            while waiting:
                device = waiting.popleft()
                for hop in self.hops[device]:
                    if hop.peer_device not in distance:
                        distance[hop.peer_device] = distance[device] + 1
                        waiting.append(hop.peer_device)
            self._tiers.update(distance)
        return self._tiers

    def role(self, hop: Hop) -> str:
        """Role of the port through which a hop leaves: hca, host, up, down or peer."""
        if hop.device in self.hosts:
            return "hca"
        if hop.peer_device in self.hosts:
            return "host"
        own, other = self.tiers().get(hop.device), self.tiers().get(hop.peer_device)
        if own is None or other is None or own == other:
            return "peer"
        return "up" if other > own else "down"

    def path_hops(self, source: str, target: str) -> set[Hop]:
        """All hops on shortest paths from one host to another; hosts do not forward. Empty if there is no path."""
        forward, backward = self._distances(source, target), self._distances(target, source)
        total = forward.get(target)
        if total is None:
            return set()
        return {
            hop
            for device, distance in forward.items()
            if device != target and (device == source or device not in self.hosts)
            for hop in self.hops.get(device, ())
            if distance + 1 + backward.get(hop.peer_device, total + 1) == total
        }

    def group_hops(self, members: Iterable[str]) -> set[Hop]:
        """Hops on shortest paths between any two of some hosts: where the traffic of their collectives can be."""
        names = sorted(set(members) & set(self.hops))
        found: set[Hop] = set()
        for source in names:
            for target in names:
                if source != target:
                    found |= self.path_hops(source, target)
        return found

    def _distances(self, start: str, other: str) -> dict[str, int]:
        distance = {start: 0} if start in self.hops else {}
        waiting = deque(distance)
        while waiting:
            device = waiting.popleft()
            if device in self.hosts and device != start:
                continue
            for hop in self.hops[device]:
                if hop.peer_device not in distance and (hop.peer_device not in self.hosts or hop.peer_device == other):
                    distance[hop.peer_device] = distance[device] + 1
                    waiting.append(hop.peer_device)
        return distance


def fabric_of(ports: pl.DataFrame) -> Fabric:
    """The fabric of a ``ports`` table: its cables, and as hosts the owners of hca ports and whatever a port names as its host."""
    cabled = ports.filter(pl.col("peer_device").is_not_null() & pl.col("peer_port").is_not_null())
    hosts = set(ports.filter(pl.col("role") == "hca")["device"].to_list()) | set(ports["host"].drop_nulls().to_list())
    return Fabric.from_cables(cabled.select("device", "port", "peer_device", "peer_port").iter_rows(), hosts)


def guid_key(text: str) -> str | None:
    """One spelling of a GUID or LID, or None if it is neither: digits without 0x and leading zeros.

    >>> guid_key("0x0c42a10300dcf8e2") == guid_key("c42a10300dcf8e2"), guid_key("lid 1719"), guid_key("h-1")
    (True, 'lid 1719', None)
    """
    plain = text.strip().lower()
    if re.fullmatch(r"lid \d+", plain):
        return plain
    # A host may be called h-1: without 0x only the full length is a GUID.
    match = re.fullmatch(r"0x([0-9a-f]{1,16})|(?:[shr]-)?([0-9a-f]{14,16})", plain)
    return None if match is None else f"guid {(match[1] or match[2]).lstrip('0') or '0'}"
