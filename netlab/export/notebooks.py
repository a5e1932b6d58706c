"""Where the workbook's notebooks are, and copying them."""

from __future__ import annotations

import shutil
from pathlib import Path

import netlab
from netlab.errors import ConfigError, RunError

__all__ = ["copy_notebooks", "notebooks_folder"]


def notebooks_folder() -> Path:
    """The notebooks of the installed package, or of the checkout it runs from."""
    package = Path(netlab.__file__).resolve().parent
    for folder in (package / "_notebooks", package.parent / "notebooks"):
        if folder.is_dir():
            return folder
    raise RunError("The notebooks are not part of this installation; install netlab from its wheel or checkout.")


def copy_notebooks(folder: Path) -> list[Path]:
    """Copy every notebook into a folder; one that lies there unchanged stays.

    Raises
    ------
    ConfigError
        If another file of that name is there: a person's changes are never overwritten.
    """
    sources = sorted(notebooks_folder().glob("*.ipynb"))
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; give a folder.")
    for source in sources:
        target = folder / source.name
        if target.exists() and not (target.is_file() and target.read_bytes() == source.read_bytes()):
            raise ConfigError(f"{target} exists already and differs; move it away or choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy(source, folder / source.name)) for source in sources]
