"""The GRAPH lines of a log: the tree of a host and its matrix of distances."""

from __future__ import annotations

import re

import polars as pl

from netlab.readers.nccl.messages import Message
from netlab.readers.nccl.state import Process
from netlab.schema import TABLES

__all__ = ["TopologyLines"]

_PATH = re.compile(r"([A-Z]+/[0-9A-Fa-f-]+) ?\((\d{1,9})/(\d{1,15}(?:\.\d{1,15})?)/([A-Z0-9]+)\)")
_KINDS = {"CPU": "cpu", "GPU": "gpu", "PCI": "pci", "NIC": "nic", "NET": "net", "NVS": "nvswitch"}


class TopologyLines:
    """Nodes and paths, each once per host."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[str | None, str], tuple[object, ...]] = {}
        self._paths: dict[tuple[str | None, str, str], tuple[object, ...]] = {}
        self._open: dict[int, list[tuple[int, str]]] = {}

    def add(self, process: Process, message: Message) -> None:
        """One line of the tree or of the matrix."""
        if message.kind == "paths":
            self._matrix(process, message.parts)
        elif message.kind == "topology":
            self._node(process, message.parts)
        else:
            self._open[id(process)] = []

    def _node(self, process: Process, parts: dict[str, str | None]) -> None:
        node, indent = parts["node"] or "", len(parts["indent"] or "")
        above = self._open.setdefault(id(process), [])
        while above and above[-1][0] >= indent and parts["link"] is not None:
            above.pop()
        if parts["link"] is None:
            above.clear()
        parent = above[-1][1] if above else None
        above.append((indent if parts["link"] is not None else -1, node))
        if parts["link"] in ("NVL", "SYS", "NET") and node.split("/")[0] in ("GPU", "CPU", "NVS") and (process.host, node) in self._nodes:
            return
        prefix, _, rest = node.partition("/")
        info = parts["info"]
        device = _hex(rest) if prefix == "NET" else None
        speed = _port_speed(info) if prefix == "NET" else None
        row = (
            process.host,
            node,
            _KINDS.get(prefix, prefix.lower()),
            parent,
            rest if prefix in ("GPU", "PCI", "NIC") else None,
            _hex(rest) if prefix == "CPU" else None,
            device,
            int(info) if prefix == "GPU" and info and re.fullmatch(r"\d{1,7}", info) else None,
            info if prefix in ("PCI", "CPU", "NET") else None,
            float(parts["speed"]) if parts["speed"] else None,
            speed,
            None,
        )
        self._nodes.setdefault((process.host, node), row)

    def _matrix(self, process: Process, parts: dict[str, str | None]) -> None:
        start = parts["node"] or ""
        for node, hops, bandwidth, path in _PATH.findall(parts["paths"] or ""):
            kind = _KINDS.get(node.split("/")[0], "")
            if start.startswith("GPU") and kind in ("gpu", "net") and node != start:
                self._paths.setdefault((process.host, start, node), (process.host, start, node, kind, path, int(hops), float(bandwidth)))

    def frames(self, source: str) -> dict[str, pl.DataFrame]:
        """``topology_nodes`` and ``topology_paths``. Two hosts in one log keep their nodes apart by the host's name."""
        several = len({host for host, _ in self._nodes} | {host for host, _, _ in self._paths}) > 1

        def name(host: object, node: object) -> object:
            return f"{host}:{node}" if several and node is not None else node

        nodes = [(r[0], name(r[0], r[1]), r[2], name(r[0], r[3]), *r[4:], source) for r in self._nodes.values()]
        paths = [(r[0], name(r[0], r[1]), name(r[0], r[2]), *r[3:], source) for r in self._paths.values()]
        return {
            table: TABLES[table].conform(pl.DataFrame(rows, schema=dict(TABLES[table].schema), orient="row"))
            for table, rows in (("topology_nodes", nodes), ("topology_paths", paths))
        }


def _hex(text: str) -> int | None:
    """The number behind the last dash."""
    last = text.rpartition("-")[2]
    return int(last, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,8}", last) else None


def _port_speed(info: str | None) -> float | None:
    """``coll/guid/port/bandwidth`` of a NET node: bandwidth in GB/s."""
    fields = (info or "").split("/")
    try:
        return float(fields[3]) * 8 if len(fields) >= 4 else None
    except ValueError:
        return None
