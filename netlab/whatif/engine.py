"""Replays drafts: several at once on one graph, with the nodes and edges that a scenario adds, and its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netlab.errors import RunError
from netlab.whatif.arrays import COMMUNICATION, COMPUTE
from netlab.whatif.draft import Draft, Setting
from netlab.whatif.graph import EdgeKind, csr
from netlab.whatif.replay import replay, topological_order
from netlab.whatif.sharing import Sharing
from netlab.whatif.timeline import Borders, StepRule

__all__ = ["Engine", "Result"]

#: Rounds of sharing and replay at most, and the movement below which a round counts as still.
_ROUNDS = 8
_STILL_NS = 1_000.0

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Result:
    """A replayed draft: ends and durations of every node, and the borders of the steps."""

    end_ns: Floats
    duration_ns: Floats
    lead_ns: Floats
    tail_ns: Floats
    borders: Borders


class Engine:
    """Replays drafts of one run."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rule = StepRule(setting.model)
        self.sharing = Sharing(setting.model, setting.transfers, setting.model.graph.end_ns)

    def run(self, drafts: Sequence[Draft], byte_scales: Sequence[float | Floats] | None = None) -> list[Result]:
        """Replay drafts; those that keep the run's graph share one pass. ``byte_scales`` stretch the byte part of each."""
        scales: list[float | Floats] = list(byte_scales or [1.0] * len(drafts))
        results: dict[int, Result] = {}
        plain = [place for place, draft in enumerate(drafts) if not draft.more and not draft.dropped]
        graph = self.setting.model.graph
        if plain:
            cost = np.stack([drafts[place].costs(scales[place]) for place in plain], axis=1)
            ends = replay(graph.pointer, graph.predecessor, cost)
            for column, place in enumerate(plain):
                end, duration = self._retimed(drafts[place], np.ascontiguousarray(ends[:, column]), scales[place])
                results[place] = self._result(drafts[place], end, duration)
        for place, draft in enumerate(drafts):
            if place not in results:
                end, duration = self._retimed(draft, self._altered(draft, draft.costs(scales[place])), scales[place])
                results[place] = self._result(draft, end, duration)
        return [results[place] for place in range(len(drafts))]

    def floors(self, drafts: Sequence[Draft]) -> list[Result]:
        """The drafts with communication and codecs taking no time: what no network change can beat. Waiting for late ranks stays."""
        return self.run([_without_transfer(draft) for draft in drafts])

    def serial(self, draft: Draft) -> Result | None:
        """The draft with no communication beside compute on any rank; None where that order contradicts itself across ranks."""
        alone = _copy(draft)
        alone.more = [*draft.more, *_one_after_another(self.setting)]
        try:
            return self.run([alone])[0]
        except RunError:
            return None

    def _retimed(self, draft: Draft, end: Floats, scale: float | Floats) -> tuple[Floats, Floats]:
        """Alternate fair sharing of links and replay until nothing moves; a run whose collectives never overlap is done at once."""
        graph, t = self.setting.model.graph, draft.transfers
        duration = draft.durations(scale)
        nominal = duration[t.node].copy()
        factors = self.sharing.factors(t, end, nominal) if t.size else None
        if factors is None:
            return end, duration
        base = graph.duration_ns[t.node]
        shortens = bool((draft.durations(scale)[: graph.size] <= graph.duration_ns + 0.5).all()) and draft.size == graph.size
        for _ in range(_ROUNDS):
            length = nominal * factors
            if shortens:
                # Only shorter transfers: none may come out longer than measured, whatever it now overlaps with.
                length = np.minimum(length, np.maximum(base, nominal))
            moved = float(np.abs(length - duration[t.node]).max(initial=0.0))
            duration[t.node] = length
            cost = draft.lag_ns + duration + draft.lead_ns + draft.tail_ns
            plain = not draft.more and not draft.dropped
            end = replay(graph.pointer, graph.predecessor, cost) if plain else self._altered(draft, cost)
            if moved < _STILL_NS:
                break
            again = self.sharing.factors(t, end, nominal)
            if again is None:
                break
            factors = again
        return end, duration

    def _result(self, draft: Draft, end: Floats, duration: Floats) -> Result:
        lead = draft.lead_ns + draft.before_ns
        return Result(end, duration, lead, draft.tail_ns, self.rule.borders(end, duration, lead))

    def possible(self, draft: Draft) -> bool:
        """Whether the edges that the scenario adds leave an order: nothing waits for what waits for it."""
        if not draft.more:
            return True
        try:
            topological_order(draft.size, *self._edges(draft), np.arange(draft.size))
        except RunError:
            return False
        return True

    def _edges(self, draft: Draft) -> tuple[Ints, Ints]:
        graph = self.setting.model.graph
        keep = np.ones(len(graph.predecessor), bool)
        for places in draft.dropped:
            keep[places] = False
        source = [graph.predecessor[keep].astype(np.int64), *(edge[0] for edge in draft.more)]
        target = [np.repeat(np.arange(graph.size), np.diff(graph.pointer))[keep], *(edge[1] for edge in draft.more)]
        return np.concatenate(source), np.concatenate(target)

    def _altered(self, draft: Draft, cost: Floats) -> Floats:
        sources, targets = self._edges(draft)
        order = topological_order(draft.size, sources, targets, np.arange(draft.size))
        place = np.empty(draft.size, np.int64)
        place[order] = np.arange(draft.size)
        pointer, predecessor, _ = csr(draft.size, place[sources], place[targets], np.full(len(sources), EdgeKind.ADDED, np.uint8))
        end: Floats = replay(pointer, predecessor, cost[order])[place]
        return end


