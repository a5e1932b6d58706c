"""Made GPU runs, simulated again with the change: the answer against the truth."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from netlab.pipeline.api import open as open_run
from netlab.synth import write_run
from netlab.synth.plants import spec_for
from netlab.synth.simulate import simulate
from netlab.synth.truth import iteration_ms
from netlab.whatif import Accumulation, Compression, Rates, Scenario, Straggler, Topology, what_if

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
