"""Fewer synchronisations: several micro-batches of forward and backward for one reduction of the gradients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.arrays import COMPUTE, grouped
from netlab.whatif.changes.targets import GRADIENT_OPS, require_split, select_groups
from netlab.whatif.draft import Draft, Refusal, Setting
from netlab.whatif.graph import Graph
from netlab.whatif.replay import replay
from netlab.whatif.scenarios import Accumulation

__all__ = ["accumulate"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: What no_sync leaves out: gradients, and DDP's buffers.
_SYNCHRONISING = (*GRADIENT_OPS, "broadcast")


def accumulate(draft: Draft, setting: Setting, change: Accumulation) -> None:
    """Run forward and backward ``micro_batches`` times per step and synchronise gradients once.

    The extra micro-batches cost each rank its step without data-parallel communication, up to the end of the work that no gradient
    collective holds up (tensor-parallel communication and gathered parameters stay in); they come before the step's own work.
    """
    if change.micro_batches == 1:
        draft.say("One micro-batch per synchronisation is what the run does.")
        return
    model, t = setting.model, draft.transfers
    if not np.isin(t.op.astype(str), GRADIENT_OPS).any():
        raise Refusal("The run has no gradient collective (all_reduce, reduce_scatter), so there is nothing to synchronise less often.")
    require_split(draft, setting, np.ones(t.size, bool), "accumulation")
    micro, first, mark, row = _micro_batch(draft, setting)
    if not len(first):
        raise Refusal("No compute could be found in any step, so a micro-batch has no length.")
    more = change.micro_batches - 1
    draft.repeated_ns = np.full(model.steps.size, np.nan)
    draft.repeated_ns[row[row >= 0]] = more * micro[row >= 0]
    # Extra micro-batches are not the step's own one again: a hiccup of one step does not repeat.
    ranks = model.graph.rank[first]
    for rank in np.unique(ranks):
        micro[ranks == rank] = np.median(micro[ranks == rank])
    _repeat_before(draft, setting, first, mark, more * micro)
    draft.micro_batches *= change.micro_batches
    draft.lower("calibrated")
    draft.say(
        f"One step is {change.micro_batches} micro-batches of the present size with one synchronisation: the global batch grows "
        f"{change.micro_batches}-fold; predicted_ms is that longer step, speedup compares the time per sample."
    )
    if any(op == "all_gather" for op in t.op):
        draft.say(
            "Parameters that are gathered before the synchronisation are gathered in every micro-batch, as FSDP's FULL_SHARD does under "
            "no_sync (unsharded gradients need memory); where they stay gathered, it is faster."
        )
    if model.cpu:
        draft.say("The time of a micro-batch is the step up to its last operator before the gradient wait.")


def _repeat_before(draft: Draft, setting: Setting, first: Ints, mark: Ints, extra_ns: Floats) -> None:
    """Delay each step: its host by way of its mark, its device by so much behind what earlier steps do there.

    What the step's own mark delays already (a copy of the batch, parameters that are gathered) does not delay what follows it once more.
    """
    graph, a = setting.model.graph, setting.model.activities
    has = mark >= 0
    draft.lead_ns[mark[has]] += extra_ns[has]
    draft.before_ns[first] += extra_ns
    step_of = _steps_of(setting)
    row = graph.row[first]
    extra = {(int(a.rank[r]), int(a.step[r])): float(ns) for r, ns in zip(row, extra_ns, strict=True)}
    target = np.repeat(np.arange(graph.size), np.diff(graph.pointer))
    over = np.flatnonzero((step_of[graph.predecessor] < step_of[target]) & (step_of[graph.predecessor] >= 0))
    over = over[graph.rank[target[over]] == graph.rank[graph.predecessor[over]]]
    keys = [(int(graph.rank[node]), int(step_of[node])) for node in target[over].tolist()]
    over = over[[key in extra for key in keys]]
    nodes, place = np.unique(target[over], return_inverse=True)
    gates = draft.add_nodes(np.array([extra[int(graph.rank[node]), int(step_of[node])] for node in nodes.tolist()]))
    draft.dropped.append(over)
    draft.more += [(graph.predecessor[over].astype(np.int64), gates[place]), (gates, nodes)]
    # Without anything before it and without a mark, a step begins with its first compute.
    bare = first[~has & (np.diff(graph.pointer)[first] == 0)]
    late = draft.add_nodes(extra_ns[~has & (np.diff(graph.pointer)[first] == 0)])
    draft.more.append((late, bare))


def _steps_of(setting: Setting) -> Ints:
    """Step to which each device node belongs, -1 for host nodes: by the marks that its launch comes after, else by its start."""
    model = setting.model
    graph, a = model.graph, model.activities
    marks = np.full(graph.size, -1, np.int64)
    marks[model.mark_start_node] = model.steps.step
    after = _latest(graph, marks)
    found = np.full(graph.size, -1, np.int64)
    begins = np.where(model.arrival_node >= 0, model.arrival_node, model.end_node)
    step = np.where(a.launched, after[begins], a.step)
    found[begins] = step
    found[model.end_node] = step
    return found


def _micro_batch(draft: Draft, setting: Setting) -> tuple[Floats, Ints, Ints, Ints]:
    """Length of forward plus backward of each (rank, step), its first compute node, the node of its mark, and its row of the steps."""
    model, a = setting.model, setting.model.activities
    shared, _ = select_groups(Draft.of(setting), setting, None)
    held = _held_up(setting, shared)
    size = model.graph.size
    free = draft.duration_ns[:size].copy()
    free[setting.transfers.node[shared & np.isin(setting.transfers.op.astype(str), _SYNCHRONISING)]] = 0
    end = replay(model.graph.pointer, model.graph.predecessor, draft.lag_ns[:size] + free)
    lengths, nodes, marks, rows = [], [], [], []
    compute = np.flatnonzero((a.kind == COMPUTE) & (a.step >= 0))
    starts = np.where(model.arrival_node >= 0, end[model.arrival_node], end[model.end_node] - free[model.end_node])
    steps, within = grouped(model.steps.part, model.steps.step), grouped(a.part, a.step)
    for key, spots in grouped(a.part[compute], a.step[compute]).items():
        node = model.end_node[compute[spots]]
        loose = node[held[node] < key[1]]
        if not len(loose):
            loose = node
        row = int(steps[key][0]) if key in steps else -1
        mark = -1 if row < 0 else int(model.mark_start_node[row])
        first = node[np.argmin(a.start_ns[compute[spots]])]
        begin = end[mark] if mark >= 0 and model.cpu else starts[within[key]].min()
        lengths.append(max(0.0, float(end[loose].max() - begin)))
        nodes.append(first)
        marks.append(mark)
        rows.append(row)
    return np.array(lengths), np.array(nodes, np.int64), np.array(marks, np.int64), np.array(rows, np.int64)


def _held_up(setting: Setting, shared: NDArray[np.bool_]) -> Ints:
    """Latest step whose gradient collectives each node waits for, directly or not; -1 for none."""
    model, t = setting.model, setting.transfers
    own = np.full(model.graph.size, -1, np.int64)
    gradient = shared & np.isin(t.op.astype(str), GRADIENT_OPS)
    own[t.node[gradient]] = model.activities.step[t.row[gradient]]
    return _latest(model.graph, own)


def _latest(graph: Graph, own: Ints) -> Ints:
    """Largest number of a node and of all that it waits for, directly or not."""
    label = own.tolist()
    bounds, before = graph.pointer.tolist(), graph.predecessor.tolist()
    for node in range(graph.size):
        for place in range(bounds[node], bounds[node + 1]):
            if label[before[place]] > label[node]:
                label[node] = label[before[place]]
    return np.array(label, np.int64)
