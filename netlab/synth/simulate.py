"""Discrete-event simulation of a made job: hosts launch, streams run in order, a collective moves data once its last member has arrived.

All ranks issue the same program, so the events of one program position are computed for all ranks at once, in program order: every event
depends only on earlier positions. That makes a run of any size a few thousand array operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netlab.intervals import Int64s
from netlab.synth.program import Op, step_program
from netlab.synth.spec import Group, Spec

__all__ = ["CALL_NS", "LAUNCH_NS", "Simulation", "host_prelude_ns", "simulate", "stalled_steps", "transfer_ns"]

#: A launch call; a small runtime call (event record, wait); from a launch's return to the earliest start of its kernel.
LAUNCH_NS = 5_000
CALL_NS = 1_800
_LAUNCH_LATENCY_NS = 2_500
#: From the end of a kernel to the start of one that depends on it.
_DEPENDENCY_NS = 900


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Exact times of every event on the true clock, in nanoseconds since the start of the capture.

    Arrays have the shape (steps, operations, ranks). The host's call of an operation runs over [host_start, host_end) with its launch
    inside, the device runs it over [start, end). ``step_start_ns`` has one row more than there are steps: the last is the end of the loop.
    """

    spec: Spec
    program: tuple[Op, ...]
    host_start_ns: Int64s
    launch_start_ns: Int64s
    launch_end_ns: Int64s
    host_end_ns: Int64s
    start_ns: Int64s
    end_ns: Int64s
    step_start_ns: Int64s

    def arrival_ns(self, step: int, position: int, group: Group) -> int:
        """When the last member of a collective arrived."""
        return int(self.start_ns[step, position, list(group.ranks)].max())


def transfer_ns(spec: Spec, group: Group, size_bytes: int) -> float:
    """Time that an all-reduce needs once all members are there, without noise: hops x latency + bytes on the wire / rate.

    Ring all-reduce moves 2(n-1)/n of the message over every link (Patarasuk and Yuan 2009). Latency is that of a double tree, 2 log2 of the
    hosts and of the GPUs in a host. Between hosts the members in a host spread the ring over their NICs, one each.

    >>> from netlab.synth.plants import spec_for
    >>> spec = spec_for("none")
    >>> round(transfer_ns(spec, spec.groups_of("dp")[0], 25 * 2**20))
    769878
    """
    members = len(group.ranks)
    if members == 1:
        return 2_000.0
    inter = spec.layer(group.ranks) == "inter_node"
    nodes = len({spec.node_of(rank) for rank in group.ranks})
    local = members // nodes
    latency = 2 * int(np.ceil(np.log2(nodes))) * spec.inter_node_hop_ns + 2 * int(np.ceil(np.log2(local))) * spec.intra_node_hop_ns
    gbps = (spec.inter_node_gbps * local / max(1.0, spec.oversubscription) if inter else spec.intra_node_gbps) * spec.link_efficiency
    wire_bytes = 2 * (members - 1) / members * size_bytes
    if group.kind == "dp":
        wire_bytes /= spec.gradient_compression
    factor = spec.slow_group_factor if group.ranks == spec.slow_group else 1.0
    return latency + factor * wire_bytes * 8 / gbps


def host_prelude_ns(op: Op) -> int:
    """Host time from the call of an operation to its launch: dispatch, and one runtime call per awaited event."""
    if op.kind == "collective":
        return 62_000 + 2 * CALL_NS
    return 9_000 + 2 * CALL_NS * len(op.after)


