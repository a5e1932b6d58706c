"""The store of parsed files: one folder of Parquet parts per content hash, so that an unchanged file is never parsed twice."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

import netlab.readers
from netlab.issues import Issue
from netlab.readers.base import Parsed
from netlab.schema import SCHEMA_VERSION

__all__ = ["FileStore", "StoredFile", "default_store"]

#: The cache forgets the files unused for longest beyond this size; it looks once an hour, and leaves alone what was used within the hour.
CACHE_LIMIT_BYTES = 20_000_000_000
_PRUNE_EVERY_S = 3600
#: After this time a draft of another machine, whose processes cannot be asked after, counts as left behind.
_DRAFT_LIFE_S = 86400
_DRAFT = ".draft-"


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A reader's account of one file, as kept beside its parts. ``error`` is set for a file that gave nothing."""

    reader: str | None
    sha256: str
    size_bytes: int
    rows: int = 0
    lines_unparsed: int = 0
    status: str = "ok"
    message: str | None = None
    issues: list[Issue] = []
    facts: dict[str, Any] = {}

    @classmethod
    def from_parsed(cls, parsed: Parsed, sha256: str, size_bytes: int) -> StoredFile:
        """The stored form of a reader's account."""
        return cls(
            reader=parsed.reader,
            sha256=sha256,
            size_bytes=size_bytes,
            rows=parsed.rows,
            lines_unparsed=parsed.lines_unparsed,
            status=parsed.status,
            message=parsed.message,
            issues=list(parsed.issues),
            facts=dict(parsed.facts),
        )


def default_store() -> Path:
    """The user's cache folder; a temporary one where that cannot be written."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "netlab"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            return cache
    except OSError:
        return Path(tempfile.gettempdir()) / f"netlab-{os.getuid()}"


class FileStore:
    """Folders ``<root>/files/<sha256>-...``, each with ``parsed.json`` and the parts of its tables."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "files").mkdir(parents=True, exist_ok=True)

    def folder(self, sha256: str, source: str) -> Path:
        """Where a file's parts lie. The name under which issues speak of it is part of the key."""
        name = f"{sha256[:40]}-{_short_hash(source)}-v{SCHEMA_VERSION}-{reader_fingerprint()}"
        return self.root / "files" / name

    def get(self, sha256: str, source: str) -> StoredFile | None:
        """The account of a file parsed before, or None."""
        account = self.folder(sha256, source) / "parsed.json"
        try:
            stored = msgspec.json.decode(account.read_bytes(), type=StoredFile)
            os.utime(account.parent)
        except (OSError, msgspec.MsgspecError):
            return None
        return stored

    def draft(self) -> Path:
        """An empty folder to parse into; its name tells whose it is."""
        return Path(tempfile.mkdtemp(prefix=f"{_DRAFT}{_host()}-{os.getpid()}-", dir=self.root / "files"))

    def sweep(self) -> None:
        """Remove the drafts of processes that are gone; a killed worker cannot do it itself."""
        for draft in (self.root / "files").glob(f"{_DRAFT}*"):
            host, process, _ = draft.name.removeprefix(_DRAFT).split("-")
            if _is_left(draft, int(process) if host == _host() else None):
                shutil.rmtree(draft, ignore_errors=True)

    def put(self, draft: Path, stored: StoredFile, source: str) -> None:
        """Put a finished draft in its place; whoever comes second, with the same content, is dropped."""
        (draft / "parsed.json").write_bytes(msgspec.json.encode(stored))
        target = self.folder(stored.sha256, source)
        try:
            os.replace(draft, target)
        except OSError:
            if not target.is_dir():
                raise
            shutil.rmtree(draft, ignore_errors=True)

    def frames(self, sha256: str, source: str) -> Mapping[str, list[Path]]:
        """Parquet parts of each table of a file."""
        folder = self.folder(sha256, source)
        return {table.name: sorted(table.glob("*.parquet")) for table in sorted(folder.iterdir()) if table.is_dir()}

    def prune(self, limit_bytes: int = CACHE_LIMIT_BYTES) -> int:
        """Remove the folders unused for longest until the store is below its limit, but none used within the hour.

        Looks at most once an hour, because a look at every part of a full cache takes a while; returns the bytes removed.
        """
        looked, now = self.root / ".pruned", time.time()
        if looked.exists() and now - looked.stat().st_mtime < _PRUNE_EVERY_S:
            return 0
        looked.touch()
        folders = []
        for folder in (self.root / "files").glob("[!.]*"):
            try:
                size = sum(part.stat().st_size for part in folder.rglob("*") if part.is_file())
                folders.append((folder.stat().st_mtime, size, folder))
            except OSError:
                continue  # another process removed it meanwhile
        excess, removed = sum(size for _, size, _ in folders) - limit_bytes, 0
        for used, size, folder in sorted(folders):
            if removed >= excess or now - used < _PRUNE_EVERY_S:
                break
            shutil.rmtree(folder, ignore_errors=True)
            removed += size
        return removed


def _host() -> str:
    """A short word for this machine that holds no hyphen."""
    return _short_hash(socket.gethostname())[:6]


def _is_left(draft: Path, process: int | None) -> bool:
    """Whether a draft's process is gone; None is a process of another machine."""
    if process is not None:
        return not _is_alive(process)
    try:
        return time.time() - draft.stat().st_mtime > _DRAFT_LIFE_S
    except OSError:
        return False


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@lru_cache(maxsize=1)
def reader_fingerprint() -> str:
    """Changes whenever the code of a reader does: tables that older code made are never served again."""
    digest = hashlib.sha256()
    for path in sorted(Path(netlab.readers.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _short_hash(text: str) -> str:
    """Twelve hexadecimal digits that stand for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
