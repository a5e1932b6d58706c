"""What the user may tell the align stage; every default is "the content says"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["AlignOptions"]


@dataclass(frozen=True, kw_only=True)
class AlignOptions:
    """Options of :func:`netlab.align.align`.

    >>> AlignOptions(run_name="demo", steps=range(12, 20)).steps
    range(12, 20)
    """

    run_name: str = "run"
    #: Declared number of ranks; replaces what the traces say.
    world_size: int | None = None
    gpus_per_node: int | None = None
    #: Path of a trace file, as in ``trace_files.path``, to its rank.
    rank_overrides: Mapping[str, int] = field(default_factory=dict)
    #: Rank to host, from ranks.csv; used where a trace names no host.
    rank_hosts: Mapping[int, str] = field(default_factory=dict)
    #: (pattern, op) of further communication kernels; they come before the built-in rules.
    classify: tuple[tuple[str, str], ...] = ()
    #: Declared one-direction rates per GPU, for lower bounds of transfers that cannot be split.
    intra_node_gbps: float | None = None
    inter_node_gbps: float | None = None
    #: Steps to keep, half-open; None keeps all.
    steps: range | None = None
    #: Ranks to keep; None keeps all. Matching sees every rank all the same.
    ranks: frozenset[int] | None = None
