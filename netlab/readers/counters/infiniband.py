"""InfiniBand diagnostics: perfquery, ibqueryerrors, ibdiagnet2.db_csv, ibswinfo."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from netlab.readers.counters.files import text_of
from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.meaning import Meaning, NameTable
from netlab.readers.counters.names import INFINIBAND
from netlab.readers.counters.names.infiniband import VARIABLE_MAP
from netlab.readers.ib_names import host_port, is_switch, switch_name
from netlab.topology import guid_key

__all__ = ["VARIABLE_MAP", "IbDiagnet", "IbQueryErrors", "IbSwInfo", "PerfQuery"]

_BLOCK = re.compile(r"#\s*(?:Port (?:extended )?counters|PortRcvErrorDetails counters|[\w ]+ counters): Lid (\d+) port (\d+)")
_DOTTED = re.compile(r"(\w+):\.{2,}(\S+)")
_ERRORS = re.compile(r'Errors for (0x[0-9a-fA-F]+) "([^"]*)"')
#: Signalling rate of all lanes to data rate, Gbit/s: 8b/10b up to QDR, 64b/66b for FDR10 to EDR, RS-FEC on top from HDR on.
_DATA_RATES = {10.0: 8.0, 20.0: 16.0, 40.0: 32.0, 41.25: 40.0, 56.25: 56.0, 103.125: 100.0, 212.5: 200.0, 425.0: 400.0, 850.0: 800.0}
_GUID_PORT = re.compile(r"\s*GUID (0x[0-9a-fA-F]+) port (\w+):(.*)")
_LINK_INFO = re.compile(r"\s*Link info:\s+(?:\d+\s+)?(\d+)\[[^\]]*\]\s+==\(\s*(\d+)X\s+([\d.]+) Gbps Active")
_ITEM = re.compile(r"\[(\w+) == (\d+)")


class PerfQuery(GatheringReader):
    """``Name:.....value`` in one block per port. The switch or host is named by its LID; a GUID in the file's name is not believed."""

    name = "perfquery"
    tables = (INFINIBAND,)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A block header and dotted lines."""
        start = head[:4096].decode("utf-8", "replace")
        return _BLOCK.search(start) is not None and _DOTTED.search(start) is not None

    def gather(self, found: Gathered) -> None:
        """Counters of every block."""
        device, port = None, ""
        for number, line in enumerate(text_of(found.path).splitlines(), 1):
            block, item = _BLOCK.match(line), _DOTTED.fullmatch(line.strip())
            if block:
                device, port = f"lid {block[1]}", block[2]
            elif item and item[1] not in ("PortSelect", "CounterSelect", "CounterSelect2"):
                found.add(port, item[1], item[2], device=device)
            elif line.strip() and not item:
                found.lost(number, f"{line[:40]!r} is no counter")


class IbQueryErrors(GatheringReader):
    """``GUID 0x... port N: [Name == value]``: only counters above their threshold are printed, so what is absent is small, not missing."""

    name = "ibqueryerrors"
    tables = (INFINIBAND,)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A line of a GUID, a port and bracketed counters."""
        return any(_GUID_PORT.fullmatch(line) and _ITEM.search(line) for line in head[:8192].decode("utf-8", "replace").splitlines())

    def gather(self, found: Gathered) -> None:
        """Counters of single ports; the sums that switches print as port ALL would count twice."""
        node = ("", "")
        for line in text_of(found.path).splitlines():
            errors, item = _ERRORS.match(line), _GUID_PORT.fullmatch(line)
            if errors:
                node = (errors[1], errors[2])
            elif item and item[2] != "ALL":
                device, port = _place(node[1], item[1], item[2]) if guid_key(node[0]) == guid_key(item[1]) else (item[1], item[2])
                for name, value in _ITEM.findall(item[3]):
                    found.add(port, name, value, device=device)
            elif link := _LINK_INFO.match(line):
                found.fact(_place(node[1], node[0], link[1])[1], device=_place(node[1], node[0], link[1])[0], speed_gbps=_lanes(link))


