"""The report: a papermill run of the notebook, one offline HTML file, and what schedulers read.

The names below load on first use: ``netlab check`` must not pay for charts and notebooks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netlab.report.comparison_exhibits import changes, comparable
    from netlab.report.exhibits import exhibit
    from netlab.report.notebooks import check_parameters
    from netlab.report.scenario_exhibits import (
        assumptions,
        baseline,
        explorer,
        pays_if,
        questions,
        scenarios,
        sensitivity,
        slowest_collectives,
    )
    from netlab.report.sections import card, data_quality, findings, provenance, what_if
    from netlab.report.sidecars import append_step_summary, junit_xml, prometheus_text, summary_markdown, write_junit
    from netlab.report.slack import slack_payload, write_slack
    from netlab.report.study import Study, run_paths
    from netlab.report.trend import Trend, trend_card, trend_clusters, trend_exhibit, trend_runs, write_history
    from netlab.report.workbook import write_notebook
    from netlab.report.write import write_page, write_report

_HOMES = {
    "Study": "study",
    "Trend": "trend",
    "append_step_summary": "sidecars",
    "assumptions": "scenario_exhibits",
    "baseline": "scenario_exhibits",
    "card": "sections",
    "changes": "comparison_exhibits",
    "check_parameters": "notebooks",
    "comparable": "comparison_exhibits",
    "data_quality": "sections",
    "exhibit": "exhibits",
    "explorer": "scenario_exhibits",
    "findings": "sections",
    "junit_xml": "sidecars",
    "pays_if": "scenario_exhibits",
    "prometheus_text": "sidecars",
    "provenance": "sections",
    "questions": "scenario_exhibits",
    "run_paths": "study",
    "scenarios": "scenario_exhibits",
    "sensitivity": "scenario_exhibits",
    "slack_payload": "slack",
    "slowest_collectives": "scenario_exhibits",
    "summary_markdown": "sidecars",
    "trend_card": "trend",
    "trend_clusters": "trend",
    "trend_exhibit": "trend",
    "trend_runs": "trend",
    "what_if": "sections",
    "write_history": "trend",
    "write_junit": "sidecars",
    "write_notebook": "workbook",
    "write_page": "write",
    "write_report": "write",
    "write_slack": "slack",
}

__all__ = [
    "Study",
    "Trend",
    "append_step_summary",
    "assumptions",
    "baseline",
    "card",
    "changes",
    "check_parameters",
    "comparable",
    "data_quality",
    "exhibit",
    "explorer",
    "findings",
    "junit_xml",
    "pays_if",
    "prometheus_text",
    "provenance",
    "questions",
    "run_paths",
    "scenarios",
    "sensitivity",
    "slack_payload",
    "slowest_collectives",
    "summary_markdown",
    "trend_card",
    "trend_clusters",
    "trend_exhibit",
    "trend_runs",
    "what_if",
    "write_history",
    "write_junit",
    "write_notebook",
    "write_page",
    "write_report",
    "write_slack",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'netlab.report' has no attribute {name!r}")
    return getattr(importlib.import_module(f"netlab.report.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
