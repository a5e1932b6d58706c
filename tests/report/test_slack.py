"""The Slack message: of the form that Slack takes, within its limits, and nothing in it from inputs is markup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec

from netlab.report import slack_payload, write_slack
from netlab.verdict.model import Verdict
from netlab.verdict.rows import Breakdown
from tests.made_run import made_run


def _text(kind: str, most: int) -> dict[str, Any]:
    properties = {"type": {"const": kind}, "text": {"type": "string", "minLength": 1, "maxLength": most}, "emoji": {"type": "boolean"}}
    return {"type": "object", "properties": properties, "required": ["type", "text"], "additionalProperties": False}


def _block(kind: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"type": {"const": kind}, **properties},
        "required": ["type"],
        "additionalProperties": False,
        "minProperties": 1 + bool(properties),
    }


# From Slack's Block Kit reference: which blocks, which text objects in them, and how long they may be.
_SECTION_TEXT = {"oneOf": [_text("plain_text", 3_000), _text("mrkdwn", 3_000)]}
_FIELD = {"oneOf": [_text("plain_text", 2_000), _text("mrkdwn", 2_000)]}
MESSAGE = {
    "type": "object",
    "required": ["text", "blocks"],
    "additionalProperties": False,
    "properties": {
        "text": {"type": "string", "maxLength": 4_000},
        "blocks": {
            "type": "array",
            "minItems": 1,
            "maxItems": 50,
            "items": {
                "oneOf": [
                    _block("header", text=_text("plain_text", 150)),
                    _block("section", text=_SECTION_TEXT, fields={"type": "array", "minItems": 1, "maxItems": 10, "items": _FIELD}),
                    _block("context", elements={"type": "array", "minItems": 1, "maxItems": 10, "items": _SECTION_TEXT}),
                    _block("divider"),
                ]
            },
        },
    },
}


def _verdict(**changed: object) -> Verdict:
    return msgspec.structs.replace(made_run(ranks=4, steps=4, slow_rank=1).verdict, **changed)


def _texts(part: Any, kind: str) -> list[str]:
    if isinstance(part, list):
        return [text for item in part for text in _texts(item, kind)]
    if isinstance(part, dict):
        own = [part["text"]] if part.get("type") == kind else []
        return own + [text for item in part.values() for text in _texts(item, kind)]
    return []


def test_the_file_is_a_message_that_slack_takes(tmp_path: Path) -> None:
    write_slack(_verdict(), tmp_path / "slack.json", "reports/r/report.html")
    message = json.loads((tmp_path / "slack.json").read_text("utf-8"))
    jsonschema.validate(message, MESSAGE)
    assert message["blocks"][0]["type"] == "header"
    assert message["blocks"][-1]["elements"][0]["text"] == "report: reports/r/report.html"
    assert any("Rank 1" in text for text in _texts(message, "plain_text"))


def test_long_names_and_many_findings_stay_within_the_limits() -> None:
    verdict = _verdict(headline="h" * 9_000)
    verdict = msgspec.structs.replace(verdict, run=msgspec.structs.replace(verdict.run, name="n" * 900), findings=verdict.findings * 40)
    message = slack_payload(verdict)
    jsonschema.validate(message, MESSAGE)
    assert "35 more findings" in message["blocks"][-1]["elements"][0]["text"]


def test_nothing_from_inputs_is_markup_or_a_mention() -> None:
    verdict = _verdict(headline="<!channel> *bold* & more")
    message = slack_payload(verdict)
    assert "<!channel> *bold* & more" in _texts(message, "plain_text")
    assert not [text for text in _texts(message, "mrkdwn") if "channel" in text]
    assert "&lt;!channel&gt; *bold* &amp; more" in message["text"]


def test_a_verdict_that_knows_nothing_is_a_message_too() -> None:
    message = slack_payload(_verdict(totals=Breakdown(), findings=[], headline=""), failure="its kernel died.")
    jsonschema.validate(message, MESSAGE)
    assert message["blocks"][1]["text"]["text"] == "The report could not be made whole: its kernel died."
