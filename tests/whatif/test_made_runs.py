"""Made GPU runs, simulated again with the change: the answer against the truth."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from netlab.pipeline.api import open as open_run
from netlab.synth import write_run
from netlab.synth.plants import spec_for
from netlab.synth.simulate import simulate
from netlab.synth.truth import iteration_ms
from netlab.whatif import Accumulation, Compression, Overlap, Rates, Scenario, Straggler, Topology, what_if
from tests.whatif.makers import Kernel, make_run

_HALF = Compression(ratio=2.0, codec_ms=0.0)


@pytest.mark.parametrize("recorded", [True, False], ids=["sync events", "no sync events"])
@pytest.mark.parametrize("plant", ["straggler", "slow-fabric", "no-overlap", "lossy-link"])
def test_answers_hit_the_simulated_truth(plant: str, recorded: bool, tmp_path: Path) -> None:
    spec = spec_for(plant, seed=3, steps=5, layers=2)
    write_run(tmp_path / "run", plant, seed=3, steps=5, counters=False, layers=2)
    run = open_run(tmp_path / "run", store=tmp_path / "store")
    if not recorded:
        run = run.with_frames({"sync_events": run.frame("sync_events").clear()})
    gbps = spec.inter_node_gbps
    double = Topology(inter_node_gbps=2 * gbps)
    questions: dict[str, tuple[tuple[object, ...], dict[str, object]]] = {
        "unchanged": ((), {}),
        "link x2": ((double,), {"inter_node_gbps": 2 * gbps}),
        "half the bytes": ((_HALF,), {"gradient_compression": 2.0}),
        "both": ((_HALF, double), {"gradient_compression": 2.0, "inter_node_gbps": 2 * gbps}),
    }
    if spec.straggler is not None:
        questions["no straggler"] = ((Straggler(rank=spec.straggler),), {"straggler": None})
        questions["no straggler, link x2"] = (
            (Straggler(rank=spec.straggler), double),
            {"straggler": None, "inter_node_gbps": 2 * gbps},
        )
    scenarios = [Scenario(name=name, changes=changes) for name, (changes, _) in questions.items()]  # type: ignore[arg-type]
    document = what_if(run, scenarios, links=Rates(3600.0, gbps))
    assert document.baseline.dependencies == ("recorded" if recorded else "inferred")
    assert abs(document.baseline.replay_error or 0.0) < 1e-6
    errors = []
    for answer, (_, change) in zip(document.scenarios, questions.values(), strict=True):
        truth = iteration_ms(simulate(replace(spec, **change)))  # type: ignore[arg-type]
        assert answer.predicted_ms is not None, answer.refused
        errors.append(abs(answer.predicted_ms / truth - 1))
    assert statistics.median(errors) < 0.02
    assert max(errors) < 0.06


def test_a_micro_batch_without_synchronisation_keeps_its_tensor_parallel_communication(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "none", seed=1, steps=3, counters=False, layers=2)
    run = open_run(tmp_path / "run", store=tmp_path / "store")
    one = what_if(run, [Scenario(name="4", changes=(Accumulation(micro_batches=4),))], links=Rates(3600.0, 400.0))
    measured, predicted = one.baseline.measured_ms or 0.0, one.scenarios[0].predicted_ms or 0.0
    # The optimizer (6 ms) runs once; forward, backward and tensor-parallel waits run four times.
    assert 4 * measured - 3 * 12 < predicted < 4 * measured - 3 * 6


@pytest.mark.parametrize("plant", ["small-buckets", "socket-fallback"])
def test_larger_buckets_save_the_latency_and_host_time_of_the_many(plant: str, tmp_path: Path) -> None:
    # 160 MiB of gradients per layer in buckets of 3 (50) MiB, then of 40 (80): each call costs the host 80 us, each ring 0.2 to 0.5 ms.
    spec = spec_for(plant, seed=2, steps=5, layers=2)
    write_run(tmp_path / "run", plant, seed=2, steps=5, counters=False, layers=2)
    size = 40 if plant == "small-buckets" else 80
    run = open_run(tmp_path / "run", store=tmp_path / "store")
    question = Scenario(name="larger", changes=(Overlap(bucket_mb=float(size)),))
    answer = what_if(run, [question], links=Rates(3600.0, spec.inter_node_gbps)).scenarios[0]
    truth = iteration_ms(simulate(replace(spec, bucket_bytes=size * 2**20)))
    assert answer.predicted_ms == pytest.approx(truth, rel=0.01)
    assert (answer.bound_best_ms or 0.0) <= truth


def test_the_interval_of_smaller_buckets_holds_gradients_that_come_late(tmp_path: Path) -> None:
    # Nothing in a run with 80 MiB buckets says when the first 4 MiB of one are there; in truth not before all of them.
    spec = spec_for("none", seed=2, steps=5, layers=2, bucket_bytes=80 * 2**20)
    write_run(tmp_path / "run", "none", seed=2, steps=5, counters=False, layers=2, bucket_bytes=80 * 2**20)
    run = open_run(tmp_path / "run", store=tmp_path / "store")
    question = Scenario(name="smaller", changes=(Overlap(bucket_mb=4.0),))
    answer = what_if(run, [question], links=Rates(3600.0, 400.0)).scenarios[0]
    truth = iteration_ms(simulate(replace(spec, bucket_bytes=4 * 2**20)))
    low, high = answer.interval95_ms or (0.0, 0.0)
    assert low <= truth <= high


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_transport_that_reaches_a_third_of_any_link_lies_in_the_interval(factor: float, tmp_path: Path) -> None:
    spec = spec_for("old-nccl", seed=2, steps=5, layers=2)
    write_run(tmp_path / "run", "old-nccl", seed=2, steps=5, counters=False, layers=2)
    run = open_run(tmp_path / "run", store=tmp_path / "store")
    question = Scenario(name="link", changes=(Topology(inter_node_gbps=factor * spec.inter_node_gbps),))
    answer = what_if(run, [question], links=Rates(3600.0, spec.inter_node_gbps)).scenarios[0]
    truth = iteration_ms(simulate(replace(spec, inter_node_gbps=factor * spec.inter_node_gbps)))
    low, high = answer.interval95_ms or (0.0, 0.0)
    assert low <= truth <= high


@pytest.mark.parametrize("seed", range(4))
def test_instants_that_are_rounded_keep_their_order(seed: int) -> None:
    # Three steps back to back; starts and lengths are rounded on their own, so an end may lie 1 ns either side of what follows.
    chance = np.random.default_rng(seed)
    kernels, marks, at = [], [], 0.0
    for step in range(3):
        for rank in (0, 1):
            instants = at + np.array([0, 10, 30, 32])
            ends = instants[1:] + chance.choice([-1e-6, 0, 1e-6], 3)
            kernels += [
                Kernel(rank, instants[0], ends[0], launch=at),
                Kernel(rank, instants[1], ends[1], stream=20, instance=step, bytes=2**20, launch=at + 0.001),
                Kernel(rank, instants[2], ends[2], launch=at + 0.002),
            ]
            marks.append((rank, step, at, at + 32))
        at += 32
    answer = what_if(make_run(kernels, marks), [Scenario(name="half", changes=(_HALF,))]).scenarios[0]
    assert answer.predicted_ms == pytest.approx(22, abs=0.01)
