"""Planning figures by other roads: numbers from the literature and sums by hand."""

from __future__ import annotations

import pytest

from netlab.errors import ConfigError
from netlab.whatif.plan import Job, plan


def test_seventy_billion_fp32_parameters_every_two_seconds() -> None:
    planned = plan(Job(params=70e9, ranks=512, dtype="fp32", step_seconds=2.0))
    assert planned.gradient_bytes == 280e9
    assert planned.gradient_gb_per_s == 140.0
    assert planned.gradient_tbit_per_s == 1.12


def test_gpt3_in_fp32_has_700_gb_of_gradients() -> None:
    assert plan(Job(params=175e9, ranks=1024, dtype="fp32")).gradient_bytes == 700e9


def test_eight_step_accumulation_cuts_traffic_by_seven_eighths() -> None:
    once, eight = (plan(Job(params=1e9, ranks=8, step_seconds=1.0, accumulation=count)) for count in (1, 8))
    assert eight.accumulation_saving_ratio == 0.875
    assert eight.gradient_gb_per_s == pytest.approx(once.gradient_gb_per_s / 8)
    assert eight.required_gbps_per_gpu == pytest.approx(once.required_gbps_per_gpu / 8)


def test_eight_nics_of_a_host_share_what_its_ring_sends() -> None:
    planned = plan(Job(params=70e9, ranks=512, dtype="fp32", step_seconds=2.0))
    assert planned.required_gbps_per_gpu == pytest.approx(2 * 511 / 512 * 280e9 * 8 / 8 / (0.25 * 2.0) / 1e9)


def test_a_rank_of_a_ring_sends_its_data_almost_twice() -> None:
    (row,) = plan(Job(params=1e9, ranks=4, dtype="fp16")).traffic
    # Each of 2 (n - 1) = 6 steps sends a quarter of 2 GB.
    assert row.sent_bytes_per_rank == 6 * 2e9 / 4


def test_sharding_sends_half_as_much_again() -> None:
    plain, sharded = (plan(Job(params=1e9, ranks=8, sharded=flag)).traffic[0].sent_bytes_per_rank for flag in (False, True))
    assert sharded == pytest.approx(1.5 * plain)


def test_tensor_parallel_traffic_of_one_layer() -> None:
    job = Job(params=1e9, ranks=2, tensor=2, layers=1, hidden=1024, batch=1, sequence=2048, dtype="bf16")
    (row,) = plan(job).traffic
    # Four all-reduces of 1 x 2048 x 1024 x 2 bytes; two ranks send each once.
    assert row.sent_bytes_per_rank == 4 * 2048 * 1024 * 2


def test_sharp_is_at_most_twice_as_fast_and_hierarchy_hardly_faster_than_a_good_ring() -> None:
    job = Job(params=10e9, ranks=64, intra_node_gbps=3600, inter_node_gbps=400)
    best = {row.algorithm: row.time_ms[0] for row in plan(job).collectives}
    assert best["ring"] / best["sharp"] < 2.1
    assert best["hierarchical"] > 0.8 * best["ring"]


def test_rails_keep_a_ring_and_an_all_to_all_of_a_pod_off_the_spine() -> None:
    job = Job(params=1e9, ranks=128, inter_node_gbps=400, oversubscription=4.0, hosts_per_leaf=16)
    planned = plan(job)
    times = {row.layout: row for row in planned.layouts}
    ring = planned.collectives[0].time_ms[0]
    assert times["rail"].all_reduce_ms == (ring, ring)
    assert times["rail"].all_to_all_slowdown == (1.0, 1.0)


def test_an_all_to_all_over_two_oversubscribed_leaves_is_slower_by_the_share_that_crosses() -> None:
    planned = plan(Job(params=1e9, ranks=128, inter_node_gbps=400, oversubscription=4.0, hosts_per_leaf=8))
    slow = {row.layout: row.all_to_all_slowdown for row in planned.layouts}
    # Eight of the fifteen other hosts are below the other leaf, at a quarter of the rate.
    assert slow["leaf-spine"][0] == pytest.approx(4 * 8 / 15)
    assert slow["leaf-spine"][1] > slow["leaf-spine"][0]
    assert slow["dragonfly"] == (slow["leaf-spine"][0], pytest.approx(2 * slow["leaf-spine"][0], rel=0.3))


def test_one_host_meets_nothing_above_a_leaf() -> None:
    assert plan(Job(params=1e9, ranks=8, inter_node_gbps=400, intra_node_gbps=3600)).layouts == []


def test_oversubscription_only_widens_the_worst_case() -> None:
    flat, tight = (plan(Job(params=1e9, ranks=64, inter_node_gbps=400, oversubscription=o)).collectives[0].time_ms for o in (1.0, 4.0))
    assert flat[0] == flat[1] == tight[0]
    assert tight[1] > 3.5 * tight[0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ranks": 0}, "--ranks"),
        ({"params": -1.0}, "--params"),
        ({"tensor": 3}, "multiple"),
        ({"dtype": "fp12"}, "fp12"),
        ({"oversubscription": 0.5}, "--oversubscription"),
        ({"expert": 3}, "--expert"),
        ({"step_seconds": 0.0}, "--step-seconds"),
    ],
)
def test_impossible_jobs_are_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plan(Job(**({"params": 1e9, "ranks": 8} | fields)))  # type: ignore[arg-type]
