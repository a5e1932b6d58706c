"""Changes of what ranks do between collectives: stragglers evened out, faster compute, fewer synchronisations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netlab.units import NS_PER_MS
from netlab.whatif.arrays import COMPUTE, grouped
from netlab.whatif.changes.targets import GRADIENT_OPS, require_split, select_groups
from netlab.whatif.draft import Draft, Refusal, Setting
from netlab.whatif.graph import NodeKind
from netlab.whatif.places import Places, places
from netlab.whatif.replay import replay
from netlab.whatif.scenarios import Accumulation, Compute, Straggler

__all__ = ["accumulate", "even_out", "speed_up"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def speed_up(draft: Draft, setting: Setting, change: Compute) -> None:
    """Divide the length of every compute kernel; copies, launches and host gaps stay."""
    compute = setting.model.graph.kind == NodeKind.COMPUTE
    draft.duration_ns[compute] /= change.speedup
    draft.lower("calibrated")
    draft.say(f"Every compute kernel runs {change.speedup:g} times as fast; host time, launches and copies stay as measured.")


def even_out(draft: Draft, setting: Setting, change: Straggler) -> None:
    """Give a rank the own time of the others: per place between collectives, the median over the other ranks.

    With ``all``, every rank gets the median over all ranks, so no rank is late by its own doing.

    Raises
    ------
    Refusal
        If the rank was not captured, or no other rank does the same work.
    """
    ranks = sorted(set(setting.model.activities.rank.tolist()))
    if len(ranks) < 2:
        raise Refusal("Only one rank was captured, so there is no other to take as a measure.", ("traces of the other ranks",))
    if change.rank != "all" and change.rank not in ranks:
        raise Refusal(
            f"Rank {change.rank} was not captured; ranks are {', '.join(map(str, ranks[:16]))}.", (f"the trace of rank {change.rank}",)
        )
    wanted = ranks if change.rank == "all" else [change.rank]
    layout = places(setting.model)
    lag, duration = draft.lag_ns.copy(), draft.duration_ns.copy()
    done = _by_position(draft, layout, wanted, change.rank == "all", lag, duration)
    done |= {rank for rank in wanted if _by_total(draft, layout, rank, change.rank == "all", lag, duration)}
    skipped = [rank for rank in wanted if rank not in done]
    if len(skipped) == len(wanted):
        raise Refusal(
            "No other rank does the same work between collectives (pipeline stages or experts differ), so there is no measure to take."
        )
    given_up_ns = draft.lag_ns + draft.duration_ns - lag - duration
    draft.lag_ns, draft.duration_ns = lag, duration
    draft.lower("calibrated")
    whom = "Every rank's" if change.rank == "all" else f"Rank {change.rank}'s"
    other = "all ranks" if change.rank == "all" else "the other ranks"
    draft.say(
        f"{whom} own time between collectives is the median of {other} at the same place; ranks are taken not to slow each other down."
    )
    if setting.model.cpu and any(len(set(ranks) & set(together)) > 1 for together in setting.run.facts.hosts.values()):
        _crowd(draft, setting, float(given_up_ns.clip(0).sum()))
    if skipped:
        draft.say(f"Ranks {', '.join(map(str, skipped[:8]))} do work of their own kind and stay as they are.")


def _crowd(draft: Draft, setting: Setting, given_up_ns: float) -> None:
    """A late rank that idles lends its cores to the others: without it their own work may take longer, by what it gives up at most."""
    graph = setting.model.graph
    steps = max(1, len(set(setting.model.steps.step.tolist())))
    own = np.bincount(graph.rank, weights=graph.duration_ns * (graph.kind == NodeKind.COMPUTE))
    draft.crowded_ms = min(given_up_ns, float(own.max())) / steps / NS_PER_MS
    draft.say(f"Ranks of one host share its cores: if the late one idled, a step without it may be {draft.crowded_ms:.3g} ms longer.")


def _by_position(draft: Draft, layout: Places, wanted: list[int], every: bool, lag: Floats, duration: Floats) -> set[int]:
    """Node by node, where ranks issue the same ones; returns the ranks that found a measure."""
    done: set[int] = set()
    for ranks, nodes in layout.alike():
        here = [place for place, rank in enumerate(ranks) if rank in wanted]
        for place in here[:1] if every else here:
            block = nodes if every else np.delete(nodes, place, axis=0)
            targets = nodes[here] if every else nodes[place]
            lag[targets] = np.median(draft.lag_ns[block], axis=0)
            duration[targets] = np.median(draft.duration_ns[block], axis=0)
        done |= {ranks[place] for place in here}
    return done


def _by_total(draft: Draft, layout: Places, rank: int, every: bool, lag: Floats, duration: Floats) -> bool:
    """Segment by segment, where no other rank issues the same nodes: all own time is stretched to the others' median."""
    done = False
    for own, others in layout.unlike(rank):
        mine = _own_time(draft, own)
        spent = [_own_time(draft, peer) for peer in others]
        target = float(np.median([*spent, mine] if every else spent))
        if mine > 0:
            duration[own] = draft.duration_ns[own] * target / mine
            lag[own] = np.where(draft.lag_ns[own] > 0, draft.lag_ns[own] * target / mine, draft.lag_ns[own])
        done = True
    return done


