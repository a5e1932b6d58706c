"""What all counter readers share around the parsing: the account of a file, and names that only the file's path gives."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed, Sink
from netlab.readers.counters.samples import Interpreted
from netlab.readers.counters.texts import Instant, parse_instant

__all__ = ["ASSUMED", "account", "device_from_path", "instant_from_path"]

#: Flag of rows whose device is the file's name, because the content names none; ``[files]`` in netlab.toml can say better.
ASSUMED = "device_assumed"

_STAMPS = (
    re.compile(r"(?<!\d)(\d{4})-?(\d\d)-?(\d\d)[T_-](\d\d)[:.-]?(\d\d)[:.-]?(\d\d)(Z|[+-]\d{4})?(?!\d)"),
    re.compile(r"(?<!\d)(1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?)(?!\d)"),
)


#: Words of commands and formats that people put into names of files; none of them names a device.
_COMMANDS = frozenset(
    (
        *("show", "lldp", "table", "neighbors", "neighbours", "detail", "counters", "counter", "interfaces", "interface", "errors"),
        *("discards", "pfc", "queue", "watermark", "wredcounters", "ethtool", "statistic", "statistics", "stats", "perfquery", "sysfs"),
        *("snapshot", "dump", "output", "json", "ibqueryerrors", "ibdiagnet"),
    )
)


def device_from_path(path: Path) -> str:
    """The file's name without its endings, a time stamp, and the command that printed it: the last resort for a device.

    >>> [device_from_path(Path(name)) for name in ("logs/leaf1_2026-01-01T00-00-00Z.txt.gz", "leaf1_lldp.txt", "show_lldp_table_sw-2.txt")]
    ['leaf1', 'leaf1', 'sw-2']
    >>> device_from_path(Path("nodea_ethtool_S_ens1f0.txt")), device_from_path(Path("counters.csv"))
    ('nodea', 'counters')
    """
    stem = path.name
    for ending in (".gz", ".txt", ".json", ".csv", ".prom", ".out", ".lp", ".log", ".raw", ".xml", ".db_csv", ".dump"):
        stem = stem.removesuffix(ending)
    for stamp in _STAMPS:
        stem = stamp.sub("", stem)
    stem = stem.strip("._- ")
    return _without_command(stem) or stem or path.parent.name or "unknown"


def _without_command(stem: str) -> str:
    """What stands before the first word of a command, or else behind the last."""
    words = re.split(r"([_ .-]+)", stem)
    command = [number for number in range(0, len(words), 2) if words[number].lower() in _COMMANDS]
    if not command:
        return stem
    return "".join(words[: command[0]] if command[0] else words[command[-1] + 1 :]).strip("._- ")


def instant_from_path(path: Path) -> Instant | None:
    """A time stamp in the file's name, for formats that carry none."""
    calendar, epoch = (stamp.search(path.name) for stamp in _STAMPS)
    if calendar:
        year, month, day, hour, minute, second, zone = calendar.groups()
        return parse_instant(f"{year}-{month}-{day}T{hour}:{minute}:{second}{zone or ''}")
    return parse_instant(epoch[1]) if epoch else None


def account(
    reader: str,
    result: Interpreted,
    sink: Sink,
    source: str,
    *,
    facts: pl.DataFrame | None = None,
    unparsed: int = 0,
    issues: tuple[Issue, ...] = (),
) -> Parsed:
    """Write samples (and port facts) to the sink and give the reader's account.

    Raises
    ------
    ParseError
        If the file gave neither a sample nor a fact about a port.
    """
    rows = result.counters.height + (0 if facts is None else facts.height)
    lost = unparsed + result.unparsed
    if not rows:
        raise ParseError(f"NO_SERIES: {source} holds no counter value; export it again.")
    sink.write("counters", result.counters)
    if facts is not None:
        sink.write("port_facts", facts)
    message = f"UNREADABLE_LINE: {lost} values or lines could not be read" if lost else None
    return Parsed(
        reader=reader,
        rows=rows,
        lines_unparsed=lost,
        status="partial" if lost else "ok",
        message=message,
        issues=(*issues, *result.issues),
    )
