"""Any notebook of the workbook, or a person's copy of one, run unattended into a page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from netlab.config import nearest
from netlab.errors import ConfigError, ReportError
from netlab.export.notebooks import notebooks_folder
from netlab.ownership import claim, locked
from netlab.report.notebooks import parsed_parameters
from netlab.report.write import default_folder, write_page

__all__ = ["write_notebook"]


def write_notebook(notebook: str, out: Path | None = None, words: Sequence[str] = ()) -> Path:
    """Run a notebook from the working directory and write report.ipynb and report.html.

    Parameters
    ----------
    notebook
        Name of one of the workbook's, or the path of another.
    out
        Folder for the files; by default ``reports/<notebook>/<UTC time>``. Files that an earlier call wrote there are replaced.
    words
        Parameters, as ``name=value``.

    Returns
    -------
    The page.

    Raises
    ------
    ConfigError
        There is no such notebook or parameter, a value is of another type, or the folder holds files that no notebook left there.
    ReportError
        The notebook failed, or the folder cannot be written.
    """
    source = _source(notebook)
    given = parsed_parameters(source, words)
    target = out if out is not None else default_folder(source.stem, datetime.now(UTC))
    try:
        target.mkdir(parents=True, exist_ok=True)
        with locked(target):
            claim(target, "run", ("report.ipynb", "report.html"), "no notebook of netlab left there")
    except OSError as error:
        raise ReportError(f"{target} cannot be written: {error.strerror}; choose another folder with --out.") from error
    return write_page(source, target, given, cwd=Path.cwd())


def _source(notebook: str) -> Path:
    path = Path(notebook)
    if path.suffix == ".ipynb":
        if not path.is_file():
            raise ConfigError(f"{notebook} is no file; give a notebook, or the name of one of the workbook's.")
        return path.absolute()
    ours = {found.stem: found for found in sorted(notebooks_folder().glob("*.ipynb"))}
    if notebook not in ours:
        raise ConfigError(f"There is no notebook {notebook!r}; {nearest(notebook, ours)}")
    return ours[notebook]
