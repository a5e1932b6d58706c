"""ports.csv, links.csv and ranks.csv: the tables that an operator writes by hand."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed, Sink
from netlab.readers.fabric.headers import VARIABLE_MAP, columns_of, first_line, speeds
from netlab.readers.streams import read_all
from netlab.schema import TABLES

__all__ = ["ROLES", "VARIABLE_MAP", "LinksCsv", "PortsCsv", "RanksCsv"]

ROLES = ("host", "up", "down", "peer", "hca", "lag", "vlan", "mgmt")
_ROLE_WORDS: dict[str, str] = {
    **{role: role for role in ROLES},
    **dict.fromkeys(("uplink", "spinefacing", "tospine", "north", "northbound"), "up"),
    **dict.fromkeys(("downlink", "south", "southbound", "leaffacing", "toleaf"), "down"),
    **dict.fromkeys(("server", "hostfacing", "access", "edge", "tohost", "compute", "serverfacing"), "host"),
    **dict.fromkeys(("interswitch", "isl", "peerlink", "mlag"), "peer"),
    **dict.fromkeys(("nic", "rdma", "hostport"), "hca"),
    **dict.fromkeys(("portchannel", "bundle", "bond", "aggregate"), "lag"),
    **dict.fromkeys(("svi", "subinterface", "logical"), "vlan"),
    **dict.fromkeys(("management", "oob", "outofband"), "mgmt"),
}
_LIMIT_BYTES = 1 << 30
#: Headers of counter files.
_NOT_OURS = frozenset(("counter", "value", "timestamp", "time", "ts", "metric", "datetime"))


def _read(path: Path, source: str, table: str) -> tuple[pl.DataFrame, list[Issue]]:
    """All cells as text under the table's own column names, with the line of each row; empty cells are null."""
    content, _ = read_all(path, _LIMIT_BYTES)
    cells, separator, skipped = first_line(content)
    lines = content.decode("utf-8-sig", "replace").splitlines(keepends=True)
    double = sorted({cell for cell in cells if cells.count(cell) > 1 and cell})
    if double:
        raise ParseError(f"AMBIGUOUS_COLUMNS: {source} line {skipped + 1} names {double[0]} twice; rename or remove one.")
    names = [f"c{index}" for index in range(len(cells))]
    # Comments are emptied, not dropped, so that rows keep their line numbers.
    body = "".join("\n" if line.startswith("#") else line for line in lines[skipped + 1 :]).encode()
    try:
        frame = (
            pl.read_csv(
                io.BytesIO(body),
                separator=separator,
                has_header=False,
                schema=dict.fromkeys(names, pl.String),
                truncate_ragged_lines=True,
            )
            if body.strip()
            else pl.DataFrame(schema=dict.fromkeys(names, pl.String))
        )
    except pl.exceptions.PolarsError as error:
        raise ParseError(
            f"MALFORMED_CSV: {source} cannot be read as CSV ({str(error).splitlines()[0]}); check its commas and quotes."
        ) from error
    frame = frame.with_columns(pl.all().str.strip_chars().replace("", None)).with_row_index("line", offset=skipped + 2)
    columns = columns_of(table, cells)
    frame = frame.select("line", *(pl.col(f"c{cells.index(header)}").alias(name) for name, header in columns.items()))
    issues: list[Issue] = []
    if "speed_gbps" in columns:
        frame, issues = _speeds(frame, columns["speed_gbps"], source)
    return frame.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in columns)), issues


def _speeds(frame: pl.DataFrame, header: str, source: str) -> tuple[pl.DataFrame, list[Issue]]:
    """Speeds in Gbit/s; one that cannot be read stays as it is and is told by ``_typed``."""
    values, assumed = speeds(frame["speed_gbps"], header)
    read = pl.Series("read", values).cast(pl.String)
    down = pl.col("speed_gbps").str.contains(r"^0+(?:\.0+)?\s*[A-Za-z/]*$")
    frame = frame.with_columns(pl.when(~down).then(pl.coalesce(read, pl.col("speed_gbps"))).alias("speed_gbps"))
    if assumed is None:
        return frame, []
    message = (
        f"{source}: column {header!r} names no unit; its values are too large for Gbit/s and were read as {assumed}. Call it speed_gbps."
    )
    return frame, [Issue(code="UNIT_ASSUMED", severity="info", source=source, message=message)]


