"""Reading files on a dask.distributed cluster whose workers share the store's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from netlab.errors import ConfigError, RunError
from netlab.issues import Issue
from netlab.pipeline.ingest import Progress, parse_file
from netlab.pipeline.inputs import InputFile
from netlab.pipeline.store import FileStore, StoredFile

__all__ = ["ingest_on_scheduler"]

#: Times that a file is tried anew when its worker is lost.
_RETRIES = 2


def ingest_on_scheduler(files: Sequence[InputFile], root: Path, address: str, progress: Progress | None = None) -> list[StoredFile]:
    """Parse all files as tasks of a running cluster; accounts come back in the order of ``files``.

    Tasks write to the shared store by temporary folder and rename and return small accounts, never tables. Dask's own configuration (TLS,
    time-outs) is honoured. A file whose workers die again and again is reported as ``WORKER_KILLED``.

    Raises
    ------
    ConfigError
        If the ``dask`` extra is not installed.
    RunError
        If no scheduler answers at the address, it goes away before the end, or what its workers wrote does not lie in this store.
    """
    try:
        from distributed import CancelledError, Client, as_completed
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        raise ConfigError("--scheduler needs the dask extra; install netlab[dask].") from error
    try:
        client = Client(address)
    except (OSError, ValueError) as error:
        raise RunError(f"No Dask scheduler answers at {address} ({error}); start one, or leave --scheduler out.") from error
    store = FileStore(root.resolve())
    # A worker has a working folder of its own.
    placed = [replace(file, path=file.path.resolve()) for file in files]
    done: dict[int, StoredFile] = {}
    with client:
        futures = client.map(parse_file, placed, root=store.root, pure=False, retries=_RETRIES)
        numbers = {future.key: number for number, future in enumerate(futures)}
        for future in as_completed(futures):
            number = numbers[future.key]
            try:
                done[number] = future.result()
            except KilledWorker:
                done[number] = _killed(files[number])
            except (CancelledError, CommClosedError) as error:
                raise RunError(f"The Dask scheduler at {address} went away; what was read is kept, run the command again.") from error
            _check_shared(store, done[number], files[number], address)
            if progress is not None:
                progress(len(done), len(files), files[number].source)
    store.sweep()
    return [done[number] for number in range(len(files))]


def _check_shared(store: FileStore, stored: StoredFile, file: InputFile, address: str) -> None:
    """A worker on another disk, or with other readers, writes where this store never looks."""
    if stored.status != "rejected" and store.get(stored.sha256, file.source) is None:
        raise RunError(
            f"{file.source} was read by a worker of {address}, but its tables are not in {store.root}; give --store a folder that all "
            "workers share, and install the same netlab on them."
        )


def _killed(file: InputFile) -> StoredFile:
    message = f"{file.source}: the workers that read it were lost; give them more memory."
    issue = Issue(code="WORKER_KILLED", severity="error", source=file.source, message=message)
    size = file.path.stat().st_size
    return StoredFile(reader=None, sha256="", size_bytes=size, status="rejected", message=f"{issue.code}: {message}", issues=[issue])
