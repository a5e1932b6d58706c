"""Putting the parts of all files together: raw tables of the run, its sources and issues."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from netlab.align.events import EVENT_METADATA, KEPT, with_metadata
from netlab.issues import Issue
from netlab.pipeline.inputs import InputFile
from netlab.pipeline.store import FileStore, StoredFile
from netlab.schema import TABLES
from netlab.schema.inputs import SOURCES
from netlab.schema.traces import COMM_CALLS, DEVICE_EVENTS, LAUNCHES, RAW_TABLES, TRACE_FILES
from netlab.shelf import Shelf

__all__ = ["RawRun", "assemble"]

#: Makes an empty folder.
Scratch = Callable[[], Path]

#: Bytes on disk of the parts that are read together.
_BATCH_BYTES = 2_000_000
_PART = "part"
_TRACE_FACTS = tuple(column.name for column in TRACE_FILES.columns if column.name not in ("file", "path", "window"))


@dataclass(frozen=True)
class RawRun:
    """Everything the readers said. ``frames`` holds every table with rows, ``tall`` those of many; raw trace tables carry ``file``."""

    frames: dict[str, pl.DataFrame]
    tall: dict[str, Shelf]
    sources: pl.DataFrame
    issues: tuple[Issue, ...]


def assemble(files: Sequence[InputFile], accounts: Sequence[StoredFile], store: FileStore, scratch: Scratch | None = None) -> RawRun:
    """Concatenate the parts of all files in the order of their names; tall tables that are long lie in folders of ``scratch``."""
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
    tall: dict[str, Shelf] = {}
    for name in sorted(parts):
        if name == DEVICE_EVENTS.name:
            tall[name], tall[EVENT_METADATA] = _device_events(parts[name], scratch)
        elif name in (LAUNCHES.name, COMM_CALLS.name):
            tall[name] = _calls(name, parts[name], scratch)
        else:
            batches = [_numbered(name, batch).collect() for batch in _batches(parts[name])]
            frames[name] = TABLES[name].conform(pl.concat(batches, rechunk=False))
    if trace_rows:
        frames["trace_files"] = TRACE_FILES.conform(pl.DataFrame(trace_rows, schema=dict(TRACE_FILES.schema)))
        for table in RAW_TABLES:
            if table.name not in tall:
                frames.setdefault(table.name, table.empty())
    issues = tuple(issue for account in accounts for issue in account.issues)
    return RawRun(frames, tall, _sources(files, accounts), issues)


def _device_events(numbers: Mapping[str, int], scratch: Scratch | None) -> tuple[Shelf, Shelf]:
    """Device events, each with the number of its file, and the collective metadata of the few that carry some.

    They stay in file order: alignment sorts what it needs.
    """
    names = pl.col("name", "category").cast(pl.Categorical)
    scans = [_numbered(DEVICE_EVENTS.name, batch) for batch in _batches(numbers)]
    files = len(set(numbers.values()))
    events = Shelf.of((scan.select(*KEPT, "collective").with_columns(names).collect() for scan in scans), scratch, files)
    return events, Shelf.of((with_metadata(scan).collect() for scan in scans), scratch, files)


def _calls(name: str, numbers: Mapping[str, int], scratch: Scratch | None) -> Shelf:
    """Calls of the host in all files, each with the number of its file, sorted by the key of their table."""
    columns = [pl.col(column).cast(pl.Categorical) if column == "name" else pl.col(column) for column in TABLES[name].schema]
    calls = Shelf.of((_numbered(name, batch).select(columns).collect() for batch in _batches(numbers)), scratch, len(set(numbers.values())))
    calls.sort(TABLES[name].key)
    return calls


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
