"""Tall tables, column by column: in memory while they are small, beyond that in a folder from which a stage takes what it uses."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from netlab.disk import disk_errors
from netlab.schema.table import Table, in_order

__all__ = ["SPILL_BYTES", "FileFrame", "Shelf", "TallFrame"]

#: Larger tables (of one file) go to a folder, which costs a tenth of the time to read them from a trace.
SPILL_BYTES = 20_000_000
#: Rows of a stretch in a folder, at most.
_STRETCH_ROWS = 1 << 16


class _Folder:
    """A folder that is removed with the last that refers to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)


@dataclass(frozen=True)
class FileFrame:
    """A table in a Parquet file, which is there as long as this is."""

    path: Path
    height: int
    _folder: _Folder

    def lazy(self) -> pl.LazyFrame:
        """A scan of the file."""
        return pl.scan_parquet(self.path)


#: A table in memory or in a file.
TallFrame = pl.DataFrame | FileFrame


class Shelf:
    """Columns of a tall table, in stretches of rows.

    A column comes whole (:meth:`frame`), or with others stretch by stretch (:meth:`stretches`). Without a folder there is one stretch and
    all of it is in memory; with one, a column is in memory only while somebody holds it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = None if folder is None else _Folder(folder)
        self._columns: dict[str, list[pl.Series | Path]] = {}
        self._lengths: list[int] = []
        self._files = 0

    @classmethod
    def of(cls, frames: Iterable[pl.DataFrame], scratch: Callable[[], Path] | None = None, files: int = 1) -> Shelf:
        """The rows of all frames, taken one by one; if they are many, in the empty folder that ``scratch`` makes.

        Many are `SPILL_BYTES` for each of the files that they come from: all else grows with their number, too.
        """
        shelf, waiting, rows, size = cls(), list[pl.DataFrame](), 0, 0.0
        for frame in frames:
            waiting.append(frame)
            rows, size = rows + frame.height, size + frame.estimated_size()
            if scratch is not None and shelf._folder is None and size > SPILL_BYTES * files:
                shelf = cls(scratch())
            if shelf._folder is not None and rows > _STRETCH_ROWS:
                shelf._append(waiting)
                waiting, rows = [], 0
        if waiting:
            shelf._append(waiting)
        return shelf

    @property
    def height(self) -> int:
        """Number of rows."""
        return sum(self._lengths)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    @property
    def is_spilled(self) -> bool:
        """Whether its columns lie on disk."""
        return self._folder is not None

    def frame(self, *names: str) -> pl.DataFrame:
        """Some columns, whole; all of them if none is named."""
        chosen = names or tuple(self._columns)
        return pl.DataFrame([pl.concat([self._load(part, name) for part in self._columns[name]], rechunk=False) for name in chosen])

    def stretches(self, *names: str) -> Iterator[pl.DataFrame]:
        """Some columns (all if none is named), stretch by stretch."""
        for number in range(len(self._lengths)):
            yield pl.DataFrame([self._load(self._columns[name][number], name) for name in names or tuple(self._columns)])

    def rows(self, rows: pl.Series, *names: str) -> pl.DataFrame:
        """Some columns at given rows, one column after the other."""
        return pl.DataFrame([self.frame(name).to_series().gather(rows) for name in names])

    def distinct(self, name: str) -> pl.Series:
        """The different values of a column, in order of first appearance."""
        return pl.concat([part.to_series().unique(maintain_order=True) for part in self.stretches(name)]).unique(maintain_order=True)

    def put(self, column: pl.Series) -> None:
        """Add or replace a whole column."""
        edges = np.cumsum([0, *self._lengths]).tolist()
        self._replace(column.name, [column[first:last] for first, last in pairwise(edges)])

    def extend(self, names: Sequence[str], make: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Add or replace the columns that a function makes of each stretch of some columns."""
        made: dict[str, list[pl.Series | Path]] = {}
        for part in self.stretches(*names):
            for column in make(part).get_columns():
                made.setdefault(column.name, []).append(self._keep(column))
        for name, parts in made.items():
            self._forget(name)
            self._columns[name] = parts

    def drop(self, *names: str) -> None:
        """Forget columns, also such as are not there."""
        for name in names:
            self._forget(name)

    def sort(self, by: Sequence[str]) -> None:
        """Sort by columns, nulls first, equal rows as they are; column after column, because all of them together fill the memory."""
        if all(in_order(part, by) for part in self._overlapping(by)):
            return
        order = self.frame(*by).select(pl.arg_sort_by(*by, nulls_last=False, maintain_order=True)).to_series()
        for name in self.columns:
            self.put(self.frame(name).to_series().gather(order))

    def table(self, table: Table, make: Callable[[pl.DataFrame], pl.DataFrame] = lambda part: part) -> TallFrame:
        """The shelf, which is in order of the table's key, as that table, checked; ``make`` forms the rows of each stretch.

        A shelf in memory gives a frame, one on disk the Parquet file that it wrote.
        """
        parts = (table.validate(table.conform(make(part))) for part in self.stretches())
        if self._folder is None:
            return next(parts)
        rows = 0

        def written(*_: object) -> Iterator[pl.DataFrame]:
            nonlocal rows
            for part in parts:
                rows += part.height
                yield part

        target = self._folder.path / f"{table.name}.parquet"
        # One stretch at a time: a scan of files reads many of them ahead.
        whole = register_io_source(written, schema=dict(table.schema))
        with disk_errors(target):
            whole.sink_parquet(target, compression="zstd", compression_level=1, row_group_size=_STRETCH_ROWS)
        return FileFrame(target, rows, self._folder)

    def _overlapping(self, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Stretches of some columns, each with the last row of the one before."""
        last: pl.DataFrame | None = None
        for part in self.stretches(*names):
            yield part if last is None else pl.concat([last, part])
            last = part.tail(1) if part.height else last

    def _append(self, frames: Sequence[pl.DataFrame]) -> None:
        whole = pl.concat(frames)
        size = whole.height if self._folder is None else _STRETCH_ROWS
        for part in whole.iter_slices(size) if whole.height else (whole,):
            for column in part.get_columns():
                self._columns.setdefault(column.name, []).append(self._keep(column))
            self._lengths.append(part.height)

    def _replace(self, name: str, parts: Sequence[pl.Series]) -> None:
        kept = [self._keep(part) for part in parts]
        self._forget(name)
        self._columns[name] = kept

    def _forget(self, name: str) -> None:
        for part in self._columns.pop(name, []):
            if isinstance(part, Path):
                part.unlink()

    def _keep(self, column: pl.Series) -> pl.Series | Path:
        if self._folder is None:
            return column
        self._files += 1
        path = self._folder.path / f"{self._files}.arrow"
        with disk_errors(path):
            column.to_frame().write_ipc(path, compression="uncompressed")
        return path

    def _load(self, part: pl.Series | Path, name: str) -> pl.Series:
        return part if isinstance(part, pl.Series) else pl.read_ipc(part).to_series().alias(name)
