"""Stored runs appear whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import polars as pl
import pytest

from netlab.run import Run, RunFacts
from netlab.schema import TABLES


def test_a_full_disk_is_told_as_such_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        # What polars says on a full disk.
        raise pl.exceptions.ComputeError("parquet: File out of specification: underlying IO error: No space left on device (os error 28)")

    run = Run.from_frames({"steps": Run.from_frames({}, RunFacts(name="r")).frame("steps")}, RunFacts(name="r"))
    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(OSError, match="No space left on device") as told:
        run.save(tmp_path / "store")
    assert told.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


def test_a_run_shows_itself_as_a_list_of_its_tables_and_its_name_stays_text() -> None:
    steps = pl.DataFrame({"rank": [0], "step": [3], "start_ns": [0], "end_ns": [9], "mark_start_ns": [0], "mark_end_ns": [9]})
    run = Run.from_frames({"steps": TABLES["steps"].conform(steps, window=0, complete=True)}, RunFacts(name="<b>", ranks=[0], steps=[3]))
    shown = run._repr_html_()
    assert "<b>&lt;b&gt;</b>: 1 of ? ranks" in shown
    assert "<summary>1 table</summary>" in shown
    assert "Borders of each step" in shown
    assert "steps" in repr(run)
