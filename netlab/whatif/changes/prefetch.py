"""FSDP prefetch: all-gathers of later layers start earlier, a given number of layers ahead."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.arrays import COMPUTE, grouped
from netlab.whatif.changes.targets import require_split
from netlab.whatif.draft import Draft, Refusal, Setting
from netlab.whatif.graph import NodeKind

__all__ = ["prefetch"]

Ints = NDArray[np.int64]

#: What is left between the end of one collective and the start of the next when nothing else holds it up.
_TURNOVER_NS = 20_000.0


def prefetch(draft: Draft, setting: Setting, depth: int) -> None:
    """Let the all-gather of a layer start once the compute ``depth`` layers before it begins, in the order of its stream.

    Raises
    ------
    Refusal
        If no step has two all-gathers whose transfer is known.
    """
    t, model = draft.transfers, setting.model
    a = model.activities
    chosen = np.asarray((t.op == "all_gather") & (t.group_size > 1), bool)
    if chosen.sum() < 2:
        raise Refusal("The run has no series of all-gathers (FSDP, ZeRO-3), so there is nothing to prefetch.")
    require_split(draft, setting, chosen, "another prefetch depth")
    moved = 0
    kinds = model.graph.kind
    gathers, own = np.flatnonzero(chosen), np.flatnonzero(a.kind == COMPUTE)
    computes = grouped(a.part[own], a.step[own])
    for key, places in grouped(a.part[t.row[gathers]], a.step[t.row[gathers]]).items():
        if key in computes and len(places) > 1:
            these, compute = gathers[places], own[computes[key]]
            these = these[np.argsort(a.start_ns[t.row[these]], kind="stable")]
            compute = compute[np.argsort(a.start_ns[compute], kind="stable")]
            _relax(draft, model.graph.pointer, model.graph.predecessor, kinds, t.arrival[these])
            ends, starts = a.end_ns[t.row[these]], a.start_ns[compute]
            # The unit of an all-gather is the compute that starts once it is there, up to the next one's.
            first = np.searchsorted(starts, ends, side="left")
            has = first < len(compute)
            draft.more.append((t.node[these[has]], model.end_node[compute[first[has]]]))
            before = np.maximum(first - 1, 0)
            for place in range(1, len(these)):
                earlier = place - depth if depth else place
                if earlier > 0 and first[earlier] > 0:
                    draft.more.append((model.end_node[compute[before[earlier]]][None], t.arrival[these[place]][None]))
                draft.more.append((t.node[these[place - 1]][None], t.arrival[these[place]][None]))
                moved += 1
    if not moved:
        raise Refusal("No step has two all-gathers and compute, so there is nothing to prefetch.")
    draft.lower("calibrated")
    draft.say(
        f"All-gathers run up to {depth} layers ahead of the compute that needs them; memory for {depth + 1} gathered "
        "layers is assumed to be there."
    )


def _relax(draft: Draft, pointer: Ints, predecessor: NDArray[np.int32], kinds: NDArray[np.uint8], arrivals: Ints) -> None:
    """Take away what held the arrivals up when measured, except other communication of their stream."""
    for arrival in arrivals[1:].tolist():
        places = np.arange(pointer[arrival], pointer[arrival + 1])
        own = kinds[predecessor[places]]
        draft.dropped.append(places[(own == NodeKind.HOST) | (own == NodeKind.SYNC) | (own == NodeKind.COMPUTE) | (own == NodeKind.MEMORY)])
        draft.lag_ns[arrival] = min(draft.lag_ns[arrival], _TURNOVER_NS)
