"""The executed notebook in a real JupyterLab without a network: charts draw while it is untrusted, and all cells run."""

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

from tests.report.conftest import Report
from tests.report.test_browser import browser

__all__ = ["browser"]

pytestmark = pytest.mark.browser

_KERNEL_IDLE = "window.jupyterapp?.shell.currentWidget?.context.sessionContext.session?.kernel?.status === 'idle'"


@pytest.fixture(scope="module")
def lab(made_report: Report, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a JupyterLab on this machine that shows a copy of the report's folder."""
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed (extra lab)")
    home = tmp_path_factory.mktemp("lab")
    shutil.copytree(made_report.folder, home / "work")
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
            yield f"http://127.0.0.1:{port}/lab/tree/report.ipynb?token=T"
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


def test_untrusted_notebook_draws_offline_and_runs_to_its_end(browser: Any, lab: str) -> None:
    page = browser.new_context(viewport={"width": 1_300, "height": 1_400}).new_page()
    outside: list[str] = []

    def guard(route: Any) -> None:
        url = route.request.url
        if url.startswith(("http://127.0.0.1", "data:", "blob:")):
            route.continue_()
        else:
            outside.append(url)
            route.abort()

    page.route("**/*", guard)
    _open(page, lab)
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    page.wait_for_selector(".jp-Notebook .vega-embed :is(canvas, svg)", timeout=60_000)
    page.wait_for_function(_KERNEL_IDLE, timeout=60_000)
    assert page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')") is True
    assert page.locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr']").count() == 0
    assert outside == []
    page.context.close()
