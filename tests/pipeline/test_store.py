"""The cache of parsed files: its limit, and what killed or concurrent processes leave in it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from netlab.pipeline.ingest import ingest_files
from netlab.pipeline.inputs import find_inputs
from netlab.pipeline.store import FileStore
from netlab.synth import write_run

HOUR_S, DAY_S = 3600, 86400


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """Four parsed files."""
    write_run(tmp_path / "made", plant="none", ranks=2, steps=2, seed=5)
    ingest_files(find_inputs([tmp_path / "made"])[:4], tmp_path / "store")
    return FileStore(tmp_path / "store")


def folders(store: FileStore) -> list[Path]:
    return sorted((store.root / "files").iterdir())


def size(folder: Path) -> int:
    return sum(part.stat().st_size for part in folder.rglob("*") if part.is_file())


def test_beyond_its_limit_the_cache_forgets_what_was_unused_for_longest(store: FileStore) -> None:
    before = folders(store)
    for age, folder in enumerate(before):
        os.utime(folder, (age, age))
    old_bytes = sum(map(size, before[:-1]))
    assert store.prune(limit_bytes=size(before[-1])) == old_bytes
    assert folders(store) == before[-1:]


def test_what_was_used_within_the_hour_is_never_forgotten(store: FileStore) -> None:
    before = folders(store)
    assert store.prune(limit_bytes=0) == 0
    assert folders(store) == before


def test_the_cache_is_looked_through_once_an_hour(store: FileStore) -> None:
    store.prune()
    for folder in folders(store):
        os.utime(folder, (0, 0))
    assert store.prune(limit_bytes=0) == 0
    os.utime(store.root / ".pruned", (time.time() - 2 * HOUR_S,) * 2)
    assert store.prune(limit_bytes=0) > 0
    assert folders(store) == []


def test_drafts_of_processes_that_are_gone_are_swept_and_living_ones_stay(store: FileStore) -> None:
    own = store.draft()
    gone = own.with_name(own.name.replace(f"-{os.getpid()}-", "-999999999-"))
    gone.mkdir()
    store.sweep()
    assert own.is_dir()
    assert not gone.exists()


def test_drafts_of_another_machine_are_swept_after_a_day(store: FileStore) -> None:
    host = store.draft().name.split("-")[1]
    fresh, old = (store.root / "files" / f".draft-{other}-{os.getpid()}-x" for other in ("aaaaaa", "bbbbbb"))
    assert host not in ("aaaaaa", "bbbbbb")
    for draft in (fresh, old):
        draft.mkdir()
    os.utime(old, (time.time() - 2 * DAY_S,) * 2)
    store.sweep()
    assert fresh.is_dir()
    assert not old.exists()
