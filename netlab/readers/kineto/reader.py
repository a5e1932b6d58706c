"""The reader of PyTorch profiler traces (Kineto, Chrome trace format), plain or compressed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl

from netlab.readers.base import Parsed, Sink
from netlab.readers.kineto.account import account
from netlab.readers.kineto.backends import Backend, PlainBackend
from netlab.readers.kineto.document import read_document
from netlab.readers.kineto.frames import Counts, TableWriter
from netlab.readers.kineto.header import base_time_ns, header_facts, process_groups
from netlab.readers.kineto.window import MemorySource, Window
from netlab.readers.streams import ByteStream, open_stream
from netlab.schema.traces import PROCESS_GROUPS

__all__ = ["KinetoReader", "read_frames"]

#: Files up to this many inflated bytes are read without compiled code: loading it would take longer than it saves.
SMALL_BYTES = 16 << 20
_WINDOW_BYTES = 1 << 21
_INSTANTS = frozenset({"start_ns", "end_ns", "at_ns"})

_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:')
_HEADER_KEYS = re.compile(
    rb'"(?:deviceProperties|distributedInfo|traceName|baseTimeNanoseconds|cupti_version|roctracer_version|record_shapes)"\s*:'
)
_EVENT_KEYS = re.compile(rb'"ph"\s*:\s*"[XBEMsfiICPN]"')
#: Categories of NCCL's example profiler plugin, which also writes a list of Chrome events.
_OTHER_EVENTS = re.compile(rb'"cat"\s*:\s*"(?:GROUP|COLL|P2P|PROXY|NET|GPU|GROUP_API|COLL_API|P2P_API|KERNEL_LAUNCH|NET_IB|NET_SOCK)"')


class KinetoReader:
    """Traces of the PyTorch profiler."""

    name = "kineto"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the first kilobytes are those of a trace: its events, or the keys that only its header has."""
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text[:1] == b"{":
            if _EVENTS_KEY.search(text) or (b'"schemaVersion"' in text and _HEADER_KEYS.search(text)):
                return True
            # Cut or damaged so early that nothing tells; the name is the last resort.
            return path.name.removesuffix(".gz").removesuffix(".zst").endswith((".pt.trace.json", "_trace.json"))
        if text[:1] == b"[":
            return bool(_EVENT_KEYS.search(text)) and not _OTHER_EVENTS.search(text)
        return False

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read a trace into the sink.

        Raises
        ------
        ParseError
            NOT_A_TRACE if there are no events in the file; the code of the damage if it leaves nothing to read.
        """
        return _read(path, sink, source, choose_backend)


def choose_backend(small: bool) -> Backend:
    """Plain Python for small files."""
    return PlainBackend()


def read_frames(path: Path, source: str | None = None) -> tuple[dict[str, pl.DataFrame], Parsed]:
    """Read a trace into memory: frames by table name (without the column ``file``) and the reader's account."""
    sink = Sink()
    parsed = KinetoReader().read(path, sink, source or path.name)
    return {table: sink.collect(table) for table in sink.frames}, parsed


def _read(path: Path, sink: Sink, source: str, choose: Callable[[bool], Backend], small_bytes: int = SMALL_BYTES) -> Parsed:
    with open_stream(path) as stream:
        head = _head(stream, small_bytes)
        small = len(head) <= small_bytes
        backend = choose(small)
        writer = _Writer(sink)
        tables = TableWriter(writer.write)
        document = read_document(_window(head, stream), backend, tables.add, keep_hosts=False)
        tables.finish()
        damage = stream.damage
    counts = tables.counts
    if counts.device_events == 0 and document.tally["host_events"]:
        _read_host_ops(path, backend, writer, counts, head if small else None)
    facts = header_facts(document.header)
    parsed = account(source, document, counts, damage, facts)
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
    return Window(MemorySource(head, stream), min(_WINDOW_BYTES, max(len(head), 64)))


def _read_host_ops(path: Path, backend: Backend, writer: _Writer, counts: Counts, content: bytes | None) -> None:
    """A trace without device events is read once more for its operators, which then stand in for compute.

    Writing them on the first pass and dropping them as soon as a device event comes would cost every GPU trace a third of its reading time.
    """
    tables = TableWriter(writer.write, host_ops_only=True)
    if content is not None:
        read_document(_window(content, None), backend, tables.add, keep_hosts=True)
    else:
        with open_stream(path) as stream:
            read_document(_window(b"", stream), backend, tables.add, keep_hosts=True)
    tables.finish()
    counts.rows += tables.counts.rows
    counts.missing_times += tables.counts.missing_times
    counts.negative_durations += tables.counts.negative_durations
    counts.latest_ns = max(counts.latest_ns, tables.counts.latest_ns)


class _Writer:
    """Between the tables and the sink: adds the base time, which most traces state only at their end."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._tables: set[str] = set()

    def write(self, table: str, frame: pl.DataFrame) -> None:
        self._tables.add(table)
        self._sink.write(table, frame)

    def finish(self, base_ns: int) -> None:
        """Add the base time to everything written."""
        if base_ns == 0:
            return
        for table in sorted(self._tables):
            self._sink.revise(table, lambda frame: frame.with_columns(pl.col(_INSTANTS.intersection(frame.columns)) + base_ns))
