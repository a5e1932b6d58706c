"""Very wide CSV: a column for each port, which says in its header whose counter it holds."""

from __future__ import annotations

import re
from typing import NamedTuple

from netlab.readers.counters.meaning import first_meaning
from netlab.readers.counters.names import ALL_TABLES

__all__ = ["Owned", "owned_column"]

_JOINTS = re.compile(r"[ /:.|]+")
#: Letters and a number: leaf1, Ethernet0, swp1s0, mlx5_0. What follows a joint and does not begin with a letter is part of a port's name.
_PORT_BEGINS = re.compile(r"[A-Za-z]")
#: ``bytes per 5 minutes``, ``errors last 24h``, ``bytes/s``: a rate or a span of time, and nobody's port.
_SPAN = re.compile(r"(?i)(per|last|in|every)\b|\d+ ?(ms|us|ns|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)$")


class Owned(NamedTuple):
    """Device (None: the file's), port and counter of a column."""

    device: str | None
    port: str
    counter: str


def owned_column(cell: str) -> Owned | None:
    """Whose counter a column holds by its header, or None if it does not say both.

    >>> owned_column("leaf1/Ethernet1/1 ifHCInOctets"), owned_column("Ethernet0:rx_bytes")
    (Owned(device='leaf1', port='Ethernet1/1', counter='ifHCInOctets'), Owned(device=None, port='Ethernet0', counter='rx_bytes'))
    >>> owned_column("ifHCInOctets leaf1 swp1"), owned_column("rx_bytes"), owned_column("total bytes"), owned_column("rx_bytes per 5 min")
    (Owned(device='leaf1', port='swp1', counter='ifHCInOctets'), None, None, None)

    A port has a number; words such as ``total`` or ``disk read`` are no port.
    """
    for joint in (*reversed(list(_JOINTS.finditer(cell))), *_JOINTS.finditer(cell)):
        before, after = cell[: joint.start()].strip(), cell[joint.end() :].strip()
        for owner, counter in ((before, after), (after, before)):
            if first_meaning(ALL_TABLES, counter) is not None and first_meaning(ALL_TABLES, owner) is None:
                device, port = _device_and_port(owner)
                if re.search(r"\d", port) and not _SPAN.match(owner):
                    return Owned(device, port, counter)
    return None


def _device_and_port(owner: str) -> tuple[str | None, str]:
    """``leaf1/Ethernet1/1`` parted where a second name begins; ``Ethernet1/1`` is a port alone."""
    for joint in _JOINTS.finditer(owner):
        rest = owner[joint.end() :]
        if _PORT_BEGINS.match(rest):
            return owner[: joint.start()], rest
    return None, owner
