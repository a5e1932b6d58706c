"""Reader of the example profiler plugin's trace (a Chrome trace of NCCL's own events), also of the invalid JSON that 2.28 writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed, Sink
from netlab.readers.nccl.chunks import LineChunks
from netlab.readers.nccl.names import DTYPES, buffer_bytes, op_name
from netlab.schema import TABLES

__all__ = ["ProfilerReader"]

#: In 2.28 data types and streams stand without quotes.
_BARE = re.compile(r"(: ?)(nccl[A-Z]\w*|0x[0-9a-fA-F]+|\(nil\))(?=[,}])")
_SIGNS = (b'"CommHash"', b'"GROUP_API"', b'"COLL_API"', b'"KERNEL_LAUNCH"', b'"groupApiId"', b'"NET_IB"')
_SIZES = {"ncclint8": 1, "ncclchar": 1, "ncclbfloat16": 2, "ncclhalf": 2, "ncclfloat": 4, "nccldouble": 8, "ncclint": 4} | {
    f"nccl{name.replace('_', '')}": size for name, size in DTYPES.values()
}


class ProfilerReader:
    """Profiler-plugin traces. Table: profiler_events."""

    name = "nccl_profiler"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A JSON array of events with the plugin's categories."""
        return head.lstrip()[:1] == b"[" and b'"ph"' in head and sum(sign in head for sign in _SIGNS) >= 2

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Pair begins with ends. A stamp of 0 is unknown; without an end the duration is."""
        gatherer = _Gatherer(source)
        number = bad = 0
        complete = False
        chunks = LineChunks(path)
        for chunk in chunks:
            for line in chunk.decode("utf-8", "replace").splitlines():
                number += 1
                text = line.strip().removesuffix(",")
                if text in ("[", "", "]"):
                    continue
                if text in ("{}]", "{}"):
                    complete = True
                    continue
                event = _event(text)
                if event is None:
                    bad += 1
                else:
                    gatherer.add(event)
        if not gatherer.rows:
            raise ParseError(f"NO_RECORDS: {source} holds no event of the profiler plugin.")
        table = TABLES["profiler_events"]
        sink.write("profiler_events", table.conform(pl.DataFrame(gatherer.rows, schema=dict(table.schema))))
        issues = []
        if not complete:
            message = f"{source} ends in the middle (line {number}); {len(gatherer.rows)} events before that are kept."
            issues.append(Issue(code="TRUNCATED_JSON", severity="error", source=source, line=number, message=message))
        elif bad:
            message = f"{source}: {bad} lines are no event; they were skipped."
            issues.append(Issue(code="MALFORMED_JSON", source=source, message=message))
        return Parsed(
            reader=self.name,
            rows=len(gatherer.rows),
            lines_unparsed=bad,
            status="ok" if complete else "partial",
            message=None if complete else f"TRUNCATED_JSON: {issues[0].message}",
            issues=tuple(issues),
        )


def _event(text: str) -> dict[str, Any] | None:
    for candidate in (text, _BARE.sub(r'\1"\2"', text)):
        try:
            event = msgspec.json.decode(candidate)
        except msgspec.DecodeError:
            continue
        return event if isinstance(event, dict) and "ph" in event else None
    return None


def _ns(event: dict[str, Any]) -> int | None:
    stamp = event.get("ts")
    return round(stamp * 1_000) if isinstance(stamp, (int, float)) and stamp > 0 else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63 else None


class _Gatherer:
    def __init__(self, source: str) -> None:
        self._source = source
        self.rows: list[dict[str, Any]] = []
        self._open: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._inside: dict[Any, dict[str, Any]] = {}

    def add(self, event: dict[str, Any]) -> None:
        key = (event.get("pid"), event.get("tid"), event.get("cat"), event.get("name"), event.get("id"))
        if event["ph"] == "b":
            row = self._begin(event)
            self.rows.append(row)
            self._open[key] = row
            if event.get("cat") in ("COLL", "P2P"):
                self._inside[event.get("pid"), event.get("tid")] = row
        elif event["ph"] == "e":
            row_or_none = self._open.pop(key, None)
            if row_or_none is not None:
                _close(row_or_none, event)

    def _begin(self, event: dict[str, Any]) -> dict[str, Any]:
        arguments = event.get("args") if isinstance(event.get("args"), dict) else {}
        assert isinstance(arguments, dict)
        category, name = str(event.get("cat")), str(event.get("name"))
        # Proxy and kernel events carry no communicator: they belong to the operation that is open around them.
        around = (
            self._inside.get((event.get("pid"), event.get("tid")), {}) if category in ("PROXY", "NET", "NET_IB", "NET_SOCK", "GPU") else {}
        )
        op = op_name(name) if category in ("COLL", "P2P", "COLL_API", "P2P_API") else around.get("op")
        comm = arguments.get("CommHash")
        size = _SIZES.get(str(arguments.get("Datatype", arguments.get("datatype"))).lower())
        count = _number(arguments.get("Count", arguments.get("count")))
        start_clock, stop_clock = _number(arguments.get("StartGpuClk")), _number(arguments.get("StopGpuClk"))
        return {
            "pid": _number(event.get("pid")),
            "rank": _number(arguments.get("Rank")) if "Rank" in arguments else around.get("rank"),
            "comm_id": hex(comm) if isinstance(comm, int) else around.get("comm_id"),
            "seq": _number(arguments.get("SeqNum")) if "SeqNum" in arguments else around.get("seq"),
            "kind": op if op and category in ("COLL", "P2P") else f"{category}:{name}",
            "op": op,
            "timing": "gpu clock" if start_clock and stop_clock else "plugin",
            "channel": _number(arguments.get("Channel")),
            "peer": _number(arguments.get("Peer")),
            "algorithm": arguments.get("Algorithm"),
            "protocol": arguments.get("Protocol"),
            "bytes": _number(arguments.get("transSize", arguments.get("size")))
            or (buffer_bytes(op, count, size, None) if op and count is not None else None),
            "start_ns": _ns(event),
            "duration_ns": stop_clock - start_clock if start_clock and stop_clock and stop_clock >= start_clock else None,
            "source": self._source,
        }


def _close(row: dict[str, Any], event: dict[str, Any]) -> None:
    row["end_ns"] = _ns(event)
    if row["duration_ns"] is None and row["start_ns"] is not None and row["end_ns"] is not None and row["end_ns"] >= row["start_ns"]:
        row["duration_ns"] = row["end_ns"] - row["start_ns"]
