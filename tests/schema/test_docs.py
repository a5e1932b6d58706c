"""The generated pages are those that the declarations give."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.cli.codes import codes_markdown
from netlab.errors import SchemaError
from netlab.schema import TABLES, Column, Table, tables_markdown
from netlab.verdict.model import verdict_schema_json

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_tables_page_is_generated_from_the_schema() -> None:
    assert (DOCS / "tables.md").read_text() == tables_markdown()


def test_codes_page_is_generated_from_the_codes() -> None:
    assert (DOCS / "codes.md").read_text() == codes_markdown()


def test_published_json_schema_is_that_of_the_verdict() -> None:
    assert (DOCS / "verdict.schema.json").read_text() == verdict_schema_json()


def test_every_column_has_a_sentence_and_times_have_a_unit() -> None:
    for table in TABLES.values():
        for column in table.columns:
            assert column.doc.endswith("."), f"{table.name}.{column.name}"
            if column.name.endswith("_ns"):
                assert column.unit == "ns", f"{table.name}.{column.name}"


def test_references_point_to_declared_columns() -> None:
    for table in TABLES.values():
        for column in table.columns:
            if column.refers_to:
                other, name = column.refers_to.split(".")
                assert name in TABLES[other].schema, f"{table.name}.{column.name}"


TWO = Table("two", "A table.", ("a",), (Column("a", pl.Int64, "Key."), Column("b", pl.String, "Text.", nullable=True)))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame({"a": [1]}), "columns are"),
        (pl.DataFrame({"a": ["1"], "b": ["x"]}), "a is String"),
        (pl.DataFrame({"a": [1, None], "b": ["x", "y"]}), "a is null in row 1"),
        (pl.DataFrame({"a": [1, 1], "b": ["x", "y"]}), "repeats"),
        (pl.DataFrame({"a": [2, 1], "b": ["x", "y"]}), "not sorted"),
    ],
)
def test_a_frame_that_is_not_its_table_is_refused_with_the_place(frame: pl.DataFrame, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        TWO.validate(frame)


def test_conform_sorts_casts_and_fills_what_may_be_null() -> None:
    frame = TWO.conform(pl.DataFrame({"a": [2, 1]}, schema={"a": pl.Int32}))
    assert TWO.validate(frame).rows() == [(1, None), (2, None)]
