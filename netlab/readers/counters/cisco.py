"""Cisco: NX-OS JSON (``| json``, NX-API) and CLI tables, IOS-XR interface statistics as XML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from netlab.errors import ParseError
from netlab.readers.counters.files import decoded_json, text_of
from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.grids import prompt_device, spaced_grids
from netlab.readers.counters.meaning import Meaning, NameTable, both
from netlab.readers.counters.names import NXOS
from netlab.readers.counters.xml import elements, first_text

__all__ = ["VARIABLE_MAP", "IosXrXml", "NxosJson", "NxosTables"]

#: IOS-XR full-interface-stats.
VARIABLE_MAP: dict[str, Meaning] = {
    **both("bytes-received", "bytes-sent", "bytes"),
    **both("packets-received", "packets-sent", "packets"),
    **both("multicast-packets-received", "multicast-packets-sent", "multicast_packets"),
    **both("broadcast-packets-received", "broadcast-packets-sent", "broadcast_packets"),
    **both("input-drops", "output-drops", "discards"),
    **both("input-errors", "output-errors", "errors"),
    "crc-errors": Meaning("fcs_errors", "rx"),
    "carrier-transitions": Meaning("carrier_changes"),
}


class NxosJson(GatheringReader):
    """``TABLE_interface.ROW_interface``: a list, or a bare object for one row. A counter that is zero may be absent: unknown, not zero."""

    name = "cisco_nxos_json"
    tables = (NXOS,)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """The table of interfaces."""
        return head.lstrip()[:1] == b"{" and b'"TABLE_interface"' in head and b'"ROW_interface"' in head

    def gather(self, found: Gathered) -> None:
        """Counters of every interface. Numbers are text."""
        for row in _rows(decoded_json(found.path, found.source)):
            port = str(row.get("interface", ""))
            if not port:
                continue
            for name, value in row.items():
                counter = NXOS.find(name)
                if counter is not None and re.fullmatch(r"\d+", str(value)):
                    found.add(port, name, value)
        if not found.rows:
            raise ParseError(f"NO_SERIES: {found.source} has no interface counters; export show interface | json.")


def _rows(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, list):
        for part in document:
            yield from _rows(part)
    elif isinstance(document, dict):
        for key, value in document.items():
            if key == "ROW_interface":
                yield from value if isinstance(value, list) else [value]
            elif isinstance(value, (dict, list)):
                yield from _rows(value)


class NxosTables(GatheringReader):
    """``show interface counters`` (also errors and table). ``--`` is not counted; the rates of ``table`` are averages of its interval."""

    name = "cisco_nxos_cli"
    tables = (NXOS,)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Its headers."""
        return re.search(rb"^Port\s+(?:Align-Err|InOctets|OutOctets|Giants|Single-Col|Description\s+Intvl)\b", head, re.M) is not None

    def gather(self, found: Gathered) -> None:
        """All tables of the file."""
        text = text_of(found.path)
        found.device = prompt_device(text)
        for grid in spaced_grids(text, "Port"):
            if "Intvl" in " ".join(grid.headers):
                for _, cells in grid.rows:
                    if len(cells) >= 7:
                        found.add(cells[0], "Rx Mbps", cells[-4])
                        found.add(cells[0], "Tx Mbps", cells[-2])
                continue
            for number, cells in grid.rows:
                if len(cells) != len(grid.headers):
                    found.lost(number, f"it has {len(cells)} cells under {len(grid.headers)} headers")
                    continue
                for name, value in zip(grid.headers[1:], cells[1:], strict=True):
                    found.add(cells[0], name, value)


class IosXrXml(GatheringReader):
    """``Cisco-IOS-XR-pfi-im-cmd-oper`` interfaces: full-interface-stats of each."""

    name = "cisco_iosxr_xml"
    tables = (NameTable(VARIABLE_MAP),)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """The namespace of the model."""
        return b"Cisco-IOS-XR-pfi-im-cmd-oper" in head and b"<interface" in head

    def gather(self, found: Gathered) -> None:
        """Counters and bandwidth of every interface."""
        for item in elements(found.path, found.source, "interface"):
            port = first_text(item, "interface-name")
            if port is None:
                continue
            for statistics in item.iter():
                name = statistics.tag.rpartition("}")[2]
                if name in VARIABLE_MAP and statistics.text and statistics.text.strip().isdigit():
                    found.add(port, name, statistics.text.strip())
            bandwidth = first_text(item, "bandwidth")
            if bandwidth and bandwidth.isdigit():
                found.fact(port, speed_gbps=int(bandwidth) / 1e6)
