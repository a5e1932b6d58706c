"""Putting the parts of all files together: raw tables of the run, its sources and issues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from netlab.align.events import EVENT_METADATA, KEPT, with_metadata
from netlab.issues import Issue
from netlab.pipeline.inputs import InputFile
from netlab.pipeline.store import FileStore, StoredFile, read_parts
from netlab.schema import TABLES
from netlab.schema.inputs import SOURCES
from netlab.schema.traces import DEVICE_EVENTS, RAW_TABLES, TRACE_FILES

__all__ = ["RawRun", "assemble"]

_TRACE_FACTS = tuple(column.name for column in TRACE_FILES.columns if column.name not in ("file", "path", "window"))


@dataclass(frozen=True)
class RawRun:
    """Everything the readers said. ``frames`` holds every table with rows; raw trace tables carry ``file``."""

    frames: dict[str, pl.DataFrame]
    sources: pl.DataFrame
    issues: tuple[Issue, ...]


def assemble(files: Sequence[InputFile], accounts: Sequence[StoredFile], store: FileStore) -> RawRun:
    """Concatenate the parts of all files in the order of their names."""
    gathered: dict[str, list[pl.DataFrame]] = {}
    trace_rows: list[dict[str, object]] = []
    for file, account in sorted(zip(files, accounts, strict=True), key=lambda pair: pair[0].source):
        if account.status == "rejected":
            continue
        is_trace = "device_event_count" in account.facts
        number = len(trace_rows)
        if is_trace:
            trace_rows.append({"file": number, "path": file.source, **{name: account.facts.get(name) for name in _TRACE_FACTS}})
        for name, parts in store.frames(account.sha256, file.source).items():
            for part_of, frame in _read(name, parts):
                if "file" in TABLES[name].schema:
                    frame = frame.with_columns(pl.lit(number, dtype=pl.Int32).alias("file"))
                gathered.setdefault(part_of, []).append(frame)
    frames = {name: _together(name, gathered.pop(name)) for name in sorted(gathered)}
    if trace_rows:
        frames["trace_files"] = TRACE_FILES.conform(pl.DataFrame(trace_rows, schema=dict(TRACE_FILES.schema)))
        for table in RAW_TABLES:
            frames.setdefault(table.name, table.empty())
    issues = tuple(issue for account in accounts for issue in account.issues)
    return RawRun(frames, _sources(files, accounts), issues)


def _read(name: str, parts: list[Path]) -> Iterator[tuple[str, pl.DataFrame]]:
    """A table of one file. Few device events carry metadata: it is read apart, and its columns are never held for the others."""
    if name != DEVICE_EVENTS.name:
        yield name, read_parts(parts)
        return
    for part in parts:
        scan = pl.scan_parquet(part)
        columns = [column for column in KEPT if column != "file"]
        yield name, scan.select(*columns, "collective").with_columns(pl.col("name", "category").cast(pl.Categorical)).collect()
        yield EVENT_METADATA, with_metadata(scan.with_columns(file=0)).drop("file").collect()


def _together(name: str, parts: list[pl.DataFrame]) -> pl.DataFrame:
    """One table of its parts. Device events stay in file order: alignment sorts what it needs, and sorting here costs twice their size."""
    frame = pl.concat(parts, rechunk=False)
    parts.clear()
    return frame if name in (DEVICE_EVENTS.name, EVENT_METADATA) else TABLES[name].conform(frame)


def _sources(files: Sequence[InputFile], accounts: Sequence[StoredFile]) -> pl.DataFrame:
    rows = [
        {
            "path": file.source,
            "reader": account.reader,
            "sha256": account.sha256 or None,
            "bytes": account.size_bytes,
            "rows": account.rows,
            "lines_unparsed": account.lines_unparsed,
            "status": account.status,
            "message": account.message,
        }
        for file, account in zip(files, accounts, strict=True)
    ]
    return SOURCES.validate(SOURCES.conform(pl.DataFrame(rows, schema=dict(SOURCES.schema))))
