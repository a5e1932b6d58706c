"""Span figures of real traces against interval arithmetic done apart, straight from their JSON."""

from __future__ import annotations

import gzip
import json
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import netlab
from netlab.attribute import attribution
from netlab.schema.timeline import TIMELINE_TABLES

COMMUNICATION = re.compile(r"nccl|rccl|oneccl|cross_device_reduce|dpsk::ep", re.IGNORECASE)
Intervals = list[tuple[int, int]]


def _length(intervals: Intervals) -> int:
    total, reach = 0, -1
    for start, end in sorted(intervals):
        total += max(end, reach) - max(start, reach) if end > reach else 0
        reach = max(reach, end)
    return total


def _expected(path: Path) -> dict[str, int]:
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    compute: Intervals = []
    communication: Intervals = []
    memory: Intervals = []
    for event in document["traceEvents"]:
        category = str(event.get("cat", "")).lower()
        if category not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        start = int(Decimal(event["ts"]) * 1000)
        interval = (start, start + int(Decimal(event["dur"]) * 1000))
        kernel = category == "kernel"
        (memory if not kernel else communication if COMMUNICATION.search(event["name"]) else compute).append(interval)
    everything = compute + communication + memory
    span = max(end for _, end in everything) - min(start for start, _ in everything)
    return {
        "step_ns": span,
        "compute_ns": _length(compute),
        "comm_ns": _length(communication),
        "exposed_comm_ns": _length(compute + communication) - _length(compute),
        "exposed_memory_ns": _length(everything) - _length(compute + communication),
        "idle_ns": span - _length(everything),
    }


@pytest.mark.parametrize(
    "name", ["deepseek/h800_ep64_dualpipe_rank0", "hta/mi250_minitoy", "hta/event_sync_multistream_a100", "tracelens/h100_single_gpu_bert"]
)
def test_spans_equal_exact_interval_arithmetic(shared_data: Path, tmp_path: Path, name: str) -> None:
    path = shared_data / "traces" / f"{name}.json.gz"
    run = netlab.open(path, store=tmp_path)
    spans = attribution({table.name: run.frame(table.name) for table in TIMELINE_TABLES}, threshold=Fraction(1, 4)).spans
    assert {column: spans[column].sum() for column in _expected(path)} == _expected(path)