def _without_transfer(draft: Draft) -> Draft:
    free = _copy(draft)
    free.latency_ns = np.minimum(free.latency_ns, 0.0)
    free.byte_ns = np.minimum(free.byte_ns, 0.0)
    free.lead_ns = free.lead_ns.copy()
    free.lead_ns[draft.transfers.arrival] = 0.0
    free.tail_ns = np.zeros(free.size)
    return free


def _copy(draft: Draft) -> Draft:
    return replace(draft, lag_ns=draft.lag_ns.copy(), latency_ns=draft.latency_ns.copy(), byte_ns=draft.byte_ns.copy())


def _one_after_another(setting: Setting) -> list[tuple[Ints, Ints]]:
    """Edges that let each rank compute or communicate, never both.

    A collective's turn comes when its last member had arrived, which is one order for all ranks; compute's when it started.
    """
    model, a = setting.model, setting.model.activities
    rows = np.flatnonzero((a.kind == COMPUTE) | (a.kind == COMMUNICATION))
    turn_ns = (a.start_ns - model.graph.origin_ns).astype(float)
    moving = model.release_node >= 0
    turn_ns[moving] = model.graph.end_ns[model.release_node[moving]]
    rows = rows[np.lexsort((rows, a.kind[rows] == COMMUNICATION, turn_ns[rows], a.part[rows]))]
    first = np.where(model.arrival_node >= 0, model.arrival_node, model.end_node)
    communication = a.kind[rows] == COMMUNICATION
    same = a.part[rows][1:] == a.part[rows][:-1]
    turn = same & (communication[1:] | communication[:-1])
    edges = [(model.end_node[rows[:-1][turn]], first[rows[1:][turn]])]
    # After a collective, later compute waits for the last collective before it, and a collective for the last compute before it.
    place = np.arange(len(rows))
    for kind in (True, False):
        last = np.maximum.accumulate(np.where(communication == kind, place, -1))
        before = np.append(-1, last[:-1])
        chosen = (communication != kind) & (before >= 0)
        chosen &= a.part[rows[np.maximum(before, 0)]] == a.part[rows]
        edges.append((model.end_node[rows[before[chosen]]], first[rows[chosen]]))
    return edges
