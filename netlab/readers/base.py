"""What a reader is and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import polars as pl

from netlab.disk import write_parquet
from netlab.issues import Issue
from netlab.schema import TABLES

__all__ = ["HEAD_BYTES", "Parsed", "Reader", "Sink"]

#: ``sniff`` sees this much of the (inflated) beginning of a file.
HEAD_BYTES = 65_536


class Sink:
    """Where a reader puts its tables: frames gathered in memory, or parts on disk when there is a folder.

    ``write`` may be called many times for one table; parts are concatenated in that order.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.frames: dict[str, list[pl.DataFrame]] = {}
        self._parts: dict[str, int] = {}

    def write(self, table: str, frame: pl.DataFrame) -> None:
        """Add rows to a table. Columns must be those of its declaration, ``file`` left out; order of rows is free."""
        if frame.is_empty():
            return
        if table not in TABLES:
            raise KeyError(table)
        if self.folder is None:
            self.frames.setdefault(table, []).append(frame)
            return
        number = self._parts.get(table, 0)
        self._parts[table] = number + 1
        target = self.folder / table
        target.mkdir(parents=True, exist_ok=True)
        self._write_part(target / f"{number:05d}.parquet", frame)

    def revise(self, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Pass everything written to a table so far through a function, part by part."""
        if table in self.frames:
            self.frames[table] = [change(frame) for frame in self.frames[table]]
        if self.folder is not None:
            for part in sorted((self.folder / table).glob("*.parquet")):
                self._write_part(part, change(pl.read_parquet(part)))

    def _write_part(self, target: Path, frame: pl.DataFrame) -> None:
        write_parquet(frame, target)

    def drop(self, table: str) -> None:
        """Forget what was written to a table (host operators, once device events show up)."""
        self.frames.pop(table, None)
        if self.folder is not None:
            for part in (self.folder / table).glob("*.parquet"):
                part.unlink()
            self._parts.pop(table, None)

    def collect(self, table: str) -> pl.DataFrame:
        """All rows of a table so far, without its ``file`` column."""
        columns = {name: dtype for name, dtype in TABLES[table].schema.items() if name != "file"}
        frames = list(self.frames.get(table, []))
        if self.folder is not None:
            frames += [pl.read_parquet(part) for part in sorted((self.folder / table).glob("*.parquet"))]
        return pl.concat(frames) if frames else pl.DataFrame(schema=columns)


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """A reader's account of one file. The tables themselves went to the sink."""

    reader: str
    rows: int
    lines_unparsed: int = 0
    status: str = "ok"
    message: str | None = None
    issues: tuple[Issue, ...] = ()
    #: Plain facts that are no rows, e.g. the columns of ``trace_files`` for a trace.
    facts: Mapping[str, object] = field(default_factory=dict)


class Reader(Protocol):
    """One format. ``name`` stands in ``sources.reader``."""

    name: str

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the file is of this format, from the first inflated kilobytes only. Never raises."""
        ...

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read the file into the sink. ``source`` is the name under which issues speak of it.

        Raises
        ------
        ParseError
            If nothing usable is in the file; the message begins with the issue code and a colon.
        """
        ...
