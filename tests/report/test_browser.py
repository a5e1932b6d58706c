"""The page in a real browser: offline, under its policy, drawn, silent, and no wider than its window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.conftest import Report

pytestmark = pytest.mark.browser

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_DRAWN = "document.documentElement.dataset.charts === document.documentElement.dataset.drawn"


def _browser_path() -> str | None:
    for name in (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"):
        if name and shutil.which(name):
            return shutil.which(name)
    return None


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed (extra dev)")
    path = _browser_path()
    if path is None:
        pytest.skip("no Chromium is installed; on Debian: apt install chromium fonts-inter")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=_FLAGS)
        yield opened
        opened.close()


class _Opened:
    """A page that was opened without a network, and what it said and asked for."""

    def __init__(self, browser: Any, page: Path, width: int = 1_000, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(page.as_uri())
        self.page.wait_for_function(_DRAWN, timeout=30_000)


@pytest.fixture
def opened(browser: Any, made_report: Report) -> Iterator[_Opened]:
    held = _Opened(browser, made_report.folder / "report.html")
    yield held
    held.context.close()


def test_every_chart_is_drawn_and_the_console_is_silent(opened: _Opened) -> None:
    assert int(opened.page.evaluate("document.documentElement.dataset.charts")) >= 8
    assert opened.page.locator(".nl-chart svg").count() == opened.page.locator(".nl-chart").count()
    assert opened.said == []


def test_page_asks_for_nothing_but_itself(opened: _Opened) -> None:
    assert [url for url in opened.asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert len(opened.asked) == 1


@pytest.mark.parametrize("width", [700, 1_000, 1_440])
def test_nothing_is_wider_than_the_window(browser: Any, made_report: Report, width: int) -> None:
    held = _Opened(browser, made_report.folder / "report.html", width)
    held.page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert held.page.evaluate("document.documentElement.scrollWidth") <= width
    held.context.close()


def test_policy_lets_no_other_script_run(opened: _Opened) -> None:
    opened.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.broken = 1'; document.body.append(s); }"
    )
    assert opened.page.evaluate("window.broken === undefined")


def test_hovering_a_bar_shows_its_numbers(opened: _Opened) -> None:
    bar = opened.page.locator("#attribution-chart .mark-rect path").first
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=5)
    tip = opened.page.locator("#vg-tooltip-element")
    tip.wait_for(state="visible", timeout=5_000)
    assert "share of the step" in tip.inner_text()


def test_button_changes_the_dress_and_charts_follow(opened: _Opened) -> None:
    colour = "getComputedStyle(document.querySelector('#attribution-chart .role-title-text text')).fill"
    light = opened.page.evaluate(colour)
    opened.page.click("#nl-theme")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert opened.page.evaluate(colour) != light


def test_dark_preference_is_kept(browser: Any, made_report: Report) -> None:
    held = _Opened(browser, made_report.folder / "report.html", scheme="dark")
    assert held.page.evaluate("document.documentElement.dataset.theme") == "dark"
    held.context.close()


def test_page_can_be_read_by_keyboard_and_screen_reader(opened: _Opened) -> None:
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement.className") == "nl-skip"
    labels = opened.page.eval_on_selector_all(".nl-chart", "parts => parts.map(part => part.getAttribute('aria-label'))")
    assert all(label and len(label) > 40 for label in labels)
    assert opened.page.locator("h1").count() == 1


def test_page_prints_light_and_with_its_charts(browser: Any, made_report: Report) -> None:
    held = _Opened(browser, made_report.folder / "report.html", scheme="dark")
    held.page.emulate_media(media="print")
    assert held.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert held.page.pdf(format="A4").startswith(b"%PDF")
    held.context.close()
