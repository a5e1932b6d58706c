"""NVIDIA Cumulus Linux: tables of ``nv show interface``, and its JSON form (link.stats).

Counters reach the kernel every 2 s only; polls faster than that repeat values. The text form prints rounded numbers with units (9.73 MB):
such a number is a gauge, never a counter to take differences of.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from netlab.readers.counters.files import decoded_json, text_of
from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.grids import dashed_grids, prompt_device
from netlab.readers.counters.meaning import Meaning, NameTable, both
from netlab.readers.counters.names import OPENCONFIG

__all__ = ["VARIABLE_MAP", "NvueJson", "NvueTables"]

#: Words of the tables; "Total Packets" and the like get their direction from the column.
VARIABLE_MAP: dict[str, Meaning] = {
    **both("RX_OK", "TX_OK", "packets"),
    **both("RX_ERR", "TX_ERR", "errors"),
    **both("RX_DRP", "TX_DRP", "discards"),
    **both("RX_OVR", "TX_OVR", "overruns"),
    "Total Octets": Meaning("bytes"),
    "Total Packets": Meaning("packets"),
    "Unicast Packets": Meaning("unicast_packets"),
    "Multicast Packets": Meaning("multicast_packets"),
    "Broadcast Packets": Meaning("broadcast_packets"),
    "Total Drops": Meaning("discards"),
    "Total Errors": Meaning("errors"),
    "FCS Errors": Meaning("fcs_errors", "rx"),
    "Symbol Errors": Meaning("symbol_errors", "none"),
    "ACL Drops": Meaning("acl_drops"),
    "Buffer Drops": Meaning("buffer_drops"),
    "Non-Queue Drops": Meaning("non_queue_drops"),
    "Queue Drops": Meaning("queue_drops"),
    "rx-frames": Meaning("packets", "rx"),
    "rx-buffer-discards": Meaning("buffer_discard_bytes", "rx"),
    "rx-shared-buffer-discards": Meaning("shared_buffer_discard_bytes", "rx"),
}
_UNITS = {"Bytes": 1, "Byte": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_HUMAN = re.compile(r"([\d.]+) (Bytes?|[KMGT]B)")
_STAT = re.compile(r"^\s+((?:in|out)-(?:bytes|drops|errors|pkts)|carrier-transitions)\s+(\S+(?: \w+)?)", re.M)


class NvueTables(GatheringReader):
    """``nv show interface --view counters``, ``nv show interface <if> counters`` and the link block of ``nv show interface <if>``."""

    name = "cumulus_nvue_text"
    tables = (NameTable(VARIABLE_MAP), OPENCONFIG)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Its tables."""
        view = re.search(rb"^Interface +MTU +RX_OK +RX_ERR", head, re.M)
        detail = (b"Detailed Counters" in head and b"Ingress Buffer Statistics" in head) or re.search(
            rb"^ +Counter +Receive +Transmit", head, re.M
        )
        stats = re.search(rb"^ +carrier-transitions +\d", head, re.M) and re.search(rb"^ +in-bytes +", head, re.M)
        return bool(view or detail or stats)

    def gather(self, found: Gathered) -> None:
        """Counters by interface; where the text names none, the file's name may (``nv_show_interface_swp1_...``)."""
        text = text_of(found.path)
        found.device = prompt_device(text)
        own = re.search(r"interface[ _]([a-z]+\d[\w./]*?)(?:[ _.]|$)", text[:200] + " " + found.path.name)
        port = own[1] if own else ""
        for grid in dashed_grids(text):
            for _, cells in grid.rows:
                named = dict(zip(grid.headers, cells, strict=True))
                if grid.headers[0] == "Interface":
                    for name in list(VARIABLE_MAP)[:8]:
                        found.add(cells[0], name, named.get(name))
                elif grid.headers[0] == "Counter":
                    for name, direction in (("Receive", "rx"), ("Transmit", "tx")):
                        found.add(port, cells[0], named.get(name), direction="none" if cells[0] == "Symbol Errors" else direction)
                elif grid.headers[0] == "priority-group":
                    for name in grid.headers[1:]:
                        found.add(port, name, _exact(named[name]), queue=f"PG{cells[0]}")
        for name, value in _STAT.findall(text):
            human = _HUMAN.fullmatch(value)
            if human and human[2] not in ("Bytes", "Byte"):
                found.add(port, f"{name} (rounded)", float(human[1]) * _UNITS[human[2]])
            else:
                found.add(port, name, _exact(value))

    def adjust(self, found: Gathered) -> Callable[[str, Meaning | None], Meaning | None] | None:
        """Rounded numbers are gauges."""
        return lambda name, meaning: Meaning(name, kind="gauge", overflow=None) if name.endswith("(rounded)") else meaning


def _exact(text: str) -> str | None:
    """The number of ``300 Bytes`` or of a plain number."""
    human = _HUMAN.fullmatch(text)
    if human:
        return human[1] if human[2].startswith("Byte") else None
    return text.split()[0] if text and text.split()[0].isdigit() else None


class NvueJson(GatheringReader):
    """``nv show interface [<if>] -o json``: ``{<if>: {"link": {"stats": {...}}}}`` or the object of one interface."""

    name = "cumulus_nvue_json"
    tables = (OPENCONFIG,)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """link.stats with its words."""
        return head.lstrip()[:1] == b"{" and b'"link"' in head and b'"stats"' in head and (b'"in-bytes"' in head or b'"in-pkts"' in head)

    def gather(self, found: Gathered) -> None:
        """Counters of every interface."""
        document = decoded_json(found.path, found.source)
        own = re.search(r"interface[ _]([a-z]+\d[\w./]*?)(?:[ _.]|$)", found.path.name)
        items: dict[str, Any] = {own[1] if own else "": document} if "link" in document else document
        for port, item in items.items():
            link = item.get("link") if isinstance(item, dict) else None
            for name, value in ((link or {}).get("stats") or {}).items():
                found.add(port, name, value)
            speed = re.fullmatch(r"(\d+)G", str((link or {}).get("speed", "")))
            if speed:
                found.fact(port, speed_gbps=float(speed[1]))
