"""Rails: NICs of one position on every host that meet one leaf; read from the cabling, and cables that break the pattern."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from netlab.issues import Issue

__all__ = ["infer_rails"]

Port = tuple[str, str]
#: Share of hosts whose NIC of a position must meet the same leaf for the leaf to be that rail's.
_AGREE = 0.75
_FEWEST_HOSTS = 3


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts mlx5_2 before mlx5_10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def infer_rails(rows: Mapping[Port, dict[str, object]]) -> list[Issue]:
    """Fill in ``rail`` of NIC ports and the switch ports they hang on, where nobody gave one and the cabling shows rails.

    The k-th NIC of each host (in natural order) belongs to rail k if three quarters of at least three hosts have it on one leaf, and
    different k on different leaves. A NIC of that position on another leaf is MISCABLED: it is told and gets no rail.
    """
    nics: dict[str, list[Port]] = {}
    for port, row in rows.items():
        if row.get("role") == "hca" and row.get("peer_device") is not None:
            nics.setdefault(port[0], []).append(port)
    if len(nics) < _FEWEST_HOSTS or any(row.get("rail") is not None for row in rows.values()):
        return []
    ordered = {host: sorted(ports, key=lambda port: _natural(port[1])) for host, ports in nics.items()}
    widths = Counter(len(ports) for ports in ordered.values())
    width = widths.most_common(1)[0][0]
    hosts = {host: ports for host, ports in ordered.items() if len(ports) == width}
    if width < 2 or len(hosts) < _FEWEST_HOSTS:
        return []
    leaves: list[str] = []
    for position in range(width):
        met = Counter(str(rows[ports[position]]["peer_device"]) for ports in hosts.values())
        leaf, count = sorted(met.items(), key=lambda pair: (-pair[1], pair[0]))[0]
        if count < _AGREE * len(hosts):
            return []
        leaves.append(leaf)
    if len(set(leaves)) < width:
        return []
    issues = []
    for _, ports in sorted(hosts.items()):
        for position, port in enumerate(ports):
            row = rows[port]
            if row["peer_device"] == leaves[position]:
                row["rail"] = str(position)
                peer = rows.get((str(row["peer_device"]), str(row["peer_port"])))
                if peer is not None:
                    peer["rail"] = str(position)
                continue
            message = (
                f"{port[0]}/{port[1]} is cabled to {row['peer_device']}; elsewhere its position is on {leaves[position]}. "
                "Check the cable: its traffic leaves the rail."
            )
            issues.append(Issue(code="MISCABLED", message=message))
    return issues
