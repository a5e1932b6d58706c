"""SONiC: COUNTERS_DB dumps and the tables of ``show``.

The CLI prints differences from a per-user snapshot after ``sonic-clear counters``, so CLI and database may disagree. RX_BPS is bytes per
second; RX_UTIL comes from formulas that changed between releases and is never read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from netlab.errors import ParseError
from netlab.readers.counters.files import decoded_json, text_of
from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.grids import Grid, dashed_grids, prompt_device
from netlab.readers.counters.meaning import Meaning, NameTable, both
from netlab.readers.counters.names import SAI

__all__ = ["VARIABLE_MAP", "SonicDatabase", "SonicTables"]

_STICKY = Meaning("", overflow="wrap")
#: Headers of CLI tables.
VARIABLE_MAP: dict[str, Meaning] = {
    **both("RX_OK", "TX_OK", "packets"),
    **both("RX_ERR", "TX_ERR", "errors"),
    **both("RX_DRP", "TX_DRP", "discards"),
    **both("RX_OVR", "TX_OVR", "overruns"),
    **both("RX_BPS", "TX_BPS", "bytes_per_s", Meaning("", kind="rate", overflow=None)),
    **both("RX_PPS", "TX_PPS", "packets_per_s", Meaning("", kind="rate", overflow=None)),
    "TRIM": Meaning("trimmed_packets"),
    "TRIM_TX": Meaning("trimmed_sent", "tx"),
    "TRIM_DRP": Meaning("trimmed_dropped"),
    "STATE": Meaning("oper_up", kind="gauge", overflow=None),
    "FEC_CORR": Meaning("fec_corrected"),
    "FEC_UNCORR": Meaning("fec_uncorrected"),
    "FEC_SYMBOL_ERR": Meaning("fec_symbol_errors"),
    "FEC_PRE_BER": Meaning("pre_fec_ber", kind="gauge", overflow=None),
    "FEC_POST_BER": Meaning("post_fec_ber", kind="gauge", overflow=None),
    "FEC_PRE_BER_MAX": Meaning("pre_fec_ber_max", kind="gauge", overflow=None),
    "FLR(O)": Meaning("frame_loss_ratio", kind="gauge", overflow=None),
    "FEC_MAX_T": Meaning("fec_tail_bin", kind="gauge", overflow=None),
    "Counter/pkts": Meaning("packets", "tx"),
    "Counter/bytes": Meaning("bytes", "tx"),
    "Drop/pkts": Meaning("discards", "tx"),
    "Drop/bytes": Meaning("dropped_bytes", "tx"),
    "totalpacket": Meaning("packets", "tx"),
    "totalbytes": Meaning("bytes", "tx"),
    "droppacket": Meaning("discards", "tx"),
    "dropbytes": Meaning("dropped_bytes", "tx"),
    "WredDrp/pkts": Meaning("wred_drops", "tx"),
    "WredDrp/bytes": Meaning("wred_dropped_bytes", "tx"),
    "EcnMarked/pkts": Meaning("ecn_marked", "tx"),
    "EcnMarked/bytes": Meaning("ecn_marked_bytes", "tx"),
    "PFC Rx": Meaning("pause_frames", "rx"),
    "PFC Tx": Meaning("pause_frames", "tx"),
    "RX Pause Transitions": Meaning("pause_transitions", "rx"),
    "Total RX Pause Time US": Meaning("pause_us", "rx"),
    "TX Pause Transitions": Meaning("pause_transitions", "tx"),
    "Total TX Pause Time US": Meaning("pause_us", "tx"),
    "watermark": Meaning("queue_bytes_watermark", "tx", kind="watermark", overflow=None),
    "pg watermark": Meaning("queue_bytes_watermark", "rx", kind="watermark", overflow=None),
    "pg headroom watermark": Meaning("headroom_bytes_watermark", "rx", kind="watermark", overflow=None),
    "STORM DETECTED": Meaning("pfc_storms_detected"),
    "STORM RESTORED": Meaning("pfc_storms_restored"),
    "Unicast Packets Received": Meaning("unicast_packets", "rx"),
    "Total Packets Received Without Errors": Meaning("packets", "rx"),
    "Unicast Packets Transmitted": Meaning("unicast_packets", "tx"),
    "Total Packets Transmitted Successfully": Meaning("packets", "tx"),
}
_BINS = ((r"BIN(?P<bin>\d+)", Meaning("fec_codewords_s{bin}")),)
_RATE = re.compile(r"([\d.,]+)\s*([KMGT]?)B/s")
#: The database also holds words (states, actions) and time stamps of watchdogs.
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|N/A")
_FACTORS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_QUEUE_HEADER = re.compile(r"(?:UC|MC|ALL|PG|PFC)\d+")
_MARKS = (
    *(b"IFACE ", b"Port Rx ", b"Port Tx ", b"TxQ ", b"RX Pause Transitions"),
    *(b"Symbol Errors Per Codeword", b"Packets Received 64 Octets", b"STORM DETECTED"),
)


class SonicDatabase(GatheringReader):
    """``{"COUNTERS:oid:0x...": {field: "value"}}`` with name maps, flat or as redis-dump writes it (``{key: {type, ttl, value}}``)."""

    name = "sonic_counters_db"
    tables = (SAI,)
    ts_source = "device"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Keys of COUNTERS_DB."""
        keys = (b'"COUNTERS:oid:', b'"COUNTERS_PORT_NAME_MAP"', b'"COUNTERS_QUEUE_NAME_MAP"')
        return head.lstrip()[:1] == b"{" and any(key in head for key in keys)

    def gather(self, found: Gathered) -> None:
        """Counters, rates and watermarks of ports, queues and priority groups that have a name."""
        keys = {key: _fields(value) for key, value in decoded_json(found.path, found.source).items()}
        owners = _owners(keys)
        unnamed = 0
        for key, fields in keys.items():
            kind, _, oid = key.partition(":")
            # User and persistent watermarks repeat the same queues with other resets.
            if kind not in ("COUNTERS", "RATES") or not oid.startswith("oid:"):
                continue
            if oid not in owners:
                unnamed += 1
                continue
            port, queue = owners[oid]
            for name, value in fields.items():
                if _NUMBER.fullmatch(str(value)):
                    found.add(port, name, value, queue=queue)
        if not found.rows:
            raise ParseError(f"NO_SERIES: {found.source} has no counters of named ports; dump COUNTERS_DB with its name maps.")
        for name, oid in keys.get("COUNTERS_LAG_NAME_MAP", {}).items():
            if oid:
                found.fact(name, role="lag")


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and set(value) >= {"type", "value"} and isinstance(value["value"], dict):
        return dict(value["value"])
    return value if isinstance(value, dict) else {}


