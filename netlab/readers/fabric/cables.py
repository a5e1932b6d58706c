"""What readers of cables share: gathered ends, written once per cable, as rows of ``cables``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed, Sink
from netlab.readers.streams import read_all
from netlab.schema.counters import CABLES, FABRIC_NODES
from netlab.topology import guid_key

__all__ = ["CableReader", "Cables", "text_of"]

_LIMIT_BYTES = 1 << 30


def text_of(path: Path) -> str:
    """The content as text, inflated; bytes that are no UTF-8 are replaced."""
    return read_all(path, _LIMIT_BYTES)[0].decode("utf-8-sig", "replace")


@dataclass
class Cables:
    """Cables of one file. A cable that is seen from both ends counts once."""

    source: str
    path: Path
    rows: dict[tuple[tuple[str, str], tuple[str, str]], dict[str, object]] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)
    unparsed: int = 0
    nodes: dict[tuple[str, str], tuple[str, str | None]] = field(default_factory=dict)

    def node(self, identity: str, device: str, port: str | None = None, number: str = "") -> None:
        """A GUID or LID and whose it is; of a host also the port, for the port number ``number`` (any if empty)."""
        key = guid_key(identity)
        if key is not None:
            self.nodes.setdefault((key, number), (device, port))

    def add(self, a: tuple[str, str], b: tuple[str, str], **values: object) -> None:
        """A cable between two (device, port) ends; ``a_kind`` and ``b_kind`` say host or switch."""
        if b < a:
            a, b = b, a
            values = {{"a_kind": "b_kind", "b_kind": "a_kind"}.get(name, name): value for name, value in values.items()}
        row = self.rows.setdefault((a, b), {"a_device": a[0], "a_port": a[1], "b_device": b[0], "b_port": b[1]})
        for name, value in values.items():
            if row.get(name) is None:
                row[name] = value

    def lost(self, line: int, why: str) -> None:
        """A line that could not be used; the first few are named."""
        self.unparsed += 1
        if self.unparsed <= 5:
            message = f"{self.source} line {line}: {why}; it was left out."
            self.issues.append(Issue(code="UNREADABLE_LINE", source=self.source, line=line, message=message))


class CableReader:
    """A reader of cables. Subclasses say how to recognise the format and what is in it."""

    name: str

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the file is of this format."""
        raise NotImplementedError

    def gather(self, cables: Cables) -> None:
        """Put every cable of the file into ``cables``."""
        raise NotImplementedError

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read the file.

        Raises
        ------
        ParseError
            If it names no cable.
        """
        cables = Cables(source, path)
        self.gather(cables)
        if not cables.rows:
            raise ParseError(f"NO_SERIES: {source} names no cable; export it again.")
        types = {column.name: column.dtype for column in CABLES.columns}
        present = {name for row in cables.rows.values() for name in row}
        frame = pl.DataFrame(list(cables.rows.values()), schema={name: types[name] for name in types if name in present})
        sink.write("cables", CABLES.conform(frame, declared=False, source=source))
        named = [(*key, *value) for key, value in sorted(cables.nodes.items())]
        nodes = pl.DataFrame(named, schema=dict.fromkeys(("key", "number", "device", "port"), pl.String), orient="row")
        sink.write("fabric_nodes", FABRIC_NODES.conform(nodes, source=source))
        message = f"UNREADABLE_LINE: {cables.unparsed} lines could not be read" if cables.unparsed else None
        return Parsed(
            reader=self.name,
            rows=len(cables.rows),
            lines_unparsed=cables.unparsed,
            status="partial" if cables.unparsed else "ok",
            message=message,
            issues=tuple(cables.issues),
        )
