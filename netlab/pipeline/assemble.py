"""Putting the parts of all files together: raw tables of the run, its sources and issues."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from netlab.align.events import EVENT_METADATA, KEPT, with_metadata
from netlab.issues import Issue
from netlab.pipeline.inputs import InputFile
from netlab.pipeline.store import FileStore, StoredFile
from netlab.schema import TABLES
from netlab.schema.inputs import SOURCES
from netlab.schema.traces import DEVICE_EVENTS, RAW_TABLES, TRACE_FILES

__all__ = ["RawRun", "assemble"]

#: Bytes on disk of the parts that are read together.
_BATCH_BYTES = 2_000_000
_PART = "part"
_TRACE_FACTS = tuple(column.name for column in TRACE_FILES.columns if column.name not in ("file", "path", "window"))


@dataclass(frozen=True)
class RawRun:
    """Everything the readers said. ``frames`` holds every table with rows; raw trace tables carry ``file``."""

    frames: dict[str, pl.DataFrame]
    sources: pl.DataFrame
    issues: tuple[Issue, ...]


def assemble(files: Sequence[InputFile], accounts: Sequence[StoredFile], store: FileStore) -> RawRun:
    """Concatenate the parts of all files in the order of their names."""
    parts: dict[str, dict[str, int]] = {}
    trace_rows: list[dict[str, object]] = []
    for file, account in sorted(zip(files, accounts, strict=True), key=lambda pair: pair[0].source):
        if account.status == "rejected":
            continue
        is_trace = "device_event_count" in account.facts
        number = len(trace_rows)
        if is_trace:
            trace_rows.append({"file": number, "path": file.source, **{name: account.facts.get(name) for name in _TRACE_FACTS}})
        for name, paths in store.frames(account.sha256, file.source).items():
            parts.setdefault(name, {}).update((str(path), number) for path in paths)
    frames: dict[str, pl.DataFrame] = {}
    for name in sorted(parts):
        frames |= _read(name, parts[name])
    if trace_rows:
        frames["trace_files"] = TRACE_FILES.conform(pl.DataFrame(trace_rows, schema=dict(TRACE_FILES.schema)))
        for table in RAW_TABLES:
            frames.setdefault(table.name, table.empty())
    issues = tuple(issue for account in accounts for issue in account.issues)
    return RawRun(frames, _sources(files, accounts), issues)


def _read(name: str, numbers: Mapping[str, int]) -> dict[str, pl.DataFrame]:
    """One table of its parts, each with the number of its file.

    Few device events carry metadata: it is read apart, and its columns are never held for the others. They stay in file order: alignment
    sorts what it needs, and sorting here costs twice their size.
    """
    if name != DEVICE_EVENTS.name:
        return {name: TABLES[name].conform(pl.concat([_numbered(name, batch).collect() for batch in _batches(numbers)], rechunk=False))}
    events, metadata = [], []
    for batch in _batches(numbers):
        scan = _numbered(name, batch)
        events.append(scan.select(*KEPT, "collective").with_columns(pl.col("name", "category").cast(pl.Categorical)).collect())
        metadata.append(with_metadata(scan).collect())
    return {name: pl.concat(events, rechunk=False), EVENT_METADATA: pl.concat(metadata, rechunk=False)}


def _numbered(name: str, numbers: Mapping[str, int]) -> pl.LazyFrame:
    scan = pl.scan_parquet(list(numbers), glob=False, include_file_paths=_PART)
    if "file" not in TABLES[name].schema:
        return scan.drop(_PART)
    number = pl.col(_PART).cast(pl.Categorical).replace_strict(dict(numbers), return_dtype=pl.Int32)
    return scan.with_columns(number.alias("file")).drop(_PART)


def _batches(numbers: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Parts that are read together: one by one a thousand small ones take longer, all at once a few large ones fill the memory."""
    batch: dict[str, int] = {}
    size = 0
    for path, number in numbers.items():
        batch[path] = number
        size += os.path.getsize(path)
        if size > _BATCH_BYTES:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch


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
