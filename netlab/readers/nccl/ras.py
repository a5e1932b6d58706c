"""Reader of NCCL's RAS status (``ncclras``), text or JSON: who is alive, and how far each rank has come."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from netlab.errors import ParseError
from netlab.readers.base import Parsed, Sink
from netlab.readers.nccl.names import op_name
from netlab.readers.streams import read_all
from netlab.schema import TABLES

__all__ = ["RasReader"]

_LIMIT_BYTES = 256 << 20
_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")
_COMM = re.compile(r"^#\d+-\d+ \((?P<hash>[0-9a-f]+)\) (?P<kind>[A-Z]+)")
_DEAD = re.compile(r"^\s*Process (?P<pid>\d+) on node (?P<host>\S+) managing GPUs? (?P<gpu>[\d,]+)")
_GROUP = re.compile(r"^\s*(?P<group>\d+)(?:\s+[\d-]+){4}\s+\d+\s+(?P<status>[A-Z][A-Z,-]*)\s+(?P<errors>[A-Z]+)\s*$")
_MISSING = re.compile(r"^\s*The missing ranks?: (?P<ranks>[\d, -]+)")
_COUNTS = re.compile(r"different (?P<op>\w+ )?operation counts")
_MOST = re.compile(r"^\s*(?P<n>\d+) ranks? (?:have|has) launched up to operation (?P<count>\d+)")
_RANK = re.compile(
    r"^\s*Rank (?P<rank>\d+) has launched up to operation (?P<count>\d+)"
    r"(?: -- GPU (?P<gpu>\d+) managed by process (?P<pid>\d+) on node (?P<host>\S+))?"
)


class RasReader:
    """RAS status. Tables: communicators (JSON), nccl_events."""

    name = "nccl_ras"

    def sniff(self, head: bytes, path: Path) -> bool:
        """The JSON's keys, or the text's headings."""
        if head.lstrip()[:1] == b"{":
            return b'"communicators"' in head and (b'"missing_ranks_count"' in head or b'"collective_counts"' in head or b'"ras"' in head)
        return b"Job summary" in head and b"Communicators..." in head

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read one status."""
        data, _ = read_all(path, _LIMIT_BYTES)
        if data.lstrip()[:1] == b"{":
            communicators, events = _from_json(data, source)
        else:
            communicators, events = [], _from_text(data.decode("utf-8", "replace"), source)
        if not communicators and not events:
            raise ParseError(f"NO_RECORDS: {source} names no communicator.")
        for name, rows in (("communicators", communicators), ("nccl_events", events)):
            if rows:
                table = TABLES[name]
                sink.write(name, table.conform(pl.DataFrame(rows, schema=dict(table.schema))))
        return Parsed(reader=self.name, rows=len(communicators) + len(events))


def _event(source: str, line: int, code: str, message: str, **more: Any) -> dict[str, Any]:
    """One event; ``of`` is the RAS record of the rank that it is about."""
    rank = more.pop("of", None)
    if rank is not None:
        more |= {"rank": rank.get("rank"), "host": rank.get("host"), "pid": rank.get("pid")}
    return {"level": "INFO", "code": code, "message": message, "count": 1, "source": source, "line": line, **more}


def _from_json(data: bytes, source: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    try:
        document = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ParseError(f"MALFORMED_JSON: {source} is damaged ({error}); ask ncclras again.") from None
    version = document.get("nccl_version")
    rows, events = [], []
    for comm in document.get("communicators") or []:
        for rank in comm.get("ranks") or []:
            status = rank.get("status") or {}
            rows.append({
                "comm_id": comm.get("hash"), "host": rank.get("host"), "pid": rank.get("pid"), "rank": rank.get("rank"),
                "nranks": comm.get("size"),
                "cuda_device": rank.get("cuda_dev"), "nvml_device": rank.get("nvml_dev"), "nccl_version": version,
                "complete": status.get("init_state") == 0, "source": source,
                "ended": bool(status.get("abort_flag") or status.get("destroy_flag")),
            })  # fmt: skip
            if status.get("async_error"):
                events.append(
                    _event(
                        source,
                        0,
                        "ras_error",
                        f"Rank {rank.get('rank')} has async_error {status['async_error']}",
                        key=comm.get("hash"),
                        of=rank,
                    )
                )
        for rank in comm.get("missing_ranks") or []:
            state = "is considered dead" if (rank.get("status") or {}).get("considered_dead") else "does not answer"
            events.append(
                _event(
                    source,
                    0,
                    "ras_missing",
                    f"Rank {rank.get('rank')} of communicator {comm.get('hash')} {state}",
                    key=comm.get("hash"),
                    of=rank,
                )
            )
        events += _behind(comm, source)
    return rows, events


def _behind(comm: dict[str, Any], source: str) -> list[dict[str, Any]]:
    """Ranks that have launched fewer operations than most, per kind of operation."""
    events = []
    names = {name for rank in comm.get("ranks") or [] for name in rank.get("collective_counts") or {}}
    for name in sorted(names):
        counts = {
            rank["rank"]: (rank["collective_counts"][name], rank) for rank in comm["ranks"] if name in (rank.get("collective_counts") or {})
        }
        most = Counter(count for count, _ in counts.values()).most_common(1)[0][0]
        for number, (count, rank) in sorted(counts.items()):
            if count < most:
                message = f"Rank {number} has launched {count} {name} of communicator {comm.get('hash')}, most have launched {most}"
                value = f"op={op_name(name)} count={count} most={most}"
                events.append(_event(source, 0, "ras_behind", message, key=comm.get("hash"), value=value, of=rank))
    return events


def _from_text(text: str, source: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    comm, op, most = None, "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _VERSION.search(line):
            events.append(_event(source, number, "version", line.strip(), key="nccl", value=found[1]))
        elif found := _GROUP.match(line):
            state = f"{found['status']} {found['errors']}"
            events.append(_event(source, number, "ras_group", line.strip(), key=found["group"], value=state))
        elif found := _COMM.match(line):
            comm, op, most = f"0x{found['hash']}", "", 0
            if found["kind"] in ("ERROR", "TIMEOUT"):
                events.append(_event(source, number, "ras_error", line.strip(), key=comm))
        elif found := _DEAD.match(line):
            events.append(_event(source, number, "ras_dead", line.strip(), host=found["host"], pid=int(found["pid"])))
        elif found := _MISSING.match(line):
            for rank in re.findall(r"\d+", found["ranks"]):
                events.append(
                    _event(source, number, "ras_missing", f"Rank {rank} of communicator {comm} does not answer", key=comm, rank=int(rank))
                )
        elif found := _COUNTS.search(line):
            op = op_name((found["op"] or "").strip())
        elif found := _MOST.match(line):
            most = max(most, int(found["count"]))
        elif (found := _RANK.match(line)) and (not most or int(found["count"]) < most):
            value = f"op={op} count={found['count']} most={most}"
            events.append(
                _event(
                    source,
                    number,
                    "ras_behind",
                    line.strip(),
                    key=comm,
                    value=value,
                    rank=int(found["rank"]),
                    host=found["host"],
                    pid=int(found["pid"]) if found["pid"] else None,
                )
            )
    return events
