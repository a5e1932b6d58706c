"""Gathers the records of one log into tables."""

from __future__ import annotations

import re
from collections.abc import Callable

from netlab.issues import Issue
from netlab.readers.base import Sink
from netlab.readers.nccl.connections import Connections
from netlab.readers.nccl.events import event_of, watchdog_event
from netlab.readers.nccl.handlers import Handlers
from netlab.readers.nccl.host_topology import TopologyLines
from netlab.readers.nccl.messages import Message, classify, strip_tail
from netlab.readers.nccl.operations import Operations
from netlab.readers.nccl.records import Record, RecordSplitter, clean, is_torn, prefix_rank, timestamp_ns
from netlab.readers.nccl.rings import RingLines
from netlab.readers.nccl.secrets import mask_text
from netlab.readers.nccl.state import Communicator, LogState, Process
from netlab.readers.nccl.tables import EventRow, communicator_rows, event_rows
from netlab.readers.nccl.tuning import TuningTable

__all__ = ["LogCollector"]

_CACHE_LIMIT = 100_000
_NAMED_TORN = 20
#: Kinds whose messages hardly ever repeat: not worth remembering.
_EACH_ITS_OWN = frozenset({"via", "operation", "init", "ib_queue", "layout"})
#: Kinds with a handler for which an equal record changes nothing.
_SAME_AGAIN = frozenset({"network", "nics", "nics_socket", "version", "virtual_nic"})
_EVENT_LIMIT = 500_000
_VERSION = re.compile(r"(?:^|\s)(?P<library>NCCL|RCCL) version ?:? ?(?P<version>\d+\.\d+\.\d+)(?P<rest>\S*)")
_RCCL_BLOCK = re.compile(r"^(?:HIP version|ROCm version|Hostname|Librccl path) +: ")


