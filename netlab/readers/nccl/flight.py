"""Reader of PyTorch flight-recorder dumps, as pickle or JSON, of every schema version (1.x and 2.x).

Fields are read by presence, as the recorder's own rule asks: a minor version adds fields, a major one changes them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed, Sink
from netlab.readers.nccl.flight_entries import entry_row, group_members
from netlab.readers.nccl.pickles import LIMIT_BYTES, calls_by_name, load_plain, reaches_out
from netlab.readers.streams import read_all
from netlab.schema import TABLES

__all__ = ["FlightReader"]

_KEYS = (b"collective_seq_id", b"pg_config", b"pg_status", b"profiling_name", b"time_created_ns", b"nccl_comm_state")
_TEXT_PICKLE = re.compile(rb"\(?(?:lp|dp)?\d*\n?c[\w.]+\n[\w.]+\n|\([dl]p\d*\n|cposix\n|cos\n|cbuiltins\n|c__builtin__\n")
_NAME_RANK = (re.compile(r"rank[_-]?(\d+)"), re.compile(r"(\d+)(?:\.(?:pkl|pickle|json|bin))?(?:\.gz)?$"))
_NEWEST_MAJOR = 2


class FlightReader:
    """Flight-recorder dumps. Table: flight."""

    name = "flight_recorder"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A pickle or JSON with a recorder's keys; also a pickle that would run code, so that it is met and refused here."""
        if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
            return any(key in head for key in _KEYS) or reaches_out(head)
        if _TEXT_PICKLE.match(head):
            return reaches_out(head)
        if head[:1] in (b"(", b"]", b"}") and calls_by_name(head):
            return True
        start = head.lstrip()[:1]
        return start == b"{" and sum(key in head for key in _KEYS) >= 2 and (b'"entries"' in head or b'"pg_config"' in head)

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read one rank's dump.

        Raises
        ------
        ParseError
            If the pickle would run code, the file is cut or too large, or it is no dump.
        """
        data, damage = read_all(path, LIMIT_BYTES + 1)
        if len(data) > LIMIT_BYTES:
            raise ParseError(
                f"TOO_LARGE: {source} is larger than {LIMIT_BYTES >> 20} MiB; a flight-recorder dump is not. Dump fewer entries."
            )
        dump, issues = _load(data, source)
        if damage is not None:
            issues.append(Issue(code=damage.code, severity="error", source=source, message=f"{source}: {damage.message}."))
        if not isinstance(dump, dict) or not ({"entries", "pg_config", "pg_status"} & dump.keys()):
            raise ParseError(f"NOT_A_DUMP: {source} is no flight-recorder dump (no entries in it).")
        _check_version(dump, source)
        rank = _rank(path)
        issues += _rank_issues(rank, source)
        entries = dump.get("entries") or []
        entries = entries if isinstance(entries, list) else []
        members = group_members(dump)
        rows = [row for entry in entries if isinstance(entry, dict) and (row := entry_row(entry, dump, members, rank, source)) is not None]
        table = TABLES["flight"]
        if rows:
            sink.write("flight", table.conform(pl.DataFrame(rows, schema={name: table.schema[name] for name in rows[0]}, orient="row")))
        gloo = all(str(entry.get("profiling_name")).startswith("gloo:") for entry in entries if isinstance(entry, dict))
        issues += _entry_issues(rows, len(entries), gloo, source)
        partial = next((issue for issue in issues if issue.severity == "error"), None)
        return Parsed(
            reader=self.name,
            rows=len(rows),
            lines_unparsed=len(entries) - len(rows),
            status="partial" if partial else "ok",
            message=f"{partial.code}: {partial.message}" if partial else None,
            issues=tuple(issues),
            facts={"rank": rank, "nccl_version": _version(dump), "schema": str(dump.get("version"))},
        )


def _load(data: bytes, source: str) -> tuple[Any, list[Issue]]:
    if data.lstrip()[:1] != b"{":
        return load_plain(data, source), []
    import msgspec

    try:
        return msgspec.json.decode(data), []
    except msgspec.DecodeError as error:
        return _complete_entries(data, source, str(error))


def _complete_entries(data: bytes, source: str, error: str) -> tuple[Any, list[Issue]]:
    """The whole entries of a JSON dump that was cut, with its groups if they come before the cut."""
    import json

    text = data.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    dump: dict[str, Any] = {}
    for key in ("version", "pg_config", "pg_status", "nccl_version", "comm_lib_version"):
        found = re.search(rf'"{key}"\s*:\s*', text)
        if found:
            try:
                dump[key] = decoder.raw_decode(text, found.end())[0]
            except ValueError:
                continue
    found = re.search(r'"entries"\s*:\s*\[', text)
    entries, at = [], found.end() if found else len(text)
    while True:
        start = re.compile(r"[\s,]*(?=\{)").match(text, at)
        if start is None:
            break
        try:
            entry, at = decoder.raw_decode(text, start.end())
        except ValueError:
            break
        entries.append(entry)
    if not entries and "pg_config" not in dump:
        raise ParseError(f"TRUNCATED_JSON: {source} is cut off or damaged ({error}); take the dump again.")
    dump["entries"] = entries
    message = f"{source} ends in the middle; {len(entries)} whole entries are kept."
    return dump, [Issue(code="TRUNCATED_JSON", severity="error", source=source, line=at, message=message)]


def _check_version(dump: dict[Any, Any], source: str) -> None:
    found = re.match(r"(\d+)", str(dump.get("version") or ""))
    if found and int(found[1]) > _NEWEST_MAJOR:
        version = dump.get("version")
        raise ParseError(f"UNKNOWN_SCHEMA: {source} has schema version {version}; this netlab knows versions up to {_NEWEST_MAJOR}.x.")


def _version(dump: dict[Any, Any]) -> str | None:
    value = dump.get("nccl_version") or dump.get("comm_lib_version")
    return str(value) if value else None


def _rank(path: Path) -> int | None:
    name = path.name.removesuffix(".gz")
    return next((int(found[1]) for pattern in _NAME_RANK if (found := pattern.search(name))), None)


def _rank_issues(rank: int | None, source: str) -> list[Issue]:
    if rank is None:
        message = f"{source}: neither the dump nor its name tells its rank; name it ..._rank_N or give [files] rank in netlab.toml."
        return [Issue(code="RANK_ASSUMED", source=source, message=message)]
    message = f"{source}: a dump does not hold its own rank; rank {rank} was taken from the file's name."
    return [Issue(code="RANK_ASSUMED", severity="info", source=source, message=message)]


def _entry_issues(rows: list[dict[str, Any]], count: int, gloo: bool, source: str) -> list[Issue]:
    issues = []
    if count > len(rows):
        message = f"{source}: {count - len(rows)} of {count} entries have no readable operation or sequence number; they were skipped."
        issues.append(Issue(code="MALFORMED_ENTRY", source=source, message=message))
    first = min((row["record"] for row in rows if row["record"] is not None), default=0)
    seqs = [row["seq"] for row in rows if row["seq"] is not None]
    if first > 0 and seqs and min(seqs) > 1:
        message = f"{source}: the ring buffer has dropped the {first} oldest entries; raise TORCH_FR_BUFFER_SIZE."
        issues.append(Issue(code="RING_BUFFER_DROPPED", severity="info", source=source, message=message))
    if rows and all(row["duration_ns"] is None for row in rows):
        advice = "Gloo records none" if gloo else "set TORCH_NCCL_ENABLE_TIMING=1 to record them"
        message = f"{source}: no entry has a duration ({advice}); durations stay empty."
        issues.append(Issue(code="NO_TIMING", source=source, message=message))
    return issues
