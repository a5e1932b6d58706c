"""The page as text: nothing from elsewhere, only its own two scripts may run, names from traces stay text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import msgspec
import nbformat
import polars as pl
import pytest

from netlab.report.exporter import ReportExporter
from netlab.report.markup import table
from netlab.report.page import page_html
from netlab.report.panels import Exhibit
from netlab.verdict.card import card_html
from tests.made_run import made_run
from tests.report.conftest import Report


class _Page(HTMLParser):
    """Scripts, identifiers and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self._open: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        if tag == "script":
            self._open = found
            self.scripts.append((found, ""))

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.scripts[-1] = (self._open, self.scripts[-1][1] + data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._open = None


def test_only_the_scripts_that_the_policy_names_may_run(made_report: Report) -> None:
    page = made_report.page
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert "unsafe-eval" not in policy[1]
    assert "script-src 'sha256-" in policy[1]
    assert "unsafe-inline" not in policy[1].split("script-src")[1].split(";")[0]
    running = [text for attrs, text in _Page(page).scripts if attrs.get("type") != "application/json"]
    hashes = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in running}
    assert hashes == set(re.findall(r"'sha256-([^']+)'", policy[1]))
    assert len(running) == 2


def test_page_refers_to_nothing_outside(made_report: Report) -> None:
    page = made_report.page
    assert not re.search(r"cdn\.jsdelivr|unpkg\.com|https?://cdn|require\.min\.js|cdnjs", page)
    assert not re.search(r"<script[^>]+src=|<link\b|<img[^>]+src=[\"']https?:|@import|url\([\"']?https?:", page)
    assert all(link.startswith("#") for link in _Page(page).links)


def test_library_is_inside_once(made_report: Report) -> None:
    assert made_report.page.count("vega-embed") < 40
    large = [text for _, text in _Page(made_report.page).scripts if len(text) > 500_000]
    assert len(large) == 1


def test_anchors_are_unique_and_every_link_has_its_target(made_report: Report) -> None:
    page = _Page(made_report.page)
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


def test_order_of_the_page_is_verdict_quality_evidence_what_if_actions_provenance(made_report: Report) -> None:
    marks = ["nl-headline", 'id="data-quality"', 'id="evidence"', 'id="attribution"', 'id="what-if-', 'id="actions"', 'id="provenance"']
    body = made_report.page[made_report.page.index("<main") :]
    places = [body.find(mark) for mark in marks if mark != 'id="what-if-']
    assert places == sorted(places)
    assert -1 not in places


def test_name_of_a_run_stays_text(made_report: Report) -> None:
    assert "<script>alert(1)" not in made_report.page
    assert "&lt;script&gt;alert(1)" in made_report.page


def test_every_chart_has_a_description_and_its_data(made_report: Report) -> None:
    specs = [json.loads(text) for attrs, text in _Page(made_report.page).scripts if attrs.get("type") == "application/json"]
    assert len(specs) >= 8
    assert all(len(spec["description"]) > 40 for spec in specs)
    assert made_report.page.count("Data of this chart") >= len(specs)


def test_every_chart_names_the_rows_that_it_was_made_of(made_report: Report) -> None:
    figures = re.findall(r"<figure .*?</figure>", made_report.page, re.DOTALL)
    assert len(figures) >= 8
    for figure in figures:
        named = re.search(r"(?:Rows behind it in|; all in) (?:tables/(\w+)\.parquet|verdict\.json)\.</p>", figure)
        assert named, figure[:200]
        assert named[1] is None or (made_report.folder / "tables" / f"{named[1]}.parquet").is_file()


def test_end_of_script_in_a_name_does_not_end_the_block() -> None:
    spec = {"description": "</script><script>alert(1)</script>", "marks": [], "usermeta": {"netlab": {"name": "x"}}}
    output = nbformat.v4.new_output("display_data", data={"application/vnd.vega.v5+json": spec})
    page = page_html(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=[output])]))
    texts = [text for attrs, text in _Page(page).scripts if attrs.get("type") == "application/json"]
    assert json.loads(texts[0])["description"] == "</script><script>alert(1)</script>"
    assert len(_Page(page).scripts) == 3