class LogCollector:
    """Feed it whole lines, then ``finish``. Counts: ``records`` classified, ``unknown`` messages, ``torn`` remains, ``foreign`` lines."""

    def __init__(self, source: str, sink: Sink | None = None) -> None:
        self._source = source
        self._sink = sink
        self.state = LogState()
        self._splitter = RecordSplitter()
        self._rings = RingLines()
        self._tuning = TuningTable()
        self._topology = TopologyLines()
        self.operations = Operations()
        self.connections = Connections()
        self._events: list[EventRow] = []
        self._event_of: dict[tuple[object, ...], EventRow] = {}
        self._cache: dict[str, Message | None] = {}
        self.records = self.unknown = self.torn = self.foreign = self.lines = self.watchdog_lines = 0
        self._torn_lines: list[tuple[int, str]] = []
        self._unknown_lines: list[int] = []
        self._invalid_utf8_line: int | None = None
        self._events_dropped = 0
        #: Hash of a record to what it was: its event, and the counter that it belongs to.
        #: Hash of a record met inside an initialisation to its communicator and event: the same again changes nothing else.
        self._inside: dict[int, tuple[Communicator, EventRow | None]] = {}
        self._last_event: EventRow | None = None
        self._last_kind: str | None = None
        self._known: dict[int, tuple[EventRow | None, str]] = {}
        self._handlers = Handlers(self.state, self.operations, self.connections, self._rings, self._tuning, self._topology).by_kind

    @property
    def unparsed(self) -> int:
        """Lines or records that gave nothing."""
        return self.foreign + self.unknown + self.torn

    def feed(self, data: bytes) -> None:
        """Take whole lines."""
        lines = [clean(line) for line in self.decode(data, self.lines + 1).removesuffix("\n").split("\n")]
        for line in lines:
            if " NCCL " in line:
                self._splitter.learn(line)
        for line in lines:
            self.lines += 1
            whole = self._splitter.glue(line)
            if whole and not whole.isspace():
                self._line(whole, self.lines)

    def decode(self, data: bytes, line: int) -> str:
        """Text of some bytes that begin in a line; bytes that are no UTF-8 are replaced and the first such line is remembered."""
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            if self._invalid_utf8_line is None:
                self._invalid_utf8_line = line + data.count(b"\n", 0, error.start)
            return data.decode("utf-8", "replace")

    def learn(self, text: str) -> None:
        """Remember the host of a line."""
        self._splitter.learn(text)

    def line(self, text: str, number: int, digest: int = 0) -> None:
        """Take one line; ``digest`` is the hash of its record, by which the next equal one is only counted."""
        whole = self._splitter.glue(clean(text))
        if not whole or whole.isspace():
            return
        self._remembering(digest, lambda: self._line(whole, number))

    def record(self, record: Record, digest: int) -> None:
        """Take one record whose header was read elsewhere; ``digest`` is its hash."""
        self._splitter.remember(record.host or "", record.pid)
        self._remembering(digest, lambda: self._record(record))
        process = self.state.processes.get((record.host, record.pid))
        current = self._current(process, record.tid) if process is not None else None
        if current is not None and self._last_kind is not None and self._last_kind != "init":
            self._inside[digest] = (current, self._last_event)

    @staticmethod
    def _current(process: Process, tid: int) -> Communicator | None:
        """The communicator that a record of a thread can only be about."""
        sole = process.communicators[0] if len(process.communicators) == 1 else None
        return process.open_by_thread.get(tid) or sole

    def count_inside(self, digest: int, tid: int) -> bool:
        """Count a record that was met before about the same communicator, where it changes nothing."""
        known, event = self._inside.get(digest, (None, None))
        if known is None or self._current(known.process, tid) is not known:
            return False
        self.records += 1
        if event is not None:
            event.count += 1
        return True

    def _remembering(self, digest: int, take: Callable[[], None]) -> None:
        """Take a record, and note under its hash what it was if an equal one would change nothing but counts."""
        before = (self.records, self.unknown, self.torn, self.foreign)
        self._forget_last()
        take()
        if not digest or (self._last_kind in self._handlers and self._last_kind not in _SAME_AGAIN):
            return
        after = (self.records, self.unknown, self.torn, self.foreign)
        changed = [name for name, a, b in zip(("records", "unknown", "torn", "foreign"), before, after, strict=True) if a != b]
        if len(changed) == 1 and changed[0] != "torn":
            if len(self._known) > _CACHE_LIMIT:
                self._known.clear()
                self._inside.clear()
            self._known[digest] = (self._last_event, changed[0])

    def _forget_last(self) -> None:
        self._last_event, self._last_kind = None, None

    def count_known(self, digest: int, count: int) -> bool:
        """Count a record that was met before; False if it was not."""
        known = self._known.get(digest)
        if known is None:
            return False
        event, counter = known
        setattr(self, counter, getattr(self, counter) + count)
        if event is not None:
            event.count += count
        return True

    def owner_of_call(self, host: str, pid: int, pointer: str, nranks: int, line: int) -> int:
        """The number of the communicator of a COLL line in ``operations``."""
        owner = self.state.pointer(self.state.process(host.split(".")[0], pid), pointer, line)
        owner.nranks = owner.nranks or nranks
        if owner.first_operation is None:
            owner.first_operation = line
        return self.operations.communicator(owner)

    def feed_large(self, data: bytes) -> None:
        """The same for a piece of a large log: COLL lines are read by compiled code, and equal records are looked at once."""
        from netlab.readers.nccl.bulk import feed_large

        if not feed_large(self, data):
            self.feed(data)
        if self._sink is not None:
            for frame in self.operations.ready(self._source):
                self._sink.write("logged_operations", frame)

    def _line(self, text: str, number: int) -> None:
        found = False
        if " NCCL " in text or text.endswith(" NCCL"):
            for record in self._splitter.split(text, number):
                found = True
                self._record(record)
        if found:
            return
        if "ProcessGroupNCCL" in text and self._watchdog(text, number):
            return
        version = _VERSION.search(text)
        if version:
            self.records += 1
            self.state.version(version["version"], number)
            self._event(
                None, None, "INFO", ("version", version["library"].lower(), version["version"] + version["rest"]), text.strip(), number
            )
        elif _RCCL_BLOCK.match(text):
            self.records += 1
        elif is_torn(text):
            self._tear(number, text)
        else:
            self.foreign += 1

    def _tear(self, number: int, text: str) -> None:
        self.torn += 1
        if len(self._torn_lines) < _NAMED_TORN:
            self._torn_lines.append((number, mask_text(text.strip())[-80:]))

    def _record(self, record: Record) -> None:
        message = self._classify(record)
        if message is None and record.level not in ("WARN", "ABORT", "ERROR"):
            if _looks_torn(record.message):
                self._tear(record.line, record.message or f"{record.host}:{record.pid}:{record.tid} NCCL {record.level}")
            else:
                self.unknown += 1
                if len(self._unknown_lines) < _NAMED_TORN:
                    self._unknown_lines.append(record.line)
            return
        self.records += 1
        process = self.state.process(record.host, record.pid)
        if record.prefix:
            rank = prefix_rank(record.prefix)
            if rank is not None:
                process.prefix_ranks[rank] += 1
        self._last_kind = message.kind if message is not None else None
        if message is not None:
            handler = self._handlers.get(message.kind)
            if handler is not None:
                handler(process, record, message)
        event = event_of(message, record.level)
        if event is not None:
            self._event(process, None, record.level, event, record.message, record.line, record.prefix)

    def _classify(self, record: Record) -> Message | None:
        text = record.message
        if text in self._cache:
            return self._cache[text]
        message = classify(text)
        if message is None:
            cut = strip_tail(text)
            message = cut[0] if cut else None
        if len(self._cache) > _CACHE_LIMIT:
            self._cache.clear()
        if message is None or message.kind not in _EACH_ITS_OWN:
            self._cache[text] = message
        return message

    def _event(
        self,
        process: Process | None,
        rank: int | None,
        level: str,
        event: tuple[str, str | None, str | None],
        text: str,
        line: int,
        prefix: str = "",
    ) -> None:
        code, key, value = event
        single = level not in ("INFO", "TRACE")
        identity = (id(process), rank, level, code, key, value)
        known = None if single else self._event_of.get(identity)
        self._last_event = known
        if known is not None:
            known.count += 1
        elif len(self._events) >= _EVENT_LIMIT:
            self._events_dropped += 1
        else:
            row = EventRow(
                process, rank, level, code, key, value, mask_text(text), line, timestamp_ns(prefix or text) if single or prefix else None
            )
            self._events.append(row)
            self._event_of[identity] = self._last_event = row

    def _watchdog(self, text: str, number: int) -> bool:
        event = watchdog_event(text)
        if event is None:
            return False
        self.records += 1
        self.watchdog_lines += 1
        self._event(None, prefix_rank(text), "ERROR", event, text[text.find("[rank") :] if "[rank" in text else text, number)
        return True

    # -- results

    def finish(self, sink: Sink) -> None:
        """Settle identities and write the tables."""
        self.state.finish()
        for row in self._events:
            if row.code == "version" and row.process is None:
                row.process = self.state.speaker_of_line.get(row.line)
        sink.write("communicators", communicator_rows(self.state, self._source))
        sink.write("connections", self.connections.frame(self.state, self._source))
        sink.write("nccl_events", event_rows(self._events, self._source))
        sink.write("communicator_edges", self._rings.frame(self._source))
        sink.write("tuning_predictions", self._tuning.frame(self._source))
        for name, frame in self._topology.frames(self._source).items():
            sink.write(name, frame)
        for frame in self.operations.frames(self._source):
            sink.write("logged_operations", frame)

    def facts(self) -> dict[str, object]:
        """Counts of a file, for those who want to know how well it was read."""
        return {
            "records": self.records,
            "unknown": self.unknown,
            "torn": self.torn,
            "foreign": self.foreign,
            "watchdog": self.watchdog_lines,
        }

    def issues(self) -> list[Issue]:
        """What could not be read, and what is doubtful."""
        issues = [
            Issue(
                code="TORN_RECORD",
                source=self._source,
                line=number,
                message=f"{self._source} line {number}: a record is cut off ({text!r}); it was skipped.",
            )
            for number, text in self._torn_lines
        ]
        if self.torn > len(self._torn_lines):
            message = (
                f"{self._source}: {self.torn} records are cut off in all; give each process its own file (NCCL_DEBUG_FILE=nccl.%h.%p)."
            )
            issues.append(Issue(code="TORN_RECORD", source=self._source, message=message))
        if self.unknown:
            first = self._unknown_lines[0]
            message = f"{self._source}: {self.unknown} NCCL messages are of no known form (first in line {first}); they were skipped."
            issues.append(Issue(code="UNKNOWN_MESSAGE", severity="info", source=self._source, line=first, message=message))
        if self.foreign:
            message = f"{self._source}: {self.foreign} lines hold no NCCL record (the application's own text); they were skipped."
            issues.append(Issue(code="FOREIGN_LINES", severity="info", source=self._source, message=message))
        if self._invalid_utf8_line is not None:
            message = f"{self._source} line {self._invalid_utf8_line}: bytes that are no UTF-8 were replaced."
            issues.append(Issue(code="INVALID_UTF8", severity="info", source=self._source, line=self._invalid_utf8_line, message=message))
        if self._events_dropped:
            message = f"{self._source}: {self._events_dropped} events beyond the first {_EVENT_LIMIT} were not kept."
            issues.append(Issue(code="EVENTS_DROPPED", source=self._source, message=message))
        return [*issues, *self._rank_issues()]

    def _rank_issues(self) -> list[Issue]:
        issues = []
        for (host, pid), (line, one, other) in self.state.ambiguous.items():
            message = (
                f"{self._source} line {line}: process {pid} on {host} is rank {one} and rank {other}; hosts of one name? "
                "Set NCCL_HOSTID or give each its own log file; what their other lines say may be mixed up."
            )
            issues.append(Issue(code="RANK_DISAGREES", source=self._source, line=line, message=message))
        for process in self.state.processes.values():
            if (
                len(process.prefix_ranks) == 1
                and process.prefix_ranks.total() > 1
                and process.global_rank is not None
                and process.global_rank not in process.prefix_ranks
            ):
                prefix = next(iter(process.prefix_ranks))
                message = (
                    f"{self._source}: the launcher calls process {process.pid} on {process.host} rank {prefix}, "
                    f"NCCL calls it rank {process.global_rank}; "
                    "NCCL's number was taken."
                )
                issues.append(Issue(code="RANK_DISAGREES", source=self._source, message=message))
        return issues


def _looks_torn(message: str) -> bool:
    """A message that is the beginning of a known one."""
    return (
        len(message) < 4
        or message.endswith((":", "/", "->", "via", "[", " comm", " rank"))
        or bool(re.fullmatch(r"Chann?e?l?(?: \d*(?:/\d*)?)?(?: : .*)?|Se\w{0,5}|NVLS|Tre?e?s?.*|comm 0x.*", message))
    )
