"""What must hold for every run: monotone, bounded, exact where nothing changes."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netlab.run import Run
from netlab.whatif import Accumulation, Compression, Compute, Overlap, Rates, Scenario, Straggler, Topology, what_if
from tests.whatif.makers import Kernel, make_run

_Made = tuple[list[Kernel], list[tuple[int, int, float, float]]]


@st.composite
def _kernels(draw: st.DrawFn) -> _Made:
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
    return kernels, [(rank, 1, 0.0, end) for rank in range(ranks)]


def _runs() -> st.SearchStrategy[Run]:
    return _kernels().map(lambda made: make_run(*made))


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


_QUESTIONS = [
    Scenario(name="as it is"),
    Scenario(name="bytes", changes=(Compression(ratio=3.0, codec_ms=0.0),)),
    Scenario(name="encoded", changes=(Compression(method="int8", codec_ms=0.5),)),
    Scenario(name="buckets", changes=(Overlap(bucket_mb=2.0),)),
    Scenario(name="large buckets", changes=(Overlap(bucket_mb=512.0),)),
    Scenario(name="link", changes=(Topology(inter_node_gbps=200.0),)),
    Scenario(name="slow link", changes=(Topology(inter_node_gbps=20.0),)),
    Scenario(name="none late", changes=(Straggler(rank="all"),)),
    Scenario(name="compute", changes=(Compute(speedup=2.0),)),
    Scenario(name="fewer", changes=(Accumulation(micro_batches=4),)),
    Scenario(name="all", changes=(Straggler(rank="all"), Compute(speedup=1.5), Compression(ratio=2.0), Topology(inter_node_gbps=200.0))),
]


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_kernels(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(made: _Made, chance: random.Random) -> None:
    kernels, steps = made
    mixed = chance.sample(kernels, len(kernels))
    one, other = (what_if(make_run(each, steps), _QUESTIONS, links=Rates(inter_node_gbps=100.0)) for each in (kernels, mixed))
    for answer, same in zip(one.scenarios, other.scenarios, strict=True):
        assert (same.refused, same.assumptions) == (answer.refused, answer.assumptions)
        if answer.refused is None:
            assert same.predicted_ms == pytest.approx(answer.predicted_ms, rel=1e-9)
            assert same.interval95_ms == pytest.approx(answer.interval95_ms, rel=1e-9)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_runs())
def test_every_interval_holds_its_answer_and_no_network_change_claims_to_beat_its_bound(run: Run) -> None:
    document = what_if(run, _QUESTIONS, links=Rates(inter_node_gbps=100.0))
    slack = 1e-6 * (document.baseline.measured_ms or 0.0)
    for answer in document.scenarios:
        if answer.refused is not None:
            continue
        low95, high95 = answer.interval95_ms or (0.0, 0.0)
        low80, high80 = answer.interval80_ms or (0.0, 0.0)
        predicted, bound = answer.predicted_ms or 0.0, answer.bound_best_ms or 0.0
        assert low95 - slack <= low80 <= predicted + slack
        assert predicted - slack <= high80 <= high95 + slack
        assert bound <= predicted + slack
        if {change["kind"] for change in answer.changes} <= {"compression", "topology", "overlap"}:
            assert bound <= low95 + slack
