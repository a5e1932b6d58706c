"""CPU runs over Gloo: spans communicate, leaf operators compute, and only where a span exists."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.align.host_work import _message_elements
from tests.align.support import Trace, align_traces, aligned, codes


def _gloo(rank: int, start: float, end: float, elements: int = 1000, **options: object) -> Trace:
    trace = Trace(rank, 2, **options).step(4, 0, 100)  # type: ignore[arg-type]
    trace.add("cpu_op", "aten::linear", 1, 20).add("cpu_op", "aten::mm", 2, 15).add("cpu_op", "aten::add", 15, 18)
    trace.add("cpu_op", "c10d::allreduce_", 20, 20.3)
    return trace.add(
        "user_annotation", "gloo:all_reduce", start, end, 9001, **{"Input Dims": [[elements]], "Input type": ["float"], "External id": 1}
    )


def test_spans_communicate_and_leaf_operators_compute(tmp_path: Path) -> None:
    result = align_traces(tmp_path, _gloo(0, 21, 60), _gloo(1, 41, 60))
    assert result.facts.backend == "cpu"
    rows = result.frames["activities"].filter(pl.col("rank") == 0).select("kind", "name", "stream", "step").rows()
    assert rows == [
        ("compute", "aten::mm", 4000, 4),
        ("compute", "aten::add", 4000, 4),
        ("compute", "c10d::allreduce_", 4000, 4),
        ("communication", "gloo:all_reduce", 9001, 4),
    ]
    collectives = result.frames["collectives"].select("op", "bytes", "wait_ns", "transfer_ns", "split").rows()
    assert collectives == [("all_reduce", 4000, 20_000_000, 19_000_000, "measured"), ("all_reduce", 4000, 0, 19_000_000, "measured")]
    assert {"CLOCK_UNCHECKED", "GROUP_ASSUMED"} == codes(result)


def test_operators_without_a_gloo_span_are_not_device_time(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 20).add("cpu_op", "aten::mm", 1, 2)
    result = align_traces(tmp_path, trace)
    assert result.facts.backend == "device"
    assert result.frames["activities"].is_empty()


def test_gloo_spans_beside_device_events_are_labels(tmp_path: Path) -> None:
    trace = _gloo(0, 21, 60).compute(1, 30)
    result = align_traces(tmp_path, trace)
    assert result.facts.backend == "device"
    assert result.frames["activities"]["name"].n_unique() == 1


@pytest.mark.parametrize(
    ("dims", "types", "expected"),
    [
        ("[[2, 3]]", '["float"]', (6, "float")),
        ("[[[4], [5, 2]]]", '["TensorList"]', (14, None)),
        ("[[128], []]", '["c10::Half", "Scalar"]', (128, "c10::Half")),
        ("[]", "[]", (None, None)),
        (None, None, (None, None)),
        ("{broken", "[]", (None, None)),
    ],
)
def test_sizes_of_spans(dims: str | None, types: str | None, expected: tuple[int | None, str | None]) -> None:
    assert _message_elements(dims, types) == expected


def test_recorded_gloo_run_is_matched_with_an_honest_error() -> None:
    folder = Path(__file__).resolve().parents[2] / "data/ddp-gloo-4rank"
    paths = sorted(folder.rglob("*.trace.json*"))
    if not paths:
        pytest.skip("the recorded sample data/ddp-gloo-4rank is not there")
    result = aligned(paths)
    assert result.facts.backend == "cpu"
    assert result.frames["collectives"]["split"].unique().to_list() == ["measured"]
    # Ends of one Gloo all-reduce scatter by milliseconds over ranks; clocks cannot be known better.
    assert result.frames["clocks"]["error_ns"].min() > 100_000  # type: ignore[operator]
