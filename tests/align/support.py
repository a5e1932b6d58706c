"""Help for tests of the align room: raw frames from trace documents, and short ways to look at results."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from netlab.align import Aligned, AlignOptions, align
from netlab.errors import ParseError
from netlab.readers.kineto.reader import read_frames
from netlab.schema.traces import RAW_TABLES, TRACE_FILES

Document = dict[str, Any]


def raw_of(paths: Sequence[Path]) -> dict[str, pl.DataFrame]:
    """Raw tables of some trace files, as the pipeline puts them together; files that cannot be read are left out."""
    parts: dict[str, list[pl.DataFrame]] = {table.name: [] for table in RAW_TABLES}
    rows = []
    number = 0
    for path in paths:
        try:
            frames, parsed = read_frames(path, path.name)
        except ParseError:
            continue
        for name, frame in frames.items():
            parts[name].append(frame.with_columns(file=pl.lit(number, pl.Int32)))
        facts = dict(parsed.facts)
        rows.append({"file": number, "path": path.name, **facts})
        number += 1
    tables = {table.name: table for table in RAW_TABLES}
    found = {name: tables[name].conform(pl.concat(frames, how="diagonal")) for name, frames in parts.items() if frames}
    found["trace_files"] = TRACE_FILES.conform(pl.DataFrame(rows, schema_overrides=dict(TRACE_FILES.schema)))
    return found


def aligned(paths: Sequence[Path], **options: Any) -> Aligned:
    """Align some trace files."""
    return align(raw_of(sorted(paths)), AlignOptions(**options))


def edited(source: Path, target: Path, change: Callable[[Document], None]) -> Path:
    """A changed copy of a trace file."""
    packed = source.suffix == ".gz"
    document = json.loads(gzip.decompress(source.read_bytes()) if packed else source.read_bytes())
    change(document)
    text = json.dumps(document).encode()
    target.write_bytes(gzip.compress(text, 1) if packed else text)
    return target


def codes(result: Aligned) -> set[str]:
    """Codes of all issues."""
    return {issue.code for issue in result.issues}
