"""What the experiment runs, and the question that netlab is asked about each case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from netlab.whatif import Accumulation, Compression, Overlap, Straggler, Topology

__all__ = ["SETUPS", "Case", "Setup", "schedule"]

_BLOCK = {"hook": None, "bucket_mb": 25.0, "micro_batches": 1, "busy_ms": 0.0, "busy_rank": 0, "host_mbit": 1000, "uplink_mbit": None}
_HALF = Compression(method="fp16")


@dataclass(frozen=True)
class Case:
    """One variant: how its block differs from the profiled one, and the changes that predict it."""

    name: str
    block: dict[str, Any]
    changes: tuple[Any, ...]


@dataclass(frozen=True)
class Setup:
    """Hosts in racks, a model, a profiled baseline, and the cases that are predicted from it."""

    name: str
    #: One launch each: the rack of every rank. The first one holds the baseline.
    placements: tuple[tuple[int, ...], ...]
    model: dict[str, int]
    baseline: dict[str, Any]
    cases: tuple[Case, ...]


def _link(gbps: float) -> Topology:
    return Topology(inter_node_gbps=gbps)


PAIR = Setup(
    name="2 ranks, one switch",
    placements=((0, 0),),
    model={"width": 1024, "layers": 6, "batch": 64},
    baseline={},
    cases=(
        Case("500 Mbit/s", {"host_mbit": 500}, (_link(0.5),)),
        Case("200 Mbit/s", {"host_mbit": 200}, (_link(0.2),)),
        Case("fp16", {"hook": "fp16"}, (_HALF,)),
        Case("fp16, 200 Mbit/s", {"hook": "fp16", "host_mbit": 200}, (_HALF, _link(0.2))),
        Case("5 MiB buckets", {"bucket_mb": 5.0}, (Overlap(bucket_mb=5.0),)),
        Case("5 MiB buckets, 200 Mbit/s", {"bucket_mb": 5.0, "host_mbit": 200}, (Overlap(bucket_mb=5.0), _link(0.2))),
        Case("4 micro-batches", {"micro_batches": 4}, (Accumulation(micro_batches=4),)),
        Case("4 micro-batches, 200 Mbit/s", {"micro_batches": 4, "host_mbit": 200}, (Accumulation(micro_batches=4), _link(0.2))),
    ),
)
STRAGGLER = Setup(
    name="2 ranks, rank 1 busy 150 ms longer",
    placements=((0, 0),),
    model=PAIR.model,
    baseline={"busy_ms": 150.0, "busy_rank": 1},
    cases=(
        Case("no straggler", {"busy_ms": 0.0}, (Straggler(rank=1),)),
        Case("no straggler, 500 Mbit/s", {"busy_ms": 0.0, "host_mbit": 500}, (Straggler(rank=1), _link(0.5))),
    ),
)
_APART = (0, 1, 0, 1)


def _uplink(oversubscription: float, *, apart: bool) -> tuple[Topology]:
    order = [0, 2, 1, 3] if apart else None
    return (Topology(oversubscription=oversubscription, hosts_per_leaf=2, rank_order=order),)


RACKS = Setup(
    name="4 ranks in 2 racks",
    placements=((0, 0, 1, 1), _APART),
    model={"width": 1024, "layers": 3, "batch": 64},
    baseline={"uplink_mbit": 2000},
    cases=(
        Case("uplinks 2:1", {"uplink_mbit": 1000}, _uplink(2.0, apart=False)),
        Case("uplinks 4:1", {"uplink_mbit": 500}, _uplink(4.0, apart=False)),
        Case("ranks of a rack apart", {"uplink_mbit": 2000, "placement": _APART}, _uplink(1.0, apart=True)),
        Case("apart, uplinks 2:1", {"uplink_mbit": 1000, "placement": _APART}, _uplink(2.0, apart=True)),
        Case("apart, uplinks 4:1", {"uplink_mbit": 500, "placement": _APART}, _uplink(4.0, apart=True)),
    ),
)


def schedule(setup: Setup, placement: tuple[int, ...], rounds: int, steps: int) -> dict[str, Any]:
    """What a worker of one launch goes through: the profiled and the plain baseline, then every case of this placement."""
    blocks = []
    if placement == setup.placements[0]:
        blocks += [_block("profiled", setup.baseline, profiled=True), _block("baseline", setup.baseline)]
    for case in setup.cases:
        changed = {key: value for key, value in case.block.items() if key != "placement"}
        if case.block.get("placement", setup.placements[0]) == placement:
            blocks.append(_block(case.name, setup.baseline | changed))
    return {"placement": placement, "model": setup.model, "rounds": rounds, "steps": steps, "blocks": blocks}


def _block(case: str, settings: dict[str, Any], *, profiled: bool = False) -> dict[str, Any]:
    return _BLOCK | settings | {"case": case, "profiled": profiled}


SETUPS = (PAIR, STRAGGLER, RACKS)
