"""A guard against becoming many times slower: CPU time beside that of another reader of the same bytes, in the same process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.generate_trace import write_trace
from netlab.readers.base import Sink
from netlab.readers.kineto.compiled import CompiledBackend
from netlab.readers.kineto.reader import read_with

#: Reading into tables takes a fifth of the time of `json.loads` of the same bytes; seven times as much is no noise.
_BOUND = 1.5


def _least_cpu_s(work: Callable[[], object]) -> float:
    spent = []
    for _ in range(3):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


def test_reading_a_trace_costs_no_multiple_of_parsing_its_json(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    write_trace(path, 12.0)
    backend = CompiledBackend()
    content = path.read_bytes()
    ours = _least_cpu_s(lambda: read_with(path, Sink(), "trace.json", lambda _: backend))
    assert ours < _BOUND * _least_cpu_s(lambda: json.loads(content))
