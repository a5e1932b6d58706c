"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from netlab.errors import RunError
from netlab.ownership import claim, locked

__all__ = ["claimed", "write_bytes", "write_text"]


def claimed(folder: Path, names: Sequence[str]) -> list[Path]:
    """Paths in a folder of exports, listed there before they are written: an export replaces earlier exports and no file of anybody else.

    Raises
    ------
    ConfigError
        If somebody's file is there; nothing was written.
    RunError
        If the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            claim(folder, "export", names, "no export of netlab left there")
    except OSError as error:
        raise RunError(f"{folder} cannot be written: {error.strerror}; choose another place.") from error
    return [folder / name for name in names]


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file by way of a temporary one in the same folder.

    Raises
    ------
    RunError
        If it cannot be written; names the path and the reason.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror}; choose another place.") from error
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except OSError as error:
        Path(draft).unlink(missing_ok=True)
        raise RunError(f"{path} cannot be written: {error.strerror}; choose another place.") from error


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text by way of a temporary file in the same folder."""
    write_bytes(path, text.encode("utf-8"))
