"""Stored runs appear whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import polars as pl
import pytest

from netlab.run import Run, RunFacts


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
