"""Files to parsed tables in the store: serially, or in a pool of spawned workers that survives a killed one."""

from __future__ import annotations

import multiprocessing
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

import msgspec

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.pipeline.inputs import InputFile, sha256_of
from netlab.pipeline.store import FileStore, StoredFile
from netlab.readers.base import Sink
from netlab.readers.registry import claim
from netlab.readers.streams import read_head

__all__ = ["Progress", "ingest_files", "parse_file"]

#: Files of more bytes on disk are read in a process of their own: what reading leaves behind beside alignment is no longer within 350 MB.
_LARGE_BYTES, _LARGE_COMPRESSED_BYTES = 600_000_000, 36_000_000
_COMPRESSED = frozenset({".gz", ".zst"})
_PARSE_ONE = """
import sys
from pathlib import Path
import msgspec
from netlab.pipeline.ingest import parse_file
from netlab.pipeline.inputs import InputFile
root, source, path = sys.argv[1:]
sys.stdout.buffer.write(msgspec.json.encode(parse_file(InputFile(source, Path(path)), Path(root))))
"""

#: How the JSON begins that netlab writes itself: verdicts, what-if answers, the truth of a made run.
_OWN_JSON = re.compile(rb'\s*\{\s*"schema"\s*:\s*"(netlab\.[a-z]+)/\d')

#: Called with the number of files done, of all files, and the name of the last one.
Progress = Callable[[int, int, str], None]


def parse_file(file: InputFile, root: Path) -> StoredFile:
    """Parse one file into the store, unless its content is there already. A file that cannot be read is an account, not an error."""
    store = FileStore(root)
    try:
        size, sha256 = file.path.stat().st_size, sha256_of(file.path)
    except OSError as error:
        return _rejected(
            None, "", 0, Issue(code="UNREADABLE_FILE", severity="error", source=file.source, message=f"{file.source}: {error.strerror}.")
        )
    known = store.get(sha256, file.source)
    if known is not None:
        return known
    draft = store.draft()
    try:
        stored = _parse(file, draft, sha256, size)
        store.put(draft, stored, file.source)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return stored


def _parse(file: InputFile, draft: Path, sha256: str, size: int) -> StoredFile:
    if size == 0:
        issue = Issue(code="EMPTY_FILE", severity="error", source=file.source, line=0, message=f"{file.source} is empty; record it again.")
        return _rejected(None, sha256, size, issue)
    head = read_head(file.path)
    reader = claim(head, file.path)
    if reader is None:
        own = _OWN_JSON.match(head)
        what = f"a result of netlab itself ({own[1].decode()}), no measurement" if own else "no reader recognises its content"
        message = f"{file.source}: {what}; it was left out."
        return _rejected(None, sha256, size, Issue(code="UNKNOWN_FORMAT", severity="info", source=file.source, message=message))
    try:
        return StoredFile.from_parsed(reader.read(file.path, Sink(draft), file.source), sha256, size)
    except ParseError as error:
        code, _, sentence = str(error).partition(": ")
        return _rejected(reader.name, sha256, size, Issue(code=code, severity="error", source=file.source, message=sentence or str(error)))


def _rejected(reader: str | None, sha256: str, size: int, issue: Issue) -> StoredFile:
    message = f"{issue.code}: {issue.message}"
    return StoredFile(reader=reader, sha256=sha256, size_bytes=size, status="rejected", message=message, issues=[issue])


def ingest_files(files: Sequence[InputFile], root: Path, workers: int = 1, progress: Progress | None = None) -> list[StoredFile]:
    """Parse all files; the accounts come back in the order of ``files`` whatever the number of workers.

    A large file is read in a process of its own. A worker that is killed (out of memory) takes no other file with it: its file is tried
    again beside the others that lost theirs, then alone; a file that kills its worker every time is reported as ``WORKER_KILLED``.
    """
    done: dict[int, StoredFile] = {}

    def tell(number: int) -> None:
        if progress is not None:
            progress(len(done), len(files), files[number].source)

    if min(workers, len(files)) <= 1:
        for number, file in enumerate(files):
            done[number] = _parse_apart(file, root) if _is_large(file) else parse_file(file, root)
            tell(number)
        return [done[number] for number in range(len(files))]
    for _ in range(2):
        left = [number for number in range(len(files)) if number not in done]
        for number, stored in _pooled(files, left, root, workers) if left else ():
            done[number] = stored
            tell(number)
    for number in [n for n in range(len(files)) if n not in done]:
        done.update(_pooled(files, [number], root, 1))
        if number not in done:
            done[number] = _killed(files[number])
        tell(number)
    FileStore(root).sweep()
    return [done[number] for number in range(len(files))]


def _killed(file: InputFile) -> StoredFile:
    message = f"{file.source}: the process that read it was killed every time, probably for memory; read it alone or on a larger machine."
    issue = Issue(code="WORKER_KILLED", severity="error", source=file.source, message=message)
    return _rejected(None, "", file.path.stat().st_size, issue)


def _is_large(file: InputFile) -> bool:
    """Whether reading a file leaves so much memory behind that a process of its own, which gives it back, is worth starting."""
    try:
        size = file.path.stat().st_size
    except OSError:
        return False
    return size > (_LARGE_COMPRESSED_BYTES if file.path.suffix in _COMPRESSED else _LARGE_BYTES) and bool(sys.executable)


def _parse_apart(file: InputFile, root: Path) -> StoredFile:
    """:func:`parse_file` in a process of its own. Not a pool: that would run the caller's script again."""
    words = [str(root.resolve()), file.source, str(file.path.resolve())]
    done = subprocess.run([sys.executable, "-c", _PARSE_ONE, *words], stdout=subprocess.PIPE, check=False)
    if done.returncode < 0:
        return _killed(file)
    if done.returncode:
        return parse_file(file, root)  # for its error
    return msgspec.json.decode(done.stdout, type=StoredFile)


def _pooled(files: Sequence[InputFile], numbers: Sequence[int], root: Path, workers: int) -> Iterator[tuple[int, StoredFile]]:
    """Results as they come; none for a file whose worker was killed."""
    free: SimpleQueue[_Worker] = SimpleQueue()

    def parse(number: int) -> StoredFile | None:
        worker = free.get()
        try:
            return worker.parse(files[number], root)
        finally:
            free.put(worker)

    with ExitStack() as stack:
        for _ in range(min(workers, len(numbers))):
            free.put(stack.enter_context(_Worker()))
        threads = ThreadPoolExecutor(free.qsize())
        stack.callback(threads.shutdown, cancel_futures=True)  # an interrupt ends with the files that are being read
        waiting = {threads.submit(parse, number): number for number in numbers}
        for future in as_completed(waiting):
            stored = future.result()
            if stored is not None:
                yield waiting[future], stored


class _Worker:
    """One spawned process, replaced when it is killed.

    A pool of its own for each: a pool of several that loses one process while it starts another waits for ever (CPython 3.11,
    ``ProcessPoolExecutor`` starts them with each task), and throws away what all others were reading.
    """

    def __init__(self) -> None:
        self._pool = self._start()

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    def parse(self, file: InputFile, root: Path) -> StoredFile | None:
        """:func:`parse_file` in the process; None if that was killed."""
        try:
            return self._pool.submit(parse_file, file, root).result()
        except BrokenProcessPool:
            self._pool.shutdown()
            self._pool = self._start()
            return None
