"""Influx line protocol as telegraf writes it: infiniband, net, ethtool, interfaces (gNMI) and snmp measurements.

telegraf's infiniband plugin passes sysfs words through: port_xmit_data is NOT multiplied by four (85,378,896,588 over 82,002,535 packets is
1,041 a packet, 4,165 bytes with the factor), unlike node_exporter's counter of the same name.
"""

from __future__ import annotations

import re
from pathlib import Path

from netlab.readers.counters.files import text_of
from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.meaning import Meaning, NameTable, both
from netlab.readers.counters.names import ALL_TABLES
from netlab.readers.counters.owners import direction_of, owner_of
from netlab.readers.counters.texts import parse_instant

__all__ = ["VARIABLE_MAP", "LineProtocol"]

#: telegraf's `net` plugin has words of its own.
VARIABLE_MAP: dict[str, Meaning] = {
    **both("bytes_recv", "bytes_sent", "bytes", Meaning("", preference=5, otherwise="software_bytes")),
    **both("packets_recv", "packets_sent", "packets", Meaning("", preference=5, otherwise="software_packets")),
    **both("err_in", "err_out", "errors", Meaning("", preference=5)),
    **both("drop_in", "drop_out", "discards", Meaning("", preference=5)),
}
_LINE = re.compile(r"((?:\\.|[^\\\s])+) ((?:\"(?:\\.|[^\"\\])*\"|\\.|[^\s\"])+)(?: (\d+))?")
_PART = re.compile(r"((?:\\.|[^\\,=])+)=(\"(?:\\.|[^\"\\])*\"|(?:\\.|[^\\,])*)")
_MEASUREMENTS = ("infiniband", "net", "ethtool", "interfaces", "ifcounters", "interface", "snmp", "sonic", "dcgm", "nvidia")


class LineProtocol(GatheringReader):
    """``measurement,tag=value field=1i,field=2i time`` with time in nanoseconds."""

    name = "telegraf_lines"
    tables = (NameTable(VARIABLE_MAP), *ALL_TABLES)

    def sniff(self, head: bytes, path: Path) -> bool:
        """Well-formed lines of a measurement about ports."""
        lines = [line for line in head[:8192].decode("utf-8", "replace").splitlines() if line.strip() and not line.startswith("#")][:5]
        return bool(lines) and all(
            _LINE.match(line) and re.match(rf"({'|'.join(_MEASUREMENTS)})\w*[, ]", line) for line in lines[: max(1, len(lines) - 1)]
        )

    def gather(self, found: Gathered) -> None:
        """Fields that are numbers."""
        for number, line in enumerate(text_of(found.path).splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line.strip())
            if match is None:
                found.lost(number, "it is no line of the Influx protocol")
                continue
            tags = {key: value.replace("\\", "") for key, value in _PART.findall(match[1].partition(",")[2])}
            fields = dict(_PART.findall(match[2]))
            if fields.get("name", "").startswith('"'):
                tags.setdefault("name", fields["name"].strip('"').replace("\\", "").strip('"'))
            device, port, queue = owner_of({key: value for key, value in tags.items() if key != "path"})
            way = direction_of(tags)
            instant = parse_instant(match[3]) if match[3] else None
            for key, value in fields.items():
                if re.fullmatch(r"-?[\d.eE+-]+[iu]?", value) and key != "id":
                    at = instant.ns if instant else None
                    found.add(port, key, value.rstrip("iu"), device=device, queue=queue, direction=way, ts_ns=at)
