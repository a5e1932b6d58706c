"""The changes of a scenario, applied together and in one order, so that combinations are replayed and never multiplied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netlab.whatif.changes.accumulation import accumulate
from netlab.whatif.changes.compression import compress
from netlab.whatif.changes.overlap import change_overlap
from netlab.whatif.changes.pace import even_out, speed_up
from netlab.whatif.changes.topology import change_topology
from netlab.whatif.draft import Draft, Setting
from netlab.whatif.scenarios import Accumulation, Change, Compression, Compute, Overlap, Scenario, Straggler, Topology

__all__ = ["apply"]

_KIND: dict[type[Any], str] = {
    Straggler: "straggler",
    Compute: "compute",
    Overlap: "overlap",
    Compression: "compression",
    Topology: "topology",
    Accumulation: "accumulation",
}

#: What moves first: own time of the ranks, then what is sent when, then how long it takes, then how often.
_ORDER: tuple[tuple[type[Any], Callable[[Draft, Setting, Any], None]], ...] = (
    (Straggler, even_out),
    (Compute, speed_up),
    (Overlap, change_overlap),
    (Compression, compress),
    (Topology, change_topology),
    (Accumulation, accumulate),
)


def apply(setting: Setting, scenario: Scenario) -> Draft:
    """The costs of every node under a scenario.

    Raises
    ------
    Refusal
        If the run's inputs cannot carry an answer to one of the changes.
    """
    draft = Draft.of(setting)
    changes: tuple[Change, ...] = scenario.changes
    for kind, change_costs in _ORDER:
        for change in changes:
            if isinstance(change, kind):
                draft.kinds.append(_KIND[kind])
                change_costs(draft, setting, change)
    return draft
