"""Two runs side by side: by hand, and what cannot be compared is said."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl
import pytest

from netlab.postmortem import Side, comparison_tables
from netlab.postmortem.aligned import collectives_beside, numbered_alike, ranks_beside, steps_beside
from netlab.run import Run, RunFacts
from netlab.schema import TABLES
from tests.made_run import made_run

MS = 1_000_000


def run(steps: dict[int, int], ranks: Sequence[int] = (0, 1), wait_ms: int = 0) -> Run:
    """A run whose steps take so many ms on every rank; all of it is compute but the wait."""
    rows = [
        {"rank": rank, "window": 0, "step": step, "device": 0, "step_ns": ms * MS, "compute_ns": (ms - wait_ms) * MS}
        | {"exposed_wait_ns": wait_ms * MS, "exposed_comm_ns": wait_ms * MS, "comm_ns": wait_ms * MS}
        for rank in ranks
        for step, ms in steps.items()
    ]
    fill: dict[str, object] = {name: 0 for name in TABLES["breakdown"].schema if name.endswith("_ns")}
    frame = TABLES["breakdown"].conform(pl.DataFrame(rows), **fill, split="measured", basis="transfer")
    return Run.from_frames({"breakdown": frame}, RunFacts(name="r", ranks=list(ranks), steps=list(steps)))


def times(frame: pl.DataFrame, part: str = "step") -> list[tuple[int | None, int | None, float | None, float | None]]:
    shown = frame.filter(pl.col("part") == part)
    return [(a, b, None if c is None else c / MS, None if d is None else d / MS) for _, _, a, b, c, d in shown.rows()]


def test_steps_stand_by_number_where_both_runs_have_them() -> None:
    base, slow = run({3: 10, 4: 10, 5: 10}), run({4: 12, 5: 12, 6: 12})
    assert numbered_alike(base, slow)
    assert times(steps_beside(base, slow)) == [(3, None, 10, None), (4, 4, 10, 12), (5, 5, 10, 12), (None, 6, None, 12)]


def test_steps_with_other_numbers_stand_first_beside_first() -> None:
    base, slow = run({3: 10, 4: 11}), run({900: 12, 901: 13, 902: 14})
    assert not numbered_alike(base, slow)
    assert times(steps_beside(base, slow)) == [(3, 900, 10, 12), (4, 901, 11, 13), (None, 902, None, 14)]


def test_parts_of_the_steps_add_up_to_the_step() -> None:
    beside = steps_beside(run({1: 10, 2: 10}), run({1: 14, 2: 14}, wait_ms=3))
    change = beside.with_columns(change=(pl.col("run_ns") - pl.col("base_ns")) / MS)
    assert change.filter((pl.col("position") == 0) & (pl.col("part") == "exposed_wait"))["change"].item() == 3
    parts = change.filter(pl.col("part") != "step").group_by("position").agg(pl.col("change").sum()).sort("position")
    assert parts["change"].to_list() == change.filter(pl.col("part") == "step")["change"].to_list() == [4, 4]


def test_ranks_of_one_run_alone_have_nothing_beside_them() -> None:
    beside = ranks_beside(run({1: 10, 2: 10}, ranks=(0, 1)), run({1: 12, 2: 12}, ranks=(1, 2)))
    shown = beside.filter(pl.col("part") == "step").select("rank", pl.col("base_ns", "run_ns") / MS)
    assert shown.rows() == [(0, 10, None), (1, 10, 12), (2, None, 12)]


def with_collectives(rows: list[tuple[str, int, int]], steps: int = 1) -> Run:
    """Instances of two members in the first of some steps: group, start in ms, transfer in ms."""
    frame = pl.DataFrame(
        [
            {"instance": number, "group": group, "op": "all_reduce", "rank": rank, "activity": 2 * number + place, "window": 0, "step": 1}
            | {"start_ns": at * MS, "end_ns": (at + took) * MS, "wait_ns": 0, "transfer_ns": took * MS, "bytes": 8}
            for number, (group, at, took) in enumerate(rows)
            for place, rank in enumerate(map(int, group.split(",")))
        ]
    )
    table = TABLES["collectives"].conform(frame, split="measured", layer="inter_node", members=2, seen=2)
    made = run(dict.fromkeys(range(1, steps + 1), 100), ranks=(0, 1, 2, 3))
    return made.with_frames({"collectives": table})


def test_the_nth_collective_of_a_group_stands_beside_the_nth() -> None:
    base, slow = with_collectives([("0,1", 0, 5), ("0,1", 10, 6)]), with_collectives([("0,1", 0, 5), ("0,1", 10, 9), ("0,1", 30, 2)])
    beside = collectives_beside(base, slow).select("scope", "place", pl.col("base_transfer_ns", "run_transfer_ns") / MS)
    assert beside.rows() == [("0,1", 0, 5, 5), ("0,1", 1, 6, 9), ("0,1", 2, None, 2)]


def test_groups_that_the_runs_do_not_share_are_compared_by_layer() -> None:
    beside = collectives_beside(with_collectives([("0,1", 0, 5)]), with_collectives([("0,2", 0, 7), ("1,3", 0, 9)]))
    shown = beside.select("scope", "place", pl.col("base_transfer_ns", "run_transfer_ns") / MS)
    assert shown.rows() == [("inter_node", 0, 5, 8)]


def test_a_place_knows_in_how_many_steps_it_is() -> None:
    base, slow = with_collectives([("0,1", 0, 5), ("2,3", 0, 5)], steps=4), with_collectives([("0,1", 0, 5), ("0,1", 9, 5), ("2,3", 0, 5)])
    beside = collectives_beside(base, slow).sort("scope", "place").select("scope", "place", "base_share", "run_share")
    assert beside.rows() == [("0,1", 0, 0.25, 1), ("0,1", 1, None, 1), ("2,3", 0, 0.25, 1)]


def test_a_step_captured_twice_stands_beside_its_own_repeat() -> None:
    def captured(first_window: int, ms: tuple[int, int]) -> Run:
        one, two = run({1: ms[0], 2: ms[0]}), run({1: ms[1], 2: ms[1]})
        rows = [side.frame("breakdown").with_columns(window=pl.lit(at, pl.Int32)) for at, side in enumerate((one, two), first_window)]
        return one.with_frames({"breakdown": pl.concat(rows).sort("rank", "window", "step")})

    beside = steps_beside(captured(0, (10, 20)), captured(3, (11, 22)))
    assert times(beside) == [(1, 1, 10, 11), (2, 2, 10, 11), (1, 1, 20, 22), (2, 2, 20, 22)]


def test_what_cannot_be_compared_is_said_with_what_to_record() -> None:
    made = made_run(ranks=4, steps=4, slow_rank=1)
    bare = run({1: 10, 2: 10})
    verdict = msgspec.structs.replace(made.verdict, split="unknown")
    scope = comparison_tables(Side(bare, verdict), Side(made.run, made.verdict), made.verdict)["compared_scope"]
    said = {aspect: (ok, says, action) for aspect, ok, says, action in scope.rows()}
    assert not said["waiting against transfer"][0]
    assert "Not measured in the base" in said["waiting against transfer"][1]
    assert "by number" in said["steps"][1]
    assert not said["transport and NICs"][0]
    assert "NCCL_DEBUG_FILE" in str(said["transport and NICs"][2])


def test_steps_with_other_numbers_are_said_to_stand_first_beside_first() -> None:
    made = made_run(ranks=4, steps=4, slow_rank=1)
    scope = comparison_tables(Side(run({900: 10, 901: 10}), made.verdict), Side(made.run, made.verdict), made.verdict)["compared_scope"]
    assert "first beside first" in scope.filter(pl.col("aspect") == "steps")["says"].item()


@pytest.mark.parametrize("name", ["compared_steps", "compared_ranks", "compared_collectives", "compared_changes", "compared_scope"])
def test_every_table_of_a_comparison_is_as_declared(name: str) -> None:
    made = made_run(ranks=4, steps=4, slow_rank=1)
    side = Side(made.run, made.verdict)
    TABLES[name].validate(comparison_tables(side, side, made.verdict)[name])
