"""Gradient compression: fewer bytes, more rounds, and time to encode and decode on the critical stream."""

from __future__ import annotations

import numpy as np

from netlab.units import NS_PER_MS, dtype_bytes, format_bytes
from netlab.whatif.changes.targets import GRADIENT_OPS, require_split, select_groups
from netlab.whatif.codecs import codec_ns, wire
from netlab.whatif.draft import Draft, Refusal, Setting
from netlab.whatif.scenarios import Compression

__all__ = ["compress"]

#: Methods that throw information away and need what they threw away in the next step (1-bit Adam, deep gradient compression, PowerSGD).
_WITH_FEEDBACK = frozenset({"onebit", "topk", "powersgd"})


def compress(draft: Draft, setting: Setting, change: Compression) -> None:
    """Divide the byte part of the chosen transfers; put encoding before and decoding behind each of them.

    Raises
    ------
    Refusal
        If the run has no such communication, or cannot tell its transfer from waiting.
    """
    t, model = draft.transfers, setting.model
    in_groups, where = select_groups(draft, setting, change.groups)
    chosen = in_groups & np.isin(t.op.astype(str), GRADIENT_OPS)
    which = "all_reduce and reduce_scatter"
    if not chosen.any() and change.ratio is not None:
        chosen, which = in_groups & (t.op != "barrier"), "every collective"
    if not chosen.any():
        raise Refusal("The run has no gradient collective (all_reduce, reduce_scatter) that could be compressed.")
    require_split(draft, setting, chosen, "compression")
    chosen &= ~t.of("unknown")
    draft.say(f"Compressed: {which} of {where}; convergence, and so the number of steps, is assumed unchanged.")
    codec_from = "given" if change.codec_ms is not None else "reference"
    for dtype, members in sorted({(str(d or ""), int(n)) for d, n in zip(t.dtype[chosen], t.group_size[chosen], strict=True)}):
        these = np.flatnonzero(chosen & (t.group_size == members) & np.array([str(d or "") == dtype for d in t.dtype], bool))
        effect = wire(change, dtype or None, members)
        draft.byte_ns[these] *= effect.byte_factor
        draft.latency_ns[these] *= effect.rounds
        draft.say(effect.sentence)
        codec = np.array(
            [
                change.codec_ms * NS_PER_MS
                if change.codec_ms is not None
                else codec_ns(change, int(size), dtype or None, cpu=model.cpu, measured=setting.codecs)
                for size in t.bytes[these]
            ]
        )
        if effect.byte_factor < 1 or change.codec_ms is not None:
            draft.lead_ns[t.arrival[these]] += codec / 2
            draft.tail_ns[t.node[these]] += codec / 2
    own = setting.codecs
    if (
        change.method is not None
        and codec_from == "reference"
        and own is not None
        and own.gpu != model.cpu
        and own.codec_ns(change.method, 1.0)
    ):
        draft.inputs_used.append(f"codec costs measured on {own.device}")
        draft.say("Encoding and decoding cost what was measured on this device, in halves before and behind the collective.")
    elif change.method is not None and codec_from == "reference":
        draft.lower("datasheet")
        draft.say("Encoding and decoding cost what shipped reference figures say, in halves before and behind the collective.")
        draft.inputs_missing.append("codec cost on this device (netlab calibrate)")
    elif change.codec_ms:
        draft.say(f"Encoding and decoding of one collective take {change.codec_ms:g} ms together, in halves before and behind it.")
    draft.lower("calibrated")
    if change.method in _WITH_FEEDBACK:
        _say_feedback(draft, setting, chosen)
    _say_latency(draft, setting, chosen)


def _say_feedback(draft: Draft, setting: Setting, chosen: np.ndarray) -> None:
    """What a lossy method leaves out is kept and added to the next step's gradient: as many fp32 values as the gradient has."""
    t, a = draft.transfers, setting.model.activities
    rows = t.row[chosen]
    elements = t.bytes[chosen] / np.array([dtype_bytes(str(d or "")) or 4 for d in t.dtype[chosen]])
    keys, place = np.unique(np.stack((a.part[rows], a.step[rows])), axis=1, return_inverse=True)
    kept = float(np.bincount(place.ravel(), weights=elements, minlength=keys.shape[1]).max(initial=0.0)) * 4
    if kept:
        draft.say(f"Error feedback, without which such a method loses accuracy, keeps {format_bytes(round(kept))} more on every rank.")


def _say_latency(draft: Draft, setting: Setting, chosen: np.ndarray) -> None:
    latency = draft.latency_ns[chosen].sum()
    if latency > 0:
        draft.say(
            "The latency part of transfer stays ("
            + ", ".join(sorted({fit.source for fit in setting.transfers.fits.values() if fit.latency_ns > 0}))
            + ")."
        )
    else:
        draft.say(
            "Latency could not be told from bytes (sizes vary too little), so the whole transfer counts as bytes: the gain is at most this."
        )