def _own_time(draft: Draft, nodes: Ints) -> float:
    return float(draft.duration_ns[nodes].sum() + np.maximum(draft.lag_ns[nodes], 0).sum())


def accumulate(draft: Draft, setting: Setting, change: Accumulation) -> None:
    """Run forward and backward ``micro_batches`` times per step and synchronise gradients once.

    The extra micro-batches cost each rank its step without data-parallel communication, up to the end of the work that no gradient
    collective holds up (tensor-parallel communication stays in); they come before the first compute of the step.
    """
    if change.micro_batches == 1:
        draft.say("One micro-batch per synchronisation is what the run does.")
        return
    model, t = setting.model, draft.transfers
    if not np.isin(t.op.astype(str), GRADIENT_OPS).any():
        raise Refusal("The run has no gradient collective (all_reduce, reduce_scatter), so there is nothing to synchronise less often.")
    require_split(draft, setting, np.ones(t.size, bool), "accumulation")
    micro, first, mark = _micro_batch(draft, setting)
    if not len(first):
        raise Refusal("No compute could be found in any step, so a micro-batch has no length.")
    _repeat_before(draft, setting, first, mark, (change.micro_batches - 1) * micro)
    draft.micro_batches *= change.micro_batches
    draft.lower("calibrated")
    draft.say(
        f"One step is {change.micro_batches} micro-batches of the present size with one synchronisation: the global batch grows "
        f"{change.micro_batches}-fold; predicted_ms is that longer step, speedup compares the time per sample."
    )
    if any(op == "all_gather" for op in t.op):
        draft.say("Parameters stay gathered between micro-batches (memory!), as with FSDP's no_sync.")
    if model.cpu:
        draft.say("The time of a micro-batch is the step up to its last operator before the gradient wait.")


def _repeat_before(draft: Draft, setting: Setting, first: Ints, mark: Ints, extra_ns: NDArray[np.float64]) -> None:
    """Delay everything from the first compute of a step on: the host by way of its mark, the device by way of what came before."""
    graph = setting.model.graph
    gates = draft.add_nodes(extra_ns)
    has = mark >= 0
    draft.lead_ns[mark[has]] += extra_ns[has]
    draft.before_ns[first] += extra_ns
    for gate, node in zip(gates.tolist(), first.tolist(), strict=True):
        places = np.arange(graph.pointer[node], graph.pointer[node + 1])
        device = places[graph.kind[graph.predecessor[places]] != NodeKind.HOST]
        draft.dropped.append(device)
        draft.more.append((graph.predecessor[device].astype(np.int64), np.full(len(device), gate)))
        if len(device) or not len(places):
            draft.more.append((np.array([gate]), np.array([node])))


def _micro_batch(draft: Draft, setting: Setting) -> tuple[NDArray[np.float64], Ints, Ints]:
    """Length of forward plus backward of each (rank, step), its first compute node, and the node of its mark."""
    model, a = setting.model, setting.model.activities
    shared, _ = select_groups(Draft.of(setting), setting, None)
    held = _held_up(setting, shared)
    size = model.graph.size
    free = draft.duration_ns[:size].copy()
    free[setting.transfers.node[shared]] = 0
    end = replay(model.graph.pointer, model.graph.predecessor, draft.lag_ns[:size] + free)
    lengths, nodes, marks = [], [], []
    compute = np.flatnonzero((a.kind == COMPUTE) & (a.step >= 0))
    steps = grouped(model.steps.part, model.steps.step)
    for key, spots in grouped(a.part[compute], a.step[compute]).items():
        node = model.end_node[compute[spots]]
        loose = node[held[node] < key[1]]
        if not len(loose):
            loose = node
        row = steps.get(key)
        mark = -1 if row is None else int(model.mark_start_node[row[0]])
        first = node[np.argmin(a.start_ns[compute[spots]])]
        begin = end[mark] if mark >= 0 and model.cpu else end[first] - free[first]
        lengths.append(max(0.0, float(end[loose].max() - begin)))
        nodes.append(first)
        marks.append(mark)
    length, parts = np.array(lengths), setting.model.graph.rank[np.array(nodes, np.int64)]
    for rank in np.unique(parts):
        # Extra micro-batches are not the step's own one again: a hiccup of one step does not repeat.
        length[parts == rank] = np.median(length[parts == rank])
    return length, np.array(nodes, np.int64), np.array(marks, np.int64)


def _held_up(setting: Setting, shared: NDArray[np.bool_]) -> Ints:
    """Latest step whose gradient collectives each node waits for, directly or not; -1 for none."""
    model, t = setting.model, setting.transfers
    own = np.full(model.graph.size, -1, np.int64)
    gradient = shared & np.isin(t.op.astype(str), GRADIENT_OPS)
    own[t.node[gradient]] = model.activities.step[t.row[gradient]]
    label = own.tolist()
    bounds, before = model.graph.pointer.tolist(), model.graph.predecessor.tolist()
    for node in range(model.graph.size):
        for place in range(bounds[node], bounds[node + 1]):
            if label[before[place]] > label[node]:
                label[node] = label[before[place]]
    return np.array(label, np.int64)
