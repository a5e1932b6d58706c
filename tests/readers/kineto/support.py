"""Traces written in a line, and the same file read in every way that the reader has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from netlab.errors import ParseError
from netlab.readers.base import Parsed, Sink
from netlab.readers.kineto import reader
from netlab.readers.kineto.backends import Backend
from netlab.schema import TABLES

__all__ = ["Frames", "Read", "assert_alike", "codes", "kernel", "raw_trace", "read_in", "trace"]

Frames = dict[str, pl.DataFrame]
Read = Callable[..., tuple[Frames, Parsed]]


def kernel(number: int = 0, **changes: Any) -> dict[str, Any]:
    """A kernel's event; changes replace or (with None) remove keys, those of ``args`` included."""
    event: dict[str, Any] = {"ph": "X", "cat": "kernel", "name": f"k{number}", "pid": 0, "tid": 7, "ts": 1000 + 10 * number, "dur": 5.5}
    arguments: dict[str, Any] = {"stream": 7, "device": 0, "correlation": number}
    for key, value in changes.items():
        (event if key in ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args") else arguments)[key] = value
    return {key: value for key, value in event.items() if value is not None} | {"args": arguments}


def trace(*events: dict[str, Any], **header: Any) -> bytes:
    """A whole trace with these events."""
    return json.dumps({"schemaVersion": 1, **header, "traceEvents": list(events)}).encode()


def raw_trace(*events: str) -> bytes:
    """A whole trace whose events are given as text."""
    return ('{"schemaVersion": 1, "traceEvents": [' + ", ".join(events) + "]}").encode("utf-8", "surrogateescape")


def read_in(path: Path, backend: Backend) -> tuple[Frames, Parsed | str]:
    """Frames and account, or the message of the error."""
    sink = Sink()
    try:
        parsed = reader.read_with(path, sink, path.name, lambda _: backend)
    except ParseError as error:
        return {}, str(error)
    frames = {}
    for table in sink.frames:
        frame = sink.collect(table)
        TABLES[table].validate(TABLES[table].conform(frame, file=0))
        frames[table] = frame
    return frames, parsed


def assert_alike(path: Path, ways: tuple[Backend, ...]) -> tuple[Frames, Parsed | str]:
    """Read a file in every way; all must give the same."""
    frames, parsed = read_in(path, ways[0])
    for way in ways[1:]:
        other_frames, other = read_in(path, way)
        assert other == parsed, way.name
        assert sorted(other_frames) == sorted(frames), way.name
        for table, frame in frames.items():
            assert other_frames[table].equals(frame), (way.name, table)
    return frames, parsed


def codes(parsed: Parsed, with_base: bool = False) -> list[str]:
    """Codes of a reader's issues; without the one about the base time, which most made traces do not have."""
    return [issue.code for issue in parsed.issues if with_base or issue.code != "BASE_TIME_LOST"]
