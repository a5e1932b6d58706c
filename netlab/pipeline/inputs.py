"""Finding the input files of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from netlab.errors import RunError

__all__ = ["InputFile", "find_inputs", "input_folders", "sha256_of"]

#: Files that steer netlab itself and are no measurements.
_OWN_FILES = frozenset({"netlab.toml", "scenarios.toml"})


@dataclass(frozen=True, order=True)
class InputFile:
    """One file: ``source`` is the name under which tables and messages speak of it."""

    source: str
    path: Path


def find_inputs(paths: Sequence[Path]) -> list[InputFile]:
    """All files under the given paths, in the order of their names, each once. Hidden files and folders are left out.

    Raises
    ------
    RunError
        If a path does not exist, or there is no file at all.
    """
    found: dict[Path, InputFile] = {}
    for path in paths:
        if path.is_dir():
            base = path if len(paths) == 1 else path.parent
            for file in sorted(path.rglob("*")):
                hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
                if file.is_file() and not hidden and file.name not in _OWN_FILES:
                    found.setdefault(file.resolve(), InputFile(file.relative_to(base).as_posix(), file))
        elif path.is_file():
            found.setdefault(path.resolve(), InputFile(path.name, path))
        else:
            raise RunError(f"{path} does not exist; give a folder or files of a run.")
    if not found:
        raise RunError(f"{', '.join(map(str, paths))} holds no file; give a folder with traces, logs, dumps or counters.")
    return _told_apart(sorted(found.values()))


def _told_apart(files: list[InputFile]) -> list[InputFile]:
    """Files of one name from different folders get their whole path as name."""
    names = [file.source for file in files]
    return sorted(InputFile(str(f.path) if names.count(f.source) > 1 else f.source, f.path) for f in files)


def input_folders(paths: Iterable[Path]) -> list[Path]:
    """Folders in which netlab.toml and scenarios.toml are looked for: each given folder, or the folder of a given file."""
    return list(dict.fromkeys(path if path.is_dir() else path.parent for path in paths))


def sha256_of(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
