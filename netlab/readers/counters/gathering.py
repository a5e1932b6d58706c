"""The frame of a small-format reader: gather named numbers from a file, then interpret and account for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from netlab.issues import Issue
from netlab.readers.base import Parsed, Sink
from netlab.readers.counters.account import ASSUMED, account, device_from_path, instant_from_path
from netlab.readers.counters.meaning import Meaning, NameTable
from netlab.readers.counters.samples import interpret, raw_frame
from netlab.readers.counters.texts import Instant
from netlab.schema.counters import PORT_FACTS

__all__ = ["Gathered", "GatheringReader"]


@dataclass
class Gathered:
    """Numbers of one file in its order, facts about its ports, and what could not be used."""

    source: str
    path: Path
    #: Device and instant where the content names none.
    device: str | None = None
    at: Instant | None = None
    rows: list[tuple[object, ...]] = field(default_factory=list)
    facts: list[dict[str, object]] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    unparsed: int = 0

    def add(
        self,
        port: str,
        raw_name: str,
        value: object,
        *,
        device: str | None = None,
        ts_ns: int | None = None,
        queue: str | None = None,
        direction: str | None = None,
        flags: str = "",
    ) -> None:
        """One number. Without a device or time of its own, those of the file count, at last those of its name."""
        owner = device or self.device
        if owner is None:
            owner, flags = device_from_path(self.path), f"{flags},{ASSUMED}".strip(",")
        at = ts_ns
        if at is None and self.at is not None:
            at = self.at.ns
            if self.at.naive:
                flags = f"{flags},clock_naive".strip(",")
        self.rows.append((at, owner, port, queue, direction, raw_name, None if value is None else str(value), flags))

    def fact(self, port: str, *, device: str | None = None, **values: object) -> None:
        """Something known about a port that is no counter (its speed, its bundle)."""
        owner = device or self.device or device_from_path(self.path)
        self.facts.append({"device": owner, "port": port, "declared": False, "source": self.source, **values})

    def lost(self, line: int, why: str) -> None:
        """A line that could not be used; the first few are named."""
        self.unparsed += 1
        if self.unparsed <= 5:
            message = f"{self.source} line {line}: {why}; it was left out."
            self.issues.append(Issue(code="UNREADABLE_LINE", source=self.source, line=line, message=message))


class GatheringReader:
    """A reader of a format that fits in memory. Subclasses say how to recognise it and what is in it."""

    name: str
    tables: Sequence[NameTable]
    ts_source: str | None = "collector"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the file is of this format."""
        raise NotImplementedError

    def gather(self, found: Gathered) -> None:
        """Put everything that the file says into ``found``."""
        raise NotImplementedError

    def adjust(self, found: Gathered) -> Callable[[str, Meaning | None], Meaning | None] | None:
        """A change of the registry's answers for this file, or None."""
        return None

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read the file.

        Raises
        ------
        ParseError
            If nothing usable is in it.
        """
        found = Gathered(source, path, at=instant_from_path(path))
        self.gather(found)
        result = interpret(raw_frame(found.rows), source, self.tables, ts_source=self._ts_source(found), adjust=self.adjust(found))
        facts = PORT_FACTS.conform(_facts_frame(found.facts)) if found.facts else None
        return account(self.name, result, sink, source, facts=facts, unparsed=found.unparsed, issues=tuple(found.issues))

    def _ts_source(self, found: Gathered) -> str | None:
        return self.ts_source


def _facts_frame(facts: list[dict[str, object]]) -> pl.DataFrame:
    """Facts as a frame of the columns that any of them has: a column may be null, or absent, in the first hundreds."""
    present = {name for fact in facts for name in fact}
    return pl.DataFrame(facts, schema={column.name: column.dtype for column in PORT_FACTS.columns if column.name in present})
