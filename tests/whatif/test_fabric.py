"""Closed forms against recorded times of four ranks in two racks, and against the rules that people quote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netlab.whatif import Compression
from netlab.whatif.codecs import wire
from netlab.whatif.fabric import algorithm_factor, collective_ms, crossing_edges, ring_gbps

_HOSTS = {rank: rank for rank in range(4)}
#: 117 MB/s of bus bandwidth per Gbit/s: the two-rank fit of the recorded Gloo runs, fixed before the racks were measured.
_GB_PER_S_PER_GBPS = 0.117


@pytest.mark.parametrize(
    ("tag", "uplink_gbps", "racks"),
    [
        ("noover_contig", 2.0, (0, 0, 1, 1)),
        ("up1g_contig", 1.0, (0, 0, 1, 1)),
        ("up500_contig", 0.5, (0, 0, 1, 1)),
        ("up1g_bad", 1.0, (0, 1, 0, 1)),
        ("up500_bad", 0.5, (0, 1, 0, 1)),
    ],
)
def test_four_ranks_in_two_racks_within_six_percent(shared_data: Path, tag: str, uplink_gbps: float, racks: tuple[int, ...]) -> None:
    lines = (shared_data / "gloo" / "traces" / "topology-times.jsonl").read_text().splitlines()
    measured = {row["tag"]: row["flat"][0] for row in map(json.loads, lines)}[tag]
    rate = ring_gbps(range(4), _HOSTS, 1.0, dict(enumerate(racks)), uplink_gbps)
    predicted = collective_ms("all_reduce", 16 * 2**20, 4, rate * _GB_PER_S_PER_GBPS)
    assert predicted == pytest.approx(measured, rel=0.06)


def test_a_well_ordered_ring_crosses_each_rack_once() -> None:
    racks = {rank: rank // 8 for rank in range(64)}
    assert set(crossing_edges(range(64), racks).values()) == {1}
    shuffled = [rank for offset in range(8) for rank in range(offset, 64, 8)]
    assert set(crossing_edges(shuffled, racks).values()) == {8}


def test_sharp_gains_at_most_twice() -> None:
    for members in (2, 8, 64, 1024):
        assert 0.5 <= (algorithm_factor("sharp", members, members) or 0.0) <= 1.0


def test_hierarchical_all_reduce_gains_little_over_a_well_ordered_ring() -> None:
    # Bytes between hosts: 2 (m - 1) / m per host against 2 (n - 1) / n: under 15 % for 8 hosts or more.
    members, hosts = 64, 8
    between = 2 * (hosts - 1) / hosts
    ring = 2 * (members - 1) / members
    assert 0.85 < between / ring < 1.0


def test_top_k_pays_only_below_one_over_the_ranks() -> None:
    for ranks in (4, 16, 100):
        below = wire(Compression(method="topk", density=0.9 / ranks), "Float", ranks)
        above = wire(Compression(method="topk", density=1.1 / ranks), "Float", ranks)
        assert below.byte_factor < 1 < above.byte_factor


def test_half_precision_gains_nothing_where_half_precision_is_sent() -> None:
    assert wire(Compression(method="fp16"), "BFloat16", 8).byte_factor == 1.0
    assert wire(Compression(method="fp16"), "Float", 8).byte_factor == 0.5
