"""Damaged files of every format are read in part or refused in one sentence; nothing else is ever raised."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from netlab.diagnose.nccl import nccl_findings
from netlab.errors import ParseError
from tests.nccl_text import run_of

_INSERTS = (b"9" * 24, b"-1", b"null", b"{}", b"[]", b"\n", b"\r", b'"', b"1e999", b"NaN", b"\xff\x00")


def damaged(content: bytes, dice: random.Random) -> bytes:
    """A copy with bytes changed, lost, put in or repeated."""
    data = bytearray(content)
    for _ in range(dice.choice((1, 4, 20))):
        at = dice.randrange(len(data) + 1)
        way = dice.randrange(4)
        if way == 0:
            data[at : at + 1] = bytes([dice.randrange(256)])
        elif way == 1:
            del data[at : at + dice.randrange(40)]
        elif way == 2:
            data[at:at] = dice.choice(_INSERTS)
        else:
            start = dice.randrange(len(data) + 1)
            data[at:at] = data[start : start + dice.randrange(200)]
    return bytes(data) or b"x"


@pytest.mark.parametrize("folder", ["logs", "flight_recorder", "inspector", "profiler_plugin", "ras", "nccl_tests", "topo_xml"])
def test_damage_is_borne(shared_data: Path, tmp_path: Path, folder: str) -> None:
    dice = random.Random(folder)
    samples = sorted(path for path in (shared_data / "nccl" / folder).rglob("*") if path.is_file() and path.stat().st_size < 40_000)
    for number in range(24):
        sample = dice.choice(samples)
        path = tmp_path / f"{number}-{sample.name}"
        path.write_bytes(damaged(sample.read_bytes(), dice))
        # StopIteration: no reader claims it any more.
        with suppress(StopIteration, ParseError):
            nccl_findings(run_of(path))
