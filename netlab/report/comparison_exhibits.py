"""What a post-mortem shows: the change of the step, and steps, ranks and collectives of two runs side by side."""

from __future__ import annotations

from html import escape

import msgspec
import polars as pl

from netlab import figures
from netlab.report.markup import Html, box, details, table
from netlab.report.panels import Exhibit, Missing
from netlab.report.study import Study

__all__ = ["COMPARISON_EXHIBITS", "changes", "comparable"]

_RECORD_BOTH = "Record both runs alike: every rank, with step marks. netlab doctor PATH says what a run lacks."


def _comparison(study: Study) -> Exhibit | Missing | None:
    compare = study.verdict.compare
    if compare is None:
        return None
    changes = figures.changes_frame(msgspec.to_builtins(compare.delta_ms))
    chart = figures.change_of_parts(
        changes, compare.base, significant=compare.significant, cause=compare.cause, share_of_delta=compare.share_of_delta
    )
    return Exhibit(
        chart if changes.height else None,
        changes,
        {"part": "part", "ms": "change (ms)"},
        "verdict.json",
        "The step's parts cannot be compared",
    )


def _steps(study: Study) -> Exhibit | Missing | None:
    compare = study.verdict.compare
    if compare is None:
        return None
    compared = study.run.frame("compared_steps")
    if not compared.height:
        return Missing("Steps do not stand side by side", "One of the runs has no step marks.", _RECORD_BOTH)
    frame = figures.steps_beside_frame(compared)
    labels = {
        "base_step": "step, good run",
        "run_step": "step, slow run",
        "part": "part",
        "base_ms": "good run (ms)",
        "run_ms": "slow run (ms)",
        "change_ms": "change (ms)",
    }
    return Exhibit(figures.steps_beside(frame, compare.since_step), frame, labels, "tables/compared_steps.parquet")


def _ranks(study: Study) -> Exhibit | Missing | None:
    if study.verdict.compare is None:
        return None
    frame = figures.ranks_beside_frame(study.run.frame("compared_ranks"))
    if not frame.filter(pl.col("change_ms").is_not_null()).height:
        return Missing("Ranks do not stand side by side", "One of the runs has no device activity.", _RECORD_BOTH)
    labels = {"rank": "rank", "part": "part", "base_ms": "good run (ms)", "run_ms": "slow run (ms)", "change_ms": "change (ms)"}
    return Exhibit(figures.ranks_beside(frame), frame, labels, "tables/compared_ranks.parquet")


def _collectives(study: Study) -> Exhibit | Missing | None:
    if study.verdict.compare is None:
        return None
    frame = figures.collectives_beside_frame(study.run.frame("compared_collectives"))
    if not frame.height:
        sentence = "Transfer and waiting of collectives are not known in either run."
        return Missing("Collectives do not stand side by side", sentence, _RECORD_BOTH)
    labels = {
        "kind": "collective",
        "base_count": "in a step, good run",
        "run_count": "slow run",
        "base_bytes": "size (B), good run",
        "run_bytes": "slow run",
        "base_transfer_ms": "transfer (ms), good run",
        "run_transfer_ms": "slow run",
        "base_wait_ms": "wait (ms), good run",
        "run_wait_ms": "slow run",
        "change_ms": "change (ms)",
    }
    return Exhibit(figures.collectives_beside(frame), frame, labels, "tables/compared_collectives.parquet")


#: In the order of the report; nothing where no comparison was asked for.
COMPARISON_EXHIBITS = {
    "comparison": _comparison,
    "compared-steps": _steps,
    "compared-collectives": _collectives,
    "compared-ranks": _ranks,
}


def changes(study: Study) -> Html:
    """Everything that differs between the two runs, the one that costs most first, and what can explain it."""
    frame = study.run.frame("compared_changes")
    if not frame.height:
        return Html('<p class="nl-fine">Nothing differs that the inputs of both runs show.</p>')
    reasons = frame.filter(pl.col("area").is_in(["configuration", "links"]))
    costs = frame.join(reasons, on=["area", "what"], how="anti").with_columns(change_ms=pl.col("delta_ns") / 1e6)
    costs = costs.sort(pl.col("change_ms").abs(), "area", "what", descending=[True, False, False], nulls_last=True)
    labels = {"area": "area", "what": "what", "base": "good run", "run": "slow run", "change_ms": "change (ms)"}
    text = table(costs, labels, whole="tables/compared_changes.parquet")
    if not reasons.height:
        return Html(text + '<p class="nl-fine">No difference of configuration or links was found that could explain it.</p>')
    reasons = reasons.with_columns(change_ms=pl.col("delta_ns") / 1e6).sort(
        pl.col("explains"), pl.col("change_ms").abs(), "what", descending=[True, True, False], nulls_last=True
    )
    labels = {"area": "area", "what": "what", "base": "good run", "run": "slow run", "change_ms": "cost (ms)", "explains": "can explain it"}
    return Html(f"{text}<h3>What can explain it</h3>{table(reasons, labels)}")


def comparable(study: Study) -> Html:
    """What could be compared, what could not, and what to record for it."""
    frame = study.run.frame("compared_scope")
    lacks = frame.filter(~pl.col("comparable"))
    boxes = "".join(
        box(f"Not compared: {row['aspect']}", [row["says"]], kind="warning", command=row["action"] or "")
        for row in lacks.iter_rows(named=True)
    )
    rest = frame.filter(pl.col("comparable"))
    lines = "".join(f"<div><dt>{escape(row['aspect'])}</dt><dd>{escape(row['says'])}</dd></div>" for row in rest.iter_rows(named=True))
    compared = f'<dl class="nl-facts">{lines}</dl>' if lines else ""
    return Html(compared + (details(f"Not compared ({lacks.height})", boxes) if boxes else ""))
