"""Which transfers a change is about, and whether the run can tell their transfer from waiting."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.draft import Draft, Refusal, Setting

__all__ = ["GRADIENT_OPS", "missing_ranks", "require_split", "select_groups"]

Mask = NDArray[np.bool_]

#: Operations that add gradients up: what DDP and FSDP communication hooks can compress.
GRADIENT_OPS = ("all_reduce", "reduce_scatter", "reduce")


def missing_ranks(setting: Setting) -> str:
    """What recording would tell waiting from transfer, as one phrase."""
    missing = setting.run.facts.missing_ranks
    if missing:
        shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        return f"traces of rank {shown}"
    return "traces of all ranks with collective metadata and clocks that can be aligned"


def require_split(draft: Draft, setting: Setting, chosen: Mask, what: str) -> None:
    """Refuse where most of the chosen communication has no split; be less sure where some has none.

    Raises
    ------
    Refusal
        If more than half of the chosen communication time may as well be waiting.
    """
    t = draft.transfers
    total = draft.latency_ns + draft.byte_ns
    known = total[chosen].sum()
    if known <= 0:
        return
    unknown = total[chosen & t.of("unknown")].sum() / known
    bounded = total[chosen & t.of("bounded")].sum() / known
    if unknown > 0.5:
        raise Refusal(
            f"Nobody can say how much of the communication is waiting for other ranks and how much is transfer, so {what} has no answer; "
            f"waiting is never shortened.",
            (missing_ranks(setting),),
        )
    draft.unsplit = (chosen if draft.unsplit is None or len(draft.unsplit) != t.size else draft.unsplit | chosen) & t.of("unknown")
    if unknown + bounded > 0.01:
        draft.lower("bound-only")
        draft.inputs_missing.append(missing_ranks(setting))
        if bounded > 0.01:
            draft.say("Members are missing: their transfers are at most what was seen, so the gain is at most this.")
        if unknown > 0.01:
            draft.say(f"{100 * unknown:.0f} % of the communication could be waiting as well as transfer and stays as it is.")


def _names(groups: str | list[str | int | list[int]]) -> list[str]:
    """Selectors as text; numbers in one list are the members of one group.

    >>> _names([0, 1]), _names([[0, 1], [2, 3]]), _names("DP")
    (['0,1'], ['0,1', '2,3'], ['DP'])
    """
    if isinstance(groups, str):
        return [groups]
    members = [item for item in groups if isinstance(item, int)]
    named = [",".join(map(str, sorted(item))) if isinstance(item, list) else item for item in groups if not isinstance(item, int)]
    return ([",".join(map(str, sorted(members)))] if members else []) + named


def select_groups(draft: Draft, setting: Setting, groups: str | list[str | int | list[int]] | None) -> tuple[Mask, str]:
    """Members of the selected process groups: by members (``0,1``), name, description or parallelism.

    Without a selector, the data-parallel groups where the run knows them, else every group.

    Raises
    ------
    Refusal
        If a selector matches no group of the run.
    """
    t = draft.transfers
    table = setting.run.frame("groups")
    if groups is None:
        data_parallel = set(table.filter(table["parallelism"] == "DP")["group"].to_list()) if table.height else set()
        chosen = np.array([group in data_parallel for group in t.group], bool)
        if chosen.any():
            return chosen, "data-parallel groups"
        return np.ones(t.size, bool), "every group"
    names = _names(groups)
    chosen = np.zeros(t.size, bool)
    for name in names:
        wanted = {name.replace(" ", "")}
        for row in table.iter_rows(named=True):
            if name in (row["name"], row["description"]) or name.upper() == row["parallelism"]:
                wanted.add(row["group"])
        hit = np.array([group in wanted or label == name for group, label in zip(t.group, t.group_name, strict=True)], bool)
        if not hit.any():
            known = sorted({str(group) for group in t.group if group} | {str(label) for label in t.group_name if label})
            raise Refusal(f"No communication of the run is in a group {name!r}; groups are {', '.join(known[:12]) or 'unknown'}.")
        chosen |= hit
    return chosen, f"groups {', '.join(names)}"
