"""Charts of two runs side by side say in their titles what changed."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.figures import (
    collectives_beside,
    collectives_beside_frame,
    compile_vega,
    ranks_beside,
    ranks_beside_frame,
    steps_beside,
    steps_beside_frame,
)
from netlab.schema.comparison import COMPARED_COLLECTIVES, COMPARED_RANKS, COMPARED_STEPS

MS = 1e6


def steps(base: list[float | None], run: list[float | None]) -> pl.DataFrame:
    rows = [
        {"position": at, "part": part, "base_step": None if old is None else at, "run_step": None if new is None else at}
        | {"base_ns": None if old is None else old * MS, "run_ns": None if new is None else new * MS}
        for at, (old, new) in enumerate(zip(base, run, strict=True))
        for part in ("step", "compute")
    ]
    return COMPARED_STEPS.conform(pl.DataFrame(rows, infer_schema_length=None))


def title(chart: object) -> str:
    text = compile_vega(chart)["title"]["text"]
    return " ".join(text) if isinstance(text, list) else str(text)


def subtitle(chart: object) -> str:
    text = compile_vega(chart)["title"]["subtitle"]
    return " ".join(text) if isinstance(text, list) else str(text)


def test_a_step_that_the_base_lacks_is_compared_with_its_mean() -> None:
    frame = steps_beside_frame(steps([10.0, 12.0, None], [10.0, 15.0, 20.0]))
    assert frame.filter(pl.col("part") == "step")["change_ms"].to_list() == [0.0, 3.0, 9.0]


def test_long_runs_are_thinned_to_what_a_chart_shows() -> None:
    frame = steps_beside_frame(steps([10.0] * 1_000, [11.0] * 1_000))
    assert frame["position"].n_unique() <= 120
    assert set(frame["change_ms"]) == {1.0}


def test_title_counts_the_steps_beyond_the_longest_of_the_base() -> None:
    frame = steps_beside_frame(steps([10.0, 11.0, 10.0, 10.0], [10.0, 11.1, 14.0, 15.0]))
    longer = "2 of 4 steps take longer than the longest of the good run (11 ms)"
    assert title(steps_beside(frame, 2)) == f"{longer}; the slow phase begins at step 2"
    assert title(steps_beside(frame)) == title(steps_beside(frame, 0)) == longer


def test_numbered_steps_stay_so_when_one_run_lacks_some_and_they_are_thinned() -> None:
    frame = steps_beside_frame(steps([10.0] * 1_000, [None] * 300 + [11.0] * 700))
    whole = frame.filter(pl.col("part") == "step")
    both = whole.drop_nulls(["base_step", "run_step"])
    assert both.height
    assert (both["base_step"] == both["run_step"]).all()
    assert "at the same place" not in subtitle(steps_beside(frame))


def test_a_rank_that_became_slow_by_itself_is_in_the_title() -> None:
    own = {0: (10.0, 10.0), 1: (10.0, 16.0), 2: (10.0, 10.1), 3: (None, 10.0)}
    rows = [
        {"rank": rank, "part": part, "base_ns": None if old is None else old * MS, "run_ns": new * MS}
        for rank, (old, new) in own.items()
        for part in ("step", "compute")
    ]
    frame = ranks_beside_frame(COMPARED_RANKS.conform(pl.DataFrame(rows, infer_schema_length=None)))
    assert frame.filter((pl.col("rank") == 3) & (pl.col("part") == "step"))["base_ms"].item() == 10.0
    assert title(ranks_beside(frame)).startswith("Rank 1 itself became 6 ms slower")


def collectives(*rows: tuple[str, int, float | None, float | None], shares: tuple[float, float] = (1.0, 1.0)) -> pl.DataFrame:
    """Scope, place and the transfer of each run in ms; without a time, a run lacks the collective."""
    columns = ["scope", "place", "base_transfer_ns", "run_transfer_ns"]
    frame = pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None)
    frame = frame.with_columns(pl.col("base_transfer_ns", "run_transfer_ns").cast(pl.Float64) * MS)
    there = [
        pl.when(pl.col(f"{side}_transfer_ns").is_not_null()).then(share).alias(f"{side}_share")
        for side, share in zip(("base", "run"), shares, strict=True)
    ]
    return COMPARED_COLLECTIVES.conform(frame.with_columns(there), op="all_reduce")


def test_kinds_of_collectives_come_in_the_order_of_their_change() -> None:
    frame = collectives_beside_frame(collectives(("0,1", 0, 5.0, 5.0), ("0,1", 1, 5.0, 6.0), ("2,3", 0, 5.0, 9.0), ("2,3", 1, None, 9.0)))
    assert frame.select("scope", "base_count", "run_count", "change_ms").rows() == [("2,3", 1, 2, 13.0), ("0,1", 2, 2, 1.0)]
    assert title(collectives_beside(frame)) == "Most changed: all_reduce of ranks 2, 3, 18 ms a step in 2 calls instead of 5 ms in 1 call"


def test_a_kind_that_one_run_lacks_is_said() -> None:
    frame = collectives_beside_frame(collectives(("inter_node", 0, None, 9.0)))
    assert title(collectives_beside(frame)) == "Most changed: all_reduce (inter node), which only the slow run has"


def test_a_collective_of_every_tenth_step_counts_a_tenth() -> None:
    frame = collectives_beside_frame(collectives(("0,1", 0, 5.0, 8.0), ("0,1", 1, 40.0, 40.0), shares=(0.1, 0.1)))
    assert frame.select("base_count", "run_count", "base_transfer_ms", "change_ms").row(0) == pytest.approx((0.2, 0.2, 4.5, 0.3))
    assert title(collectives_beside(frame)) == "Most changed: all_reduce of ranks 0, 1, 4.8 ms a step instead of 4.5 ms"


def test_unknown_waiting_stays_unknown() -> None:
    unknown = collectives(("0,1", 0, 5.0, 5.0)).with_columns(pl.lit(None, pl.Float64).alias("run_transfer_ns"))
    frame = collectives_beside_frame(unknown)
    assert frame.select("base_wait_ms", "run_wait_ms", "run_transfer_ms", "change_ms").row(0) == (None,) * 4
    assert frame["run_count"].item() == 1
    assert title(collectives_beside(frame)) == "Transfer and waiting of collectives are not known in both runs"