def test_exporter_works_from_nbconvert_and_leaves_code_and_parameters_out() -> None:
    cells = [
        nbformat.v4.new_markdown_cell("# Title\n\ntext\n\n## Part *one*\n\nmore"),
        nbformat.v4.new_code_cell("secret = 1", outputs=[nbformat.v4.new_output("stream", text="a < b")]),
        nbformat.v4.new_code_cell("run = 1", metadata={"tags": ["parameters"]}, outputs=[nbformat.v4.new_output("stream", text="hidden")]),
        nbformat.v4.new_code_cell(
            "1 / 0", outputs=[nbformat.v4.new_output("error", ename="ZeroDivisionError", evalue="<b>", traceback=[])]
        ),
    ]
    page, resources = ReportExporter().from_notebook_node(nbformat.v4.new_notebook(cells=cells))
    assert resources["output_extension"] == ".html"
    assert "secret" not in page
    assert "hidden" not in page
    assert "a &lt; b" in page
    assert "ZeroDivisionError: &lt;b&gt;" in page
    assert 'id="part-one"' in page


def test_table_escapes_shortens_and_says_so() -> None:
    frame = pl.DataFrame({"name": ["<i>"] * 5, "network_share": [0.25, None, 0.5, 0.5, 0.5], "bytes": [1_000_000] * 5})
    text = table(frame, rows=2, whole="tables/x.parquet")
    assert "&lt;i&gt;" in text
    assert "<i>" not in text
    assert "25.0 %" in text
    assert "1 MB" in text
    assert "First 2 of 5 rows; all in tables/x.parquet." in text


@pytest.mark.parametrize("status", ["pass", "warn", "flagged", "inconclusive"])
def test_card_says_its_status_in_words(status: str) -> None:
    import msgspec

    verdict = msgspec.structs.replace(made_run(ranks=2, steps=2, slow_rank=1).verdict, status=status, headline="A <b> headline")
    card = card_html(verdict)
    assert {"pass": "Pass", "warn": "Warning", "flagged": "Flagged", "inconclusive": "Inconclusive"}[status] in card
    assert "A &lt;b&gt; headline" in card
    assert "limit 25 %" in card


def test_card_says_to_repair_the_link_that_holds_the_waited_for_ranks_up() -> None:
    import msgspec

    verdict = msgspec.structs.replace(made_run(ranks=2, steps=2, slow_rank=1).verdict, cause="fabric")
    slow = verdict.findings[0]
    link = msgspec.structs.replace(slow, action="Replace the cable.", evidence=[{"port": "leaf1/swp2", "localisation": "localised"}])
    both = msgspec.structs.replace(verdict, findings=[slow, link])
    assert "<b>Do next:</b> Replace the cable." in card_html(both)
    assert "<b>Do next:</b> Replace the cable." not in card_html(msgspec.structs.replace(both, cause="straggler"))


def test_many_missing_charts_fold_into_one_line() -> None:
    from netlab.report.panels import Missing

    outputs = [nbformat.v4.new_output("display_data", data={"text/html": Missing(f"No {n}", "Because.")._repr_html_()}) for n in "abcd"]
    cells = [nbformat.v4.new_code_cell("x", outputs=[output]) for output in outputs]
    assert "4 charts need other inputs.</b> No a; No b; No c; No d" in page_html(nbformat.v4.new_notebook(cells=cells))
    assert "charts need other inputs" not in page_html(nbformat.v4.new_notebook(cells=cells[:2]))


def test_a_chart_that_is_too_large_gives_way_to_its_data() -> None:
    shown: list[dict[str, str]] = []
    chart = {"mark": "point", "data": {"values": [{"x": number} for number in range(30_000)]}, "encoding": {"x": {"field": "x"}}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
        Exhibit(chart, pl.DataFrame({"x": [1]}), {"x": "x"})._ipython_display_()
    assert len(shown) == 1
    assert "No chart, only its data: A chart has 30,000 rows" in shown[0]["text/html"]


def test_findings_show_themselves_and_are_one_line_elsewhere() -> None:
    finding = made_run().verdict.findings[0]
    shown = msgspec.structs.replace(finding, title="leaf <1> drops", time_lost_ms=3.0)
    assert "leaf &lt;1&gt; drops" in shown._repr_html_()
    assert repr(shown) == f"<{finding.id} {finding.severity}: leaf <1> drops, up to 3 ms a step. Do next: {finding.action}>"


def test_card_says_where_the_run_ran() -> None:
    verdict = made_run().verdict
    there = msgspec.structs.replace(verdict, run=msgspec.structs.replace(verdict.run, cluster="h100 <a>"))
    assert "made on h100 &lt;a&gt; · " in card_html(there)
    assert "made · " in card_html(verdict)
