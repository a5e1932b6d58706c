"""Reader of nccl-tests and rccl-tests output, text or JSON: what the links can do when nothing else runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed, Sink
from netlab.readers.nccl.collect import LogCollector
from netlab.readers.nccl.names import op_name
from netlab.readers.nccl.records import HEADER
from netlab.readers.streams import read_all
from netlab.schema import TABLES

__all__ = ["SpeedTestReader"]

_LIMIT_BYTES = 256 << 20
_TEXT = re.compile(r"^# nThread \d+ nGpus \d+|^# (?:nccl|rccl)-tests version|^#\s+size\s+count\b(?:.*\bbusbw\b)?", re.MULTILINE)
_JSON = (b'"results"', b'"out_of_place"')
_HEADER_ROW = re.compile(r"^#?\s*(?:\S+\s+)?size\s+count\b.*\btime\b.*\bbusbw\b")
_DEVICE = re.compile(r"^#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S+) device\s+\d+")
_STARTING = re.compile(r"^# Collective test starting: (\w+?)(?:_perf)?\b")
_NAMES = (
    "allreduce",
    "all_reduce",
    "allgather",
    "all_gather",
    "reducescatter",
    "reduce_scatter",
    "alltoall",
    "broadcast",
    "sendrecv",
    "gather",
    "scatter",
    "reduce",
)


@dataclass
class _Test:
    """One table of a file."""

    ranks: set[int] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    op: str | None = None
    columns: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    has_redop: bool = False
    has_root: bool = False


class SpeedTestReader:
    """nccl-tests and rccl-tests. Table: link_speed_tests; NCCL records between the rows go where a log's go."""

    name = "nccl_tests"

    def sniff(self, head: bytes, path: Path) -> bool:
        """The parameter line, the header row, or the JSON report's keys."""
        if head.lstrip()[:1] == b"{":
            return all(key in head for key in _JSON)
        return b"busbw" in head and _TEXT.search(head.decode("utf-8", "replace")) is not None

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read every table of a file.

        Raises
        ------
        ParseError
            If there is no row.
        """
        data, damage = read_all(path, _LIMIT_BYTES)
        issues = [Issue(code=damage.code, severity="error", source=source, message=f"{source}: {damage.message}.")] if damage else []
        unparsed, collector = 0, None
        if data.lstrip()[:1] == b"{":
            tests = [_from_json(data, source)]
        else:
            tests, unparsed, collector = _from_text(data.decode("utf-8", "replace"), source)
        rows = []
        for test in tests:
            op, assumed = _operation(test, path)
            if test.rows and assumed:
                message = f"{source}: the table does not name its operation; {op} was taken from the file's name."
                issues.append(Issue(code="OPERATION_ASSUMED", severity="info", source=source, message=message))
            rows += [
                {**row, "op": op, "ranks": len(test.ranks) or None, "hosts": len(test.hosts) or None, "source": source} for row in test.rows
            ]
        if not rows:
            raise ParseError(f"NO_ROWS: {source} holds the head of an nccl-tests run but no result; did the test fail?")
        issues += _wrong_results(rows, source)
        table = TABLES["link_speed_tests"]
        sink.write("link_speed_tests", table.conform(pl.DataFrame(rows, schema=dict(table.schema))))
        if collector is not None and collector.records:
            collector.finish(sink)
        return Parsed(
            reader=self.name,
            rows=len(rows),
            lines_unparsed=unparsed,
            status="partial" if damage else "ok",
            message=f"{damage.code}: {source}: {damage.message}." if damage else None,
            issues=tuple(issues),
        )


def _wrong_results(rows: list[dict[str, Any]], source: str) -> list[Issue]:
    """An issue where the test says that data arrived wrong: then nothing that was computed over these links can be trusted."""
    bad = [row for row in rows if row["wrong"]]
    if not bad:
        return []
    first = bad[0]
    message = (
        f"{source}: {len(bad)} of {len(rows)} rows have wrong results (first: {first['wrong']:,} elements at {first['bytes']:,} bytes). "
        "Memory, NVLink, PCIe or a NIC corrupts data: take the hosts out and test them one by one."
    )
    return [Issue(code="WRONG_RESULTS", severity="error", source=source, line=first["line"], message=message)]


def _from_text(text: str, source: str) -> tuple[list[_Test], int, LogCollector | None]:
    tests, unparsed, logged = [_Test()], 0, []
    for number, line in enumerate(text.splitlines(), start=1):
        test = tests[-1]
        if "NCCL" in line and HEADER.search(line):
            logged.append(line)
            continue
        device, starting = _DEVICE.match(line), _STARTING.match(line)
        if line.startswith("# nThread") and (test.rows or test.columns):
            tests.append(_Test())
        elif device:
            test.ranks.add(int(device[1]))
            test.hosts.add(device[2])
        elif starting:
            # In front of the parameters: the table before it is another test's.
            tests += [_Test()] if test.rows or test.columns else []
            tests[-1].op = op_name(starting[1])
        elif _HEADER_ROW.match(line):
            test.columns = re.sub(r"\([^)]*\)", "", line).lstrip("# ").split()
        elif line.startswith("#") or not line.strip():
            continue
        elif test.columns and (found := list(_table_row(test, line.split(), number))):
            test.rows += found
        else:
            unparsed += 1
    collector = None
    if logged:
        collector = LogCollector(source)
        collector.feed("\n".join(logged).encode())
    return tests, unparsed, collector


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value and abs(value) != float("inf") else None


def _count(text: str) -> int | None:
    """A number of wrong elements; N/A and the error of old tables, which is no count, are None."""
    value = _float(text)
    return None if value is None else round(value)


def _is_size(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,15}", text) is not None


def _table_row(test: _Test, tokens: list[str], number: int) -> Iterator[dict[str, Any]]:
    """Two rows of a line: out of place and in place. Columns are found from both ends, since those in the middle may be empty."""
    # A column in front of the size is the instant of the row (option -T), which may be named "time", too.
    starts = [i for i, name in enumerate(test.columns) if name == "time" and "size" in test.columns[:i]]
    if not starts:
        return
    tail = len(test.columns) - starts[0]
    first = next((i for i in range(len(tokens) - 2) if _is_size(tokens[i]) and _is_size(tokens[i + 1]) and not _float(tokens[i + 2])), None)
    if first is None or len(tokens) - tail < first + 3:
        return
    middle = tokens[first + 3 : len(tokens) - tail]
    test.has_redop |= any(_float(token) is None for token in middle)
    test.has_root |= any(token.lstrip("-").isdigit() and int(token) >= 0 for token in middle)
    values = tokens[len(tokens) - tail :]
    for place, start in enumerate(starts[:2]):
        end = starts[place + 1] if place + 1 < len(starts) else len(test.columns)
        named = dict(zip(test.columns[start:end], values[start - starts[0] : end - starts[0]], strict=False))
        time = _float(named.get("time", ""))
        if time is not None:
            yield {
                "bytes": int(tokens[first]),
                "dtype": tokens[first + 2],
                "time_us": time,
                "algbw_gb_per_s": _float(named.get("algbw", "")),
                "busbw_gb_per_s": _float(named.get("busbw", "")),
                "wrong": _count(named.get("#wrong", "")),
                "in_place": place == 1,
                "line": number,
            }


def _operation(test: _Test, path: Path) -> tuple[str | None, bool]:
    """The operation of a table, and whether only the file's name tells it.

    The columns and the factor between bus and algorithm bandwidth (2(n-1)/n, (n-1)/n or 1; nccl-tests doc/PERFORMANCE.md) tell most.
    """
    if test.op and test.op != "unknown":
        return test.op, False
    n = len(test.ranks)
    factors = [r["busbw_gb_per_s"] / r["algbw_gb_per_s"] for r in test.rows if (r["algbw_gb_per_s"] or 0) > 1 and r["busbw_gb_per_s"]]
    if n > 2 and factors:
        factor = sorted(factors)[len(factors) // 2]
        if test.has_redop and abs(factor - 2 * (n - 1) / n) < 0.02:
            return "all_reduce", False
        if test.has_redop and not test.has_root and abs(factor - (n - 1) / n) < 0.02:
            return "reduce_scatter", False
        if test.has_root and abs(factor - 1) < 0.02:
            return ("reduce" if test.has_redop else "broadcast"), False
    word = path.name.lower()
    name = next((name for name in _NAMES if name in word), None)
    return (op_name(name) if name else None), name is not None


def _from_json(data: bytes, source: str) -> _Test:
    try:
        document = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ParseError(f"MALFORMED_JSON: {source} is damaged ({error}); run the test again.") from None
    args = document.get("args") or []
    test = _Test(op=op_name(str(args[0]).rpartition("/")[2].removesuffix("_perf")) if args else None)
    for device in document.get("devices") or []:
        test.ranks.add(int(device.get("rank", 0)))
        test.hosts.add(str(device.get("hostname")))
    for number, result in enumerate(document.get("results") or [], start=1):
        test.has_redop |= bool(result.get("redop"))
        for key in ("out_of_place", "in_place"):
            part = result.get(key)
            if isinstance(part, dict) and isinstance(result.get("size"), int):
                time = part.get("time", part.get("cpu_time"))
                test.rows.append({
                    "bytes": result["size"], "dtype": result.get("type"), "time_us": time, "algbw_gb_per_s": part.get("alg_bw"),
                    "busbw_gb_per_s": part.get("bus_bw"), "wrong": _count(str(part.get("nwrong"))),
                    "in_place": key == "in_place", "line": number,
                })  # fmt: skip
    return test
