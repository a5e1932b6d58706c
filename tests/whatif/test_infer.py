"""What the instants of a CPU run tell about its threads: DDP's wait for a bucket is a pause, never an event."""

from __future__ import annotations

import pytest

from netlab.run import Run
from netlab.whatif import Compression, Scenario, what_if
from tests.whatif.makers import Kernel, make_run

_HALF = Scenario(name="half", changes=(Compression(ratio=2.0, codec_ms=0.0),))


def gloo_run(wakes: float, ends: float) -> Run:
    """Both ranks compute 0-10, all-reduce from 10 until ``ends``, and compute again from ``wakes`` to 120 ms."""
    kernels = []
    for rank in (0, 1):
        kernels += [Kernel(rank, 0, 10), Kernel(rank, 10, ends, stream=20, instance=0, bytes=2**24), Kernel(rank, wakes, 120)]
    return make_run(kernels, [(0, 1, 0.0, 120.0), (1, 1, 0.0, 120.0)], backend="cpu")


@pytest.mark.parametrize(("wakes", "ends"), [(110.0, 110.0), (112.0, 110.0), (108.0, 110.0)])
def test_the_thread_waited_for_gloo_whichever_says_first_that_it_is_done(wakes: float, ends: float) -> None:
    (answer,) = what_if(gloo_run(wakes, ends), [_HALF]).scenarios
    assert answer.predicted_ms == pytest.approx(120 - (ends - 10) / 2)


def test_a_thread_that_goes_on_long_before_gloo_ends_did_not_wait() -> None:
    (answer,) = what_if(gloo_run(40.0, 110.0), [_HALF]).scenarios
    assert answer.predicted_ms == pytest.approx(120)
