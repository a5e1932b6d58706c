"""InfiniBand cabling: ibnetdiscover (full and -p) and iblinkinfo --line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from netlab.readers.fabric.cables import CableReader, Cables, text_of
from netlab.readers.ib_names import VARIABLE_MAP, host_port, speed_gbps, switch_name

__all__ = ["VARIABLE_MAP", "IbNetDiscover", "IbNetDiscoverPairs"]

_NODE = re.compile(r'(Switch|Ca|Rt)\s*(\d+)\s+"([SHR]-[0-9a-fA-F]+)"\s*#\s*"([^"]*)"')
_GUID = r"(?:\([0-9a-fA-F]+\))?"
_LINK = re.compile(
    rf'\[(\d+)\]{_GUID}\s*"([SHR]-[0-9a-fA-F]+)"\[(\d+)\]{_GUID}\s*#(?:\s*lid \d+ lmc \d+)?\s*"([^"]*)"(?: lid \d+)?\s*(\d+x\w+)?'
)
_END = r"(CA|SW)\s+(\d+)\s+(\d+)\s+(0x[0-9a-fA-F]+)\s+"
_PAIR = re.compile(rf"{_END}(\d+x) (\S+)\s+-\s+{_END}\(\s*'([^']*)'\s+-\s+'([^']*)'\s*\)")


_SWITCH_LID = re.compile(r"port 0 lid (\d+)")
_PORT_IDS = re.compile(r'\[(\d+)\](?:\(([0-9a-fA-F]+)\))?\s*"[SHR]-[0-9a-fA-F]+"\[(\d+)\](?:\(([0-9a-fA-F]+)\))?')
#: A host's own LID stands before ``lmc``, that of the far end behind its name.
_LIDS = re.compile(r'# lid (\d+) lmc|" lid (\d+)')
_NO_LID = ("0", "65535")


def _host_ids(cables: Cables, ids: tuple[str | None, str | None, str | None], number: str, end: tuple[str, str]) -> None:
    """Node GUID (with the port's number), port GUID and LID of a host's port."""
    node, port, lid = ids
    if node:
        cables.node(node, end[0], end[1], number)
    if port:
        cables.node(port, end[0], end[1])
    if lid and lid not in _NO_LID:
        cables.node(f"lid {lid}", end[0], end[1])


class IbNetDiscover(CableReader):
    """``Switch41 "S-guid" # "name"`` blocks with ``[port]"H-guid"[port] # "host nic" lid n 4xHDR`` lines."""

    name = "ibnetdiscover"

    def sniff(self, head: bytes, path: Path) -> bool:
        """The topology's title, or nodes with their links."""
        return b"Topology file: generated on" in head or (b"switchguid=" in head and b"vendid=" in head)

    def gather(self, cables: Cables) -> None:
        """Cables of every switch; hosts list the same ones again."""
        text = text_of(cables.path)
        names = {match[3]: (match[1], match[4]) for match in _NODE.finditer(text)}
        node: tuple[str, str, str] | None = None
        for number, line in enumerate(text.splitlines(), 1):
            head = _NODE.match(line)
            if head:
                node = (head[1], head[3], head[4])
                lid = _SWITCH_LID.search(line)
                if node[1].startswith("S-"):
                    cables.node(node[1], switch_name(node[2], node[1]))
                    if lid:
                        cables.node(f"lid {lid[1]}", switch_name(node[2], node[1]))
            elif line.startswith("[") and node is not None:
                link = _LINK.match(line)
                if link is None:
                    cables.lost(number, f"{line[:40]!r} is no link")
                    continue
                peer_name = names.get(link[2], ("", link[4]))[1] or link[4]
                a, a_kind = self._end(node[1], node[2], link[1])
                b, b_kind = self._end(link[2], peer_name if link[2].startswith("S-") else link[4], link[3])
                cables.add(a, b, speed_gbps=speed_gbps(link[5] or ""), a_kind=a_kind, b_kind=b_kind)
                own, far = _PORT_IDS.match(line), _LIDS.search(line)
                if not node[1].startswith("S-"):
                    _host_ids(cables, (node[1], own[2] if own else None, far[1] if far else None), link[1], a)
                elif link[2].startswith("H-"):
                    _host_ids(cables, (link[2], own[4] if own else None, far[1] or far[2] if far else None), link[3], b)

    @staticmethod
    def _end(key: str, description: str, port: str) -> tuple[tuple[str, str], str]:
        if key.startswith("S-"):
            return (switch_name(description, key), port), "switch"
        return host_port(description, key, port), "host"


class IbNetDiscoverPairs(CableReader):
    """``ibnetdiscover -p``: ``CA lid port guid 4x EDR - SW lid port guid ( 'host nic' - 'switch' )``; down ports have no peer."""

    name = "ibnetdiscover_pairs"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A line of a pair."""
        return any(_PAIR.match(line) for line in head[:8192].decode("utf-8", "replace").splitlines())

    def gather(self, cables: Cables) -> None:
        """Every pair."""
        for match in self._pairs(text_of(cables.path)):
            ends = [self._end(match[1], match[4], match[11], match[3]), self._end(match[7], match[10], match[12], match[9])]
            speed = speed_gbps(match[5] + match[6])
            for (end, kind), lid, guid, number in zip(ends, (match[2], match[8]), (match[4], match[10]), (match[3], match[9]), strict=True):
                if kind == "switch":
                    cables.node(f"lid {lid}", end[0])
                    cables.node(guid, end[0])
                else:
                    _host_ids(cables, (guid, None, lid), number, end)
            cables.add(ends[0][0], ends[1][0], speed_gbps=speed, a_kind=ends[0][1], b_kind=ends[1][1])

    @staticmethod
    def _pairs(text: str) -> Iterator[re.Match[str]]:
        return (match for line in text.splitlines() if (match := _PAIR.match(line)))

    @staticmethod
    def _end(kind: str, guid: str, description: str, port: str) -> tuple[tuple[str, str], str]:
        if kind == "SW":
            return (switch_name(description, guid), port), "switch"
        return host_port(description, guid, port), "host"
