"""What a table is: named, typed, documented columns with a key. Checked at every border between rooms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from netlab.errors import SchemaError

__all__ = ["Column", "Table", "by_name", "in_order"]

#: Types whose values are not ordered as they compare.
_ORDER_OF_THEIR_OWN = (pl.Categorical, pl.Float64, pl.List)

DataType = pl.DataType | type[pl.DataType]


@dataclass(frozen=True)
class Column:
    """One column: its name carries its unit, ``doc`` its meaning in one sentence."""

    name: str
    dtype: DataType
    doc: str
    unit: str = ""
    nullable: bool = False
    refers_to: str = ""


@dataclass(frozen=True)
class Table:
    """A declared table. ``key`` names the columns that are unique together and by which rows are sorted."""

    name: str
    doc: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    #: The key sorts the rows but need not be unique (event-like tables).
    unique: bool = True

    @property
    def schema(self) -> dict[str, DataType]:
        """Column name to polars type, in order."""
        return {column.name: column.dtype for column in self.columns}

    def empty(self) -> pl.DataFrame:
        """A table without rows.

        >>> Table("t", "A table.", ("a",), (Column("a", pl.Int64, "A number."),)).empty().shape
        (0, 1)
        """
        return pl.DataFrame(schema=dict(self.schema))

    def conform(self, frame: pl.DataFrame, **fill: object) -> pl.DataFrame:
        """Bring a frame to this table's shape: cast, add absent nullable columns as null, order columns, sort by key.

        Extra columns are dropped. ``fill`` gives constants for absent columns.

        Raises
        ------
        SchemaError
            If a column that may not be null is absent, or a cast fails.
        """
        parts: list[pl.Expr] = []
        for column in self.columns:
            if column.name in frame.columns:
                parts.append(pl.col(column.name).cast(column.dtype))
            elif column.name in fill:
                parts.append(pl.lit(fill[column.name], dtype=column.dtype).alias(column.name))
            elif column.nullable:
                parts.append(pl.lit(None, dtype=column.dtype).alias(column.name))
            else:
                raise SchemaError(f"Table {self.name}: column {column.name!r} is missing and may not be null.")
        try:
            shaped = frame.select(parts) if frame.height or frame.width else self.empty()
        except pl.exceptions.PolarsError as error:
            raise SchemaError(f"Table {self.name}: {error}") from error
        return shaped if self._is_sorted(shaped) else shaped.sort(self.key, maintain_order=True)

    def _is_sorted(self, frame: pl.DataFrame) -> bool:
        """Whether the rows are in order of the key; sorting a large table that is in order would copy all of it."""
        if any(self.schema[name] in _ORDER_OF_THEIR_OWN for name in self.key):
            keys = frame.select(self.key)
            return keys.equals(keys.sort(self.key, maintain_order=True))
        return in_order(frame, self.key)

    def validate(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the frame unchanged if it is exactly this table.

        Raises
        ------
        SchemaError
            Names the table, the column and the first row at fault: wrong names or order, wrong type, a null where none may be, a
            duplicate key, rows out of order.
        """
        if frame.columns != [column.name for column in self.columns]:
            raise SchemaError(f"Table {self.name}: columns are {frame.columns}, expected {[c.name for c in self.columns]}.")
        for column in self.columns:
            if frame.schema[column.name] != column.dtype:
                raise SchemaError(f"Table {self.name}: {column.name} is {frame.schema[column.name]}, expected {column.dtype}.")
            if not column.nullable and frame[column.name].null_count():
                row = frame[column.name].is_null().arg_true()[0]
                raise SchemaError(f"Table {self.name}: {column.name} is null in row {row}.")
        if self.key and not self._is_sorted(frame):
            raise SchemaError(f"Table {self.name}: rows are not sorted by {', '.join(self.key)}.")
        if self.key and self.unique:
            keys = frame.select(self.key)
            # Equal keys of sorted rows are neighbours.
            repeats = keys.select(pl.all_horizontal(pl.all().eq_missing(pl.all().shift(1))).slice(1)).to_series()
            if repeats.any():
                raise SchemaError(f"Table {self.name}: key {dict(keys.row(int(repeats.arg_max() or 0), named=True))} repeats.")
        return frame

    def markdown(self) -> str:
        """This table's section of docs/tables.md."""
        lines = [f"## `{self.name}`", "", self.doc, ""]
        if self.key:
            lines += [
                f"Key: {', '.join(f'`{name}`' for name in self.key)}" + ("" if self.unique else " (sort order; may repeat)") + ".",
                "",
            ]
        lines += ["| column | type | unit | null | meaning |", "|---|---|---|---|---|"]
        for column in self.columns:
            reference = f" Refers to `{column.refers_to}`." if column.refers_to else ""
            null = "yes" if column.nullable else ""
            lines.append(f"| `{column.name}` | {column.dtype} | {column.unit} | {null} | {column.doc}{reference} |")
        return "\n".join(lines) + "\n"


def in_order(frame: pl.DataFrame, by: Sequence[str]) -> bool:
    """Whether rows are sorted by some columns, nulls first.

    >>> in_order(pl.DataFrame({"a": [None, 1, 1], "b": [2, 1, 0]}), ["a"]), in_order(pl.DataFrame({"a": [1, 1], "b": [1, 0]}), ["a", "b"])
    (True, False)
    """
    if not by or frame.height < 2:
        return True
    falls, equal = pl.lit(value=False), pl.lit(value=True)
    for name in by:
        value, before = pl.col(name), pl.col(name).shift(1)
        falls |= equal & ((value < before).fill_null(value=False) | (value.is_null() & before.is_not_null()))
        equal &= value.eq_missing(before)
    return not frame.select(falls.any()).item()


def by_name(tables: tuple[Table, ...]) -> Mapping[str, Table]:
    """Tables by their names; a repeated name is a defect."""
    found = {table.name: table for table in tables}
    if len(found) != len(tables):
        raise SchemaError("Two tables are declared with one name.")
    return found
