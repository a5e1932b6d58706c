"""Juniper Junos: ``get-interface-information`` (show interfaces extensive) as XML."""

from __future__ import annotations

import re
from pathlib import Path

from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.meaning import Meaning, NameTable, both
from netlab.readers.counters.xml import children, elements, first_text

__all__ = ["VARIABLE_MAP", "JunosXml"]

VARIABLE_MAP: dict[str, Meaning] = {
    **both("input-bytes", "output-bytes", "bytes"),
    **both("input-packets", "output-packets", "packets"),
    **both("input-errors", "output-errors", "errors"),
    **both("input-drops", "output-drops", "discards"),
    "framing-errors": Meaning("fcs_errors", "rx"),
    "carrier-transitions": Meaning("carrier_changes"),
    # Rates of Junos are bits per second.
    **both("input-bps", "output-bps", "bytes_per_s", Meaning("", kind="rate", scale=0.125, overflow=None)),
    **both("input-pps", "output-pps", "packets_per_s", Meaning("", kind="rate", overflow=None)),
}
_SPEED = re.compile(r"(\d+)\s*([GMgm])bps")


class JunosXml(GatheringReader):
    """Traffic and error lists of physical interfaces; logical units count the same bytes again and are left out."""

    name = "juniper_junos_xml"
    tables = (NameTable(VARIABLE_MAP),)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """The reply's element."""
        return b"<interface-information" in head and b"<physical-interface" in head

    def gather(self, found: Gathered) -> None:
        """Counters and speed of every physical interface."""
        for item in elements(found.path, found.source, "physical-interface"):
            port = first_text(item, "name")
            if port is None:
                continue
            for group in ("traffic-statistics", "input-error-list", "output-error-list"):
                for block in children(item, group):
                    for value in block:
                        name = value.tag.rpartition("}")[2]
                        if name in VARIABLE_MAP and value.text and value.text.strip().isdigit():
                            found.add(port.strip(), name, value.text.strip())
            speed = _SPEED.fullmatch((first_text(item, "speed") or "").strip())
            if speed:
                found.fact(port.strip(), speed_gbps=int(speed[1]) / (1 if speed[2] in "Gg" else 1000))
