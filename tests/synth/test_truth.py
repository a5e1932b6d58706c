"""The simulated job behaves as physics says, and each plant shows what it should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from netlab.synth import PLANTS, Spec, Truth, simulate, spec_for, truth_of
from netlab.synth.simulate import transfer_ns
from netlab.synth.truth import step_borders_ns


@pytest.fixture(scope="module")
def truths() -> dict[str, Truth]:
    answered = ("none", "straggler", "slow-fabric")
    return {plant: truth_of(simulate(spec_for(plant, steps=4, seed=2)), what_if=plant in answered) for plant in PLANTS}


def test_healthy_run_has_no_alarm(truths: dict[str, Truth]) -> None:
    healthy = truths["none"]
    assert healthy.network_share < 0.1
    assert healthy.wait_share < 0.02
    assert healthy.overlap_efficiency > 0.7


@pytest.mark.parametrize("plant", ["slow-fabric", "oversubscribed", "socket-fallback"])
def test_network_faults_are_above_the_threshold(truths: dict[str, Truth], plant: str) -> None:
    assert truths[plant].network_share > 0.3
    assert truths[plant].fabric_share > 0.3


@pytest.mark.parametrize("plant", ["straggler", "slow-pair"])
def test_late_ranks_make_waiting_exceed_the_threshold_and_not_the_network(truths: dict[str, Truth], plant: str) -> None:
    truth = truths[plant]
    assert truth.network_share < 0.25 < truth.comm_share


def test_straggler_waits_least_and_comes_last_most_often(truths: dict[str, Truth]) -> None:
    truth = truths["straggler"]
    culprit = truth.subject["ranks"][0]
    assert max(truth.last_count, key=truth.last_count.__getitem__) == culprit
    waits = {rank: sum(row.exposed_wait_ns for row in truth.breakdown if row.rank == rank) for rank in range(8)}
    assert min(waits, key=waits.__getitem__) == culprit


def test_schedule_faults_cost_overlap(truths: dict[str, Truth]) -> None:
    assert truths["no-overlap"].overlap_efficiency < 0.2
    assert truths["small-buckets"].iteration_ms > 1.1 * truths["none"].iteration_ms


def test_every_fault_is_slower_than_the_healthy_run(truths: dict[str, Truth]) -> None:
    assert all(truth.iteration_ms > truths["none"].iteration_ms * 1.02 for plant, truth in truths.items() if plant != "none")


def test_removing_the_straggler_gives_the_healthy_run_back(truths: dict[str, Truth]) -> None:
    assert truths["straggler"].what_if_ms["straggler removed"] == pytest.approx(truths["none"].iteration_ms)


def test_faster_link_helps_only_a_slow_fabric(truths: dict[str, Truth]) -> None:
    slow, healthy = truths["slow-fabric"].what_if_ms, truths["none"].what_if_ms
    assert slow["inter_node_gbps x2"] < 0.8 * slow["unchanged"]
    assert healthy["inter_node_gbps x2"] > 0.97 * healthy["unchanged"]


def test_ring_all_reduce_moves_two_times_n_minus_one_over_n() -> None:
    spec = spec_for("none", inter_node_hop_ns=0, link_efficiency=1.0)
    group = spec.groups_of("dp")[0]
    # 2 members on two hosts: 1 x 1e9 bytes at 50 GB/s are 20 ms.
    assert transfer_ns(spec, group, 10**9) == pytest.approx(20e6)
    # 4 members on four hosts: 1.5 x 1e9 bytes, 30 ms.
    wider = spec_for("none", ranks=4, gpus_per_node=1, inter_node_hop_ns=0, link_efficiency=1.0)
    assert transfer_ns(wider, wider.groups_of("dp")[0], 10**9) == pytest.approx(30e6)


def test_collective_ends_after_its_last_arrival_and_waits_are_to_it() -> None:
    spec = spec_for("straggler", ranks=4, steps=2)
    simulation = simulate(spec)
    position = next(number for number, op in enumerate(simulation.program) if op.group == "dp")
    for group in spec.groups_of("dp"):
        members = list(group.ranks)
        starts, ends = simulation.start_ns[0, position, members], simulation.end_ns[0, position, members]
        assert ends.min() > starts.max()
        assert np.ptp(ends) <= spec.end_jitter_ns


def test_breakdown_agrees_with_a_timeline_of_microseconds() -> None:
    # Every microsecond of one rank's first step is put into its part by looking at what runs in it.
    simulation = simulate(spec_for("straggler", ranks=4, steps=1, layers=1, seed=3))
    borders = step_borders_ns(simulation)
    ticks = np.arange(int(borders[0, 1]), int(borders[1, 1]), 1_000)

    def running(kinds: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        found = np.zeros(len(ticks), np.bool_)
        for position, op in enumerate(simulation.program):
            if op.kind in kinds:
                found |= (ticks >= simulation.start_ns[0, position, 1]) & (ticks < simulation.end_ns[0, position, 1])
        return found

    compute, communication = running(("kernel",)), running(("collective",))
    row = next(row for row in truth_of(simulation, what_if=False).breakdown if row.rank == 1)
    assert row.compute_ns == pytest.approx(compute.sum() * 1_000, abs=100_000)
    assert row.exposed_transfer_ns + row.exposed_wait_ns == pytest.approx((communication & ~compute).sum() * 1_000, abs=100_000)
    assert row.hidden_transfer_ns + row.hidden_wait_ns == pytest.approx((communication & compute).sum() * 1_000, abs=100_000)


def test_steps_tile_the_capture_without_gap() -> None:
    simulation = simulate(spec_for("slow-fabric", ranks=4, steps=3))
    borders = step_borders_ns(simulation)
    assert (np.diff(borders, axis=0) > 0).all()
    truth = truth_of(simulation, what_if=False)
    for rank in range(4):
        assert sum(row.step_ns for row in truth.breakdown if row.rank == rank) == borders[-1, rank] - borders[0, rank]


def test_same_seed_keeps_noise_when_a_cost_changes() -> None:
    base = spec_for("none", ranks=4, steps=2)
    changed: Spec = replace(base, inter_node_gbps=base.inter_node_gbps / 2)
    kernels = [number for number, op in enumerate(simulate(base).program) if op.kind == "kernel"]
    first, second = simulate(base), simulate(changed)
    assert (first.end_ns - first.start_ns)[:, kernels].tolist() == (second.end_ns - second.start_ns)[:, kernels].tolist()
