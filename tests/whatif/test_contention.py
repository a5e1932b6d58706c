"""Compute that communication slows down: fitted from the run's own kernels, else taken from others."""

from __future__ import annotations

import pytest

from netlab.run import Run
from netlab.whatif import Overlap, Scenario, what_if
from netlab.whatif.contention import contention
from tests.whatif.makers import Kernel, make_run


def _run(beside_ms: float, each: int = 6) -> Run:
    """Per rank: kernels of 10 ms alone, then as many of the same under one long all-reduce."""
    kernels = []
    for rank in (0, 1):
        at = 0.0
        for length in [10.0] * each + [beside_ms] * each:
            kernels.append(Kernel(rank, at, at + length, launch=0.01))
            at += length
        kernels.append(Kernel(rank, 10.0 * each, at, stream=20, instance=0, bytes=2**30, launch=0.02))
    end = max(kernel.end for kernel in kernels)
    return make_run(kernels, [(rank, 1, 0.0, end) for rank in (0, 1)])


def test_slow_down_is_the_ratio_of_the_same_kernels() -> None:
    found = contention(_run(12.0).frame("activities"))
    assert found.kinds == 2
    assert found.ratio80 == pytest.approx(1.2)


def test_faster_beside_communication_is_noise() -> None:
    assert contention(_run(9.0).frame("activities")).ratio80 == 1.0


def test_too_few_kernels_say_nothing() -> None:
    found = contention(_run(12.0, each=3).frame("activities"))
    assert found.kinds == 0
    assert (found.ratio80, found.ratio95) == (1.189, 1.40)


def test_hiding_more_communication_widens_the_interval_upwards() -> None:
    kernels = []
    for rank in (0, 1):
        kernels += [
            Kernel(rank, 0, 30, launch=0.1),
            Kernel(rank, 30, 50, stream=20, instance=0, bytes=100 * 2**20, launch=0.2),
            Kernel(rank, 50, 52, launch=0.3),
        ]
    run = make_run(kernels, [(0, 1, 0.0, 52.0), (1, 1, 0.0, 52.0)])
    answer = what_if(run, [Scenario(name="x", changes=(Overlap(bucket_mb=50.0),))]).scenarios[0]
    low, high = answer.interval95_ms or (0.0, 0.0)
    assert answer.predicted_ms == pytest.approx(42)
    # Half of the transfer is hidden now: 10 ms beside compute that may take 1.4 times as long.
    assert high - 42 > 42 - low + 3.9
    assert any("beside compute" in sentence for sentence in answer.assumptions)
