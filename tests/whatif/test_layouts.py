"""Layouts and load balancing: the recorded racks, published collision figures, and brute force over every path."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.whatif.layouts import Demand, Layout, all_to_all_demand, ring_demand, ring_edges
from netlab.whatif.load_balance import slowest_flow

_FOUR = {rank: rank for rank in range(4)}


@pytest.mark.parametrize(
    ("tag", "oversubscription", "racks"),
    [
        ("noover_contig", 1.0, (0, 0, 1, 1)),
        ("up1g_contig", 2.0, (0, 0, 1, 1)),
        ("up500_contig", 4.0, (0, 0, 1, 1)),
        ("up1g_bad", 2.0, (0, 1, 0, 1)),
        ("up500_bad", 4.0, (0, 1, 0, 1)),
    ],
)
def test_recorded_rings_over_two_racks_within_six_percent(
    shared_data: Path, tag: str, oversubscription: float, racks: tuple[int, ...]
) -> None:
    rows = map(json.loads, (shared_data / "gloo" / "traces" / "topology-times.jsonl").read_text().splitlines())
    measured = {row["tag"]: row["flat"][0] for row in rows}
    layout = Layout("leaf-spine", racks, oversubscription=oversubscription)
    (time,) = slowest_flow(layout, ring_demand(layout, ring_edges(range(4), _FOUR)))
    # 16 MiB over a ring of four at 117 MB/s per Gbit/s, the two-rank fit.
    assert time * 1.5 * 16 * 2**20 / 117e3 == pytest.approx(measured[tag], rel=0.06)


@pytest.mark.parametrize(("flows", "uplinks", "share"), [(8, 8, 0.39), (16, 16, 0.33), (32, 8, 0.57), (64, 8, 0.65), (64, 32, 0.37)])
def test_hashed_flows_leave_the_slowest_the_known_share(flows: int, uplinks: int, share: float) -> None:
    layout = Layout("leaf-spine", (0,) * uplinks + (1,) * uplinks)
    times = slowest_flow(layout, Demand(np.array([[0.0, flows], [0.0, 0.0]]), 0.0), "ecmp", trials=2000)
    assert flows / uplinks / times.mean() == pytest.approx(share, abs=0.015)


def test_spraying_and_adaptive_routing_leave_every_flow_its_fair_share() -> None:
    layout = Layout("leaf-spine", (0,) * 8 + (1,) * 8)
    demand = Demand(np.array([[0.0, 8.0], [8.0, 0.0]]), 1.0)
    assert slowest_flow(layout, demand, "adaptive").tolist() == slowest_flow(layout, demand, "spray").tolist() == [1.0]


def test_more_queue_pairs_come_closer_to_the_fair_share() -> None:
    layout = Layout("leaf-spine", (0,) * 8 + (1,) * 8)
    demand = Demand(np.array([[0.0, 8.0], [8.0, 0.0]]), 1.0)
    medians = [float(np.median(slowest_flow(layout, demand, "ecmp", queue_pairs=pairs))) for pairs in (1, 4, 16, 64)]
    assert medians == sorted(medians, reverse=True)
    assert 1.0 < medians[-1] < 1.5


def test_a_ring_over_rails_stays_below_the_leaves_of_its_pod() -> None:
    layout = Layout("rail", (0,) * 16, lanes=8, oversubscription=8.0)
    demand = ring_demand(layout, ring_edges(range(16), {rank: rank for rank in range(16)}))
    assert slowest_flow(layout, demand, "ecmp").tolist() == [1.0]


def test_pxn_keeps_an_all_to_all_within_its_rails() -> None:
    layout = Layout("rail", (0,) * 4, lanes=8, oversubscription=4.0)
    alone = 8 * 3.0
    assert slowest_flow(layout, all_to_all_demand(layout)).tolist() == [alone]
    # Without it 7 of 8 flows of each NIC go over the spine, which has a quarter of the NICs' rate.
    assert slowest_flow(layout, all_to_all_demand(layout, pxn=False)).tolist() == [pytest.approx(alone * 7 / 8 * 4)]


def test_an_all_to_all_over_leaves_crosses_for_all_but_its_own_leaf() -> None:
    layout = Layout("leaf-spine", (0, 0, 1, 1, 2, 2, 3, 3), oversubscription=2.0)
    # Six of the seven other hosts are below other leaves, at half the rate.
    assert slowest_flow(layout, all_to_all_demand(layout)).tolist() == [pytest.approx(max(7.0, 6 * 2.0))]


def test_flows_between_pods_of_a_fat_tree_meet_at_the_cores_too() -> None:
    near, far = (0,) * 8 + (1,) * 8, (0,) * 8 + (8,) * 8
    medians = []
    for leaf_of in (near, far):
        layout = Layout("fat-tree", leaf_of)
        flows = np.zeros((layout.leaves, layout.leaves))
        flows[0, leaf_of[-1]] = 8
        medians.append(float(slowest_flow(layout, Demand(flows, 1.0), "ecmp").mean()))
    # The same hash decides below; above, a flow meets no more than those it shares an aggregation switch with.
    assert medians[1] >= medians[0] - 0.1


@given(
    leaf_of=st.lists(st.integers(0, 3), min_size=2, max_size=8),
    lanes=st.integers(1, 4),
    oversubscription=st.floats(1.0, 8.0),
    queue_pairs=st.integers(1, 4),
)
def test_hashing_never_beats_spraying_and_spraying_never_beats_a_full_fabric(
    leaf_of: list[int], lanes: int, oversubscription: float, queue_pairs: int
) -> None:
    edges = ring_edges(range(len(leaf_of)), {host: host for host in range(len(leaf_of))})
    tight = Layout("leaf-spine", tuple(leaf_of), lanes=lanes, oversubscription=oversubscription)
    full = Layout("leaf-spine", tuple(leaf_of), lanes=lanes)
    (even,) = slowest_flow(tight, ring_demand(tight, edges))
    assert slowest_flow(tight, ring_demand(tight, edges), "ecmp", queue_pairs=queue_pairs, trials=10).min() >= even - 1e-9
    assert even >= slowest_flow(full, ring_demand(full, edges))[0] - 1e-9
