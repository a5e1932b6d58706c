"""ports.csv, links.csv and ranks.csv: the tables that an operator writes by hand."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed, Sink
from netlab.readers.streams import read_all
from netlab.schema import TABLES

__all__ = ["ROLES", "LinksCsv", "PortsCsv", "RanksCsv"]

ROLES = ("host", "up", "down", "peer", "hca", "lag", "vlan", "mgmt")
_LIMIT_BYTES = 1 << 30


def _cells(line: str) -> list[str]:
    return [cell.strip().strip('"').lower() for cell in line.split(",")]


def _header(head: bytes) -> list[str]:
    """Cells of the first line that is no comment."""
    for line in head.decode("utf-8-sig", "replace").splitlines():
        if line.strip() and not line.startswith("#"):
            return _cells(line)
    return []


def _read(path: Path, source: str, required: tuple[str, ...]) -> pl.DataFrame:
    """All cells as text under lower-case headers; empty cells are null."""
    content, _ = read_all(path, _LIMIT_BYTES)
    lines = content.decode("utf-8-sig", "replace").splitlines(keepends=True)
    skipped = next(index for index, line in enumerate(lines) if line.strip() and not line.startswith("#"))
    names = _cells(lines[skipped])
    if len(set(names)) != len(names):
        raise ParseError(f"AMBIGUOUS_COLUMNS: {source} line {skipped + 1} names a column twice; rename or remove one.")
    body = "".join(lines[skipped + 1 :]).encode()
    try:
        frame = (
            pl.read_csv(
                io.BytesIO(body), has_header=False, schema=dict.fromkeys(names, pl.String), truncate_ragged_lines=True, comment_prefix="#"
            )
            if body.strip()
            else pl.DataFrame(schema=dict.fromkeys(names, pl.String))
        )
    except pl.exceptions.PolarsError as error:
        raise ParseError(
            f"MALFORMED_CSV: {source} cannot be read as CSV ({str(error).splitlines()[0]}); check its commas and quotes."
        ) from error
    frame = frame.with_columns(pl.all().str.strip_chars().replace("", None)).with_row_index("line", offset=skipped + 2)
    return frame.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in required))


def _typed(frame: pl.DataFrame, table: str, source: str) -> tuple[pl.DataFrame, list[Issue]]:
    """Columns of a table; a number that is none becomes null with an issue, a row without its key is left out with one."""
    issues = []
    columns = []
    for column in TABLES[table].columns:
        if column.name not in frame.columns:
            continue
        if column.dtype != pl.String:
            number = pl.col(column.name).cast(column.dtype, strict=False)
            bad = frame.filter(number.is_null() & pl.col(column.name).is_not_null())
            for line, text in bad.select("line", column.name).iter_rows():
                message = f"{source} line {line}: {column.name} is {text!r}, expected a number; it was left out."
                issues.append(Issue(code="UNREADABLE_LINE", source=source, line=int(line), message=message))
            columns.append(number.alias(column.name))
        else:
            columns.append(pl.col(column.name))
    shaped = frame.select("line", *columns)
    required = [column.name for column in TABLES[table].columns if column.name in shaped.columns and not column.nullable]
    lacking = shaped.filter(pl.any_horizontal(pl.col(name).is_null() for name in required))
    for (line,) in lacking.select("line").iter_rows():
        message = f"{source} line {line}: {' and '.join(required)} must not be empty; the line was left out."
        issues.append(Issue(code="UNREADABLE_LINE", source=source, line=int(line), message=message))
    return shaped.drop_nulls(required).drop("line"), issues


def _role(frame: pl.DataFrame, source: str) -> tuple[pl.DataFrame, list[Issue]]:
    if "role" not in frame.columns:
        return frame, []
    known = pl.col("role").str.to_lowercase()
    wrong = frame.filter(~known.is_in(ROLES)).select("line", "role")
    issues = [
        Issue(
            code="UNREADABLE_LINE",
            source=source,
            line=int(line),
            message=f"{source} line {line}: role {role!r} is none of {', '.join(ROLES)}; it was left out.",
        )
        for line, role in wrong.iter_rows()
    ]
    return frame.with_columns(pl.when(known.is_in(ROLES)).then(known).alias("role")), issues


class _Table:
    """A CSV with fixed headers; ``required`` tells it from other tables."""

    name: str
    table: str
    required: tuple[str, ...]
    declared = True

    def sniff(self, head: bytes, path: Path) -> bool:
        """The first line names the required columns, and none of counters."""
        cells = set(_header(head))
        return set(self.required) <= cells and not {"counter", "value", "timestamp", "time"} & cells

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read all rows; unknown columns are left alone.

        Raises
        ------
        ParseError
            If no row has the columns that it must have.
        """
        frame = _read(path, source, self.required)
        frame, issues = _role(frame, source)
        shaped, more = _typed(frame, self.table, source)
        if shaped.is_empty():
            raise ParseError(f"NO_SERIES: {source} has a header but no usable row; fill it in or remove it.")
        fill = {"source": source, **({"declared": True} if "declared" in TABLES[self.table].schema else {})}
        sink.write(self.table, TABLES[self.table].conform(shaped, **fill))
        issues += more
        lost = len({issue.line for issue in issues})
        message = f"{lost} lines have cells that could not be used" if lost else None
        return Parsed(
            reader=self.name,
            rows=shaped.height,
            lines_unparsed=lost,
            status="partial" if lost else "ok",
            message=message,
            issues=tuple(issues),
        )


class PortsCsv(_Table):
    """``device,port,speed_gbps[,role,lag,rail,plane,host,nic]``."""

    name, table, required = "ports_csv", "port_facts", ("device", "port", "speed_gbps")


class LinksCsv(_Table):
    """``a_device,a_port,b_device,b_port[,speed_gbps,rail,plane,lag,role]``."""

    name, table, required = "links_csv", "cables", ("a_device", "a_port", "b_device", "b_port")


class RanksCsv(_Table):
    """``rank,host[,local_rank,gpu_index,nic,nic_port,rail]``."""

    name, table, required = "ranks_csv", "rank_map", ("rank", "host")
