"""Heat strip and timeline of the worst step: drawn time equals measured time."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.figures import gantt_frame, heat_strip, strip_frame, worst_step, worst_step_gantt
from netlab.schema import TABLES
from tests.made_run import Made, made_run

_MS = 1_000_000


@pytest.fixture(scope="module")
def made() -> Made:
    return made_run(ranks=6, steps=4, slow_rank=3)


def _activity(number: int, kind: str, start_ms: float, end_ms: float, cut_ms: float | None = None, stream: int = 7) -> dict[str, object]:
    return {
        "rank": 0,
        "activity": number,
        "stream": stream,
        "kind": kind,
        "name": f"k{number}",
        "start_ns": int(start_ms * _MS),
        "end_ns": int(end_ms * _MS),
        "window": 0,
        "step": 1,
        "transfer_start_ns": None if cut_ms is None else int(cut_ms * _MS),
    }


def _frames(rows: list[dict[str, object]], end_ms: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    border = {"rank": 0, "window": 0, "step": 1, "start_ns": 0, "end_ns": end_ms * _MS, "complete": True, "mark_start_ns": 0}
    return TABLES["activities"].conform(pl.DataFrame(rows)), TABLES["steps"].conform(pl.DataFrame([border]))


def test_strip_by_hand() -> None:
    # Compute to 4 ms, waiting to 6 ms, transfer to 10 ms, of which compute hides the last millisecond.
    rows = [_activity(0, "compute", 0, 4), _activity(1, "communication", 3, 10, 6, 20), _activity(2, "compute", 9, 10)]
    activities, steps = _frames(rows, 10)
    strip = strip_frame(activities, steps, TABLES["breakdown"].empty())
    length = pl.col("t1_ms") - pl.col("t0_ms")
    sums = strip.select((pl.col("transfer_share") * length).sum(), (pl.col("wait_share") * length).sum(), length.sum()).row(0)
    assert sums == pytest.approx((3.0, 2.0, 10.0), abs=1e-9)


def test_strip_holds_exactly_the_exposed_time_of_the_breakdown(made: Made) -> None:
    run = made.run
    strip = strip_frame(run.frame("activities"), run.frame("steps"), run.frame("breakdown"))
    length = pl.col("t1_ms") - pl.col("t0_ms")
    drawn = strip.group_by("rank").agg((pl.col("transfer_share") * length).sum(), (pl.col("wait_share") * length).sum()).sort("rank")
    measured = run.frame("breakdown").group_by("rank").agg(pl.col("exposed_transfer_ns").sum() / _MS, pl.col("exposed_wait_ns").sum() / _MS)
    for seen, known in zip(drawn.rows(), measured.sort("rank").rows(), strict=True):
        assert seen == pytest.approx(known, abs=1e-6)


def test_title_names_the_rank_that_never_waits(made: Made) -> None:
    run = made.run
    strip = strip_frame(run.frame("activities"), run.frame("steps"), run.frame("breakdown"))
    assert heat_strip(strip, run.frame("steps")).to_dict()["title"]["text"].startswith("Rank 3 hardly ever waits")


def test_strip_without_steps_covers_the_activities() -> None:
    activities, _ = _frames([_activity(0, "compute", 2, 4), _activity(1, "communication", 4, 8)], 10)
    strip = strip_frame(activities, TABLES["steps"].empty(), TABLES["breakdown"].empty())
    assert strip["t1_ms"].max() == pytest.approx(6.0)
    # The split is unknown: it counts as transfer, as in the breakdown.
    assert strip.select((pl.col("transfer_share") * (pl.col("t1_ms") - pl.col("t0_ms"))).sum()).item() == pytest.approx(4.0)


def test_worst_step_has_the_most_exposed_communication(made: Made) -> None:
    worst = worst_step(made.run.frame("breakdown"))
    assert worst is not None
    pooled = made.run.frame("breakdown").group_by("step").agg(pl.col("exposed_comm_ns").sum())
    assert worst[0] in pooled.filter(pl.col("exposed_comm_ns") == pooled["exposed_comm_ns"].max())["step"].to_list()
    assert worst_step(TABLES["breakdown"].empty()) is None


def test_timeline_draws_every_activity_and_shows_the_late_rank(made: Made) -> None:
    run = made.run
    worst = worst_step(run.frame("breakdown"))
    assert worst is not None
    bars = gantt_frame(run.frame("activities"), run.frame("collectives"), run.frame("breakdown"), run.frame("steps"))
    assert 3 in bars["rank"].to_list()
    held = run.frame("activities").filter((pl.col("step") == worst[0]) & pl.col("rank").is_in(bars["rank"].unique().implode()))
    drawn = bars.select((pl.col("t1_ms") - pl.col("t0_ms")).sum()).item()
    assert drawn == pytest.approx(held.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item() / _MS, abs=1e-6)
    assert "rank 3" in worst_step_gantt(bars, worst[0]).to_dict()["title"]["text"]


def test_unknown_split_is_neither_wait_nor_transfer() -> None:
    activities, steps = _frames([_activity(0, "compute", 0, 4), _activity(1, "communication", 4, 8)], 10)
    row = {column.name: 0 for column in TABLES["breakdown"].columns} | {
        "step": 1,
        "step_ns": 10 * _MS,
        "split": "unknown",
        "basis": "communication",
    }
    bars = gantt_frame(activities, TABLES["collectives"].empty(), TABLES["breakdown"].conform(pl.DataFrame([row])), steps)
    assert set(bars["kind"]) == {"compute", "communication, split unknown"}


def test_too_many_activities_become_fewer_bars_that_cover_them() -> None:
    rows = [_activity(number, "compute", number * 0.01, number * 0.01 + 0.009) for number in range(20_000)]
    activities, steps = _frames(rows, 200)
    row = {column.name: 0 for column in TABLES["breakdown"].columns} | {
        "step": 1,
        "step_ns": 200 * _MS,
        "split": "measured",
        "basis": "transfer",
    }
    bars = gantt_frame(activities, TABLES["collectives"].empty(), TABLES["breakdown"].conform(pl.DataFrame([row])), steps)
    assert bars.height < 2_500
    assert bars["count"].sum() == 20_000


def test_strip_of_unknown_split_blames_neither() -> None:
    activities, steps = _frames([_activity(0, "compute", 0, 4), _activity(1, "communication", 4, 8)], 10)
    chart = heat_strip(strip_frame(activities, steps, TABLES["breakdown"].empty()), steps, split_known=False)
    spec = chart.to_dict()
    assert spec["title"]["text"] == "Communication stands in the way for 40.0 % of the time; transfer and waiting are not told apart"
    assert "vconcat" not in spec
