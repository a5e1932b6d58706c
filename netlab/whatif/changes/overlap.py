"""When communication may run: bounds, DDP buckets, FSDP prefetch."""

from __future__ import annotations

from netlab.whatif.changes.buckets import cut_buckets
from netlab.whatif.changes.prefetch import prefetch
from netlab.whatif.draft import Draft, Setting
from netlab.whatif.scenarios import Overlap

__all__ = ["change_overlap"]


def change_overlap(draft: Draft, setting: Setting, change: Overlap) -> None:
    """Apply a bucket size or prefetch depth; a bound is noted and worked out after the replay."""
    if change.bucket_mb is not None:
        cut_buckets(draft, setting, change.bucket_mb)
    if change.prefetch is not None:
        prefetch(draft, setting, change.prefetch)
    if change.bound is not None:
        draft.bound = change.bound
        draft.lower("bound-only")
        draft.say(
            "A bound, not a forecast: all communication hides behind compute as far as dependencies and waiting allow."
            if change.bound == "perfect"
            else "A bound, not a forecast: no communication runs beside compute on any rank."
        )
