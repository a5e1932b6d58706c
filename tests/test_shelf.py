"""Tall tables on disk give what tall tables in memory give."""

from __future__ import annotations

import gc
from pathlib import Path

import polars as pl
import pytest

from netlab import shelf
from netlab.schema.table import Column, Table
from netlab.shelf import FileFrame, Shelf

_ROWS = pl.DataFrame({"at": [3, 1, None, 2, 2], "name": ["c", "a", None, "b", "a"], "n": [0, 1, 2, 3, 4]})
_TABLE = Table(
    "tall", "A tall table.", ("n",), (Column("n", pl.Int64, "Number."), Column("name", pl.String, "Name.", nullable=True))
)  # fmt: skip


@pytest.fixture(params=["memory", "disk"])
def rows(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """Five rows that came as two frames."""
    monkeypatch.setattr(shelf, "SPILL_BYTES", 1)
    monkeypatch.setattr(shelf, "_STRETCH_ROWS", 2)
    (tmp_path / "shelf").mkdir()
    names = pl.col("name").cast(pl.Categorical)
    parts = [_ROWS[:3].with_columns(names), _ROWS[3:].with_columns(names)]
    made = Shelf.of(parts, (lambda: tmp_path / "shelf") if request.param == "disk" else None)
    assert made.is_spilled == (request.param == "disk") == bool(list((tmp_path / "shelf").iterdir()))
    return made


def text(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


def test_columns_come_whole_and_in_stretches(rows: Shelf) -> None:
    assert rows.height == 5
    assert text(rows.frame()).equals(_ROWS)
    assert text(pl.concat(rows.stretches("name", "n"))).equals(_ROWS.select("name", "n"))
    assert rows.distinct("name").to_list() == ["c", "a", None, "b"]
    assert rows.rows(pl.Series([4, 0]), "n", "at").rows() == [(4, 2), (0, 3)]


def test_columns_are_added_replaced_and_dropped(rows: Shelf) -> None:
    rows.put(pl.Series("whole", [5, 6, 7, 8, 9]))
    rows.extend(("at",), lambda part: part.select(at=pl.col("at") * 10, twice=pl.col("at") * 2))
    rows.drop("n", "absent")
    assert rows.columns == ["name", "whole", "at", "twice"]
    assert rows.frame("whole", "at", "twice").rows() == [(5, 30, 6), (6, 10, 2), (7, None, None), (8, 20, 4), (9, 20, 4)]


def test_sorting_puts_nulls_first_and_leaves_equal_rows_as_they_are(rows: Shelf) -> None:
    rows.sort(["at"])
    assert rows.frame("n").to_series().to_list() == [2, 1, 3, 4, 0]
    rows.sort(["at"])
    assert rows.frame("n").to_series().to_list() == [2, 1, 3, 4, 0]


def test_a_table_on_disk_is_that_in_memory(rows: Shelf) -> None:
    made = rows.table(_TABLE, lambda part: part.with_columns(name=pl.col("name").cast(pl.String).str.to_uppercase()))
    assert isinstance(made, FileFrame) == rows.is_spilled
    assert made.height == 5
    assert made.lazy().collect().rows() == [(0, "C"), (1, "A"), (2, None), (3, "B"), (4, "A")]


def test_files_go_with_the_last_that_refers_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "SPILL_BYTES", 1)
    folder = tmp_path / "shelf"
    folder.mkdir()
    made = Shelf.of([_ROWS], lambda: folder).table(_TABLE)
    gc.collect()
    assert made.lazy().collect().height == 5
    del made
    gc.collect()
    assert not folder.exists()


def test_a_shelf_without_rows_has_columns() -> None:
    empty = Shelf.of([_TABLE.empty()])
    assert (empty.height, empty.columns) == (0, ["n", "name"])
    empty.extend(("n",), lambda part: part.select(m=pl.col("n")))
    empty.put(pl.Series("k", [], dtype=pl.Int8))
    assert empty.frame().shape == (0, 4)


def test_rows_of_many_files_stay_in_memory_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "SPILL_BYTES", round(_ROWS.estimated_size() * 0.75))
    folders = []

    def scratch() -> Path:
        folders.append(tmp_path / str(len(folders)))
        folders[-1].mkdir()
        return folders[-1]

    assert Shelf.of([_ROWS], scratch).is_spilled
    assert not Shelf.of([_ROWS], scratch, files=2).is_spilled
