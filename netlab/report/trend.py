"""The trend over many reports, for its notebook and its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import polars as pl

from netlab import figures
from netlab.errors import ReportError
from netlab.export.files import write_text
from netlab.export.tables import write_table
from netlab.history import History, RunTrend, collect, history
from netlab.ownership import claim, locked
from netlab.report.markup import Html, details, table
from netlab.report.panels import Exhibit, Missing
from netlab.report.sections import card_style
from netlab.report.write import write_page
from netlab.schema.history import HISTORY
from netlab.verdict.card import STATUS_WORDS

__all__ = ["Trend", "trend_card", "trend_clusters", "trend_exhibit", "trend_runs", "write_history"]

_LABELS = {
    "name": "run",
    "cluster": "cluster",
    "created_at": "made",
    "status": "status",
    "ranks": "ranks",
    "network_share": "network share",
    "iteration_ms": "step (ms)",
}

_NAME_CLUSTER = """export NETLAB_RUN_CLUSTER=h100-a    # in the schedule, or
[run]                                # in netlab.toml beside the inputs
cluster = "h100-a\""""


@dataclass(frozen=True)
class Trend:
    """The ``history`` table and what it says."""

    table: pl.DataFrame
    document: History

    @classmethod
    def load(cls, folder: str, stored: str = "") -> Trend:
        """Collect every verdict under a folder, or take the table that was stored.

        Parameters
        ----------
        folder
            The folder that holds the reports.
        stored
            A ``history.parquet``; then nothing is collected again.
        """
        if stored:
            frame = HISTORY.conform(pl.read_parquet(stored))
            return cls(frame, history(frame, folder))
        frame, issues = collect(Path(folder))
        return cls(frame, history(frame, folder, issues))


def trend_card(trend: Trend) -> Html:
    """The verdict over all runs at a glance."""
    document = trend.document
    sign, word = STATUS_WORDS.get(document.status, ("?", document.status))
    facts = f"{trend.table.height:,} reports of {len(document.runs):,} runs"
    markup = (
        f'{card_style()}<section class="nl-card nl-{escape(document.status)}" role="region" aria-label="Trend">'
        f'<span class="nl-badge"><span aria-hidden="true">{sign}</span>{escape(word)}</span><span class="nl-sub">{escape(facts)}</span>'
        f'<p class="nl-headline">{escape(document.headline)}</p></section>'
    )
    return Html(markup, document.headline)


def trend_runs(trend: Trend) -> Html:
    """Each run's newest report against its usual values, those that got worse first."""
    rows = [
        {
            "run": run.label,
            "reports": run.reports,
            "status": run.status,
            "network_share": run.network_share,
            "usual_network_share": run.usual_network_share,
            "iteration_ms": run.iteration_ms,
            "usual_iteration_ms": run.usual_iteration_ms,
            "worse": _judgement(run),
            "since": _minute(min(filter(None, [*run.since.values(), run.slower_since]), default=None)),
        }
        for run in sorted(trend.document.runs, key=lambda run: (not run.regression, run.name, run.cluster or ""))
    ]
    labels = {
        "run": "run",
        "reports": "reports",
        "status": "newest",
        "network_share": "network share",
        "usual_network_share": "usually",
        "iteration_ms": "step (ms)",
        "usual_iteration_ms": "usually (ms)",
        "worse": "against its past",
        "since": "since",
    }
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col(pl.Null).cast(pl.Float64))
    left_out = "".join(f"<li>{escape(issue.message)}</li>" for issue in trend.document.issues)
    doubts = details(f"Left out ({len(trend.document.issues)})", f"<ul>{left_out}</ul>") if left_out else ""
    return Html(table(frame, labels) + doubts, f"{frame.height} runs")


def trend_exhibit(trend: Trend, measure: str) -> Exhibit | Missing:
    """One measure over time."""
    if trend.table[measure].is_null().all():
        return Missing(f"No {measure.replace('_', ' ')} over time", "No report knows it.")
    newest = trend.table.sort("created_at", descending=True)
    labels = {name: text for name, text in _LABELS.items() if name != "cluster" or trend.document.clusters}
    return Exhibit(
        figures.over_time(trend.table, measure, _since(trend.document, measure)),
        newest,
        {**labels, measure: _LABELS.get(measure, measure.replace("_", " "))},
        "history.parquet",
    )


def trend_clusters(trend: Trend, measure: str = "network_share") -> Exhibit | Missing:
    """One measure over time, cluster by cluster: is it the cluster or one job."""
    days = figures.cluster_days(trend.table, measure)
    if not days.height:
        return Missing("No clusters side by side", "No report says on which cluster its run was.", _NAME_CLUSTER)
    labels = {
        "name": "cluster",
        "created_at": "day",
        measure: _LABELS.get(measure, measure.replace("_", " ")),
        "headline": "runs",
        "ranks": "ranks",
    }
    return Exhibit(
        figures.over_time(days, measure, noun="cluster"),
        days.sort("created_at", "name", descending=[True, False]),
        labels,
        "history.parquet",
    )


def _since(document: History, measure: str) -> dict[str, str]:
    """When each run's worse phase began, under the names that the chart uses."""
    found = {}
    for run in document.runs:
        at = run.since.get(measure) or (run.slower_since if measure == "iteration_ms" else None)
        if at is not None:
            found[run.label] = at
    return found


def _judgement(run: RunTrend) -> str:
    if run.regression is None:
        return f"not judged: {run.note}"
    words = [{"iteration_ms": "step time", "network_share": "network share"}[measure] for measure in run.regression]
    return f"worse: {', '.join(words)}" if words else "as usual"


def _minute(at: str | None) -> str | None:
    """An ISO time without its seconds.

    >>> _minute("2026-11-21T03:00:00+00:00")
    '2026-11-21 03:00'
    """
    return None if at is None else at[:16].replace("T", " ")


def write_history(trend: Trend, folder: Path, out: Path, parameters: Mapping[str, Any] | None = None) -> Path:
    """Write history.parquet, history.json and the page of the trend notebook, report.ipynb and report.html.

    Parameters
    ----------
    trend
        What is told.
    folder
        Where the reports are.
    out
        Folder for the files; those of an earlier history are replaced.
    parameters
        For the notebook.

    Raises
    ------
    ConfigError
        The folder holds files of these names that no history left; nothing was written.
    ReportError
        The notebook failed; the table is written, and the notebook as far as it came.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with locked(out):
            claim(out, "history", ("history.parquet", "history.json", "report.ipynb", "report.html"), "no history of netlab left there")
    except OSError as error:
        raise ReportError(f"{out} cannot be written: {error.strerror}; choose another folder with --out.") from error
    write_table(trend.table, out / "history.parquet")
    write_text(out / "history.json", trend.document.json())
    given = {"folder": str(folder), "stored": "history.parquet", **(parameters or {})}
    return write_page("fleet_trend", out, given, f"Trend of {folder.name}")
