"""Notebooks of the workbook: stored without outputs, twins equal, parameters declared once."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
import pytest

from netlab.errors import ConfigError, ReportError
from netlab.export.notebooks import notebooks_folder
from netlab.figures.mime import VEGA_MIME
from netlab.report.kernel import run_notebook
from netlab.report.notebooks import declared_parameters, refuse_unknown

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
