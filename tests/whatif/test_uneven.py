"""Who makes a Megatron job slow: the published shares, and planted reasons in a pipeline that is computed by hand."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from netlab.config import load_settings
from netlab.pipeline.analysis import analyse
from netlab.schema.operations import JOB_OPERATIONS
from netlab.whatif.uneven import uneven, uneven_findings
from tests.whatif.test_megatron import _published as published

MS = 1_000_000
LANES, STAGES, BATCHES = 4, 2, 3
CLOSING = ("gc", "layernorm-grads-all-reduce", "embedding-grads-all-reduce", "optimizer-clip-main-grad")


@pytest.mark.parametrize("job", ["ST", "AR", "SE"])
def test_published_shares_of_last_stage_and_slowest_workers_are_reproduced(shared_data: Path, job: str) -> None:
    found = uneven(published(shared_data, job))
    for file, key, part in (("ms", "Ms", "last stage"), ("mw", "Mw", "workers")):
        truth = json.loads((shared_data / "traces" / "bytedance_straggler" / f"{file}-{job}.json").read_text("utf-8"))
        assert found.shares[part] == pytest.approx(truth[key], abs=1e-5)
        assert found.replayed_ms / 1e3 == pytest.approx(truth["tori"], rel=1e-6)
        assert found.even_ms / 1e3 == pytest.approx(truth["tideal"], rel=1e-6)


@pytest.mark.parametrize(
    ("job", "title", "ranks"),
    [
        ("ST", "The last pipeline stage makes a step 1.18 times longer", [6, 7]),
        ("AR", "Rank 0 makes a step 1.97 times longer", [0]),
        ("SE", "Micro-batches of unequal length make a step 1.54 times longer", []),
    ],
)
def test_check_of_a_published_job_says_who_holds_it_up(shared_data: Path, job: str, title: str, ranks: list[int]) -> None:
    path = shared_data / "traces" / "bytedance_straggler" / f"trace-{job}.parquet"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    verdict = analyse([path], load_settings()).verdict
    assert verdict.headline == f"{title}; no trace gives a share of the network."
    assert (verdict.status, verdict.cause, verdict.findings[0].subject.ranks) == ("warn", "straggler", ranks)


def operation(stage: int, lane: int, step: int, op: str, number: int, start: int, end: int, chunk: int | None = None) -> dict[str, object]:
    return {
        "source": "made", "rank": stage * LANES + lane, "dp_rank": lane, "stage": stage, "step": step, "op": op, "sequence": number,
        "start_ns": start * MS, "end_ns": end * MS, "model_chunk": 0,
        "micro_batch": None if chunk is None else number, "global_chunk": chunk,
    }  # fmt: skip


def lane_rows(step: int, lane: int, forward: Callable[[int, int, int], int]) -> list[dict[str, object]]:
    """All forwards, then all backwards of twice their length, stage after stage. Messages take no time."""
    rows = []
    free, ready = [0] * STAGES, [0] * BATCHES
    for way, order, factor in (("forward", range(STAGES), 1), ("backward", range(STAGES - 1, -1, -1), 2)):
        for stage in order:
            for batch in range(BATCHES):
                begin = max(free[stage], ready[batch])
                end = begin + factor * forward(stage, lane, batch)
                if stage != order[0]:
                    rows.append(operation(stage, lane, step, f"{way}-recv", batch, ready[batch], ready[batch]))
                rows.append(operation(stage, lane, step, f"{way}-compute", batch, begin, end, stage))
                if stage != order[-1]:
                    rows.append(operation(stage, lane, step, f"{way}-send", batch, end, end))
                free[stage] = ready[batch] = end
    return rows


def pipeline(forward: Callable[[int, int, int], int]) -> pl.DataFrame:
    """Three equal steps of a job whose forwards take ``forward(stage, lane, batch)`` ms; all ranks end them together."""
    rows = []
    for step in range(3):
        computed = [row for lane in range(LANES) for row in lane_rows(step, lane, forward)]
        last = max(int(str(row["end_ns"])) for row in computed) // MS
        rows += computed
        for stage, lane in itertools.product(range(STAGES), range(LANES)):
            rows += [operation(stage, lane, step, op, 0, last, last) for op in CLOSING]
            rows.append(operation(stage, lane, step, "optimizer", 0, last, last + 1))
    return JOB_OPERATIONS.conform(pl.DataFrame(rows, infer_schema_length=None))


def the_finding(operations: pl.DataFrame) -> tuple[str, list[int]]:
    findings, issues = uneven_findings(operations)
    assert not issues
    (finding,) = findings
    return finding.title, finding.subject.ranks


def test_an_even_pipeline_has_no_finding() -> None:
    operations = pipeline(lambda stage, lane, batch: 10)
    assert uneven(operations).slowdown == pytest.approx(1)
    assert uneven_findings(operations) == ([], [])


def test_a_slow_rank_is_named() -> None:
    title, ranks = the_finding(pipeline(lambda stage, lane, batch: 20 if (stage, lane) == (0, 2) else 10))
    assert title.startswith("Rank 2 makes a step")
    assert ranks == [2]


def test_a_slow_stage_is_named_with_its_ranks() -> None:
    title, ranks = the_finding(pipeline(lambda stage, lane, batch: 16 if stage == 1 else 10))
    assert title.startswith("The last pipeline stage makes")
    assert ranks == [4, 5, 6, 7]


def test_unequal_micro_batches_are_told_from_slow_hardware() -> None:
    lengths = [[8, 24, 8], [24, 8, 8], [8, 8, 24], [9, 23, 8]]
    title, ranks = the_finding(pipeline(lambda stage, lane, batch: lengths[lane][batch]))
    assert title.startswith("Micro-batches of unequal length make")
    assert ranks == []


def test_a_schedule_that_is_not_known_is_an_issue() -> None:
    operations = pipeline(lambda stage, lane, batch: 10).filter(~((pl.col("op") == "forward-recv") & (pl.col("sequence") == 1)))
    findings, issues = uneven_findings(operations)
    assert findings == []
    assert [issue.code for issue in issues] == ["SCHEDULE_UNKNOWN"]
