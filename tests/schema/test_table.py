"""What a table checks of its rows, against plain Python."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.errors import SchemaError
from netlab.schema.table import Column, Table

_TABLE = Table(
    "t",
    "A table.",
    ("a", "b"),
    (Column("a", pl.Int64, "A number."), Column("b", pl.String, "A word.", nullable=True)),
    unique=False,
)
_rows = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([None, "x", "y", "xy"])), max_size=6)


def _frame(rows: list[tuple[int, str | None]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(_TABLE.schema), orient="row")


@given(rows=_rows)
def test_rows_are_accepted_exactly_in_the_order_of_the_key(rows: list[tuple[int, str | None]]) -> None:
    # Null comes before every word.
    in_order = sorted(rows, key=lambda row: (row[0], row[1] is not None, row[1] or ""))
    if rows == in_order:
        assert _TABLE.validate(_frame(rows)).rows() == rows
    else:
        with pytest.raises(SchemaError, match="not sorted by a, b"):
            _TABLE.validate(_frame(rows))
    assert _TABLE.conform(_frame(rows)).rows() == in_order


def test_a_table_without_rows_is_in_order() -> None:
    assert _TABLE.validate(_TABLE.empty()).height == 0
