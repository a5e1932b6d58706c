"""What the instants of a CPU run tell about its threads: DDP's wait for a bucket is a pause, never an event."""

from __future__ import annotations

import pytest

from netlab.run import Run
from netlab.whatif import Compression, Scenario, what_if
from netlab.whatif.build import build_model
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


def test_a_collective_that_was_launched_behind_another_does_not_hold_the_host_up() -> None:
    # Rank 1 computes 30 ms, rank 0 10 and later 20 more; its second reduction was launched right where the first ended.
    kernels = [
        Kernel(0, 0, 10),
        Kernel(0, 10, 40, stream=20, instance=0, bytes=2**20, launch=9.98),
        Kernel(0, 40, 50, stream=20, instance=1, bytes=2**20, launch=39.98),
        Kernel(0, 41, 61, launch=40.98),
        Kernel(1, 0, 30),
        Kernel(1, 30, 40, stream=20, instance=0, bytes=2**20, launch=29.98),
        Kernel(1, 40, 50, stream=20, instance=1, bytes=2**20, launch=39.98),
        Kernel(1, 50, 61),
    ]
    run = make_run(kernels, [(0, 1, 0, 61), (1, 1, 0, 61)])
    model = build_model(run)
    host = model.launch_node[[2, 3]]
    graph = model.graph
    before = graph.predecessor[graph.pointer[host[1]] : graph.pointer[host[1] + 1]]
    assert host[0] not in before
    assert model.launch_node[1] in before
