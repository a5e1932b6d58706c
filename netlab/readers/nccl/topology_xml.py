"""Readers of NCCL's XML files: the topology of a host (dumped, or supplied by a cloud image) and the graphs of its search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl

from netlab.errors import ParseError
from netlab.readers.base import Parsed, Sink
from netlab.readers.streams import read_all
from netlab.schema import TABLES

__all__ = ["GraphXmlReader", "TopologyXmlReader", "pcie_gb_per_s"]

_LIMIT_BYTES = 16 << 20
_DEPTH_LIMIT = 64
_GPU_CLASSES = ("0x0302", "0x0300", "0x0380", "0x1200")
_NIC_CLASSES = ("0x0207", "0x0200")
#: GB/s of one link in one direction, by GPU generation (src/graph/topo.h); xGMI links are not told apart there.
_NVLINK = {60: 18.0, 70: 20.0, 80: 20.0, 86: 12.0, 90: 20.6, 100: 40.1}


def pcie_gb_per_s(speed: str | None, width: str | None) -> float | None:
    """Bandwidth of a PCIe link as NCCL counts it: width x (GT/s x 7.5) / 80 (src/graph/topo.cc).

    >>> pcie_gb_per_s("32.0 GT/s PCIe", "16"), pcie_gb_per_s("8 GT/s", "16"), pcie_gb_per_s("Unknown", "16")
    (48.0, 12.0, None)
    """
    found = re.match(r"\s*([\d.]+) GT/s", speed or "")
    if not found or not (width or "").isdigit() or not int(width or 0):
        return None
    return int(width or 0) * float(found[1]) * 7.5 / 80


@dataclass(eq=False)
class _Node:
    name: str
    kind: str
    parent: _Node | None
    row: dict[str, Any]
    nvlinks: list[tuple[str, int, str]] = field(default_factory=list)

    def up(self) -> list[_Node]:
        """This node and all above it."""
        chain, node = [], self
        while True:
            chain.append(node)
            if node.parent is None:
                return chain
            node = node.parent


class _XmlReader:
    """What both files have in common."""

    root = ""

    def sniff(self, head: bytes, path: Path) -> bool:
        """XML whose first element is the right one."""
        text = re.sub(rb"<!--.*?-->|<\?.*?\?>", b"", head.lstrip(b"\xef\xbb\xbf \t\r\n"), flags=re.DOTALL).lstrip()
        return re.match(rb"<%s[\s>]" % self.root.encode(), text) is not None

    def _parse(self, path: Path, source: str) -> ElementTree.Element:
        data, _ = read_all(path, _LIMIT_BYTES + 1)
        if len(data) > _LIMIT_BYTES or b"<!ENTITY" in data or b"<!DOCTYPE" in data:
            raise ParseError(f"TOO_LARGE: {source} is no NCCL topology file (too large, or with entities); it was refused.")
        try:
            return ElementTree.fromstring(data)
        except ElementTree.ParseError as error:
            raise ParseError(f"MALFORMED_XML: {source} is damaged ({error}); dump it again with NCCL_TOPO_DUMP_FILE.") from None


class TopologyXmlReader(_XmlReader):
    """``<system>``. Tables: topology_nodes, topology_paths. The file names no host."""

    name = "nccl_topology"
    root = "system"

    def sniff(self, head: bytes, path: Path) -> bool:
        """``<system>`` with a CPU in it."""
        return super().sniff(head, path) and b"<cpu" in head

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read the tree and work out the distances of GPUs and NICs."""
        nodes: dict[str, _Node] = {}
        for element in self._parse(path, source):
            _walk(element, None, nodes, 0)
        if not nodes:
            raise ParseError(f"NO_RECORDS: {source} names no part of a host.")
        rows = [
            {**node.row, "node": node.name, "kind": node.kind, "parent": node.parent.name if node.parent else None, "source": source}
            for node in nodes.values()
        ]
        paths = [{**row, "source": source} for row in _paths(list(nodes.values()))]
        for name, found in (("topology_nodes", rows), ("topology_paths", paths)):
            if found:
                table = TABLES[name]
                sink.write(name, table.conform(pl.DataFrame(found, schema=dict(table.schema))))
        return Parsed(reader=self.name, rows=len(rows))


