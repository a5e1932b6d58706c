"""How sure the split of transfers into latency and bytes is, and a scenario's costs at both ends of it.

A change of rates or sizes moves the byte part alone. What the run's own transfers say about the latency is an interval, not a point; the
measured total stays, so the unchanged run replays the same wherever in it the truth lies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.costs import Transfers
from netlab.whatif.draft import Draft, Setting

__all__ = ["at_latency_ends", "at_split_ends"]

Floats = NDArray[np.float64]


def at_latency_ends(draft: Draft, setting: Setting, again: Callable[[Setting], Draft] | None = None) -> tuple[Draft, Draft] | None:
    """The draft with the least and with the most latency that fits the run (95 %); None where that changes nothing.

    ``again`` drafts the scenario anew in another setting: needed where it adds transfers (buckets), whose parts come from
    those it replaces.
    """
    t = setting.transfers
    if draft.transfers.size > t.size and again is not None:
        least, most = _bounds(t)
        if not (most - least > 1.0).any():
            return None
        total = t.latency_ns + t.byte_ns
        one, other = (
            again(replace(setting, transfers=replace(t, latency_ns=latency, byte_ns=total - latency))) for latency in (least, most)
        )
        return one, other
    own = slice(0, t.size)
    by_latency, by_bytes = _ratio(draft.latency_ns[own], t.latency_ns), _ratio(draft.byte_ns[own], t.byte_ns)
    moved = ~np.isclose(by_latency, by_bytes)
    low, high = _bounds(t)
    if not (moved & (high - low > 1.0)).any():
        return None
    ends = []
    for latency in (low, high):
        latencies, parts = draft.latency_ns.copy(), draft.byte_ns.copy()
        latencies[own] = latency * by_latency
        parts[own] = (t.latency_ns + t.byte_ns - latency) * by_bytes
        ends.append(replace(draft, latency_ns=latencies, byte_ns=parts))
    return ends[0], ends[1]


def at_split_ends(draft: Draft, setting: Setting) -> tuple[Draft, Draft] | None:
    """The draft where bounded transfers are waiting that nothing shortens, and where unknown communication is transfer like the rest of its
    operation; None where every split is known."""
    t = setting.transfers
    own = slice(0, t.size)
    latency, parts = draft.latency_ns[own], draft.byte_ns[own]
    moved = ~(np.isclose(latency, t.latency_ns) & np.isclose(parts, t.byte_ns))
    bounded, unknown = t.of("bounded") & moved, draft.unsplit
    if draft.transfers.size > t.size or unknown is None or not (bounded.any() or unknown.any()):
        return None
    waiting, moving = (replace(draft, latency_ns=draft.latency_ns.copy(), byte_ns=draft.byte_ns.copy()) for _ in range(2))
    waiting.latency_ns[own][bounded], waiting.byte_ns[own][bounded] = t.latency_ns[bounded], t.byte_ns[bounded]
    for op in sorted({str(op) for op in t.op[unknown]}):
        same = t.op.astype(str) == op
        known, total = same & ~t.of("unknown") & moved, t.latency_ns + t.byte_ns
        if total[known].sum() > 0:
            moving.byte_ns[own][same & unknown] *= (latency + parts)[known].sum() / total[known].sum()
    return waiting, moving


def _ratio(now: Floats, before: Floats) -> Floats:
    """What a scenario made of a part; a part that was not there stays what it may turn out to be."""
    return np.where(before > 0, now / np.where(before > 0, before, 1.0), 1.0)


def _bounds(t: Transfers) -> tuple[Floats, Floats]:
    """Least and most latency of every transfer; never more than all of it."""
    low, high = t.latency_ns.copy(), t.latency_ns.copy()
    total = t.latency_ns + t.byte_ns
    for key, fit in t.fits.items():
        chosen = (t.group == key[0]) & (t.op == key[1]) & (t.dtype.astype(str) == (key[2] or "None"))
        chosen &= t.split != "unknown"
        expected = np.maximum(fit.latency_ns + fit.ns_per_byte * np.maximum(t.bytes, 0), 1e-9)
        slower = np.maximum(total, 0.0) / expected
        low[chosen] = np.minimum(fit.latency_range_ns[0] * slower, total)[chosen]
        high[chosen] = np.minimum(fit.latency_range_ns[1] * slower, total)[chosen]
    return np.minimum(low, t.latency_ns), np.maximum(high, t.latency_ns)
