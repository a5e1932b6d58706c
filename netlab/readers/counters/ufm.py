"""NVIDIA UFM telemetry: the CSV of its endpoints and the messages of its fluentd plugin.

The plugin's aliases name units that are wrong: ``Infiniband_MBOut_u_Gb`` of 4,086,720 over 14,190 packets is 288.0 bytes a packet, so it is
bytes, and cumulative. The CSV's ``PortXmitDataExtended`` is in 4-byte words like everywhere (its documentation says bytes of the period;
nobody could check that, so check both ends of a cable).
"""

from __future__ import annotations

import csv
from pathlib import Path

from netlab.readers.counters.files import decoded_json, text_of
from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.meaning import Meaning, NameTable, both
from netlab.readers.counters.names import INFINIBAND
from netlab.readers.counters.texts import parse_instant
from netlab.readers.ib_names import host_port, is_switch, switch_name

__all__ = ["VARIABLE_MAP", "UfmCsv", "UfmMessages"]

_I = "Infiniband_"
VARIABLE_MAP: dict[str, Meaning] = {
    **both(_I + "MBIn_u_Gb", _I + "MBOut_u_Gb", "bytes"),
    **both(_I + "PckIn_u_Packets", _I + "PckOut_u_Packets", "packets"),
    _I + "SymbolErrors_u_Errors": Meaning("symbol_errors"),
    _I + "LinkRecovers_u_Errors": Meaning("link_recovery"),
    _I + "LinkDowned_u_Errors": Meaning("link_downed"),
    _I + "RcvErrors_u_Errors": Meaning("errors", "rx"),
    _I + "RcvRemotePhysErrors_u_Errors": Meaning("remote_physical_errors", "rx"),
    _I + "RcvSwRelayErrors_u_Errors": Meaning("switch_relay_errors", "rx"),
    _I + "XmtDiscards_u_Errors": Meaning("discards", "tx"),
    **both(_I + "RcvConstraintErrors_u_Errors", _I + "XmtConstraintErrors_u_Errors", "constraint_errors"),
    _I + "LinkIntegrityErrors_u_Errors": Meaning("local_link_integrity_errors"),
    _I + "ExcBufOverrunErrors_u_Errors": Meaning("excessive_buffer_overrun_errors"),
    _I + "VL15Dropped_u_Drops": Meaning("vl15_dropped"),
    _I + "XmitWait_u_Ticks": Meaning("xmit_wait", "tx"),
    _I + "CBW_f_u_Gbps": Meaning("congested_bandwidth_gbps", kind="rate", overflow=None),
    _I + "Normalized_CBW_f_u_Percent": Meaning("congested_bandwidth_percent", kind="rate", overflow=None),
    _I + "Normalized_MBOut_f_u_Percent": Meaning("utilization_percent", "tx", kind="rate", overflow=None),
}
_BINS = ((r"hist(?P<bin>\d+)(?:_u_count)?", Meaning("fec_codewords_s{bin}")),)
_LABELS = frozenset(
    (
        *("timestamp", "source_id", "tag", "node_guid", "port_guid", "port_num", "lid", "device_id"),
        *("node_description", "node_desc", "link_partner_description"),
    )
)


def _owner(row: dict[str, str]) -> tuple[str, str]:
    """Device and port: by the node's description where it has one, else by its GUID (joined to names where cables give them)."""
    description, guid, port = row.get("node_description") or row.get("node_desc") or "", row.get("node_guid", ""), row.get("port_num", "")
    if not description:
        return guid or row.get("source_id", ""), port
    return host_port(description, guid, port) if is_switch(description) is False else (switch_name(description, guid), port)


class UfmMessages(GatheringReader):
    """``{"timestamp", "type", "values": [{"timestamp" (us), "node_guid", "port_num", counters...}]}``."""

    name = "ufm_messages"
    tables = (NameTable(VARIABLE_MAP, _BINS), INFINIBAND)
    ts_source = "device"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Values of ports by GUID."""
        return head.lstrip()[:1] in (b"{", b"[") and b'"values"' in head and b'"node_guid"' in head and b'"port_num"' in head

    def gather(self, found: Gathered) -> None:
        """All counters; some messages hold only those that changed."""
        document = decoded_json(found.path, found.source)
        for message in document if isinstance(document, list) else [document]:
            for item in message.get("values", []):
                row = {str(key): "" if value is None else str(value) for key, value in item.items()}
                instant = parse_instant(row.get("timestamp", ""))
                device, port = _owner(row)
                for name, value in row.items():
                    if name not in _LABELS:
                        found.add(port, name, value, device=device, ts_ns=None if instant is None else instant.ns)


class UfmCsv(GatheringReader):
    """``timestamp,source_id,tag,node_guid,port_guid,port_num,counters...`` with times in microseconds."""

    name = "ufm_csv"
    tables = (NameTable({}, _BINS), INFINIBAND)
    ts_source = "device"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Its header."""
        line = head[:4096].split(b"\n", 1)[0].lower()
        return line.startswith(b"timestamp,") and b"node_guid" in line and b"port_num" in line

    def gather(self, found: Gathered) -> None:
        """All rows; a header line may come again when the set of counters changes."""
        header: list[str] = []
        for number, cells in enumerate(csv.reader(text_of(found.path).splitlines()), 1):
            if cells and cells[0].strip().lower() == "timestamp":
                header = [cell.strip() for cell in cells]
                continue
            row = dict(zip(header, (cell.strip() for cell in cells), strict=False))
            instant = parse_instant(row.get("timestamp", ""))
            if instant is None:
                if cells:
                    found.lost(number, "it has no time")
                continue
            device, port = _owner(row)
            for name, value in row.items():
                if name not in _LABELS:
                    found.add(port, name, value, device=device, ts_ns=instant.ns)
