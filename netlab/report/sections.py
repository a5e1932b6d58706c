"""Sections of the page that are words and tables: card, data quality, findings, what-if, provenance."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

import polars as pl

from netlab.figures.frames import members_text, rows_frame
from netlab.report.markup import Html, box, chips, details, table
from netlab.report.study import Study
from netlab.units import format_ms, format_percent, plural
from netlab.verdict.card import CARD_CSS, card_html
from netlab.verdict.model import FindingRow
from netlab.verdict.rows import SourceRow

__all__ = ["answers_list", "card", "card_style", "data_quality", "findings", "provenance", "what_if"]

_SEVERITIES = {"critical": "Critical", "error": "Error", "warning": "Warning", "info": "Note"}
_PACKAGES = ("netlab", "polars", "numpy", "numba", "altair", "vl-convert-python", "papermill", "nbconvert")


def card(study: Study) -> Html:
    """The verdict card. It brings the style of all sections with it, for notebooks; a page has it already."""
    broken_down = "table <code>breakdown</code>, " if study.run.manifest.tables.get("breakdown") else ""
    behind = f'<p class="nl-note">Rows behind these figures: {broken_down}totals of the verdict. Every chart names its own.</p>'
    return Html(card_style() + card_html(study.verdict, style=False) + behind, study.verdict.headline)


def card_style() -> str:
    """Style of a card and all sections for notebooks."""
    template = files("netlab.report") / "template"
    style = "".join((template / name).read_text("utf-8") for name in ("notebook.css", "sections.css"))
    return f"<style>{style}{CARD_CSS}</style>"


def data_quality(study: Study) -> Html:
    """What was read, what is missing, and every doubt, before any evidence."""
    verdict = study.verdict
    run, clock = verdict.run, verdict.clock
    foreign = [source for source in run.sources if source.status == "rejected" and (source.message or "").startswith("UNKNOWN_FORMAT")]
    broken = [source for source in run.sources if source.status != "ok" and source not in foreign]
    read = len(run.sources) - len(foreign) - sum(source.status == "rejected" for source in broken)
    files = f"{read:,} read" + (f", {len(foreign)} not ours" if foreign else "") + (f", {len(broken)} damaged" if broken else "")
    world = run.world_size if run.world_size is not None else "?"
    facts = [
        ("Files", files, "error" if broken else "ok"),
        ("Ranks", f"{len(run.ranks)} of {world}", "warning" if run.missing_ranks else "ok" if run.ranks else "plain"),
        ("Steps", _steps_text(study), _steps_kind(study)),
        ("Clock error", _clock_text(study), "ok" if clock.max_error_ms is not None and clock.max_error_ms < 0.1 else "plain"),
        ("Wait and transfer", verdict.split or "–", "ok" if verdict.split == "measured" else "warning" if verdict.split else "plain"),
    ]
    parts = [chips(facts)]
    if run.missing_ranks:
        sentence = f"Without rank {members_text(run.missing_ranks)}, waiting for a late rank cannot be told from transfer for sure."
        parts.append(
            box(
                "Ranks are missing",
                [sentence],
                kind="warning",
                command="Profile every rank, or at least one of each host, and give the folder that holds all traces.",
            )
        )
    if run.window == "capture" and verdict.totals.comm_share is not None:
        parts.append(
            box(
                "No step marks",
                ["Figures are over the whole capture."],
                kind="warning",
                command="prof.step()    # once per iteration, or netlab.capture(DIR)",
            )
        )
    parts.append(_issues(study))
    if run.excluded_steps:
        excluded = rows_frame(run.excluded_steps)
        parts.append(
            details(
                f"{plural(excluded.height, 'rank and step')} kept out of the figures",
                table(excluded, {"rank": "rank", "step": "step", "reason": "why"}),
            )
        )
    sources = rows_frame(run.sources, SourceRow)
    labels = {
        "path": "file",
        "reader": "read as",
        "status": "status",
        "rows": "rows",
        "lines_unparsed": "lines skipped",
        "message": "message",
    }
    parts.append(details(f"Input files ({sources.height})", table(sources.sort(pl.col("status") == "ok"), labels), opened=bool(broken)))
    return Html("".join(parts))


def _steps_kind(study: Study) -> str:
    if study.verdict.totals.comm_share is None:
        return "plain"
    return "warning" if study.verdict.run.excluded_steps or study.verdict.run.window == "capture" else "ok"


def _steps_text(study: Study) -> str:
    run = study.verdict.run
    if run.window == "capture":
        return "whole capture" if study.verdict.totals.comm_share is not None else "none"
    return f"{len(run.steps)}" + (f", {len({(row.rank, row.step) for row in run.excluded_steps})} kept out" if run.excluded_steps else "")


def _clock_text(study: Study) -> str:
    clock = study.verdict.clock
    if not study.verdict.run.ranks:
        return "–"
    if len(study.verdict.run.ranks) == 1:
        return "one rank"
    return format_ms(clock.max_error_ms) if clock.max_error_ms is not None else "not known" if clock.aligned else "not aligned"


def _issues(study: Study) -> str:
    """Issues by code, the severe ones first and open."""
    issues = study.verdict.issues
    if not issues:
        return '<p class="nl-fine">Nothing was skipped, repaired or assumed.</p>'
    rank = {severity: number for number, severity in enumerate(_SEVERITIES)}
    by_code: dict[tuple[int, str], list[str]] = {}
    for issue in issues:
        by_code.setdefault((rank.get(issue.severity, 9), issue.code), []).append(issue.message)
    rows = []
    for (severity, code), messages in sorted(by_code.items()):
        word = list(_SEVERITIES.values())[severity] if severity < len(_SEVERITIES) else "Note"
        kind = list(_SEVERITIES)[severity] if severity < len(_SEVERITIES) else "info"
        unique = list(dict.fromkeys(messages))
        shown = "".join(f"<li>{escape(message)}</li>" for message in unique[:4])
        more = f"<li>and {len(unique) - 4:,} more, all in tables/issues.parquet</li>" if len(unique) > 4 else ""
        rows.append(
            f'<li class="nl-issue"><span class="nl-tag nl-tag-{kind}">{word}</span> <code>{escape(code)}</code>'
            f"{f' ×{len(messages):,}' if len(messages) > 1 else ''}<ul>{shown}{more}</ul></li>"
        )
    counts = Counter(issue.severity for issue in issues)
    summary = "Doubts about the data: " + ", ".join(plural(counts[s], _SEVERITIES[s].lower()) for s in _SEVERITIES if counts[s])
    return details(
        summary,
        f'<ul class="nl-issues">{"".join(rows)}</ul>',
        opened=bool(counts["error"] or counts["warning"] or counts["critical"]),
        anchor="issues",
    )


def findings(study: Study) -> Html:
    """What to do: findings ranked by the time they cost, each with its evidence and next action."""
    rows = study.verdict.findings
    if not rows:
        return Html('<p class="nl-fine">No finding: nothing in these inputs calls for action.</p>')
    return Html(f'<ol class="nl-findings">{"".join(_finding(row) for row in rows)}</ol>')


def _finding(row: FindingRow) -> str:
    word = _SEVERITIES.get(row.severity, row.severity)
    lost = (
        f'<span class="nl-lost">up to {escape(format_ms(row.time_lost_ms))} a step</span>'
        if row.time_lost_ms is not None
        else '<span class="nl-lost nl-null">cost unknown</span>'
    )
    subject = _subject(row)
    evidence = details(f"Evidence ({plural(len(row.evidence), 'row')})", _evidence(row)) if row.evidence else ""
    return (
        f'<li class="nl-finding nl-sev-{escape(row.severity)}" id="{escape(row.id)}">'
        f'<p class="nl-finding-head"><span class="nl-tag nl-tag-{escape(row.severity)}">{escape(word)}</span>'
        f"<b>{escape(row.title)}</b>{lost}</p><p>{escape(row.detail)}</p>{subject}"
        f'<p class="nl-action"><b>Do next</b> {escape(row.action)}</p>{evidence}'
        f'<p class="nl-note"><a href="#{escape(row.id)}">{escape(row.id)}</a> · {escape(row.source)}</p></li>'
    )


def _subject(row: FindingRow) -> str:
    subject = row.subject
    texts = [
        ("hosts", ", ".join(subject.hosts[:12])),
        ("ranks", members_text(subject.ranks) if subject.ranks else ""),
        ("ports", ", ".join(subject.ports[:12])),
        ("groups", "; ".join(members_text(group) if _is_members(group) else group for group in subject.groups[:6])),
        ("steps", members_text(subject.steps, noun="step") if subject.steps else ""),
    ]
    pairs = "".join(f"<div><dt>{label}</dt><dd>{escape(text)}</dd></div>" for label, text in texts if text)
    return f'<dl class="nl-subject">{pairs}</dl>' if pairs else ""


def _is_members(group: str) -> bool:
    return bool(group) and all(part.strip().isdigit() for part in group.split(","))


def _evidence(row: FindingRow) -> str:
    frame = pl.DataFrame([_flat(item) for item in row.evidence], infer_schema_length=None, strict=False)
    return table(frame, rows=40)


def _flat(item: dict[str, object]) -> dict[str, object]:
    """Nested values as text, so that rows of unlike shape make one table."""
    return {key: value if isinstance(value, int | float | str | bool | None) else str(value) for key, value in item.items()}


def what_if(study: Study) -> Html:
    """All answers with what they assume and lack, those that were refused too; nothing if no scenario was asked."""
    answers = study.verdict.what_if
    if not answers:
        return Html("")
    return Html(details(f"All answers ({len(answers)}) with assumptions", answers_list(answers)))


def answers_list(answers: Sequence[Mapping[str, Any]]) -> str:
    """What-if answers, each with what it assumes and lacks, or why it was refused."""
    return f'<div class="nl-answers">{"".join(map(_answer, answers))}</div>'


def _answer(answer: Mapping[str, Any]) -> str:
    lacks = "".join(f"<li>Missing: {escape(text)}</li>" for text in answer.get("inputs_missing") or [])
    if answer.get("refused"):
        told, lines = "refused", f"<li>{escape(str(answer['refused']))}</li>{lacks}"
    else:
        low, high = answer.get("interval95_ms") or (None, None)
        between = "" if low is None else f" ({format_ms(low)} to {format_ms(high)})"
        faster = "" if answer.get("speedup") is None else f", {answer['speedup']:.2f} times as fast"
        share = "" if answer.get("network_share") is None else f", network {format_percent(answer['network_share'])}"
        told = f"{format_ms(answer.get('predicted_ms'))}{between}{faster}{share}; {answer.get('confidence') or 'confidence unknown'}"
        lines = "".join(f"<li>{escape(text)}</li>" for text in answer.get("assumptions") or []) + lacks
    body = f"<ul>{lines}</ul>" if lines else ""
    return f"<div><p><b>{escape(answer['name'])}</b> {escape(told)}</p>{body}</div>"


def provenance(study: Study) -> Html:
    """Versions, parameters and hashes: what is needed to make this report again."""
    verdict = study.verdict
    made = [("made", verdict.created_at), ("schema", verdict.schema), ("Python", platform.python_version()), *_versions(_PACKAGES)]
    parameters = [(f"parameter {name}", str(value)) for name, value in study.parameters.items()]
    lines = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in [*parameters, *made])
    hashes = rows_frame(verdict.run.sources, SourceRow)
    files = details("Hashes of the inputs (SHA-256)", table(hashes, {"path": "file", "sha256": "sha256"})) if hashes.height else ""
    tables = pl.DataFrame(
        {"table": study.run.tables, "rows": [study.run.manifest.tables[name] for name in study.run.tables]},
        schema={"table": pl.String, "rows": pl.Int64},
    )
    held = details(f"Tables beside this report ({tables.height})", table(tables)) if tables.height else ""
    return Html(f'<dl class="nl-facts">{lines}</dl>{files}{held}')


def _versions(names: Iterable[str]) -> list[tuple[str, str]]:
    found = []
    for name in names:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return found
