"""Compiled functions on disk: made once, loaded without numba, never trusted when damaged."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from netlab import machine_code as room
from netlab.machine_code import is_cached, machine_code

_ARGUMENTS = ("i64[]", "i64", "f64[]")


def _make() -> Callable[..., None]:
    from numba import carray

    def running_mean(values, size, out):  # type: ignore[no-untyped-def]
        numbers, means, total = carray(values, (size,)), carray(out, (size,)), 0
        for place in range(size):
            total += numbers[place]
            means[place] = total / (place + 1)

    return running_mean


def _refuse() -> Callable[..., None]:
    raise AssertionError("compiled again")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(room, "_folders", lambda: iter((tmp_path,)))
    return tmp_path


def means(code: Callable[..., None]) -> list[float]:
    values, out = np.array([2, 4, 9]), np.zeros(3)
    code(values, 3, out)
    return out.tolist()


def test_code_is_made_once_and_gives_the_same_afterwards(folder: Path) -> None:
    assert not is_cached("mean", "1")
    assert means(machine_code("mean", "1", _ARGUMENTS, _make)) == [2.0, 3.0, 5.0]
    assert is_cached("mean", "1")
    assert means(machine_code("mean", "1", _ARGUMENTS, _refuse)) == [2.0, 3.0, 5.0]
    assert not is_cached("mean", "2")


def test_damaged_code_is_made_anew(folder: Path) -> None:
    machine_code("mean", "1", _ARGUMENTS, _make)
    (kept,) = folder.iterdir()
    content = kept.read_bytes()
    for damaged in (content[:-100], content[:500] + b"\xcc" + content[501:], b""):
        kept.write_bytes(damaged)
        assert means(machine_code("mean", "1", _ARGUMENTS, _make)) == [2.0, 3.0, 5.0]
        assert kept.read_bytes() == content


def test_code_of_another_processor_is_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_code("mean", "1", _ARGUMENTS, _make)
    monkeypatch.setattr(room, "_processor", lambda: "another")
    assert not is_cached("mean", "1")


def test_where_nothing_can_be_written_code_is_made_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setattr(room, "_folders", lambda: iter((blocked / "a", blocked / "b")))
    for _ in range(2):
        assert means(machine_code("mean", "1", _ARGUMENTS, _make)) == [2.0, 3.0, 5.0]
    assert not is_cached("mean", "1")


def test_nothing_cached_and_no_numba_is_an_import_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ImportError):
        machine_code("mean", "1", _ARGUMENTS, _make)


def test_the_users_cache_comes_after_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(os.environ, "XDG_CACHE_HOME", str(tmp_path))
    assert [path.name for path in room._folders()] == ["__pycache__", "code"]
    assert list(room._folders())[1].is_relative_to(tmp_path)
