"""The page that stands where a report should be when the notebook failed."""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files
from typing import Any

from netlab.verdict.card import CARD_CSS, card_html
from netlab.verdict.model import Verdict

__all__ = ["failure_page"]

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def failure_page(verdict: Verdict | None, failure: str, notebook: Any, name: str = "") -> str:
    """The verdict, what failed, and the traceback; no script, no request.

    Parameters
    ----------
    verdict
        The verdict, where one was reached before the notebook ran.
    failure
        One sentence about what failed.
    notebook
        The executed notebook as far as it came.
    name
        What the page would have been about; by default the run of the verdict.
    """
    template = files("netlab.report") / "template"
    style = "".join((template / name).read_text("utf-8") for name in ("page.css", "sections.css")) + CARD_CSS
    traceback = "\n".join(
        _ANSI.sub("", "\n".join(output.get("traceback", [])))
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    )
    shown = f'<details class="nl-details"><summary>Traceback</summary><pre>{escape(traceback)}</pre></details>' if traceback else ""
    about = name or (verdict.run.name if verdict is not None else "the notebook")
    whole = (
        "<p>The analysis itself is whole: see the verdict below, verdict.json, summary.md and tables/.</p>"
        if verdict is not None
        else "<p>The notebook as far as it came is report.ipynb, beside this page.</p>"
    )
    verdict_card = card_html(verdict, style=False) if verdict is not None else ""
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>The report failed</title>'
        f"<style>{style}</style></head><body><main>"
        f"<h1>The report of {escape(about)} could not be made</h1>"
        '<div class="nl-box nl-error" role="alert"><p class="nl-box-title">The notebook failed</p>'
        f"<p>{escape(failure[:1].upper() + failure[1:])}</p>"
        f"{whole}</div>{verdict_card}{shown}</main></body></html>\n"
    )
