"""Where the workbook's notebooks are, and copying them."""

from __future__ import annotations

import shutil
from pathlib import Path

import netlab
from netlab.errors import RunError

__all__ = ["copy_notebooks", "notebooks_folder"]


def notebooks_folder() -> Path:
    """The notebooks of the installed package, or of the checkout it runs from."""
    package = Path(netlab.__file__).resolve().parent
    for folder in (package / "_notebooks", package.parent / "notebooks"):
        if folder.is_dir():
            return folder
    raise RunError("The notebooks are not part of this installation; install netlab from its wheel or checkout.")


def copy_notebooks(folder: Path) -> list[Path]:
    """Copy every notebook into a folder.

    Raises
    ------
    RunError
        If a file of that name is there already: a person's changes are never overwritten.
    """
    sources = sorted(notebooks_folder().glob("*.ipynb"))
    taken = [folder / source.name for source in sources if (folder / source.name).exists()]
    if taken:
        raise RunError(f"{taken[0]} exists already; move it away or choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy(source, folder / source.name)) for source in sources]
