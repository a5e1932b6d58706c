"""The reader of PyTorch profiler traces (Kineto, Chrome trace format), plain or compressed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl

from netlab.readers.base import Parsed, Sink
from netlab.readers.kineto.account import account
from netlab.readers.kineto.backends import Backend, choose_backend
from netlab.readers.kineto.base_time import BaseGuess
from netlab.readers.kineto.columns import Counts
from netlab.readers.kineto.document import Batch, Document, read_document
from netlab.readers.kineto.frames import TableWriter
from netlab.readers.kineto.header import base_time_ns, header_facts, process_groups
from netlab.readers.kineto.overlap import BatchThread
from netlab.readers.kineto.window import MemorySource, Window
from netlab.readers.streams import ByteStream, open_stream
from netlab.schema.traces import HOST_OPS, PROCESS_GROUPS

__all__ = ["SMALL_BYTES", "KinetoReader", "read_frames", "read_with"]

#: Files up to this many inflated bytes are not worth compiling code for; where it is there already, smaller ones use it too.
SMALL_BYTES = 16 << 20
_WINDOW_BYTES = 1 << 21
_INSTANTS = ("start_ns", "end_ns", "at_ns")

_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:')
_HEADER_KEYS = re.compile(rb'"(?:deviceProperties|distributedInfo|traceName|baseTimeNanoseconds|cupti_version|record_shapes)"\s*:')
_EVENT_KEYS = re.compile(rb'"ph"\s*:\s*"[XBEMsfiICPN]"')
#: Categories of NCCL's example profiler plugin, which also writes a list of Chrome events.
_OTHER_EVENTS = re.compile(rb'"cat"\s*:\s*"(?:GROUP|COLL|P2P|PROXY|NET|GPU|GROUP_API|COLL_API|P2P_API|KERNEL_LAUNCH|NET_IB|NET_SOCK)"')


class KinetoReader:
    """Traces of the PyTorch profiler."""

    name = "kineto"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the first kilobytes are those of a trace, or, where they are cut or damaged too early to tell, the name says so."""
        named = path.name.removesuffix(".gz").removesuffix(".zst").endswith(".pt.trace.json")
        return self.is_certain(head) or (named and _text(head)[:1] == b"{")

    def is_certain(self, head: bytes) -> bool:
        """Whether the content says that it is a trace: its events, or the keys that only its header has."""
        text = _text(head)
        if text[:1] == b"{":
            return bool(_EVENTS_KEY.search(text) or (b'"schemaVersion"' in text and _HEADER_KEYS.search(text)))
        return text[:1] == b"[" and bool(_EVENT_KEYS.search(text)) and not _OTHER_EVENTS.search(text)

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read a trace into the sink.

        Raises
        ------
        ParseError
            NOT_A_TRACE if there are no events in the file; the code of the damage if it leaves nothing to read.
        """
        return read_with(path, sink, source, choose_backend)


def _text(head: bytes) -> bytes:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()


def read_frames(path: Path, source: str | None = None) -> tuple[dict[str, pl.DataFrame], Parsed]:
    """Read a trace into memory: frames by table name (without the column ``file``) and the reader's account."""
    sink = Sink()
    parsed = KinetoReader().read(path, sink, source or path.name)
    return {table: sink.collect(table) for table in sink.frames}, parsed


def read_with(path: Path, sink: Sink, source: str, choose: Callable[[int | None], Backend], small_bytes: int = SMALL_BYTES) -> Parsed:
    """``KinetoReader.read`` with a choice of scanner by the file's size, None if it has more than ``small_bytes``."""
    with open_stream(path) as stream:
        head = _head(stream, small_bytes)
        is_small = len(head) <= small_bytes
        backend = choose(len(head) if is_small else None)
        writer = _Writer(sink, BaseGuess(path, stream.compression != "none"))
        tables = TableWriter(writer.write)
        content, window = head if is_small else None, _window(head, stream)
        del head
        document = _pass(window, backend, tables, writer, keep_hosts=False)
        damage = stream.damage
    counts = tables.counts
    if counts.device_events == 0 and document.tally["host_events"]:
        _read_host_ops(path, backend, writer, counts, content)
    parsed = account(source, document, counts, damage, header_facts(document.header))
    writer.finish(base_time_ns(document.header) or 0)
    sink.write(PROCESS_GROUPS.name, process_groups(document.header))
    return parsed


def _head(stream: ByteStream, small_bytes: int) -> bytes:
    """The whole file if it is small, else a little more than that."""
    pieces, left = [], small_bytes + 1
    while left and (piece := stream.read(min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _window(head: bytes, stream: ByteStream | None) -> Window:
    return Window(MemorySource(head, stream), _WINDOW_BYTES if stream is not None else min(_WINDOW_BYTES, len(head)))


def _pass(window: Window, backend: Backend, tables: TableWriter, writer: _Writer, keep_hosts: bool) -> Document:
    def consume(batch: Batch) -> None:
        writer.look(batch)
        tables.base_time_ns = writer.base_ns
        tables.add(batch)

    with BatchThread(consume) if backend.releases_gil else contextlib.nullcontext(consume) as on_batch:
        document = read_document(window, backend, on_batch, keep_hosts)
    tables.finish()
    return document


def _read_host_ops(path: Path, backend: Backend, writer: _Writer, counts: Counts, content: bytes | None) -> None:
    """A trace without device events is read once more for its operators, which then stand in for compute.

    Writing them on the first pass and dropping them as soon as a device event comes would cost every GPU trace a third of its reading time.
    """
    tables = TableWriter(writer.write, tables=frozenset({HOST_OPS.name}))
    if content is not None:
        _pass(_window(content, None), backend, tables, writer, keep_hosts=True)
    else:
        with open_stream(path) as stream:
            _pass(_window(b"", stream), backend, tables, writer, keep_hosts=True)
    counts.add(tables.counts)


class _Writer:
    """Between the tables and the sink: guesses the base time for the instants that are written, and mends a wrong guess at the end."""

    def __init__(self, sink: Sink, base: BaseGuess) -> None:
        self._sink, self._base = sink, base
        self._tables: set[str] = set()
        self._guessed = False
        self.base_ns = 0

    def look(self, batch: Batch) -> None:
        """Guess the base time when the first batch is there."""
        if not self._guessed:
            self._guessed = True
            self.base_ns = self._base.guess(batch.header, int(batch.integers[0, 0]))

    def write(self, table: str, frame: pl.DataFrame) -> None:
        self._tables.add(table)
        self._sink.write(table, frame)

    def finish(self, base_ns: int) -> None:
        """Put the true base time in the place of the guessed one."""
        shift_ns = base_ns - self.base_ns
        if shift_ns == 0:
            return
        for table in sorted(self._tables):
            self._sink.revise(table, lambda frame: _shifted(frame, shift_ns))


def _shifted(frame: pl.DataFrame, shift_ns: int) -> pl.DataFrame:
    return frame.with_columns(pl.col(name) + shift_ns for name in _INSTANTS if name in frame.columns)
