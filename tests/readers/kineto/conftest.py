"""The same file read in every way that the reader has."""

from __future__ import annotations

from pathlib import Path

import pytest

from netlab.errors import ParseError
from netlab.readers.base import Parsed
from netlab.readers.kineto.backends import Backend, PlainBackend
from netlab.readers.kineto.compiled import CompiledBackend
from netlab.readers.kineto.strict import StrictBackend
from tests.readers.kineto.support import Frames, Read, assert_alike


@pytest.fixture(scope="session")
def ways() -> tuple[Backend, ...]:
    """Every way to scan: msgspec, plain Python, machine code."""
    return StrictBackend(), PlainBackend(), CompiledBackend()


@pytest.fixture
def read(tmp_path: Path, ways: tuple[Backend, ...]) -> Read:
    """Read bytes as a trace, in every way; raises what the reader raises."""

    def run(content: bytes, name: str = "rank0.pt.trace.json") -> tuple[Frames, Parsed]:
        path = tmp_path / name
        path.write_bytes(content)
        frames, parsed = assert_alike(path, ways)
        if isinstance(parsed, str):
            raise ParseError(parsed)
        return frames, parsed

    return run