def _int(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None


def _walk(element: ElementTree.Element, parent: _Node | None, nodes: dict[str, _Node], depth: int) -> None:
    if depth > _DEPTH_LIMIT:
        return
    get, node = element.get, None
    if element.tag == "cpu":
        node = _Node(f"cpu/{get('numaid', len(nodes))}", "cpu", None, {"numa": _int(get("numaid")), "name": get("vendor")})
    elif element.tag == "pci":
        bus = get("busid", "")
        code = (get("class") or "")[:6]
        kind = "gpu" if code in _GPU_CLASSES else "nic" if code in _NIC_CLASSES else "nvswitch" if code == "0x0680" else "pci"
        link = pcie_gb_per_s(get("link_speed"), get("link_width"))
        node = _Node(f"{kind}/{bus}", kind, parent, {"bus_id": bus, "link_gb_per_s": link, "name": get("device")})
    elif element.tag == "gpu" and parent is not None:
        parent.kind = "gpu"
        parent.row |= {
            "device": _int(get("dev")),
            "rank": _int(get("rank")),
            "gdr": get("gdr") == "1" if get("gdr") else None,
            "sm": _int(get("sm")),
        }
        for peer in element:
            if peer.tag in ("nvlink", "xgmi"):
                parent.nvlinks.append((peer.get("target", ""), _int(peer.get("count")) or 1, peer.get("tclass", "")))
    elif element.tag == "net" and parent is not None:
        speed = _int(get("speed"))
        name = f"net/{get('dev') or get('name') or len(nodes)}"
        row = {
            "bus_id": parent.row.get("bus_id"), "device": _int(get("dev")), "name": get("name"),
            "speed_gbps": speed / 1000 if speed else None,
            "gdr": get("gdr") == "1" if get("gdr") else None, "link_gb_per_s": speed / 8000 if speed else None,
        }  # fmt: skip
        nodes[name] = _Node(name, "net", parent, row)
        return
    if node is not None and node.name not in nodes:
        nodes[node.name] = node
    for child in element:
        _walk(child, node if node is not None else parent, nodes, depth + 1)


def _paths(nodes: list[_Node]) -> Iterator[dict[str, Any]]:
    gpus = [node for node in nodes if node.kind == "gpu"]
    nets = [node for node in nodes if node.kind == "net"] or [node for node in nodes if node.kind == "nic"]
    for gpu in gpus:
        for other in [node for node in gpus if node is not gpu] + nets:
            path, hops, bandwidth = _nvlink(gpu, other) or _through_pcie(gpu, other)
            kind = other.kind
            yield {
                "from_node": gpu.name,
                "to_node": other.name,
                "to_kind": kind,
                "path": path,
                "hops": hops,
                "bandwidth_gb_per_s": bandwidth,
            }


def _nvlink(a: _Node, b: _Node) -> tuple[str, int, float | None] | None:
    if b.kind != "gpu" or not a.nvlinks or not b.nvlinks:
        return None
    sm = a.row.get("sm")
    one = _NVLINK.get(max((known for known in _NVLINK if known <= (sm or 0)), default=0))
    direct = sum(count for target, count, _ in a.nvlinks if target.lower() == str(b.row.get("bus_id")).lower())
    if direct:
        return "NVL", 1, direct * one if one else None
    switches_a = sum(count for _, count, kind in a.nvlinks if kind.startswith("0x0680"))
    switches_b = sum(count for _, count, kind in b.nvlinks if kind.startswith("0x0680"))
    return ("NVL", 2, min(switches_a, switches_b) * one if one else None) if switches_a and switches_b else None


def _through_pcie(a: _Node, b: _Node) -> tuple[str, int, float | None]:
    """PIX: one switch; PXB: several; PHB: over the CPU; SYS: over two CPUs (src/graph/paths.cc)."""
    up_a, up_b = a.up(), b.up()
    shared = next((node for node in up_a if node in up_b), None)
    below_a = up_a[: up_a.index(shared)] if shared is not None else up_a
    below_b = up_b[: up_b.index(shared)] if shared is not None else up_b
    links = [node.row.get("link_gb_per_s") for node in (*below_a, *below_b)]
    bandwidth = min((link for link in links if link), default=None)
    hops = len(below_a) + len(below_b)
    if shared is None:
        return ("SYS" if up_a[-1].kind == up_b[-1].kind == "cpu" else "DIS"), hops + 1, bandwidth
    if shared.kind == "cpu":
        return "PHB", hops, bandwidth
    switches = [node for node in (*below_a, shared, *below_b) if node.kind == "pci"]
    return ("PIX" if len(switches) <= 1 else "PXB"), hops, bandwidth


_PATTERNS = {"0": "ring", "1": "tree", "2": "collnet", "3": "nvls"}


class GraphXmlReader(_XmlReader):
    """``<graphs>``. Tables: communicator_edges, nccl_events (pattern)."""

    name = "nccl_graph"
    root = "graphs"

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read what the search found: speeds, and the order of GPUs in each channel."""
        edges, events = [], []
        for number, graph in enumerate(self._parse(path, source).iter("graph"), start=1):
            pattern = _PATTERNS.get(graph.get("id", ""), "ring")
            speeds = f"channels={graph.get('nchannels')} intra={graph.get('speedintra')} inter={graph.get('speedinter')}"
            value = f"{speeds} type={graph.get('typeintra')}/{graph.get('typeinter')}"
            events.append(
                {
                    "level": "INFO",
                    "code": "pattern",
                    "key": graph.get("pattern"),
                    "value": value,
                    "message": f"graph {graph.get('id')}: {value}",
                    "count": 1,
                    "source": source,
                    "line": number,
                }
            )
            for channel, element in enumerate(graph.iter("channel")):
                order = [device for gpu in element.iter("gpu") if (device := _int(gpu.get("dev"))) is not None]
                closed = element.find("net") is None and len(order) > 2
                pairs = zip(order, order[1:] + (order[:1] if closed else []), strict=False)
                edges += [
                    {
                        "pattern": pattern,
                        "channel": channel,
                        "src_rank": a,
                        "dst_rank": b,
                        "basis": "graph",
                        "truncated": False,
                        "source": source,
                        "line": number,
                    }
                    for a, b in pairs
                ]
        if not events:
            raise ParseError(f"NO_RECORDS: {source} holds no graph.")
        for name, found in (("communicator_edges", edges), ("nccl_events", events)):
            if found:
                table = TABLES[name]
                sink.write(name, table.conform(pl.DataFrame(found, schema=dict(table.schema))))
        return Parsed(reader=self.name, rows=len(events) + len(edges))
