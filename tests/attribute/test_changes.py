"""Slow phases and warm-ups, with their false alarms counted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from netlab.attribute import change_points, warmup_steps
from tests.timelines import Timelines


def _series(times: np.ndarray) -> pl.DataFrame:
    steps = pl.Series(range(100, 100 + len(times)), dtype=pl.Int32)
    return pl.DataFrame({"window": pl.zeros(len(times), dtype=pl.Int32, eager=True), "step": steps, "step_ns": times})


def _noise(count: int, seed: int, spread: float = 0.02) -> np.ndarray:
    return 100e6 * (1 + spread * np.random.default_rng(seed).standard_normal(count))


@pytest.mark.parametrize(("count", "begin", "end"), [(12, 7, 12), (14, 7, 14), (40, 10, 20), (40, 0, 15), (300, 120, 300)])
def test_a_slow_phase_is_found_with_its_first_step(count: int, begin: int, end: int) -> None:
    times = _noise(count, 3)
    times[begin:end] *= 1.25
    row = change_points(_series(times)).row(0, named=True)
    tolerance = -(-count // 120) - 1
    assert row["first_step"] == pytest.approx(100 + begin, abs=tolerance)
    assert row["last_step"] == pytest.approx(99 + end, abs=tolerance)
    assert row["open"] is (end == count)
    assert row["changed_ns"] / row["usual_ns"] == pytest.approx(1.25, rel=0.03)


def test_noise_raises_no_more_alarms_than_its_level() -> None:
    skewed = [100e6 * (1 + 0.1 * np.random.default_rng(seed).exponential(size=30)) for seed in range(150)]
    assert sum(change_points(_series(times)).height for times in skewed) <= 6  # 1.5 expected


def test_small_changes_and_short_series_give_no_alarm() -> None:
    times = _noise(40, 5, 0.001)
    times[20:] *= 1.03
    assert change_points(_series(times)).height == 0
    assert change_points(_series(_noise(5, 1))).height == 0
    assert change_points(pl.DataFrame({"rank": [0], "step_ns": [1]})).height == 0


def test_a_warm_up_is_named_and_is_no_change() -> None:
    times = _noise(20, 7)
    times[:2] *= 3
    assert warmup_steps(_series(times)) == [100, 101]
    assert change_points(_series(times)).height == 0
    assert warmup_steps(_series(_noise(20, 7))) == []


def test_a_warm_up_is_an_issue_of_the_run() -> None:
    made = Timelines(["a"])
    at = 0.0
    for step in range(6):
        length = 300 if step == 0 else 100
        made.step(step, at, at + length)
        made.kernel(0, at, at + length)
        at += length
    assert [issue.code for issue in made.figures().issues] == ["WARMUP_STEPS"]
    assert "--steps 1:" in made.figures().issues[0].message
