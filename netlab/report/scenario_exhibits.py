"""Exhibits of the notebooks that ask instead of report: what-if answers, what an answer hangs on, and ranks by steps to drag over."""

from __future__ import annotations

from netlab import figures
from netlab.report.panels import Exhibit, Missing
from netlab.report.study import Study
from netlab.whatif import WhatIf
from netlab.whatif.sensitivity import Sensitivity

__all__ = ["explorer", "scenarios", "sensitivity"]


def scenarios(answers: WhatIf) -> Exhibit | Missing:
    """All answers against the measured step."""
    frame = figures.scenario_frame(answers.to_dict()["scenarios"])
    if not frame.height:
        return Missing("No what-if answers", "Every scenario was refused; the table below says why.")
    labels = {
        "name": "scenario",
        "predicted_ms": "predicted (ms)",
        "low95_ms": "95 % from",
        "high95_ms": "to",
        "speedup": "speed-up",
        "network_share": "network share",
        "confidence": "confidence",
    }
    return Exhibit(figures.scenario_chart(frame, answers.baseline.measured_ms, answers.baseline.threshold), frame, labels)


def sensitivity(found: Sensitivity | None) -> Exhibit | Missing:
    """What one answer hangs on, the widest swing first; what to say where no scenario helps."""
    if found is None:
        return Missing("Nothing to ask about", "No scenario makes training faster.")
    frame = found.frame()
    chart = figures.tornado(frame, found.name, found.measured_ms, found.predicted_ms)
    return Exhibit(chart, frame, {name: name.replace("_", " ") for name in frame.columns})


def explorer(study: Study) -> Exhibit | Missing:
    """Ranks by steps above, the parts of the brushed ones below."""
    rows = figures.rows_frame(study.verdict.by_rank_step)
    if not rows.height or rows["comm_share"].is_null().all():
        return Missing("No ranks and steps to drag over", "The inputs mark no steps with device activity.")
    labels = {
        "rank": "rank",
        "step": "step",
        "iteration_ms": "step (ms)",
        "compute_ms": "compute (ms)",
        "exposed_transfer_ms": "exposed transfer (ms)",
        "exposed_wait_ms": "exposed wait (ms)",
        "idle_ms": "idle (ms)",
        "network_share": "network share",
        "comm_share": "comm. share",
    }
    return Exhibit(figures.rank_step_explorer(rows), rows, labels, "tables/breakdown.parquet")
