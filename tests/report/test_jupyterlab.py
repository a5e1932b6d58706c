"""Notebooks in a real JupyterLab without a network: charts of an untrusted one draw, and every notebook of the workbook runs to its end."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from netlab.export.notebooks import copy_notebooks, notebooks_folder
from tests.report.conftest import Report
from tests.report.test_browser import browser

__all__ = ["browser"]

pytestmark = pytest.mark.browser

_KERNEL_IDLE = "window.jupyterapp?.shell.currentWidget?.context.sessionContext.session?.kernel?.status === 'idle'"


@pytest.fixture(scope="module")
def lab(made_report: Report, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a JupyterLab on this machine that shows a copy of the report's folder, the workbook, and a folder of reports."""
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed (extra lab)")
    home = tmp_path_factory.mktemp("lab")
    shutil.copytree(made_report.folder, home / "work")
    copy_notebooks(home / "work")
    (home / "work" / "reports").mkdir()
    shutil.copy(made_report.folder / "verdict.json", home / "work" / "reports")  # for the trend
    (home / "settings").mkdir()
    # The question about news covers a corner of the page.
    (home / "settings" / "overrides.json").write_text(
        json.dumps({"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}), "utf-8"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser", "--ip=127.0.0.1", f"--port={port}"),
        *("--ServerApp.port_retries=0", "--IdentityProvider.token=T", "--LabApp.expose_app_in_browser=True"),
        *("--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", f"--LabApp.app_settings_dir={home / 'settings'}"),
    ]
    places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython"}
    environment = {**os.environ, **{name: str(home / folder) for name, folder in places.items()}}
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=home / "work", env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield f"http://127.0.0.1:{port}/lab"
        finally:
            server.terminate()
            server.wait(30)


def _open(page: Any, address: str) -> None:
    """The server needs seconds to listen; the browser asks until it does."""
    from playwright.sync_api import Error

    for _ in range(60):
        try:
            page.goto(address)
        except Error as error:
            if "ERR_CONNECTION_REFUSED" not in str(error):
                raise
            page.wait_for_timeout(500)
        else:
            return
    pytest.fail("JupyterLab did not start within 30 s")


@pytest.fixture
def page(browser: Any) -> Iterator[tuple[Any, list[str]]]:
    """A page that reaches this machine only, and what it asked for elsewhere."""
    context = browser.new_context(viewport={"width": 1_300, "height": 1_400})
    outside: list[str] = []

    def guard(route: Any) -> None:
        url = route.request.url
        if url.startswith(("http://127.0.0.1", "data:", "blob:")):
            route.continue_()
        else:
            outside.append(url)
            route.abort()

    opened = context.new_page()
    opened.route("**/*", guard)
    yield opened, outside
    context.close()


def _run_all(page: Any) -> None:
    page.wait_for_function(_KERNEL_IDLE, timeout=60_000)
    assert page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')") is True
    assert page.locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr']").count() == 0


def test_untrusted_notebook_draws_offline_and_runs_to_its_end(page: tuple[Any, list[str]], lab: str) -> None:
    shown, outside = page
    _open(shown, f"{lab}/tree/report.ipynb?token=T")
    shown.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    shown.wait_for_selector(".jp-Notebook .vega-embed :is(canvas, svg)", timeout=60_000)
    _run_all(shown)
    assert outside == []


@pytest.mark.parametrize("name", sorted(path.stem for path in notebooks_folder().glob("*.ipynb")))
def test_every_notebook_of_the_workbook_runs_all_cells_and_draws(name: str, page: tuple[Any, list[str]], lab: str) -> None:
    shown, outside = page
    _open(shown, f"{lab}/workspaces/{name}/tree/{name}.ipynb?token=T")
    shown.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    _run_all(shown)
    shown.wait_for_selector(".jp-Notebook .vega-embed :is(canvas, svg)", timeout=60_000)
    for card in shown.locator(".nl-card dl > div").all():  # JupyterLab floats the terms of a list over their values
        term, value = (card.locator(part).bounding_box() for part in ("dt", "dd"))
        assert term["y"] + term["height"] <= value["y"] + 1
    # What a chart or an object without a renderer would leave as text.
    texts = shown.locator(".jp-OutputArea-output[data-mime-type='text/plain']").all_inner_texts()
    assert [text for text in texts if "alt." in text or "VegaLite" in text or "object at 0x" in text] == []
    assert outside == []
