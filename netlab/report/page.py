"""An executed notebook as one HTML file: charts drawn by a library inside the file, under a policy that lets nothing else run or load."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import mistune
from jinja2 import Environment

import netlab
from netlab.figures.mime import VEGA_MIME
from netlab.report.bundle import vega_bundle
from netlab.verdict.card import CARD_CSS

__all__ = ["page_html", "warm_up"]

_LEFT_OUT = {"parameters", "injected-parameters", "notebook-only"}
_MARKDOWN = mistune.create_markdown(escape=True, plugins=["table"])
_MISSING = re.compile(r'<(?:details|div) class="nl-missing"')
_FOLDED = 3
#: Style sheets that outputs bring for notebooks; the page has its own.
_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
_HEADING = re.compile(r"^(#{1,3}) +(.+?)\s*$")


def warm_up() -> None:
    """Make what every page needs, once a process."""
    vega_bundle()


def page_html(notebook: Any, title: str = "") -> str:
    """The whole page of an executed notebook.

    Parameters
    ----------
    notebook
        The notebook. Cells tagged ``notebook-only`` are left out.
    title
        Title of the page; by default its first heading.
    """
    blocks = list(_gathered(_joined(_blocks(notebook))))
    charts = any(block["kind"] == "chart" for block in blocks)
    bundle, script = vega_bundle() if charts else "", _part("page.js")
    entries = [block for block in blocks if block["kind"] == "heading" and block["level"] == 2]
    heading = next((block["text"] for block in blocks if block["kind"] == "heading"), "netlab report")
    return (
        Environment(autoescape=False)
        .from_string(_part("report.html.j2"))
        .render(
            version=netlab.__version__,
            title=title or heading,
            policy=_policy([text for text in (bundle, script) if text]),
            style=_part("page.css") + _part("sections.css") + CARD_CSS,
            entries=entries,
            blocks=blocks,
            charts=charts,
            bundle=bundle,
            script=script,
        )
    )


def _part(name: str) -> str:
    return (files("netlab.report") / "template" / name).read_text("utf-8")


def _policy(scripts: list[str]) -> str:
    """Only these very scripts may run, only styles of this page apply, only pictures inside it show, and nothing is fetched."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def _blocks(notebook: Any) -> Iterator[dict[str, Any]]:
    for cell in notebook.cells:
        tags = set(cell.metadata.get("tags", []))
        if tags & _LEFT_OUT:
            continue
        if cell.cell_type == "markdown":
            yield from _prose(cell.source)
        elif cell.cell_type == "code":
            for output in cell.outputs:
                block = _output(output)
                if block is not None:
                    yield block


def _prose(source: str) -> Iterator[dict[str, Any]]:
    """Headings become blocks of their own, so that the page can link to them."""
    lines: list[str] = []
    for line in [*source.splitlines(), "# "]:
        match = _HEADING.match(line)
        if not match and line != "# ":
            lines.append(line)
            continue
        if "".join(lines).strip():
            yield {"kind": "prose", "html": _MARKDOWN("\n".join(lines))}
        lines = []
        if match:
            yield {"kind": "heading", "level": len(match[1]), "text": match[2], "anchor": _anchor(match[2])}


def _output(output: Any) -> dict[str, Any] | None:
    if output.output_type == "error":
        return {"kind": "error", "text": f"{output.ename}: {output.evalue}"}
    if output.output_type == "stream":
        return {"kind": "text", "text": output.text} if output.text.strip() else None
    data = output.get("data", {})
    if VEGA_MIME in data:
        spec = dict(data[VEGA_MIME])
        spec.pop("background", None)
        spec["$schema"] = "https://vega.github.io/schema/vega/v6.json"  # the version inside the page; the notebook's is JupyterLab's
        name = (
            spec.get("usermeta", {}).get("netlab", {}).get("name") or f"chart-{hashlib.sha256(json.dumps(spec).encode()).hexdigest()[:8]}"
        )
        # "<" would let a name from a trace end the block.
        text = json.dumps(spec, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
        return {"kind": "chart", "anchor": name, "description": spec.get("description", "Chart"), "spec": text, "below": ""}
    if "text/html" in data:
        markup = _STYLE.sub("", data["text/html"])
        return {"kind": "html", "html": markup} if markup else None
    if "image/png" in data:
        return {"kind": "image", "data": data["image/png"].strip(), "description": data.get("text/plain", "Picture")}
    if "text/plain" in data:
        return {"kind": "text", "text": data["text/plain"]}
    return None


def _joined(blocks: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The table that follows a chart moves into its panel."""
    held: dict[str, Any] | None = None
    for block in blocks:
        if held is not None and block["kind"] == "html" and block["html"].startswith('<details class="nl-details"'):
            held["below"] = block["html"]
            yield held
            held = None
            continue
        if held is not None:
            yield held
            held = None
        if block["kind"] == "chart":
            held = block
        else:
            yield block
    if held is not None:
        yield held


def _gathered(blocks: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Three or more missing exhibits in a row fold into one line: a run of logs alone lacks most of them."""
    held: list[dict[str, Any]] = []
    for block in [*blocks, {"kind": "end"}]:
        if block["kind"] == "html" and _MISSING.match(block["html"]):
            held.append(block)
            continue
        if len(held) >= _FOLDED:
            names = "; ".join(match[1] for part in held if (match := re.search(r"<b>(.*?)\.</b>", part["html"])))
            inner = "".join(part["html"] for part in held)
            summary = f"<summary><b>{len(held)} charts need other inputs.</b> {names}</summary>"
            yield {"kind": "html", "html": f'<details class="nl-missing">{summary}{inner}</details>'}
        else:
            yield from held
        held = []
        if block["kind"] != "end":
            yield block


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"
