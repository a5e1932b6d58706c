"""A report of many ranks and steps: how large is the page, and how long does it take to open?

    python -m benchmarks.large_report [--ranks 1024] [--steps 200]

The timeline is made as tables (tests/made_run.py): this measures notebook and page, not the readers.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from netlab.report import write_report
from tests.made_run import made_run

_DRAWN = "document.documentElement.dataset.charts === document.documentElement.dataset.drawn"


def opened_s(page: Path) -> float | None:
    """Seconds from asking for the page until its last chart is drawn, in a browser that runs; None without one."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    if path is None:
        return None
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        view = browser.new_context(offline=True).new_page()
        begin = time.perf_counter()
        view.goto(page.as_uri())
        view.wait_for_function(_DRAWN, timeout=60_000)
        took = time.perf_counter() - begin
        browser.close()
    return took


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1_024)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    made = made_run(ranks=options.ranks, steps=options.steps, slow_rank=options.ranks // 2)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        page = write_report(made.run, made.verdict, Path(folder) / "r", {"run": "made"}) / "report.html"
        took = time.perf_counter() - begin
        opened = opened_s(page)
        shown = "no browser" if opened is None else f"opens in {opened:.1f} s"
        print(f"{options.ranks} ranks x {options.steps} steps: written in {took:.0f} s, {page.stat().st_size / 1e6:.2f} MB, {shown}")


if __name__ == "__main__":
    main()
