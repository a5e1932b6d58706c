"""The program of a Megatron step: which operation waits for which, read off one step of one data-parallel rank.

Streams: compute; one for each kind of send and receive; one for the data-parallel collectives. A receive feeds its compute and is issued
once the compute before that has ended; a compute feeds its send. Gradients and optimizer follow the last compute.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.errors import RunError
from netlab.whatif.graph import csr
from netlab.whatif.replay import topological_order

__all__ = ["Program", "build_program"]

Ints = NDArray[np.int64]

#: Recorded sends and receives at the ends of a pipeline that were never issued lie outside the compute by no more than this.
_SLACK_NS = 50_000
_PEER = {
    "forward-send": ("forward-recv", 1),
    "forward-recv": ("forward-send", -1),
    "backward-send": ("backward-recv", -1),
    "backward-recv": ("backward-send", 1),
}


@dataclass(frozen=True)
class Program:
    """Operations of one step, and its dependencies replicated over the data-parallel ranks."""

    names: tuple[str, ...]
    ops: tuple[str, ...]
    #: Pipeline stage of each operation.
    stages: Ints
    #: Members that move data together; True: together with the same operation of every data-parallel rank.
    groups: tuple[tuple[Ints, bool], ...]
    end_node: Ints
    #: Place of each (node, rank) in topological order.
    position: Ints
    pointer: Ints
    predecessor: NDArray[np.int32]

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.position)


@dataclass
class _Draft:
    """Dependencies between operations by place in ``rows``."""

    rows: list[dict[str, int | str]]
    ranks: int
    before: set[tuple[int, int]] = field(default_factory=set)
    groups: list[tuple[list[int], bool]] = field(default_factory=list)

    def find(self, stage: int, *ops: str) -> list[int]:
        """Operations of a stage in the order of their starts."""
        found = [place for place, row in enumerate(self.rows) if row["stage"] == stage and row["op"] in ops]
        return sorted(found, key=lambda place: (self.rows[place]["start_ns"], self.rows[place]["sequence"], self.rows[place]["op"]))

    def chain(self, places: list[int]) -> None:
        """Each waits for the one before it."""
        self.before.update(pairwise(places))

    def wait(self, place: int, *causes: int) -> None:
        """``place`` waits for ``causes``."""
        self.before.update((cause, place) for cause in causes)


def build_program(first: pl.DataFrame, ranks: int) -> Program:
    """Dependencies of one step.

    Parameters
    ----------
    first
        Operations of one step of data-parallel rank 0, with a column ``name`` that is unique among them.
    ranks
        Data-parallel ranks.

    Raises
    ------
    RunError
        If the schedule is not one that this model knows (sends without receives, a cycle).
    """
    draft = _Draft(first.sort("name").to_dicts(), ranks)
    stages = sorted({int(row["stage"]) for row in draft.rows})
    valid: dict[tuple[str, int], list[int]] = {}
    for stage in stages:
        draft.chain(draft.find(stage, "forward-compute", "backward-compute"))
        for op in _PEER:
            messages = draft.find(stage, op)
            draft.chain(messages)
            valid[op, stage] = _messages(draft, stage, op, messages, stages)
        _first_backward(draft, stage)
    _pairs(draft, valid, stages)
    overlapped = any(row["op"] == "separate-grads-all-reduce" for row in draft.rows)
    for stage in stages:
        if ranks > 1:
            _data_parallel(draft, stage, overlapped)
        _finish(draft, stage, stages, overlapped)
    ends = [place for stage in (stages[0], stages[-1]) for place in draft.find(stage, "embedding-grads-all-reduce")]
    draft.groups.append((sorted(set(ends)), False))
    draft.groups.append(([place for stage in stages for place in draft.find(stage, "optimizer-clip-main-grad")], True))
    return _laid_out(draft)


def _messages(draft: _Draft, stage: int, op: str, messages: list[int], stages: list[int]) -> list[int]:
    """Tie sends and receives of a stage to the compute they serve; returns those that really have a peer."""
    direction, way = op.split("-")
    rows = draft.rows
    compute = draft.find(stage, f"{direction}-compute")
    by_number = {int(rows[place]["sequence"]): place for place in compute}
    last_start = max(int(rows[place]["start_ns"]) for place in compute)
    first_end = min(int(rows[place]["end_ns"]) for place in compute)
    if way == "recv":
        issued = [place for place in messages if int(rows[place]["start_ns"]) <= last_start + _SLACK_NS]
    else:
        issued = [place for place in messages if int(rows[place]["end_ns"]) >= first_end - _SLACK_NS]
    number = 1 if way == "recv" and len(issued) + 1 == len(compute) else 0
    chunks = len(stages) * (max((int(row["model_chunk"] or 0) for row in rows), default=0) + 1)
    shift = _PEER[op][1]
    paired = []
    for place in issued:
        served = by_number.get(number)
        if served is None:
            raise RunError(f"Stage {stage} has more {op} operations than {direction}-compute; this schedule is not known.")
        if way == "send":
            draft.wait(place, served)
        else:
            draft.wait(served, place)
            if number:
                draft.wait(place, by_number[number - 1])
        if 0 <= int(rows[served]["global_chunk"] or 0) + shift < chunks:
            paired.append(place)
        number += 1
    # A message without a peer still takes its own time.
    draft.groups += [([place], False) for place in messages if place not in set(paired)]
    return paired


def _pairs(draft: _Draft, valid: dict[tuple[str, int], list[int]], stages: list[int]) -> None:
    for (op, stage), places in valid.items():
        peer_op, shift = _PEER[op]
        if op.endswith("recv"):
            continue
        peers = valid[peer_op, stages[(stages.index(stage) + shift) % len(stages)]]
        if len(peers) != len(places):
            raise RunError(f"Stage {stage} has {len(places)} {op} operations, their receivers {len(peers)}; this schedule is not known.")
        draft.groups += [([place, peer], False) for place, peer in zip(places, peers, strict=True)]


def _first_backward(draft: _Draft, stage: int) -> None:
    """The first backward send and receive are issued two computes before the first backward compute."""
    order = draft.find(stage, "forward-compute", "backward-compute")
    first = next((place for place, row in enumerate(order) if draft.rows[row]["op"] == "backward-compute"), 0)
    if first < 2:
        return
    for op in ("backward-recv", "backward-send"):
        for place in draft.find(stage, op):
            if draft.rows[place]["sequence"] == 0:
                draft.wait(place, order[first - 2])


def _data_parallel(draft: _Draft, stage: int, overlapped: bool) -> None:
    rows = draft.rows
    gathers, scatters = draft.find(stage, "params-all-gather"), draft.find(stage, "grads-reduce-scatter")
    draft.chain(draft.find(stage, "params-all-gather", "grads-reduce-scatter"))
    compute = draft.find(stage, "forward-compute", "backward-compute")
    by_number = sorted(gathers, key=lambda place: int(rows[place]["sequence"]))
    last_gather = {rows[place]["model_chunk"]: place for place in by_number}
    for chunk, gather in last_gather.items():
        users = [place for place in compute if rows[place]["op"] == "forward-compute" and rows[place]["model_chunk"] == chunk]
        if users:
            draft.wait(users[0], gather)
    if overlapped:
        seen = set()
        for scatter in sorted(scatters, key=lambda place: int(rows[place]["sequence"])):
            chunk = rows[scatter]["model_chunk"]
            makers = [place for place in compute if rows[place]["op"] == "backward-compute" and rows[place]["model_chunk"] == chunk]
            if chunk not in seen and makers:
                draft.wait(scatter, max(makers, key=lambda place: int(rows[place]["end_ns"])))
                seen.add(chunk)
    draft.groups += [([place], True) for place in (*gathers, *scatters, *draft.find(stage, "separate-grads-all-reduce"))]


def _finish(draft: _Draft, stage: int, stages: list[int], overlapped: bool) -> None:
    """Last compute, garbage collection, layer norms, embeddings, gradients, clipping, optimizer."""
    compute = draft.find(stage, "forward-compute", "backward-compute")
    last = max(compute, key=lambda place: int(draft.rows[place]["end_ns"]))
    scatters = sorted(draft.find(stage, "grads-reduce-scatter"), key=lambda place: int(draft.rows[place]["sequence"]))
    collect = draft.find(stage, "gc")
    embedding = draft.find(stage, "embedding-grads-all-reduce") if stage in (stages[0], stages[-1]) else []
    gradients = draft.find(stage, "separate-grads-all-reduce") if overlapped else scatters if draft.ranks > 1 else []
    tail = [*draft.find(stage, "layernorm-grads-all-reduce"), *embedding, *gradients]
    tail += [*draft.find(stage, "optimizer-clip-main-grad"), *draft.find(stage, "optimizer")]
    draft.chain([last, *collect, *tail])
    if overlapped and draft.ranks > 1 and scatters and tail:
        draft.wait(tail[0], scatters[-1])


def _laid_out(draft: _Draft) -> Program:
    """Nodes: an end per operation, an arrival per member, a join per group; each once per data-parallel rank."""
    count, ranks = len(draft.rows), draft.ranks
    end_node = np.arange(count)
    arrival = np.arange(count)
    nodes = count
    edges: list[tuple[int, int, bool]] = []
    for members, all_ranks in draft.groups:
        join = nodes
        nodes += 1
        for member in members:
            arrival[member] = nodes
            edges += [(nodes, join, all_ranks), (join, member, all_ranks)]
            nodes += 1
    edges += [(cause, int(arrival[place]), False) for cause, place in draft.before]
    source, target = np.array([e[0] for e in edges]), np.array([e[1] for e in edges])
    order = topological_order(nodes, source, target, np.arange(nodes))
    lane = np.arange(ranks)
    shared = np.array([e[2] for e in edges])
    joins = source >= count
    # Members of all ranks arrive at, and leave from, the join of rank 0.
    to = np.where((shared & joins & (target >= count))[:, None], target[:, None] * ranks, target[:, None] * ranks + lane)
    come = np.where((shared & joins & (target < count))[:, None], source[:, None] * ranks, source[:, None] * ranks + lane)
    position = np.empty(nodes * ranks, np.int64)
    position[(order[:, None] * ranks + lane).ravel()] = np.arange(nodes * ranks)
    kinds = np.zeros(len(edges) * ranks, np.uint8)
    pointer, predecessor, _ = csr(nodes * ranks, position[come.ravel()], position[to.ravel()], kinds)
    return Program(
        names=tuple(str(row["name"]) for row in draft.rows),
        ops=tuple(str(row["op"]) for row in draft.rows),
        stages=np.array([int(row["stage"]) for row in draft.rows]),
        groups=tuple((np.array(members), all_ranks) for members, all_ranks in draft.groups if members),
        end_node=end_node,
        position=position,
        pointer=pointer,
        predecessor=predecessor,
    )
