"""Notebooks of the workbook: stored without outputs, twins equal, parameters declared once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest

from netlab.errors import ConfigError, ReportError
from netlab.export.notebooks import notebooks_folder
from netlab.figures.mime import VEGA_MIME
from netlab.report import write_notebook
from netlab.report.kernel import run_notebook
from netlab.report.notebooks import declared_parameters, parsed_parameters, refuse_unknown

NOTEBOOKS = sorted(notebooks_folder().glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_percent_twin_is_the_same_notebook(path: Path) -> None:
    ours = nbformat.read(path, as_version=4)
    twin = jupytext.read(path.with_suffix(".py"))
    facts = [(cell.cell_type, cell.source, cell.metadata.get("tags", [])) for cell in ours.cells]
    assert facts == [(cell.cell_type, cell.source, cell.metadata.get("tags", [])) for cell in twin.cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_outputs(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_hold_calls_and_no_logic(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert not [line for line in cell.source.splitlines() if line.startswith(("for ", "while ", "def ", "class ", "if "))]


def test_report_declares_its_parameters_once() -> None:
    names = declared_parameters(notebooks_folder() / "run_report.ipynb")
    assert names[:2] == ["run", "threshold"]
    assert len(names) == len(set(names))


def test_unknown_parameter_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'rans'; did you mean 'ranks'\?"):
        refuse_unknown(["rans"], ["run", "ranks"])


def test_values_take_the_type_of_the_default() -> None:
    given = parsed_parameters(notebooks_folder() / "explore.ipynb", ["threshold=0.1", "png=true", "run=a=b"])
    assert given == {"threshold": "0.1", "png": True, "run": "a=b"}


@pytest.mark.parametrize(
    ("word", "said"),
    [("run", "give a parameter and its value"), ("png=maybe", "a value such as False"), ("stps=1:2", "did you mean 'steps'")],
)
def test_a_wrong_setting_says_what_is_wrong(word: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parsed_parameters(notebooks_folder() / "explore.ipynb", [word])


def test_unknown_notebook_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'explore'"):
        write_notebook("explor")


def test_a_failed_notebook_leaves_a_page_that_says_so_and_replaces_the_one_before(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ReportError, match="no such file or folder"):
            write_notebook("explore", tmp_path / "out", ["run=nothing-here"])
        page = (tmp_path / "out" / "report.html").read_text("utf-8")
        assert "The notebook failed" in page
        assert "nothing-here: there is no such file or folder" in page
        assert nbformat.read(tmp_path / "out" / "report.ipynb", as_version=4).cells


def test_a_notebook_never_replaces_files_that_no_notebook_left(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match=r"holds report\.html"):
        write_notebook("explore", tmp_path)
    assert (tmp_path / "report.html").read_text("utf-8") == "mine"


def _without_network() -> list[str]:
    words = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody make a network namespace")
    return words


def test_a_copy_runs_from_the_command_line_where_not_even_loopback_is_up(tmp_path: Path) -> None:
    shutil.copy(notebooks_folder() / "what_if.ipynb", tmp_path / "mine.ipynb")
    words = [*_without_network(), sys.executable, "-c", "import netlab.cli; netlab.cli.main()", "run", "mine.ipynb", "--out", "out"]
    done = subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "report: out/report.html\n")
    assert "would make training" in (tmp_path / "out" / "report.html").read_text("utf-8")


def test_file_that_is_no_notebook_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.ipynb").write_text("{}", "utf-8")
    with pytest.raises(ReportError, match="is no notebook"):
        declared_parameters(tmp_path / "x.ipynb")


@pytest.mark.parametrize("name", ["explore", "post_mortem", "what_if"])
def test_notebook_runs_on_the_sample(name: str, tmp_path: Path) -> None:
    # The other two run in the tests of the report and of the trend.
    executed, failure = run_notebook(notebooks_folder() / f"{name}.ipynb", tmp_path / "out.ipynb", {}, notebooks_folder().parent)
    assert failure is None
    assert any(VEGA_MIME in output.get("data", {}) for cell in executed.cells for output in cell.get("outputs", []))
