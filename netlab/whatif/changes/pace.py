"""Changes of what ranks do between collectives: stragglers evened out, faster compute."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netlab.units import NS_PER_MS
from netlab.whatif.draft import Draft, Refusal, Setting
from netlab.whatif.graph import NodeKind
from netlab.whatif.places import Places, places
from netlab.whatif.scenarios import Compute, Straggler

__all__ = ["even_out", "speed_up"]

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
    """A late rank that idles lends its cores to the others: with it at work theirs may take longer, by what it gives up and twice at most.

    Own work is what operators explain and the gaps between them: on a CPU most of an operator's time is its own, around those it calls.
    """
    graph = setting.model.graph
    working = np.isin(graph.kind, (NodeKind.COMPUTE, NodeKind.MEMORY, NodeKind.ARRIVAL))
    size = graph.size
    own = np.bincount(graph.rank, weights=(draft.duration_ns[:size] + draft.lag_ns[:size].clip(0)) * working)
    steps = max(1, setting.model.steps.frame["step"].n_unique())
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
