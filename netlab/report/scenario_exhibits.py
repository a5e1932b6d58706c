"""Exhibits of the notebooks that ask instead of report: what-if answers, what an answer hangs on, and ranks by steps to drag over."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import polars as pl

from netlab import figures
from netlab.figures.frames import members_text
from netlab.pipeline.recorded import COMMANDS
from netlab.pipeline.scenarios import find_scenarios
from netlab.report.markup import Html, chips, table
from netlab.report.panels import Exhibit, Missing
from netlab.report.sections import answers_list, card_style
from netlab.report.study import Study, run_paths
from netlab.units import format_ms, format_percent
from netlab.whatif import Scenario, WhatIf
from netlab.whatif.sensitivity import Sensitivity

__all__ = ["assumptions", "baseline", "explorer", "pays_if", "questions", "scenarios", "sensitivity", "slowest_collectives"]


def questions(run: str, scenarios: str = "") -> Sequence[Scenario] | None:
    """Scenarios of a file: the given one, else scenarios.toml beside the inputs; None means the built-in set."""
    return find_scenarios(run_paths(run), Path(scenarios) if scenarios else None)


def baseline(answers: WhatIf) -> Html:
    """The unchanged run, measured and replayed: how far the answers below may be trusted. It brings the style with it, for notebooks."""
    base = answers.baseline
    error = base.replay_error
    facts = [
        ("Measured step", format_ms(base.measured_ms), "plain"),
        ("Replayed", format_ms(base.replayed_ms), "plain"),
        ("Error of the replay", format_percent(error), "plain" if error is None else "ok" if abs(error) < _SMALL_ERROR else "warning"),
        ("Explained by the graph", format_percent(base.explained_share), "plain"),
        ("Dependencies", base.dependencies, "ok" if base.dependencies == "recorded" else "warning"),
    ]
    return Html(card_style() + chips(facts), f"{format_ms(base.measured_ms)} a step, replayed within {format_percent(error)}")


#: An error of the replay below this is no reason to doubt an answer.
_SMALL_ERROR = 0.05


def assumptions(answers: WhatIf) -> Html:
    """All answers, with what each assumes and lacks, or why it was refused."""
    return Html(answers_list(answers.to_dict()["scenarios"]), repr(answers))


def pays_if(found: Sensitivity | None) -> Html:
    """What would have to be true for the change to pay."""
    if found is None or not found.pays_if:
        return Html("")
    return Html(
        f"<p><b>It pays if:</b></p><ul>{''.join(f'<li>{escape(text)}</li>' for text in found.pays_if)}</ul>", "; ".join(found.pays_if)
    )


def slowest_collectives(study: Study, rows: int = 20) -> Html:
    """The instances that moved data longest: which, in which step, who came last, and how long the others waited."""
    known = study.run.frame("collectives").filter(pl.col("transfer_ns").is_not_null())
    if not known.height:
        return Html('<p class="nl-fine">Transfer could not be told from waiting for any collective.</p>')
    first = pl.col("wait_ns") == pl.col("wait_ns").min()
    each = known.group_by("instance").agg(
        pl.col("op", "step", "bytes", "layer", "group").first(),
        (pl.col("transfer_ns").max() / 1e6).alias("transfer_ms"),
        (pl.col("wait_ns").max() / 1e6).alias("wait_ms"),
        pl.col("rank").filter(first).min().alias("last_rank"),
    )
    frame = each.sort("transfer_ms", "instance", descending=[True, False]).head(rows)
    frame = frame.with_columns(pl.Series("members", [members_text(group) for group in frame["group"]], dtype=pl.String))
    labels = {
        "op": "operation",
        "members": "ranks",
        "step": "step",
        "bytes": "size",
        "layer": "layer",
        "transfer_ms": "transfer (ms)",
        "wait_ms": "longest wait (ms)",
        "last_rank": "came last: rank",
    }
    return Html(table(frame, labels), f"{frame.height} collectives")


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
        return Missing("No ranks and steps to drag over", "The inputs mark no steps with device activity.", COMMANDS["activity"])
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
