"""Links shared fairly: work and re-timing are each other's inverse, and nothing moves where nothing overlaps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.whatif.build import build_model
from netlab.whatif.costs import transfers
from netlab.whatif.draft import Draft, Setting
from netlab.whatif.engine import Engine
from netlab.whatif.sharing import fluid_ends, fluid_work
from tests.whatif.makers import Kernel, make_run


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.5, 50), st.sets(st.integers(0, 3), min_size=1)), min_size=1, max_size=8))
def test_work_of_a_fluid_schedule_gives_the_schedule_back(jobs: list[tuple[float, float, set[int]]]) -> None:
    start = np.array([job[0] for job in jobs])
    work = np.array([job[1] for job in jobs])
    links = [tuple(sorted(job[2])) for job in jobs]
    ends = fluid_ends(start, work, links)
    assert np.allclose(fluid_work(start, ends, links), work, rtol=1e-6, atol=1e-4)


def test_two_transfers_at_once_take_twice_as_long_each() -> None:
    assert fluid_ends(np.zeros(2), np.array([10.0, 10.0]), [(0,), (0,)]).tolist() == [20.0, 20.0]


def test_transfers_on_different_links_do_not_share() -> None:
    assert fluid_ends(np.zeros(2), np.array([10.0, 10.0]), [(0,), (1,)]).tolist() == [10.0, 10.0]


def _two_at_once() -> list[Kernel]:
    """Two all-reduces on two streams, 0-40 and 20-60: each alone would take 30 ms."""
    kernels = []
    for rank in (0, 1):
        kernels += [
            Kernel(rank, 0, 40, stream=20, instance=0, bytes=2**30),
            Kernel(rank, 20, 60, stream=21, instance=1, bytes=2**30),
            Kernel(rank, 60, 70),
        ]
    return kernels


def test_an_unchanged_run_with_overlapping_collectives_replays_exactly() -> None:
    run = make_run(_two_at_once(), [(0, 1, 0, 70), (1, 1, 0, 70)])
    model = build_model(run)
    setting = Setting(run, model, transfers(run, model))
    result = Engine(setting).run([Draft.of(setting)])[0]
    assert result.borders.length_ns.tolist() == pytest.approx([70e6, 70e6], abs=1)


def test_halved_bytes_that_no_longer_overlap_are_each_as_fast_as_alone() -> None:
    run = make_run(_two_at_once(), [(0, 1, 0, 70), (1, 1, 0, 70)])
    model = build_model(run)
    setting = Setting(run, model, transfers(run, model))
    engine = Engine(setting)
    draft = Draft.of(setting)
    draft.byte_ns = draft.byte_ns / 2
    result = engine.run([draft])[0]
    ends = sorted({round(end / 1e6, 3) for end in result.end_ns[setting.transfers.node].tolist()})
    # Alone 30 ms each, halved 15: the first runs 0-15, the second 20-35.
    assert ends == [15.0, 35.0]
