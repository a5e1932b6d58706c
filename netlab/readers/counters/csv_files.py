"""Plain CSV of counters: long (one row per value) or wide (one column per counter)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed, Sink
from netlab.readers.counters.account import ASSUMED, account, device_from_path
from netlab.readers.counters.files import inflated
from netlab.readers.counters.meaning import DIRECTIONS, first_meaning
from netlab.readers.counters.names import ALL_TABLES
from netlab.readers.counters.samples import RAW_SCHEMA, interpret
from netlab.readers.counters.texts import number_columns, time_column
from netlab.readers.counters.wide_headers import owned_column

__all__ = ["VARIABLE_MAP", "PlainCsv"]

#: Column headers to roles. Two columns of one role are an error with the line number, never a guess.
VARIABLE_MAP: dict[str, str] = {
    **dict.fromkeys(
        (
            "timestamp",
            "time",
            "ts",
            "@timestamp",
            "_time",
            "datetime",
            "date_time",
            "timestamp_ns",
            "timestamp_ms",
            "timestamp_us",
            "unix_time",
            "epoch",
        ),
        "time",
    ),
    **dict.fromkeys(("device", "switch", "host", "hostname", "node", "instance", "target", "sysname"), "device"),
    **dict.fromkeys(("interface", "port", "ifname", "iface", "port_num", "if_name", "portname", "port_name"), "port"),
    **dict.fromkeys(("counter", "metric", "counter_name", "metric_name", "_field", "field", "stat", "statistic"), "counter"),
    **dict.fromkeys(("value", "_value", "val", "counter_value", "reading"), "value"),
    **dict.fromkeys(("queue", "priority", "prio", "traffic_class", "tc"), "queue"),
    **dict.fromkeys(("direction", "dir"), "direction"),
}
#: Labels that describe a row and are no counters.
_LABELS = frozenset(
    (
        "job",
        "ifalias",
        "ifdescr",
        "ifindex",
        "source",
        "tag",
        "table",
        "result",
        "_start",
        "_stop",
        "_measurement",
        "unit",
        "rack",
        "pod",
        "site",
        "region",
    )
)
_DIRECTIONS = {**DIRECTIONS, "none": "none", "": "none"}


def _header(head: bytes) -> tuple[list[str], str, int] | None:
    """Header cells, separator and line number of the first line that is no comment."""
    for number, line in enumerate(head.decode("utf-8-sig", "replace").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        separator = max(",;\t|", key=line.count)
        if separator not in line:
            return None
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))], separator, number
    return None


def _roles(cells: list[str]) -> list[str | None]:
    return [VARIABLE_MAP.get(cell.lower().replace(" ", "_")) for cell in cells]


def _counters_of(cells: list[str], roles: list[str | None]) -> list[str]:
    return [cell for cell, role in zip(cells, roles, strict=True) if role is None and cell and cell.lower() not in _LABELS]


def _ports_in_columns(roles: list[str | None], others: list[str]) -> bool:
    """Whether a row holds one counter of many ports: ``time,device,counter,Ethernet0,Ethernet4``."""
    return "counter" in roles and not {"port", "value"} & set(roles) and any(re.search(r"\d", cell) for cell in others)


class PlainCsv:
    """Counters as people export them: ``timestamp,device,port,counter,value``, or a column for each counter, port, or counter of a port.

    Header aliases are accepted.
    """

    name = "counters_csv"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A header with a time, a device or port, and counters by name or in columns."""
        found = _header(head)
        if found is None:
            return False
        cells = found[0]
        roles = _roles(cells)
        others = _counters_of(cells, roles)
        if "time" not in roles:
            return False
        if "port" not in roles and any(owned_column(cell) is not None for cell in others):
            return True
        if not {"device", "port"} & set(roles):
            return False
        if {"counter", "value"} <= set(roles) or _ports_in_columns(roles, others):
            return True
        return any(first_meaning(ALL_TABLES, cell) is not None for cell in others)

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read the file whole; every value becomes a sample.

        Raises
        ------
        ParseError
            If two columns have one role, epoch units are mixed, or no row could be read.
        """
        content = inflated(path)
        found = _header(content[:1_000_000])
        if found is None:
            raise ParseError(f"MALFORMED_CSV: {source} has no header line; write timestamp,device,port,counter,value.")
        cells, separator, line = found
        roles = _roles(cells)
        _check_roles(cells, roles, source, line)
        table = _table(content, cells, separator, line, source)
        long = _long(table, cells, roles, path)
        issues: list[Issue] = []
        times = time_column(long["time"])
        _check_units(times, source)
        bad = times["ts_ns"].is_null() | long["raw_name"].is_null()
        if bad.any():
            first = int(long["line"][int(bad.arg_max() or 0)])
            count = long.filter(bad)["line"].n_unique()
            message = (
                f"{source} line {first}: it has no readable time, or no counter; {count} such lines were left out. "
                "Write ISO 8601 with a zone, or Unix time."
            )
            issues.append(Issue(code="UNREADABLE_LINE", source=source, line=first, message=message))
        naive = times["naive"]
        assumed = (pl.col("device") == device_from_path(path)) if "device" not in roles else pl.lit(False)
        flags = pl.concat_str(
            pl.when(assumed).then(pl.lit(ASSUMED)).otherwise(pl.lit("")),
            pl.when(naive).then(pl.lit(",clock_naive")).otherwise(pl.lit("")),
        ).str.strip_chars(",")
        raw = long.with_columns(times["ts_ns"], flags.alias("flags")).filter(~bad)
        result = interpret(raw.select(*RAW_SCHEMA), source, ALL_TABLES, ts_source="collector")
        lost = long.filter(bad)["line"].n_unique()
        return account(self.name, result, sink, source, unparsed=lost, issues=tuple(issues))


def _counts(column: pl.Series) -> bool:
    """Whether some cell of a column is a number; a column of words describes rows and counts nothing."""
    return bool(column.to_frame("text").select(number_columns()[1].is_not_null().any()).item())


def _check_roles(cells: list[str], roles: list[str | None], source: str, line: int) -> None:
    for role in set(roles) - {None}:
        named = [cell for cell, own in zip(cells, roles, strict=True) if own == role]
        if len(named) > 1:
            raise ParseError(
                f"AMBIGUOUS_COLUMNS: {source} line {line}: columns {' and '.join(map(repr, named))} both name the {role}; "
                "rename or remove one."
            )


def _check_units(times: pl.DataFrame, source: str) -> None:
    units = sorted(set(times["unit"].drop_nulls().unique()) - {"iso"})
    if len(units) > 1:
        raise ParseError(f"MIXED_TIME_UNITS: {source} mixes Unix times in {' and '.join(units)}; export it with one unit.")


def _table(content: bytes, cells: list[str], separator: str, line: int, source: str) -> pl.DataFrame:
    """All cells as text, with the line number of each row."""
    body = io.BytesIO(content.removeprefix(b"\xef\xbb\xbf"))
    for _ in range(line):
        body.readline()
    names = [f"c{index}" for index in range(len(cells))]
    try:
        frame = pl.read_csv(
            body,
            separator=separator,
            has_header=False,
            schema=dict.fromkeys(names, pl.String),
            truncate_ragged_lines=True,
            ignore_errors=True,
            encoding="utf8-lossy",
            comment_prefix="#",
        )
    except pl.exceptions.PolarsError as error:
        raise ParseError(f"MALFORMED_CSV: {source} cannot be read as CSV ({str(error).splitlines()[0]}); export it again.") from error
    return frame.with_row_index("line", offset=line + 1)


def _long(table: pl.DataFrame, cells: list[str], roles: list[str | None], path: Path) -> pl.DataFrame:
    """Columns of the raw form, ``time`` and ``line``: one row per value."""
    place = {role: f"c{index}" for index, role in enumerate(roles) if role is not None}

    def column(role: str, default: str | None) -> pl.Expr:
        return (pl.col(place[role]).str.strip_chars() if role in place else pl.lit(default, dtype=pl.String)).alias(role)

    base = table.select(
        "line",
        column("time", None),
        column("device", device_from_path(path)),
        column("port", "").fill_null(""),
        column("queue", None).replace("", None),
        column("direction", None).str.to_lowercase().replace_strict(_DIRECTIONS, default=None, return_dtype=pl.String),
        column("counter", None).alias("raw_name"),
        column("value", None).alias("text"),
        *[f"c{index}" for index, role in enumerate(roles) if role is None],
    )
    if "counter" in place and "value" in place:
        return base.with_columns(pl.col("raw_name").replace("", None))
    wanted = set(_counters_of(cells, roles))
    columns = {f"c{index}": cell for index, cell in enumerate(cells) if roles[index] is None and cell in wanted}
    columns = {name: cell for name, cell in columns.items() if first_meaning(ALL_TABLES, cell) is not None or _counts(table[name])}
    identity = ["line", "time", "device", "port", "queue", "direction"]
    if _ports_in_columns(roles, list(wanted)):
        wide = base.select(*identity, pl.col("raw_name").replace("", None), *columns).drop("port").rename(columns)
        identity = [*(name for name in identity if name != "port"), "raw_name"]
        long = wide.unpivot(on=list(columns.values()), index=identity, variable_name="port", value_name="text")
        return long.sort("line", maintain_order=True)
    wide = base.select(*identity, *columns).rename(columns)
    long = wide.unpivot(on=list(columns.values()), index=identity, variable_name="raw_name", value_name="text").sort(
        "line", maintain_order=True
    )
    return long if "port" in place else _of_owners(long, columns.values())


def _of_owners(long: pl.DataFrame, cells: Iterable[str]) -> pl.DataFrame:
    """Values of columns such as ``leaf1/Ethernet0 ifHCInOctets`` under their device and port."""
    owners = {cell: owned for cell in cells if (owned := owned_column(cell)) is not None}
    if not owners:
        return long
    table = pl.DataFrame(
        [(cell, *owned) for cell, owned in owners.items()],
        schema=dict.fromkeys(("raw_name", "own_device", "own_port", "own_counter"), pl.String),
        orient="row",
    )
    joined = long.join(table, on="raw_name", how="left", maintain_order="left")
    return joined.with_columns(
        pl.coalesce("own_device", "device").alias("device"),
        pl.coalesce("own_port", "port").alias("port"),
        pl.coalesce("own_counter", "raw_name").alias("raw_name"),
    ).drop("own_device", "own_port", "own_counter")
