"""Reader of NCCL Inspector records: JSON lines of a process, or its Prometheus text."""

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
from netlab.readers.nccl.names import op_name
from netlab.schema import TABLES

__all__ = ["InspectorReader", "InspectorTextReader"]

_PART_ROWS = 200_000
_WHOLE = frozenset({"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})


class InspectorReader:
    """Inspector's JSON lines. Table: profiler_events."""

    name = "nccl_inspector"

    def sniff(self, head: bytes, path: Path) -> bool:
        """An object per line with a header and the performance of a collective or a message."""
        return head.lstrip()[:1] == b"{" and (b'"coll_perf"' in head or b'"p2p_perf"' in head)

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read every whole line; a line that was cut when the job died is counted and named."""
        rows: list[dict[str, Any]] = []
        count = bad = number = 0
        first_bad = None
        decoder = msgspec.json.Decoder()
        chunks = LineChunks(path)
        for chunk in chunks:
            for line in chunk.splitlines():
                number += 1
                if not line.strip():
                    continue
                try:
                    row = _row(decoder.decode(line), source)
                except msgspec.DecodeError:
                    row = None
                if row is None:
                    bad += 1
                    first_bad = first_bad or number
                    continue
                rows.append(row)
                count += 1
                if len(rows) >= _PART_ROWS:
                    sink.write("profiler_events", _frame(rows))
                    rows = []
        if not count:
            raise ParseError(f"NO_RECORDS: {source} holds no whole Inspector record.")
        if rows:
            sink.write("profiler_events", _frame(rows))
        issues = []
        if bad:
            message = f"{source}: {bad} lines are cut or are no Inspector record (first in line {first_bad}); they were skipped."
            issues.append(Issue(code="TORN_RECORD", source=source, line=first_bad, message=message))
        if chunks.damage is not None:
            issues.append(Issue(code=chunks.damage.code, severity="error", source=source, message=f"{source}: {chunks.damage.message}."))
        damaged = chunks.damage
        return Parsed(
            reader=self.name,
            rows=count,
            lines_unparsed=bad,
            status="partial" if damaged else "ok",
            message=f"{damaged.code}: {source}: {damaged.message}." if damaged else None,
            issues=tuple(issues),
        )


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    table = TABLES["profiler_events"]
    return table.conform(pl.DataFrame(rows, schema=dict(table.schema)))


def _row(record: Any, source: str) -> dict[str, Any] | None:
    header, meta = record.get("header"), record.get("metadata") or {}
    perf, prefix = (record["coll_perf"], "coll") if "coll_perf" in record else (record.get("p2p_perf"), "p2p")
    if not isinstance(header, dict) or not isinstance(perf, dict):
        return None
    op = op_name(str(perf.get("coll" if prefix == "coll" else "p2p") or ""))
    size, nranks, exec_us = perf.get(f"{prefix}_msg_size_bytes"), header.get("n_ranks"), perf.get(f"{prefix}_exec_time_us")
    # Inspector prints the size per rank for these; everywhere in netlab a message is its larger buffer.
    whole = size * nranks if op in _WHOLE and size is not None and nranks else size
    return {
        "host": meta.get("hostname"),
        "pid": meta.get("pid"),
        "rank": header.get("rank"),
        "comm_id": header.get("id"),
        "seq": perf.get(f"{prefix}_sn"),
        "kind": op,
        "op": op,
        "timing": perf.get(f"{prefix}_timing_source"),
        "peer": perf.get("p2p_peer"),
        "nranks": nranks,
        "bytes": whole,
        "duration_ns": round(exec_us * 1_000) if isinstance(exec_us, (int, float)) and exec_us > 0 else None,
        "algbw_gb_per_s": perf.get(f"{prefix}_algobw_gbs"),
        "busbw_gb_per_s": perf.get(f"{prefix}_busbw_gbs"),
        "source": source,
    }


_SAMPLE = re.compile(r"^(nccl_(?:p2p_)?(?:bus_bandwidth_gbs|collective_exec_time_microseconds|exec_time_microseconds))\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class InspectorTextReader:
    """Inspector's Prometheus text: means of a period, without sequence numbers. Table: profiler_events."""

    name = "nccl_inspector_metrics"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A sample of one of Inspector's metrics at the beginning of a line."""
        return re.search(rb"^nccl_(?:bus_bandwidth_gbs|collective_exec_time_microseconds|p2p_\w+)\{", head, re.MULTILINE) is not None

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """One row per (labels) with its bandwidth and its time put together."""
        found: dict[tuple[str, ...], dict[str, Any]] = {}
        unparsed = 0
        for chunk in LineChunks(path):
            for line in chunk.decode("utf-8", "replace").splitlines():
                sample = _SAMPLE.match(line)
                value = _value(sample[3]) if sample is not None else None
                if sample is None or value is None:
                    unparsed += bool(line.strip()) and not line.startswith("#")
                    continue
                labels = dict(_LABEL.findall(sample[2]))
                row = found.setdefault(tuple(sorted(labels.values())), _metric_row(labels, source))
                if "bandwidth" in sample[1]:
                    row["busbw_gb_per_s"] = value
                else:
                    row["duration_ns"] = round(value * 1_000)
        if not found:
            raise ParseError(f"NO_RECORDS: {source} holds no Inspector metric.")
        sink.write("profiler_events", _frame(list(found.values())))
        return Parsed(reader=self.name, rows=len(found), lines_unparsed=unparsed)


def _value(text: str) -> float | None:
    """A finite number that fits a table."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e15 else None


def _metric_row(labels: dict[str, str], source: str) -> dict[str, Any]:
    algorithm, _, protocol = labels.get("algo_proto", "").partition("_")
    op = op_name(labels.get("collective") or labels.get("p2p_operation") or "")
    return {
        "host": labels.get("node"),
        "comm_id": None,
        "kind": op,
        "op": op,
        "timing": "period mean",
        "nranks": int(labels["nranks"]) if re.fullmatch(r"[0-9]{1,7}", labels.get("nranks", "")) else None,
        "algorithm": algorithm or None,
        "protocol": protocol or None,
        "source": source,
    }
