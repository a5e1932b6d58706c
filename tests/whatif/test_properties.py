"""What must hold for every run: monotone, bounded, exact where nothing changes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netlab.run import Run
from netlab.whatif import Compression, Overlap, Rates, Scenario, Topology, what_if
from tests.whatif.makers import Kernel, make_run


@st.composite
def _runs(draw: st.DrawFn) -> Run:
    """Two or three ranks that compute and reduce on two streams, each rank at its own pace, collectives in one order."""
    ranks = draw(st.integers(2, 3))
    rounds = draw(st.integers(1, 4))
    kernels: list[Kernel] = []
    at = [draw(st.floats(0, 3)) for _ in range(ranks)]
    free = 0.0
    for number in range(rounds):
        starts = []
        for rank in range(ranks):
            length = draw(st.floats(0.5, 10))
            kernels.append(Kernel(rank, at[rank], at[rank] + length))
            at[rank] += length
            starts.append(max(at[rank], free))
        free = max(starts) + draw(st.floats(0.5, 10))
        size = draw(st.sampled_from([2**20, 2**24, 2**28]))
        for rank in range(ranks):
            kernels.append(Kernel(rank, starts[rank], free, stream=20, instance=number, bytes=size))
        if draw(st.booleans()):
            at = [free + draw(st.floats(0, 1)) for _ in range(ranks)]
    end = max(k.end for k in kernels) + draw(st.floats(0, 5))
    return make_run(kernels, [(rank, 1, 0.0, end) for rank in range(ranks)])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_runs())
def test_a_faster_link_never_lengthens_a_step_and_no_answer_beats_its_bound(run: Run) -> None:
    questions = [
        Scenario(name="as it is"),
        Scenario(name="x2", changes=(Compression(ratio=2.0, codec_ms=0.0),)),
        Scenario(name="x8", changes=(Compression(ratio=8.0, codec_ms=0.0),)),
        Scenario(name="link", changes=(Topology(inter_node_gbps=1000.0),)),
        Scenario(name="perfect", changes=(Overlap(bound="perfect"),)),
        Scenario(name="none", changes=(Overlap(bound="none"),)),
    ]
    document = what_if(run, questions, links=Rates(inter_node_gbps=0.1))
    measured = document.baseline.measured_ms
    assert measured is not None
    assert document.baseline.replay_error == pytest.approx(0.0, abs=1e-9)
    unchanged, half, eighth, link, perfect, nothing = [answer.predicted_ms or 0.0 for answer in document.scenarios]
    slack = 1e-6 * measured
    assert unchanged == pytest.approx(measured, rel=1e-9)
    assert eighth <= half + slack <= measured + 2 * slack
    assert link <= measured + slack
    assert perfect <= measured + slack
    assert nothing >= measured - slack
    for answer in document.scenarios:
        assert (answer.bound_best_ms or 0.0) <= (answer.predicted_ms or 0.0) + slack