def _typed(frame: pl.DataFrame, table: str, source: str) -> tuple[pl.DataFrame, list[Issue]]:
    """Columns of a table; a number that is none becomes null with an issue, a row without its key is left out with one."""
    issues: list[Issue] = []
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
    plain = pl.col("role").str.to_lowercase().str.strip_chars().str.replace_all(r"[ _-]", "")
    known = plain.replace_strict(_ROLE_WORDS, default=None, return_dtype=pl.String)
    wrong = frame.filter(known.is_null() & pl.col("role").is_not_null()).select("line", "role")
    issues = [
        Issue(
            code="UNREADABLE_LINE",
            source=source,
            line=int(line),
            message=f"{source} line {line}: role {role!r} is none of {', '.join(ROLES)}; it was left out.",
        )
        for line, role in wrong.iter_rows()
    ]
    return frame.with_columns(known.alias("role")), issues


class _Table:
    """A CSV that a person writes. Headers may be spelled as in ``headers.VARIABLE_MAP``; unknown columns are left alone."""

    name: str
    table: str
    #: Columns that it must have, and of which it must have at least one.
    required: tuple[str, ...]
    further: tuple[str, ...] = ()

    def sniff(self, head: bytes, path: Path) -> bool:
        """The first line names the columns, and none of counters."""
        cells = first_line(head)[0]
        columns = set(columns_of(self.table, cells))
        told = set(self.required) <= columns and (not self.further or bool(columns & set(self.further)))
        return told and not _NOT_OURS & set(cells)

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read all rows.

        Raises
        ------
        ParseError
            If no row has the columns that it must have.
        """
        frame, issues = _read(path, source, self.table)
        frame, more = _role(frame, source)
        shaped, odd = _typed(frame, self.table, source)
        if shaped.is_empty():
            raise ParseError(f"NO_SERIES: {source} has a header but no usable row; fill it in or remove it.")
        fill = {"source": source, **({"declared": True} if "declared" in TABLES[self.table].schema else {})}
        sink.write(self.table, TABLES[self.table].conform(shaped, **fill))
        lost = len({issue.line for issue in (*more, *odd)})
        return Parsed(
            reader=self.name,
            rows=shaped.height,
            lines_unparsed=lost,
            status="partial" if lost else "ok",
            message=f"UNREADABLE_LINE: {lost} lines have cells that could not be used" if lost else None,
            issues=(*issues, *more, *odd),
        )


class PortsCsv(_Table):
    """``device,port,speed_gbps[,role,lag,rail,plane,host,nic]``; of columns of a peer, cables are read as well."""

    name, table, required = "ports_csv", "port_facts", ("device", "port")
    further = ("speed_gbps", "role", "lag", "rail", "plane", "host", "nic")

    def sniff(self, head: bytes, path: Path) -> bool:
        """The first line names a port and what it is; both ends of a cable by names of their own are links.csv."""
        return super().sniff(head, path) and not _both_ends(head) and not RanksCsv().sniff(head, path)

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read all rows, and the cables of those that name a peer.

        Raises
        ------
        ParseError
            If no row has the columns that it must have.
        """
        parsed = super().read(path, sink, source)
        if {"b_device", "b_port"} <= set(columns_of("cables", first_line(read_all(path, _LIMIT_BYTES)[0])[0])):
            frame, _ = _read(path, source, "cables")
            cables, _ = _typed(_role(frame.drop_nulls(["b_device", "b_port"]), source)[0], "cables", source)
            sink.write("cables", TABLES["cables"].conform(cables, source=source, declared=True))
        return parsed


class LinksCsv(_Table):
    """``a_device,a_port,b_device,b_port[,speed_gbps,rail,plane,lag,role]``."""

    name, table, required = "links_csv", "cables", ("a_device", "a_port", "b_device", "b_port")

    def sniff(self, head: bytes, path: Path) -> bool:
        """The first line names both ends of a cable, and is no table of ports."""
        return super().sniff(head, path) and (_both_ends(head) or not PortsCsv().sniff(head, path))


class RanksCsv(_Table):
    """``rank,host[,local_rank,gpu_index,nic,nic_port,rail]``."""

    name, table, required = "ranks_csv", "rank_map", ("rank", "host")


def _both_ends(head: bytes) -> bool:
    """Whether the near end of a cable has a name of its own (``a_device``), not that of a port's table (``device``)."""
    columns = columns_of("cables", first_line(head)[0])
    ends = {"a_device", "a_port", "b_device", "b_port"}
    return ends <= set(columns) and not {columns["a_device"], columns["a_port"]} <= set(
        VARIABLE_MAP["port_facts"]["device"] + VARIABLE_MAP["port_facts"]["port"]
    )
