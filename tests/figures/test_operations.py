"""The map of compute by stage and data-parallel rank says in its title who computes longer."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.figures import compile_vega, compute_frame, compute_map
from netlab.schema.operations import JOB_OPERATIONS

MS = 1_000_000


def job(ms: list[list[int]], steps: int = 2) -> pl.DataFrame:
    """Compute of each (stage, data-parallel rank) in ms, half forward and half backward; the optimizer does not count."""
    rows = [
        {
            "stage": stage,
            "dp_rank": lane,
            "rank": stage * len(lanes) + lane,
            "step": step,
            "op": op,
            "start_ns": 0,
            "end_ns": took * MS // 2,
        }
        for step in range(steps)
        for stage, lanes in enumerate(ms)
        for lane, took in enumerate(lanes)
        for op in ("forward-compute", "backward-compute", "optimizer")
    ]
    return JOB_OPERATIONS.conform(pl.DataFrame(rows), source="job", sequence=0)


@pytest.mark.parametrize(
    ("ms", "title"),
    [
        ([[10, 10], [10, 10]], "All ranks compute alike: none takes 5 % longer than the mean"),
        ([[10, 10], [30, 30]], "Stage 1 computes 50 % longer than ranks do on average"),
        ([[10, 26], [10, 10]], "Rank 1 (stage 0) computes 86 % longer than ranks do on average"),
    ],
)
def test_title_tells_a_slow_stage_from_a_slow_rank(ms: list[list[int]], title: str) -> None:
    assert compile_vega(compute_map(compute_frame(job(ms))))["title"]["text"] == title


def test_times_are_means_over_steps_and_excess_is_against_all() -> None:
    frame = compute_frame(job([[10, 20]], steps=3))
    assert frame.select("rank", "compute_ms", "spread_ms").rows() == [(0, 10, 0), (1, 20, 0)]
    assert frame["excess"].to_list() == pytest.approx([-1 / 3, 1 / 3])


def test_of_many_data_parallel_ranks_the_slow_ones_are_drawn() -> None:
    chart = compile_vega(compute_map(compute_frame(job([[10] * 99 + [20]]))))
    assert "Of 100 data-parallel ranks, the 64 with the longest compute" in str(chart["title"]["subtitle"])
    drawn = {row["dp_rank"] for data in chart["data"] for row in data.get("values", [])}
    assert len(drawn) == 64
    assert 99 in drawn
