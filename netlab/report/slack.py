"""The verdict as a Slack message in a file. Sending it is left to curl: netlab itself talks to nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from netlab.export.files import write_text
from netlab.units import format_ms, format_percent
from netlab.verdict.card import STATUS_WORDS
from netlab.verdict.model import FindingRow, Verdict

__all__ = ["slack_payload", "write_slack"]

# Limits of Slack's Block Kit reference (docs.slack.dev/reference/block-kit/blocks): longer texts make Slack refuse the whole message.
_HEADER_CHARACTERS, _SECTION_CHARACTERS = 150, 3_000
_FINDINGS = 5


def slack_payload(verdict: Verdict, report: str = "report.html", failure: str | None = None) -> dict[str, Any]:
    """A Block Kit message for an incoming webhook or ``chat.postMessage``.

    Everything that comes from inputs stands in plain text objects, in which Slack reads neither markup nor mentions.

    Parameters
    ----------
    verdict
        The verdict.
    report
        Where the report lies.
    failure
        What failed, if the report could not be made whole.
    """
    totals, run = verdict.totals, verdict.run
    sign, word = STATUS_WORDS.get(verdict.status, ("?", verdict.status))
    title = f"{sign} {word}: {run.label}"
    fields = {
        f"Network share (limit {format_percent(verdict.threshold)})": format_percent(totals.network_share),
        "Wait share": format_percent(totals.wait_share),
        "Step": format_ms(totals.iteration_ms),
        "Ranks": f"{len(run.ranks)} of {run.world_size if run.world_size is not None else '?'}",
    }
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(title, _HEADER_CHARACTERS)},
        {"type": "section", "text": _plain(verdict.headline)},
        {"type": "section", "fields": [{"type": "mrkdwn", "text": f"*{name}*\n{value}"} for name, value in fields.items()]},
    ]
    if failure is not None:
        blocks.insert(1, {"type": "section", "text": _plain(f"The report could not be made whole: {failure}")})
    shown = verdict.findings[:_FINDINGS]
    if shown:
        blocks.append({"type": "divider"})
        blocks += [{"type": "section", "text": _plain(_finding(number, row))} for number, row in enumerate(shown, 1)]
    more = len(verdict.findings) - len(shown)
    last = [f"{more} more finding{'' if more == 1 else 's'}"] if more else []
    blocks.append({"type": "context", "elements": [_plain(", ".join([*last, f"report: {report}"]))]})
    return {"text": _escaped(f"{title}. {verdict.headline}")[:_SECTION_CHARACTERS], "blocks": blocks}


def _finding(number: int, row: FindingRow) -> str:
    lost = f" (up to {format_ms(row.time_lost_ms)} a step)" if row.time_lost_ms is not None else ""
    return f"{number}. {row.severity}: {row.title.removesuffix('.')}{lost}.\nDo next: {row.action}"


def _plain(text: str, most: int = _SECTION_CHARACTERS) -> dict[str, Any]:
    text = text or "-"
    return {"type": "plain_text", "text": text if len(text) <= most else text[: most - 1] + "…", "emoji": False}


def _escaped(text: str) -> str:
    """The three signs that Slack asks to escape in the text of notifications."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def write_slack(verdict: Verdict, path: Path, report: str = "report.html", failure: str | None = None) -> None:
    """Write ``slack_payload`` to a file, whole or not at all."""
    write_text(path, json.dumps(slack_payload(verdict, report, failure), ensure_ascii=False, indent=1) + "\n")
