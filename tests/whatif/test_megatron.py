"""ByteDance's published jobs through our replay, and the program of a tiny pipeline by hand."""

from __future__ import annotations

import json
import time
from pathlib import Path

import polars as pl
import pytest

from netlab.errors import ParseError, RunError
from netlab.readers.base import Sink
from netlab.readers.bytedance import OperationTraceReader
from netlab.run import Run, RunFacts
from netlab.schema.operations import JOB_OPERATIONS
from netlab.whatif import Scenario, Straggler, what_if
from netlab.whatif.megatron import slowdown


def _published(folder: Path, job: str) -> pl.DataFrame:
    path = folder / "traces" / "bytedance_straggler" / f"trace-{job}.parquet"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    sink = Sink()
    OperationTraceReader().read(path, sink, path.name)
    return sink.collect("job_operations")


@pytest.mark.parametrize(("job", "expected"), [("ST", 1.1787), ("AR", 1.9730), ("SE", 1.5374)])
def test_published_slowdown_is_reproduced_within_half_a_percent_in_a_second(shared_data: Path, job: str, expected: float) -> None:
    operations = _published(shared_data, job)
    began = time.process_time()
    result = slowdown(operations)
    assert time.process_time() - began < 1.0
    assert result.slowdown == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("job", ["ST", "AR", "SE"])
def test_replay_error_is_the_published_launch_delay(shared_data: Path, job: str) -> None:
    result = slowdown(_published(shared_data, job))
    published = json.loads((shared_data / "traces" / "bytedance_straggler" / f"result-{job}.json").read_text())
    assert 1 / (1 + result.replay_error) == pytest.approx(published["launch_slowdown"], abs=2e-4)


def _two_stages(late_ms: int = 0) -> pl.DataFrame:
    """Two stages, one micro-batch, one rank each: forward 10, send 1, forward 10, backward 20, send 1, backward 20, optimizer 5."""
    ms = 1_000_000
    ops: list[tuple[int, str, int, int, int]] = []
    late = late_ms
    ops += [(0, "forward-compute", 0, 10, 0), (0, "forward-send", 10, 11, -1), (1, "forward-recv", 9, 11, -1)]
    ops += [(1, "forward-compute", 11, 21 + late, 1), (1, "backward-compute", 21 + late, 41 + late, 1)]
    ops += [(1, "backward-send", 41 + late, 42 + late, -1), (0, "backward-recv", 12, 42 + late, -1)]
    ops += [(0, "backward-compute", 42 + late, 62 + late, 0)]
    for stage, end in ((0, 62 + late), (1, 42 + late)):
        ops += [(stage, "gc", end, end, -1), (stage, "layernorm-grads-all-reduce", end, end, -1)]
        ops += [(stage, "embedding-grads-all-reduce", end, 63 + late, -1), (stage, "optimizer-clip-main-grad", 63 + late, 64 + late, -1)]
        ops += [(stage, "optimizer", 64 + late, 69 + late, -1)]
    rows = [
        {
            "source": "hand",
            "rank": stage,
            "dp_rank": 0,
            "stage": stage,
            "step": step,
            "op": op,
            "sequence": 0,
            "start_ns": start * ms,
            "end_ns": end * ms,
            "model_chunk": 0 if "compute" in op else None,
            "micro_batch": 0 if "compute" in op else None,
            "global_chunk": chunk if chunk >= 0 else None,
        }
        for step in (3, 4)
        for stage, op, start, end, chunk in ops
    ]
    return JOB_OPERATIONS.conform(pl.DataFrame(rows))


def test_a_pipeline_without_delays_is_replayed_to_its_measured_length() -> None:
    result = slowdown(_two_stages())
    assert result.measured_ms == result.replayed_ms == 69.0


def test_a_late_stage_is_evened_out_to_the_mean_of_its_kind() -> None:
    result = slowdown(_two_stages(late_ms=10))
    # forwards of 10 and 20 become 15 each: the critical path 10 + 1 + 20 + 20 + 1 + 20 ... keeps its sum.
    assert result.replayed_ms == 79.0
    assert result.even_ms == pytest.approx(79.0, abs=1.0)


def test_two_jobs_at_once_are_refused() -> None:
    frame = _two_stages()
    other = frame.with_columns(pl.lit("other").alias("source"))
    with pytest.raises(RunError, match="one job"):
        slowdown(pl.concat([frame, other]))


def test_steps_that_lack_operations_are_left_out() -> None:
    frame = _two_stages()
    damaged = frame.filter(~((pl.col("step") == 4) & (pl.col("op") == "optimizer") & (pl.col("stage") == 1)))
    extra = frame.filter(pl.col("step") == 3).with_columns(pl.lit(5, pl.Int32).alias("step"))
    assert slowdown(pl.concat([damaged, extra])).steps == 2


def test_the_reader_claims_only_parquet_with_operation_columns(tmp_path: Path) -> None:
    reader = OperationTraceReader()
    other = tmp_path / "other.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(other)
    assert not reader.sniff(other.read_bytes()[:64], other)
    assert not reader.sniff(b"PAR1 is how this text begins", tmp_path / "absent")
    assert not reader.sniff(b"{}", other)


def test_a_truncated_file_is_one_sentence(tmp_path: Path, shared_data: Path) -> None:
    whole = shared_data / "traces" / "bytedance_straggler" / "trace-ST.parquet"
    if not whole.is_file():
        pytest.skip("the published traces are not there")
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole.read_bytes()[:5_000])
    assert not OperationTraceReader().sniff(cut.read_bytes()[:64], cut)
    with pytest.raises(ParseError, match="NOT_A_TRACE"):
        OperationTraceReader().read(cut, Sink(), "cut.parquet")


def test_whatif_answers_only_the_question_for_no_stragglers() -> None:
    run = Run.from_frames({"job_operations": _two_stages()}, RunFacts(name="job"))
    document = what_if(run, [Scenario(name="even", changes=(Straggler(rank="all"),)), Scenario(name="one", changes=(Straggler(rank=1),))])
    even, one = document.scenarios
    assert document.baseline.measured_ms == 69.0
    assert even.predicted_ms == pytest.approx(69.0)
    assert one.refused is not None
