"""The base time is guessed while instants are written, and a wrong guess is mended."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from netlab.readers.base import Sink
from netlab.readers.kineto.base_time import BaseGuess
from netlab.readers.kineto.reader import KinetoReader
from tests.readers.kineto.support import kernel

QUARTER_NS = 7_889_238 * 10**9
BASE_NS = 224 * QUARTER_NS


def text(base_ns: int | None) -> bytes:
    ending = {} if base_ns is None else {"baseTimeNanoseconds": base_ns}
    return json.dumps({"traceEvents": [kernel()], **ending}).encode()


def test_the_tail_of_a_plain_file_tells_the_base(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text(BASE_NS))
    assert BaseGuess(path, compressed=False).guess({}, 5) == BASE_NS
    path.write_bytes(text(None))
    assert BaseGuess(path, compressed=False).guess({}, 5) == 0


def test_a_compressed_file_is_guessed_from_when_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(b"")
    os.utime(path, ns=(BASE_NS + 10**15, BASE_NS + 10**15))
    assert BaseGuess(path, compressed=True).guess({}, 5) == BASE_NS


def test_absolute_times_and_a_known_base_are_not_guessed(tmp_path: Path) -> None:
    guess = BaseGuess(tmp_path / "none", compressed=True)
    assert guess.guess({}, 1_700_000_000_000_000_000) == 0
    assert guess.guess({"baseTimeNanoseconds": b"77"}, 5) == 77


@pytest.mark.parametrize("base_ns", [BASE_NS, 3 * QUARTER_NS, 12345, None])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_wrong_guess_changes_nothing(tmp_path: Path, base_ns: int | None, on_disk: bool) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(text(base_ns)))
    os.utime(path, ns=(BASE_NS, BASE_NS))
    sink = Sink(tmp_path / "parts" if on_disk else None)
    parsed = KinetoReader().read(path, sink, "a")
    row = sink.collect("device_events").row(0, named=True)
    assert (row["start_ns"], row["end_ns"]) == ((base_ns or 0) + 1_000_000, (base_ns or 0) + 1_005_500)
    assert parsed.facts["base_time_ns"] == (base_ns or 0)
