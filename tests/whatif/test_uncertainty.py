"""Parts of an interval, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from netlab.run import Run
from netlab.whatif import Accumulation, Scenario, Straggler, uncertainty, what_if
from netlab.whatif.uncertainty import Residual, block_bootstrap, model_error
from tests.whatif.makers import Kernel, make_run


def _residuals(monkeypatch: pytest.MonkeyPatch, *rows: tuple[str, str, float]) -> None:
    made = tuple(Residual(setup, "case", (kind,), error, 1.0) for setup, kind, error in rows)
    monkeypatch.setattr(uncertainty, "residuals", lambda: made)


def test_many_rows_of_one_set_up_weigh_no_more_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [("a", "overlap", 0.2), ("b", "overlap", 0.1), ("c", "compression", 0.05)]
    _residuals(monkeypatch, *own)
    few = model_error(("topology",), np.e)
    _residuals(monkeypatch, *own, *[("c", "compression", 0.001)] * 200)
    assert model_error(("topology",), np.e) == few
    # Three set-ups show a quarter of all cases at most: 95 % is half as much again as the worst, 80 % a little more than it.
    assert few.half95 == pytest.approx(0.3)
    assert 0.2 < few.half80 < 0.22


def test_neither_the_judged_kind_nor_the_judged_set_up_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    _residuals(monkeypatch, ("a", "topology", 0.9), ("b", "overlap", 0.8), ("c", "overlap", 0.1))
    assert model_error(("topology",), np.e, "b").half95 == pytest.approx(0.15)


def test_blocks_are_as_long_as_profiler_windows() -> None:
    # Four windows of five steps, each window at its own pace: between windows is all the variation.
    steps = np.repeat([60.0, 80.0, 120.0, 140.0], 5)
    assert block_bootstrap(steps, windows=4).std() > 1.15 * block_bootstrap(steps).std()
    assert np.array_equal(block_bootstrap(steps, windows=2), block_bootstrap(steps))


def test_what_is_repeated_is_drawn_with_the_steps() -> None:
    steps = np.array([120.0, 100, 110, 120, 100, 110, 110, 120, 100, 110, 120, 100])
    alone, repeated = block_bootstrap(steps), block_bootstrap(steps, 3 * steps)
    assert repeated.std() > 2 * alone.std()
    assert np.allclose(block_bootstrap(steps, np.full(12, 7.0)), alone)


def _steps(paces: list[float], late: float = 0.0) -> Run:
    """Two ranks of one step after the other: forward and backward of a pace, then a reduction of 10 ms that both wait for."""
    kernels, marks, at = [], [], 0.0
    for step, pace in enumerate(paces):
        for rank in (0, 1):
            own = pace + late * rank
            kernels += [Kernel(rank, at + late * rank, at + own), Kernel(rank, at + own, at + pace + late + 10, 20, step, bytes=2**26)]
            marks.append((rank, step, at, at + pace + late + 10))
        at += pace + late + 10
    return make_run(kernels, marks, backend="cpu" if late else "device")


def test_a_micro_batch_that_varies_widens_accumulation() -> None:
    # Half of the steps take 10 ms longer; whether 7 more micro-batches are of this sort or of that is worth 70 ms.
    answer = what_if(_steps([50, 60] * 4), [Scenario(name="x", changes=(Accumulation(micro_batches=8),))]).scenarios[0]
    low, high = answer.interval95_ms or (0.0, 0.0)
    assert answer.predicted_ms == pytest.approx(7 * 55 + 65)
    assert low < 7 * 51 + 65
    assert high > 7 * 59 + 65


def test_a_step_without_a_straggler_may_need_the_cores_that_it_lent() -> None:
    # Rank 1 idles 40 ms before 50 ms of work that both do: working together may cost both up to 40 ms, half of it within 80 %.
    run = _steps([50] * 6, late=40)
    run = Run.from_frames(
        {name: run.frame(name) for name in ("activities", "collectives", "steps")}, replace(run.facts, hosts={"h": [0, 1]})
    )
    answer = what_if(run, [Scenario(name="x", changes=(Straggler(rank=1),))]).scenarios[0]
    assert answer.predicted_ms == pytest.approx(60)
    assert (answer.interval80_ms or (0, 0))[1] >= 60 + 20
    assert 60 + 40 <= (answer.interval95_ms or (0, 0))[1] < 60 + 60
