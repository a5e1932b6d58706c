"""What began on a link when the steps became slow for good: it goes with the change, and one change alone accuses nobody."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import polars as pl

from netlab.diagnose.localise import Localisation
from netlab.findings import Finding
from netlab.run import Run

__all__ = ["Onset", "link_onset", "told_with"]

#: Cells by which the change of the cells and the first slow step may differ.
_NEAR = 2


@dataclass(frozen=True)
class Onset:
    """Counters that began with a change (``began``), their ports, and the steps that may be the first slow one."""

    began: str
    ports: tuple[str, ...]
    steps: frozenset[int]


def link_onset(run: Run, localisation: Localisation) -> Onset | None:
    """The onset that a localisation found by its change-point form; None if it found none.

    Parameters
    ----------
    run
        For the table ``steps``.
    localisation
        Result of ``localise``.
    """
    if localisation.change_ns is None or localisation.cell_ms is None or not localisation.verdicts:
        return None
    reach = round(_NEAR * localisation.cell_ms * 1e6)
    start, end = pl.col("start_ns") - reach, pl.col("end_ns").fill_null(pl.col("start_ns")) + reach
    near = run.frame("steps").filter((start <= localisation.change_ns) & (localisation.change_ns <= end))
    named = [(f"{verdict.device}/{verdict.port}", verdict.metric.replace("_", " ")) for verdict in localisation.verdicts]
    began = " and ".join(f"{port} began to count {metric}" for port, metric in named[:2])
    return Onset(began, tuple(port for port, _ in named), frozenset(near["step"].drop_nulls().to_list()))


def told_with(finding: Finding, onset: Onset | None) -> Finding:
    """A CHANGE_POINT that says what began at the same time; any other finding as it is."""
    if onset is None or finding.code != "CHANGE_POINT" or not finding.subject.steps or finding.subject.steps[0] not in onset.steps:
        return finding
    return msgspec.structs.replace(
        finding,
        title=f"{finding.title}; at the same time {onset.began}",
        detail=f"{finding.detail} One change goes with many things that begin: that {onset.began} is an association, not a proof.",
        action=f"Look at {', '.join(onset.ports[:2])} first. {finding.action}",
        evidence=[*finding.evidence, {"began": onset.began, "ports": list(onset.ports), "localisation": "associated"}],
    )
