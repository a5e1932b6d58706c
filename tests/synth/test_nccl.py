"""NCCL logs of made runs say what the job was."""

from __future__ import annotations

import re

import pytest

from netlab.synth import spec_for
from netlab.synth.nccl import nccl_log, ring_orders


def test_every_rank_completes_every_communicator_it_started() -> None:
    spec = spec_for("none", ranks=16)
    for rank in (0, 9, 15):
        log = nccl_log(spec, rank)
        assert log.count("Init START") == log.count("Init COMPLETE") == 3


def test_members_share_the_communicator_hash_and_no_address() -> None:
    spec = spec_for("none")
    first, second = (re.search(r"comm (0x\w+) rank \d+ nranks 8 .* commId (0x\w+)", nccl_log(spec, rank)) for rank in (0, 5))
    assert first is not None
    assert second is not None
    assert first[2] == second[2]
    assert first[1] != second[1]


def test_rings_are_cycles_of_all_members() -> None:
    spec = spec_for("none", ranks=16)
    for group in spec.groups:
        for order in ring_orders(spec, group):
            assert sorted(order) == list(group.ranks)


def test_rings_of_two_hosts_stay_on_their_rail() -> None:
    spec = spec_for("none", ranks=16)
    for order in ring_orders(spec, spec.groups[0]):
        for place, rank in enumerate(order):
            following = order[(place + 1) % len(order)]
            if spec.node_of(rank) != spec.node_of(following):
                assert spec.local_rank(rank) == spec.local_rank(following)


def test_nics_carry_equal_numbers_of_connections() -> None:
    spec = spec_for("none", ranks=16)
    counts = {rank: len(re.findall(r"\[send\] via NET/IB", nccl_log(spec, rank))) for rank in range(16)}
    assert len(set(counts.values())) == 1


@pytest.mark.parametrize(
    ("plant", "present", "absent"),
    [
        ("none", "via NET/IB/0/GDRDMA", "NET/Socket"),
        ("socket-fallback", "via NET/Socket/0", "via NET/IB"),
        ("old-nccl", "NCCL version 2.17.1", "ncclCommInitRankConfig"),
    ],
)
def test_plants_show_in_the_log(plant: str, present: str, absent: str) -> None:
    log = nccl_log(spec_for(plant), 0)
    assert present in log
    assert absent not in log