def _owners(keys: dict[str, dict[str, Any]]) -> dict[str, tuple[str, str | None]]:
    """Object ids to (port, queue)."""
    owners: dict[str, tuple[str, str | None]] = {}
    for table in ("COUNTERS_PORT_NAME_MAP", "COUNTERS_LAG_NAME_MAP"):
        owners.update({str(oid): (name, None) for name, oid in keys.get(table, {}).items()})
    types = keys.get("COUNTERS_QUEUE_TYPE_MAP", {})
    for name, oid in keys.get("COUNTERS_QUEUE_NAME_MAP", {}).items():
        port, _, index = name.rpartition(":")
        multicast = "MULTICAST" in str(types.get(oid, ""))
        owners[str(oid)] = (port, f"MC{index}" if multicast else f"UC{index}")
    for name, oid in keys.get("COUNTERS_PG_NAME_MAP", {}).items():
        port, _, index = name.rpartition(":")
        owners[str(oid)] = (port, f"PG{index}")
    return owners


class SonicTables(GatheringReader):
    """``show interfaces counters`` (also -p, fec-stats, fec-histogram, detailed), ``show pfc counters``, ``show queue ...``, watermarks."""

    name = "sonic_cli"
    tables = (NameTable(VARIABLE_MAP, _BINS),)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Headers that only SONiC prints; or its queue counters as JSON."""
        if head.lstrip()[:1] == b"{":
            return b'"totalpacket"' in head and b'"droppacket"' in head
        if any(mark in head for mark in _MARKS):
            return True
        return b"occupancy per" in head and re.search(rb"\b(?:UC|MC|PG|ALL)0\b", head) is not None

    def gather(self, found: Gathered) -> None:
        """All tables of the file."""
        text = text_of(found.path)
        if text.lstrip().startswith("{"):
            _queue_json(text, found)
            return
        found.device = prompt_device(text)
        for grid in dashed_grids(text):
            _grid(grid, text, found)
        for match in re.finditer(r"^([A-Z][\w /-]*?)\.{3,} *([\d,]+)\s*$", text, re.M):
            found.add("", match[1].strip(), match[2])

    def adjust(self, found: Gathered) -> Callable[[str, Meaning | None], Meaning | None] | None:
        """With a period (-p) the table shows what happened within it: no totals."""
        if "within" not in text_of(found.path)[:2000]:
            return None

        def in_period(_: str, meaning: Meaning | None) -> Meaning | None:
            return meaning and Meaning(f"{meaning.metric}_in_period", meaning.direction, kind="gauge", overflow=None)

        return in_period


def _queue_json(text: str, found: Gathered) -> None:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ParseError(f"TRUNCATED_JSON: {found.source} is no complete JSON ({error}); export it again.") from error
    for port, queues in document.items():
        for queue, fields in queues.items() if isinstance(queues, dict) else ():
            for name, value in fields.items() if isinstance(fields, dict) else ():
                found.add(port, name, value, queue=queue)


def _rate(cell: str) -> str | None:
    """Bytes per second of ``653.87 MB/s``."""
    match = _RATE.fullmatch(cell)
    return str(float(match[1].replace(",", "")) * _FACTORS[match[2]]) if match else None


def _grid(grid: Grid, text: str, found: Gathered) -> None:
    first = grid.headers[0]
    for _, cells in grid.rows:
        named = dict(zip(grid.headers, cells, strict=True))
        port = cells[0]
        if first == "Symbol Errors Per Codeword":
            found.add("", cells[0], cells[1])
            continue
        if first in ("Port Rx", "Port Tx"):
            for header, cell in list(named.items())[1:]:
                found.add(port, f"PFC {first[5:]}", cell, queue=header.removeprefix("PFC"))
            continue
        queue = named.get("TxQ") or named.get("Priority", "").removeprefix("PFC") or None
        if first == "QUEUE":
            port, _, queue = cells[0].rpartition(":")
        for header, cell in list(named.items())[1:]:
            if _QUEUE_HEADER.fullmatch(header):
                kind = "pg headroom watermark" if "headroom" in grid.title.lower() else "pg watermark"
                where = kind if header.startswith("PG") else "watermark"
                found.add(port, where, cell, queue=header)
            elif header == "STATE":
                found.add(port, header, {"U": "1", "D": "0"}.get(cell))
            elif header == "STORM DETECTED/RESTORED":
                detected, _, restored = cell.partition("/")
                found.add(port, "STORM DETECTED", detected, queue=queue)
                found.add(port, "STORM RESTORED", restored, queue=queue)
            elif header in ("RX_BPS", "TX_BPS"):
                found.add(port, header, _rate(cell))
            elif header in ("RX_PPS", "TX_PPS"):
                found.add(port, header, cell.removesuffix("/s"))
            elif header in VARIABLE_MAP:
                found.add(port, header, cell, queue=queue)