def _place(description: str, guid: str, port: str, node_type: str = "") -> tuple[str, str]:
    """Device and port of a node: a host's port carries the name of its NIC, or several NICs of a host would be one."""
    switch = {"1": False, "CA": False, "2": True, "SW": True}.get(node_type, is_switch(description))
    if switch is False:
        return host_port(description, guid, port)
    return switch_name(description, guid), port


def _lanes(link: re.Match[str]) -> float:
    """Gbit/s of data of ``4X 25.78125 Gbps``."""
    rate = float(link[2]) * float(link[3])
    return _DATA_RATES[min(_DATA_RATES, key=lambda known: abs(known - rate))]


class IbDiagnet(GatheringReader):
    """Sections ``START_X`` / header / rows / ``END_X`` of ibdiagnet2.db_csv. PM_DELTA holds differences of its own interval: not read."""

    name = "ibdiagnet_csv"
    tables = (INFINIBAND, NameTable({"Temperature": Meaning("temperature_c", kind="gauge", overflow=None)}))
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A section mark and its header."""
        return re.search(rb"^START_(?:NODES|PORTS|LINKS|PM_INFO|PM_DELTA|CABLE_INFO)\r?$", head[:65_536], re.M) is not None

    def gather(self, found: Gathered) -> None:
        """PM_INFO and cable temperatures, with the names of NODES."""
        sections = _sections(text_of(found.path))
        names = {_key(row, "nodeguid"): (_key(row, "nodedesc").strip('"'), _key(row, "nodetype")) for row in sections.get("NODES", [])}
        for row in sections.get("PM_INFO", []):
            device, port = _owner(row, names)
            for name, value in row.items():
                if name.lower() not in ("nodeguid", "portguid", "portnumber", "portnum"):
                    found.add(port, name, None if value == "-1" else value, device=device)
        for row in sections.get("CABLE_INFO", []):
            device, port = _owner(row, names)
            if _key(row, "temperature"):
                found.add(port, "Temperature", _key(row, "temperature").rstrip("C").strip(), device=device)


def _key(row: dict[str, str], name: str) -> str:
    """A cell by its header, whose case varies between versions; empty if there is none."""
    return next((value for header, value in row.items() if header.lower() == name), "")


def _owner(row: dict[str, str], names: dict[str, tuple[str, str]]) -> tuple[str, str]:
    guid = _key(row, "nodeguid")
    description, kind = names.get(guid, ("", ""))
    port = _key(row, "portnumber") or _key(row, "portnum")
    return _place(description, guid, port, kind) if description else (guid, port)


def _sections(text: str) -> dict[str, list[dict[str, str]]]:
    sections: dict[str, list[dict[str, str]]] = {}
    name, header = None, None
    for line in text.splitlines():
        if line.startswith("START_"):
            name, header = line[6:].strip(), None
        elif line.startswith("END_"):
            name = None
        elif name is not None and line.strip():
            cells = [cell.strip() for cell in next(csv.reader([line]))]
            if header is None:
                header = cells
            else:
                sections.setdefault(name, []).append(dict(zip(header, cells, strict=False)))
    return sections


class IbSwInfo(GatheringReader):
    """ibswinfo of one switch: its temperatures. Its GUID is its name."""

    name = "ibswinfo"
    tables = (
        NameTable(
            {
                "temperature (C)": Meaning("temperature_c", kind="gauge", overflow=None),
                "max temp (C)": Meaning("temperature_max_c", kind="gauge", overflow=None),
            }
        ),
    )
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Its table of a switch."""
        return b"PSID" in head and b"uptime (d-h:m:s)" in head

    def gather(self, found: Gathered) -> None:
        """Temperatures."""
        pairs = dict(re.findall(r"^([\w# ()]+?)\s*\| (.*)$", text_of(found.path), re.M))
        found.device = pairs.get("GUID", "").strip() or None
        for name in ("temperature (C)", "max temp (C)"):
            if name in pairs:
                found.add("", name, pairs[name].strip())
