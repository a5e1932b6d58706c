"""Which files of a folder netlab wrote itself: a listing beside them names them, and only these are ever replaced or removed."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from netlab.errors import ConfigError

__all__ = ["LISTING", "claim", "is_own", "listed_files", "locked", "refuse_foreign", "remove_own", "write_listing"]

#: Name of the listing in a folder of results.
LISTING = "files.json"
_SCHEMA = "netlab.files/1"


class _Listing(msgspec.Struct, frozen=True, kw_only=True):
    schema: str
    #: The command whose results these are: one command's listing gives no right to another.
    made_by: str
    files: list[str]


def listed_files(folder: Path, made_by: str) -> frozenset[str]:
    """Names, relative to the folder, that a command listed as its own; empty without a listing of its."""
    try:
        listing = msgspec.json.decode((folder / LISTING).read_bytes(), type=_Listing)
    except (OSError, msgspec.MsgspecError):
        return frozenset()
    return frozenset(listing.files) if (listing.schema, listing.made_by) == (_SCHEMA, made_by) else frozenset()


def write_listing(folder: Path, made_by: str, names: Iterable[str]) -> None:
    """Write the listing, whole or not at all."""
    content = msgspec.json.format(msgspec.json.encode(_Listing(schema=_SCHEMA, made_by=made_by, files=sorted({*names, LISTING}))), indent=1)
    handle, draft = tempfile.mkstemp(prefix=f".{LISTING}-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content + b"\n")
        os.chmod(draft, 0o644)
        os.replace(draft, folder / LISTING)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise


def is_own(folder: Path, name: str, listed: Collection[str]) -> bool:
    """Whether a listed name is a plain file inside the folder. netlab makes no links there: whatever is reached by one is somebody's."""
    if name not in listed or os.path.isabs(name) or not (folder / name).is_file():
        return False
    return (folder / name).resolve() == folder.resolve() / name


def refuse_foreign(folder: Path, names: Iterable[str], listed: Collection[str], maker: str) -> None:
    """Refuse to write where something else than an own file lies; a link that leads nowhere counts.

    Raises
    ------
    ConfigError
        Names the file, and says what ``maker`` did not make it.
    """
    for name in names:
        if os.path.lexists(folder / name) and not is_own(folder, name, listed):
            raise ConfigError(f"{folder} holds {name}, which {maker}; give it a folder of its own.")


def claim(folder: Path, made_by: str, names: Collection[str], maker: str) -> frozenset[str]:
    """List names as own before they are written, so that a kill in between leaves nothing that belongs to nobody.

    Returns
    -------
    What was listed before.

    Raises
    ------
    ConfigError
        If one of them is there and is somebody's; nothing was changed then.
    """
    listed = listed_files(folder, made_by)
    refuse_foreign(folder, [*names, LISTING], listed, maker)
    write_listing(folder, made_by, listed | set(names))
    return listed


def remove_own(folder: Path, names: Iterable[str], listed: Collection[str]) -> None:
    """Remove own files."""
    for name in names:
        if is_own(folder, name, listed):
            (folder / name).unlink()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep others out who ask for the same lock; where a file system has none, all go in."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
