"""Attribution per rank and the share per step: what is drawn adds up, and the title says what the numbers say."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl
import pytest

from netlab.figures import attribution, rank_step_explorer, rows_frame, share_per_step
from netlab.figures.mime import VEGA_MIME
from netlab.figures.parts import extreme_ranks, parts_frame
from netlab.figures.renderer import mimebundle
from netlab.verdict.rows import RankRow, RankStepRow, StepRow


def _row(rank: int, **changed: Any) -> RankRow:
    known = {
        "iterations": 4,
        "iteration_ms": 10.0,
        "compute_ms": 6.0,
        "hidden_comm_ms": 1.0,
        "exposed_comm_ms": 3.0,
        "exposed_transfer_ms": 2.0,
        "exposed_wait_ms": 1.0,
        "exposed_memory_ms": 0.5,
        "idle_ms": 0.5,
        "network_share": 0.2,
        "wait_share": 0.1,
        "comm_share": 0.3,
    }
    return RankRow(rank=rank, **{**known, **changed})


def _step(step: int, share: float | None, **changed: Any) -> StepRow:
    known = {"network_share": share, "network_share_low": share, "network_share_high": share, "wait_share": 0.05, "iteration_ms": 10.0}
    return StepRow(step=step, **{**known, "comm_share": None if share is None else share + 0.05, "flagged": (share or 0) > 0.25, **changed})


def _text(chart: Any) -> str:
    return str(chart.to_dict()["title"]["text"])


def _rows(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for values in spec["datasets"].values() for row in values]


def test_parts_of_a_rank_add_up_to_its_step() -> None:
    parts = parts_frame(rows_frame([_row(0), _row(1, idle_ms=2.0)]), "rank")
    assert parts.group_by("rank", maintain_order=True).agg(pl.col("ms").sum()).rows() == [(0, 10.0), (1, 11.5)]
    assert parts.group_by("rank").agg(pl.col("share").sum())["share"].to_list() == pytest.approx([1.0, 1.0])


def test_unknown_split_is_a_part_of_its_own_and_no_transfer() -> None:
    parts = parts_frame(rows_frame([_row(0, exposed_transfer_ms=None, exposed_wait_ms=None)]), "rank")
    drawn = dict(parts.select("part", "ms").rows())
    assert drawn["exposed communication, split unknown"] == 3.0
    assert not {"exposed transfer", "exposed wait"} & drawn.keys()


@pytest.mark.parametrize(
    ("totals", "words"),
    [
        ({"comm_share": 0.3, "network_share": 0.2, "wait_share": 0.1}, "moves data for 20 % of the step; 10 % is waiting"),
        ({"comm_share": 0.3, "network_share": 0.3, "wait_share": None}, "30 % of the step; transfer or waiting is not known"),
        ({"comm_share": 0.0, "network_share": 0.0, "wait_share": 0.0, "hidden_comm_ms": 2.0}, "compute hides all of it"),
        ({"comm_share": 0.0, "network_share": 0.0, "wait_share": 0.0, "hidden_comm_ms": 0.0}, "there is none"),
    ],
)
def test_title_of_the_attribution_is_its_finding(totals: dict[str, float | None], words: str) -> None:
    assert words in _text(attribution(rows_frame([_row(0)]), totals))


def test_capture_without_steps_is_not_called_a_step() -> None:
    spec = attribution(rows_frame([_row(0, iterations=None, iteration_ms=None)])).to_dict()
    assert spec["encoding"]["x"]["title"] == "time in the capture (ms)"
    assert "of the capture" in spec["title"]["text"]


def test_extremes_hold_the_rank_with_least_communication() -> None:
    rows = pl.DataFrame({"rank": range(200), "exposed_comm_ms": [0.1 if rank == 137 else 5.0 + rank for rank in range(200)]})
    chosen = extreme_ranks(rows, "exposed_comm_ms", 48)
    assert len(chosen) == 48
    assert {137, 199} <= set(chosen)


def test_share_per_step_draws_the_threshold_with_its_label() -> None:
    spec = share_per_step(rows_frame([_step(1, 0.3), _step(2, 0.2)]), 0.25).to_dict()
    rules = [layer for layer in spec["layer"] if layer["mark"]["type"] == "rule"]
    assert rules
    assert rules[-1]["mark"]["strokeDash"]
    assert {"limit": 0.25, "text": "threshold 25 %"} in _rows(spec)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ([0.3, 0.2], "above 25 % in 1 of 2 steps"),
        ([0.3, 0.4], "above 25 % in all 2 steps"),
        ([0.25, 0.1], "at most 25 % in all 2 steps"),
        ([0.3], "above 25 % in the only step"),
        ([None, None], "not known"),
    ],
)
def test_title_of_the_share_counts_the_steps(shares: list[float | None], words: str) -> None:
    rows = [
        _step(number, share, **({} if share is not None else {"comm_share": 0.4, "wait_share": None}))
        for number, share in enumerate(shares)
    ]
    assert words in _text(share_per_step(rows_frame(rows), 0.25))


def test_many_steps_keep_their_worst_one() -> None:
    rows = [_step(number, 0.9 if number == 1234 else 0.1) for number in range(3000)]
    spec = share_per_step(rows_frame(rows), 0.25).to_dict()
    drawn = [row for row in _rows(spec) if row.get("kind") == "network share"]
    assert len(drawn) <= 400
    assert {"step": 1234, "high": 0.9}.items() <= next(row for row in drawn if row["high"] == 0.9).items()


def test_uncertain_share_shows_its_range() -> None:
    spec = share_per_step(rows_frame([_step(1, 0.3, network_share_low=0.2, network_share_high=0.35)]), 0.25).to_dict()
    assert any("network_share_low" in str(layer["encoding"].get("y")) for layer in spec["layer"])
    assert "range" in " ".join(spec["title"]["subtitle"])


def test_explorer_holds_each_rank_and_step_and_stays_small() -> None:
    rows = [RankStepRow(**{**msgspec.to_builtins(_row(rank)), "step": step}) for rank in range(64) for step in range(200)]
    chart = rank_step_explorer(rows_frame(rows))
    drawn = _rows(chart.to_dict())
    assert len({row["rank"] for row in drawn}) == 40
    assert len({row["step"] for row in drawn}) >= 100
    assert len(drawn) == len({(row["rank"], row["step"]) for row in drawn})
    # A chart beyond the budget gives way to its data: this must not happen to the one that is there to be dragged over.
    assert VEGA_MIME in mimebundle(chart, png=False)[0]
