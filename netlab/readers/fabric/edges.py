"""Edge lists of other tools: Batfish layer-1 topology, UFM NDT, NetworkX node-link JSON."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

from netlab.errors import ParseError
from netlab.readers.fabric.cables import CableReader, Cables, text_of

__all__ = ["BatfishLayer1", "NodeLinkJson", "UfmNdt"]


def _json(cables: Cables) -> Any:
    try:
        return json.loads(text_of(cables.path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ParseError(f"TRUNCATED_JSON: {cables.source} is no complete JSON ({error}); export it again.") from error


class BatfishLayer1(CableReader):
    """``{"edges": [{"node1": {"hostname", "interfaceName"}, "node2": {...}}]}``; directed pairs of one cable count once."""

    name = "batfish_layer1"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Edges of interfaces."""
        return head.lstrip()[:1] == b"{" and b'"node1"' in head and b'"interfaceName"' in head

    def gather(self, cables: Cables) -> None:
        """Every edge."""
        for edge in _json(cables).get("edges", []):
            try:
                ends = [(str(edge[node]["hostname"]), str(edge[node]["interfaceName"])) for node in ("node1", "node2")]
            except (KeyError, TypeError):
                cables.lost(0, "an edge lacks a hostname or an interface")
                continue
            cables.add(ends[0], ends[1])


class UfmNdt(CableReader):
    """``#StartDevice,StartPort,EndDevice,EndPort,LinkType``; host ports read ``<host> <nic>``, switch ports ``Port <n>``."""

    name = "ufm_ndt"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Its header."""
        line = head[:512].split(b"\n", 1)[0].lower()
        return b"startdevice" in line and b"enddevice" in line

    def gather(self, cables: Cables) -> None:
        """Every row."""
        for number, cells in enumerate(csv.reader(text_of(cables.path).splitlines()), 1):
            if not cells or cells[0].startswith("#"):
                continue
            if len(cells) < 4:
                cables.lost(number, f"it has {len(cells)} of 4 columns")
                continue
            start, start_port, end, end_port = (cell.strip() for cell in cells[:4])
            (a, a_kind), (b, b_kind) = self._end(start, start_port), self._end(end, end_port)
            cables.add(a, b, a_kind=a_kind, b_kind=b_kind)

    @staticmethod
    def _end(device: str, port: str) -> tuple[tuple[str, str], str]:
        switch = re.fullmatch(r"(?i)(?:blade \S+ )?port (\S+)", port)
        if switch:
            return (device, switch[1]), "switch"
        return (device, port.removeprefix(device).strip() or port), "host"


class NodeLinkJson(CableReader):
    """NetworkX node-link data: ``nodes`` with ids and ``edges`` (or ``links``) whose attributes name the ports of both ends."""

    name = "node_link_json"
    _PORTS = (("a_port", "b_port"), ("source_port", "target_port"), ("src_port", "dst_port"), ("port1", "port2"))

    def sniff(self, head: bytes, path: Path) -> bool:
        """Its keys."""
        start = head[:65_536]
        edges = b'"edges"' in start or b'"links"' in start
        return start.lstrip()[:1] == b"{" and b'"directed"' in start and b'"multigraph"' in start and edges | (b'"nodes"' in start)

    def gather(self, cables: Cables) -> None:
        """Every edge that names its ports."""
        document = _json(cables)
        kinds = {str(node.get("id")): node.get("kind") or node.get("type") for node in document.get("nodes", [])}
        for edge in document.get("edges", document.get("links", [])):
            named = next(((edge[a], edge[b]) for a, b in self._PORTS if a in edge and b in edge), None)
            if named is None or "source" not in edge or "target" not in edge:
                cables.lost(0, "an edge does not name its ports (source_port, target_port)")
                continue
            a, b = str(edge["source"]), str(edge["target"])
            speed = edge.get("speed_gbps")
            values = {name: None if edge.get(name) is None else str(edge[name]) for name in ("rail", "plane", "role")}
            known = {
                name: kinds.get(device) if kinds.get(device) in ("host", "switch") else None
                for name, device in (("a_kind", a), ("b_kind", b))
            }
            cables.add((a, str(named[0])), (b, str(named[1])), speed_gbps=None if speed is None else float(speed), **values, **known)
