"""Reading every verdict under a folder."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import polars as pl

from netlab.errors import RunError
from netlab.issues import Issue
from netlab.schema.history import HISTORY
from netlab.verdict.model import Verdict

__all__ = ["collect"]


def collect(folder: Path) -> tuple[pl.DataFrame, list[Issue]]:
    """One row per ``verdict.json`` under a folder, and an issue for each that cannot be read.

    A report that is being written has no verdict.json yet, or a whole one, because reports appear by rename; hidden folders are drafts
    and are left out.

    Returns
    -------
    ``HISTORY`` and the issues.

    Raises
    ------
    RunError
        If the folder does not exist or holds no verdict at all.
    """
    if not folder.is_dir():
        raise RunError(f"{folder} is no folder; give the one that holds the reports.")
    rows, issues = [], []
    for path in _verdicts(folder):
        name = path.relative_to(folder)
        try:
            rows.append(_row(name.as_posix(), Verdict.from_json(path.read_bytes())))
        except (OSError, msgspec.MsgspecError) as error:
            message = f"{name}: is no verdict of a known form ({error}); it was left out."
            issues.append(Issue(code="NOT_A_VERDICT", source=name.as_posix(), message=message))
    if not rows:
        raise RunError(f"{folder} holds no readable verdict.json; write reports there with `netlab report PATH --out {folder}/...`.")
    return HISTORY.validate(HISTORY.conform(pl.DataFrame(rows, schema=dict(HISTORY.schema)))), issues


def _verdicts(folder: Path) -> list[Path]:
    """Every verdict.json that is not hidden. A folder may vanish on the way: a draft becomes a report."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if "verdict.json" in files:
            found.append(Path(place, "verdict.json"))
    return sorted(found)


def _row(path: str, verdict: Verdict) -> dict[str, object]:
    totals = verdict.totals
    severities = [finding.severity for finding in verdict.findings]
    return {
        "path": path,
        "name": verdict.run.name,
        "cluster": verdict.run.cluster,
        "created_at": verdict.created_at,
        "status": verdict.status,
        "cause": verdict.cause,
        "headline": verdict.headline,
        "threshold": verdict.threshold,
        "iteration_ms": totals.iteration_ms,
        "network_share": totals.network_share,
        "comm_share": totals.comm_share,
        "wait_share": totals.wait_share,
        "fabric_share": totals.fabric_share,
        "ranks": len(verdict.run.ranks),
        "world_size": verdict.run.world_size,
        "steps": len(verdict.run.steps),
        "critical": severities.count("critical"),
        "warnings": severities.count("warning"),
        "first_finding": verdict.findings[0].code if verdict.findings else None,
        "netlab_version": verdict.netlab_version,
    }
