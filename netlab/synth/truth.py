"""What a made run really did: borders, breakdown, waits and transfers, straight from the simulation and by no code that analyses runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from netlab.intervals import Int64s
from netlab.synth.plants import PLANTS, expectation
from netlab.synth.simulate import Simulation, simulate
from netlab.synth.spec import Spec

__all__ = [
    "TRUTH_SCHEMA",
    "BreakdownTruth",
    "CollectiveTruth",
    "Truth",
    "clock_offsets_ns",
    "iteration_ms",
    "sequence_numbers",
    "step_borders_ns",
    "truth_of",
    "what_if_truth",
]


TRUTH_SCHEMA = "netlab.truth/1"

Mask = NDArray[np.bool_]


class BreakdownTruth(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of one (rank, step) went; the five exposed parts and idle add up to ``step_ns``."""

    rank: int
    step: int
    step_ns: int
    compute_ns: int
    exposed_transfer_ns: int
    exposed_wait_ns: int
    exposed_memory_ns: int
    idle_ns: int
    hidden_transfer_ns: int
    hidden_wait_ns: int
    exposed_transfer_inter_node_ns: int
    exposed_transfer_intra_node_ns: int


class CollectiveTruth(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of a collective. ``waits_ns`` are in the order of the group's members."""

    group: str
    name: str
    seq: int
    op: str
    bytes: int
    step: int
    last_rank: int
    transfer_ns: int
    waits_ns: list[int]


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known about a made run; the content of truth.json."""

    schema: str = TRUTH_SCHEMA
    #: What was written beside it, relative to its folder.
    files: list[str] = []
    plant: str
    about: str
    cause: str
    finding: str | None
    subject: dict[str, list[Any]]
    spec: dict[str, Any]
    hosts: dict[str, list[int]]
    #: Positive = the host's clock is ahead of the true one.
    clock_offsets_ns: dict[str, int]
    iteration_ms: float
    network_share: float
    wait_share: float
    comm_share: float
    fabric_share: float
    overlap_efficiency: float
    #: Times that each rank arrived last in a collective.
    last_count: dict[int, int]
    #: iteration_ms of the same run, same noise, after a change.
    what_if_ms: dict[str, float]
    breakdown: list[BreakdownTruth]
    collectives: list[CollectiveTruth]


def clock_offsets_ns(spec: Spec) -> dict[str, int]:
    """How far each host's clock is ahead; the first host's is true.

    >>> from netlab.synth.plants import spec_for
    >>> clock_offsets_ns(spec_for("none", clock_skew_ns=0))
    {'node0': 0, 'node1': 0}
    """
    drawn = np.random.default_rng([spec.seed, 8]).integers(-spec.clock_skew_ns, spec.clock_skew_ns + 1, spec.nodes)
    return {host: 0 if node == 0 else int(drawn[node]) for node, host in enumerate(spec.hosts)}


def truth_of(simulation: Simulation, *, what_if: bool = True) -> Truth:
    """The truth about a simulated run.

    Examples
    --------
    >>> from netlab.synth.plants import spec_for
    >>> truth = truth_of(simulate(spec_for("none", steps=2)), what_if=False)
    >>> row = truth.breakdown[0]
    >>> row.step_ns == row.compute_ns + row.exposed_transfer_ns + row.exposed_wait_ns + row.exposed_memory_ns + row.idle_ns
    True
    """
    spec = simulation.spec
    borders = step_borders_ns(simulation)
    rows = [row for rank in range(spec.ranks) for row in _breakdown_of(simulation, borders, rank)]
    instances = _collectives(simulation)
    expected = expectation(spec)
    total = {key: sum(getattr(row, key) for row in rows) for key in BreakdownTruth.__struct_fields__}
    transfer = total["exposed_transfer_ns"] + total["hidden_transfer_ns"]
    return Truth(
        plant=spec.plant,
        about=PLANTS[spec.plant],
        cause=expected.cause,
        finding=expected.finding,
        subject={
            "ranks": list(expected.ranks),
            "groups": list(expected.groups),
            "hosts": list(expected.hosts),
            "ports": list(expected.ports),
        },
        spec=asdict(spec),
        hosts={host: [rank for rank in range(spec.ranks) if spec.node_of(rank) == node] for node, host in enumerate(spec.hosts)},
        clock_offsets_ns=clock_offsets_ns(spec),
        iteration_ms=total["step_ns"] / len(rows) / 1e6,
        network_share=total["exposed_transfer_ns"] / total["step_ns"],
        wait_share=total["exposed_wait_ns"] / total["step_ns"],
        comm_share=(total["exposed_transfer_ns"] + total["exposed_wait_ns"]) / total["step_ns"],
        fabric_share=total["exposed_transfer_inter_node_ns"] / total["step_ns"],
        overlap_efficiency=total["hidden_transfer_ns"] / transfer if transfer else 0.0,
        last_count=dict(sorted(Counter(instance.last_rank for instance in instances).items())),
        what_if_ms=what_if_truth(spec) if what_if else {},
        breakdown=rows,
        collectives=instances,
    )


def what_if_truth(spec: Spec) -> dict[str, float]:
    """Mean step time of the run after standard changes, by simulating it again with the same noise.

    >>> from netlab.synth.plants import spec_for
    >>> answers = what_if_truth(spec_for("slow-fabric", steps=2))
    >>> answers["inter_node_gbps x2"] < answers["unchanged"]
    True
    """
    double = {"inter_node_gbps": spec.inter_node_gbps * 2}
    changes: dict[str, dict[str, Any]] = {
        "unchanged": {},
        "inter_node_gbps x2": double,
        "inter_node_gbps x4": {"inter_node_gbps": spec.inter_node_gbps * 4},
        "gradient compression 2": {"gradient_compression": 2.0},
        "gradient compression 10": {"gradient_compression": 10.0},
        "gradient compression 2 and inter_node_gbps x2": {"gradient_compression": 2.0} | double,
    }
    if spec.straggler is not None:
        changes["straggler removed"] = {"straggler": None}
        changes["straggler removed and inter_node_gbps x2"] = {"straggler": None} | double
    return {name: iteration_ms(simulate(replace(spec, **change))) for name, change in changes.items()}


def iteration_ms(simulation: Simulation) -> float:
    """Mean step time over ranks and steps."""
    return float(np.diff(step_borders_ns(simulation), axis=0).mean()) / 1e6


def step_borders_ns(simulation: Simulation) -> Int64s:
    """Borders of the steps, (steps + 1, ranks): the later of the next mark and the earlier of {end of the last kernel launched in the step,
    start of the first compute kernel launched in the next}. Copies move no border.
    """
    kernels = [position for position, op in enumerate(simulation.program) if op.kind in ("kernel", "collective")]
    first = next(position for position, op in enumerate(simulation.program) if op.kind == "kernel")
    last_end = simulation.end_ns[:, kernels].max(axis=1)
    borders = simulation.step_start_ns.copy()
    borders[1:-1] = np.maximum(borders[1:-1], np.minimum(last_end[:-1], simulation.start_ns[1:, first]))
    borders[-1] = np.maximum(borders[-1], last_end[-1])
    return borders


def _breakdown_of(simulation: Simulation, borders: Int64s, rank: int) -> list[BreakdownTruth]:
    """Sweep one rank's timeline; each stretch between two events belongs to exactly one part."""
    spec = simulation.spec
    begins, ends, kinds = _timeline(simulation, rank)
    instants = np.concatenate((begins, ends, borders[:, rank]))
    change = np.zeros((len(instants), len(_KINDS)), np.int64)
    rows = np.arange(len(begins))
    change[rows, kinds] = 1
    change[rows + len(begins), kinds] = -1
    order = np.argsort(instants, kind="stable")
    at = instants[order]
    active = np.cumsum(change[order], axis=0)[:-1] > 0
    step = np.searchsorted(borders[:, rank], at[:-1], side="right") - 1
    inside = (step >= 0) & (step < spec.steps)
    parts = _parts(*active.T)
    length = np.diff(at)
    totals = {name: np.bincount(step[inside & mask], length[inside & mask], spec.steps).astype(np.int64) for name, mask in parts.items()}
    return [
        BreakdownTruth(rank=rank, step=spec.first_step + number, **{name: int(total[number]) for name, total in totals.items()})
        for number in range(spec.steps)
    ]


_KINDS = ("compute", "inter_node", "intra_node", "wait", "memory")


def _timeline(simulation: Simulation, rank: int) -> tuple[Int64s, Int64s, Int64s]:
    """Intervals of one rank: start, end, and position in ``_KINDS``. A collective waits until its last member arrives, then transfers."""
    spec = simulation.spec
    groups = {group.kind: group for group in spec.groups if rank in group.ranks}
    begins: list[Int64s] = []
    ends: list[Int64s] = []
    kinds: list[int] = []

    def add(kind: str, begin: Int64s, end: Int64s) -> None:
        begins.append(begin)
        ends.append(np.maximum(begin, end))
        kinds.append(_KINDS.index(kind))

    for position, op in enumerate(simulation.program):
        start, end = simulation.start_ns[:, position, rank], simulation.end_ns[:, position, rank]
        if op.kind != "collective":
            add("compute" if op.kind == "kernel" else "memory", start, end)
            continue
        group = groups[op.group or ""]
        last = simulation.start_ns[:, position, list(group.ranks)].max(axis=1)
        add("wait", start, last)
        add(spec.layer(group.ranks), np.maximum(start, last), end)
    return np.concatenate(begins), np.concatenate(ends), np.repeat(np.array(kinds), spec.steps)


def _parts(compute: Mask, inter: Mask, intra: Mask, wait: Mask, memory: Mask) -> dict[str, Mask]:
    """The parts of a breakdown, each as the stretches that belong to it, by what is active in them."""
    transfer = inter | intra
    busy = compute | transfer
    return {
        "step_ns": np.ones(len(compute), np.bool_),
        "compute_ns": compute,
        "exposed_transfer_ns": transfer & ~compute,
        "exposed_wait_ns": wait & ~busy,
        "exposed_memory_ns": memory & ~busy & ~wait,
        "idle_ns": ~(busy | wait | memory),
        "hidden_transfer_ns": transfer & compute,
        "hidden_wait_ns": wait & compute & ~transfer,
        "exposed_transfer_inter_node_ns": inter & ~compute,
        "exposed_transfer_intra_node_ns": intra & ~inter & ~compute,
    }


def sequence_numbers(simulation: Simulation) -> dict[tuple[int, int], int]:
    """``Seq`` of every collective by (step, position): each group counts its own, from the job's first step on."""
    numbers: dict[tuple[int, int], int] = {}
    for kind in ("world", "tp", "dp"):
        positions = [position for position, op in enumerate(simulation.program) if op.group == kind]
        for step in range(simulation.spec.steps):
            done = (simulation.spec.first_step + step) * len(positions)
            numbers |= {(step, position): done + number for number, position in enumerate(positions, start=1)}
    return numbers


def _collectives(simulation: Simulation) -> list[CollectiveTruth]:
    spec, numbers = simulation.spec, sequence_numbers(simulation)
    rows: list[CollectiveTruth] = []
    for step in range(spec.steps):
        for position, op in enumerate(simulation.program):
            for group in spec.groups_of(op.group) if op.group else ():
                members = list(group.ranks)
                arrival = simulation.start_ns[step, position, members]
                last = int(arrival.max())
                rows.append(
                    CollectiveTruth(
                        group=group.key,
                        name=group.name,
                        seq=numbers[step, position],
                        op="all_reduce",
                        bytes=op.size_bytes,
                        step=spec.first_step + step,
                        last_rank=members[int(arrival.argmax())],
                        transfer_ns=int(simulation.end_ns[step, position, members].max()) - last,
                        waits_ns=[last - int(value) for value in arrival],
                    )
                )
    return rows