def simulate(spec: Spec) -> Simulation:
    """Run a job.

    The same seed draws the same noise for every operation whatever the costs, so two specs that differ in one cost can be compared step by
    step: the difference is the true effect of the change.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from netlab.synth.plants import spec_for
    >>> slow = spec_for("slow-fabric", steps=2)
    >>> fast = replace(slow, inter_node_gbps=400.0)
    >>> bool((simulate(fast).step_start_ns[-1] < simulate(slow).step_start_ns[-1]).all())
    True
    """
    program = step_program(spec)
    count, ranks = len(program), spec.ranks
    compute = _compute_costs(spec, program)
    transfers = _transfer_costs(spec, program)
    jitter = np.random.default_rng([spec.seed, 3]).integers(0, spec.end_jitter_ns + 1, (spec.steps, count, ranks))
    host_noise = np.random.default_rng([spec.seed, 4]).lognormal(0.0, 0.15, (spec.steps, count, ranks))

    shape = (spec.steps, count, ranks)
    host_start, launch_start, launch_end, host_end, start, end = (np.zeros(shape, np.int64) for _ in range(6))
    step_start = np.zeros((spec.steps + 1, ranks), np.int64)
    host = np.random.default_rng([spec.seed, 5]).integers(20_000, 120_000, ranks)
    free = {op.stream: np.zeros(ranks, np.int64) for op in program}
    previous_end = np.zeros(ranks, np.int64)
    for step in range(spec.steps):
        step_start[step] = host
        host = host + 15_000
        for position, op in enumerate(program):
            prelude = host_prelude_ns(op)
            pause = np.rint(6_000 * host_noise[step, position]).astype(np.int64)
            host_start[step, position] = host
            launch_start[step, position] = host + prelude
            launch_end[step, position] = host + prelude + LAUNCH_NS
            host_end[step, position] = host + prelude + LAUNCH_NS + pause // 2
            host = host + prelude + LAUNCH_NS + pause
            ready = np.maximum(launch_end[step, position] + _LAUNCH_LATENCY_NS, free[op.stream])
            for awaited in op.after:
                ready = np.maximum(ready, end[step, awaited] + _DEPENDENCY_NS)
            start[step, position] = ready
            if op.kind == "collective":
                last = _last_arrival(spec, op, ready)
                end[step, position] = last + transfers[step, position] + jitter[step, position]
            else:
                end[step, position] = ready + compute[step, position]
            free[op.stream] = end[step, position] + _DEPENDENCY_NS
        # The loop runs at most one step ahead of its device: it waits for the step before, as loops that log their last loss do.
        host = np.maximum(host, previous_end) + 20_000
        previous_end = end[step, count - 1]
    step_start[spec.steps] = host
    return Simulation(
        spec=spec,
        program=program,
        host_start_ns=host_start,
        launch_start_ns=launch_start,
        launch_end_ns=launch_end,
        host_end_ns=host_end,
        start_ns=start,
        end_ns=end,
        step_start_ns=step_start,
    )


def _last_arrival(spec: Spec, op: Op, arrival: Int64s) -> Int64s:
    last = arrival.copy()
    for group in spec.groups_of(op.group or ""):
        members = list(group.ranks)
        last[members] = arrival[members].max()
    return last


def _compute_costs(spec: Spec, program: tuple[Op, ...]) -> Int64s:
    """Cost of every operation but collectives, (steps, operations, ranks)."""
    own = [position for position, op in enumerate(program) if op.kind != "collective"]
    noise = np.random.default_rng([spec.seed, 1]).lognormal(0.0, spec.compute_noise, (spec.steps, len(own), spec.ranks))
    base = np.array([program[position].cost_ns for position in own], np.float64)
    speed = np.ones(spec.ranks)
    if spec.straggler is not None:
        speed[spec.straggler] = spec.straggler_factor
    is_kernel = np.array([program[position].kind == "kernel" for position in own])
    costs = base[None, :, None] * noise * np.where(is_kernel[None, :, None], speed[None, None, :], 1.0)
    result = np.zeros((spec.steps, len(program), spec.ranks), np.int64)
    result[:, own] = np.maximum(np.rint(costs), 1_000).astype(np.int64)
    return result


def _transfer_costs(spec: Spec, program: tuple[Op, ...]) -> Int64s:
    """Cost of every collective once its members are there, (steps, operations, ranks); equal for members of one group."""
    result = np.zeros((spec.steps, len(program), spec.ranks), np.int64)
    stalled = stalled_steps(spec)
    for number, kind in enumerate(("world", "tp", "dp")):
        positions = [position for position, op in enumerate(program) if op.group == kind]
        groups = spec.groups_of(kind)
        if not positions or not groups:
            continue
        noise = np.random.default_rng([spec.seed, 2, number]).lognormal(0.0, spec.transfer_noise, (spec.steps, len(positions), len(groups)))
        for column, group in enumerate(groups):
            base = np.array([transfer_ns(spec, group, program[position].size_bytes) for position in positions])
            cost = base[None, :] * noise[:, :, column]
            if spec.stalled_rank in group.ranks and spec.layer(group.ranks) == "inter_node":
                cost = cost * np.where(stalled, spec.stall_factor, 1.0)[:, None]
            for rank in group.ranks:
                result[:, positions, rank] = np.rint(cost).astype(np.int64)
    return result


def stalled_steps(spec: Spec) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Steps in which the stalled NIC is hit: the given share of them, at least one; none without such a NIC."""
    hit = np.zeros(spec.steps, np.bool_)
    if spec.stalled_rank is not None:
        count = min(spec.steps, max(1, round(spec.stalled_step_share * spec.steps)))
        hit[np.random.default_rng([spec.seed, 6]).permutation(spec.steps)[:count]] = True
    return hit
