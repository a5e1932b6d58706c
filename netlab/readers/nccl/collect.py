"""Gathers the records of one log into tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

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
from netlab.readers.nccl.sayings import Event, Sayings
from netlab.readers.nccl.secrets import mask_text
from netlab.readers.nccl.state import LogState, Process
from netlab.readers.nccl.tables import communicator_rows
from netlab.readers.nccl.tuning import TuningTable

if TYPE_CHECKING:
    from netlab.readers.nccl.bulk import Bulk

__all__ = ["LogCollector"]

_CACHE_LIMIT = 100_000
_NAMED_TORN = 20
#: Kinds whose messages hardly ever repeat: not worth remembering.
_EACH_ITS_OWN = frozenset({"via", "operation", "init", "ib_queue", "layout", "timings", "ring_order", "trees", "graph_ring", "graph_tree"})
#: Kinds with a handler for which an equal record of the same process changes nothing.
_SAME_AGAIN = frozenset({"network", "nics", "nics_socket", "version", "virtual_nic"})
_LOUD = ("WARN", "ABORT", "ERROR")
_VERSION = re.compile(r"(?:^|\s)(?P<library>NCCL|RCCL) version ?:? ?(?P<version>\d+\.\d+\.\d+)(?P<rest>\S*)")
_RCCL_BLOCK = re.compile(r"^(?:HIP version|ROCm version|Hostname|Librccl path) +: ")


class Understood(NamedTuple):
    """What a message is. ``fate`` is records, unknown or torn; ``repeatable`` if an equal one of the same process changes only counts."""

    message: Message | None
    fate: str
    event: Event | None
    handled: bool
    repeatable: bool


class LogCollector:
    """Feed it whole lines, then ``finish``. Counts: ``records`` classified, ``unknown`` messages, ``torn`` remains, ``foreign`` lines."""

    def __init__(self, source: str, sink: Sink | None = None) -> None:
        self._source = source
        self._sink = sink
        self.state = LogState()
        self.splitter = RecordSplitter()
        self.rings = RingLines()
        self._tuning = TuningTable()
        self._topology = TopologyLines()
        self.operations = Operations()
        self.connections = Connections()
        self.sayings = Sayings()
        self._cache: dict[str, Message | None] = {}
        self.records = self.unknown = self.torn = self.foreign = self.lines = self.watchdog_lines = 0
        self._torn_lines: list[tuple[int, str]] = []
        self._unknown_lines: list[int] = []
        self._invalid_utf8_line: int | None = None
        self._bulk: Bulk | None = None
        self._handlers = Handlers(self.state, self.operations, self.connections, self.rings, self._tuning, self._topology).by_kind

    @property
    def unparsed(self) -> int:
        """Lines or records that gave nothing."""
        return self.foreign + self.unknown + self.torn

    def feed(self, data: bytes) -> None:
        """Take whole lines."""
        lines = [clean(line) for line in self.decode(data, self.lines + 1).removesuffix("\n").split("\n")]
        for line in lines:
            if " NCCL " in line:
                self.splitter.learn(line)
        for line in lines:
            self.lines += 1
            whole = self.splitter.glue(line)
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

    def line(self, text: str, number: int) -> None:
        """Take one line by itself."""
        if " NCCL " in text:
            self.splitter.learn(text)
        whole = self.splitter.glue(clean(text))
        if whole and not whole.isspace():
            self._line(whole, number)

    def owner_of_call(self, process: Process, pointer: str, nranks: int, line: int) -> int:
        """The number of the communicator of a COLL line in ``operations``."""
        owner = self.state.pointer(process, pointer, line)
        owner.nranks = owner.nranks or nranks
        if owner.first_operation is None:
            owner.first_operation = line
        return self.operations.communicator(owner)

    def feed_large(self, data: bytes) -> None:
        """The same for a piece of a large log: what makes up such a log is read by compiled code, and equal messages are looked at once."""
        if self._bulk is None:
            from netlab.readers.nccl.bulk import Bulk

            self._bulk = Bulk(self)
        if not self._bulk.feed(data):
            self.feed(data)
        if self._sink is not None:
            for frame in self.operations.ready(self._source):
                self._sink.write("logged_operations", frame)

    def _line(self, text: str, number: int) -> None:
        found = False
        if " NCCL " in text or text.endswith(" NCCL"):
            for record in self.splitter.split(text, number):
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
            said = ("version", version["library"].lower(), version["version"] + version["rest"])
            self.sayings.single(None, None, "INFO", said, text.strip(), number, None)
        elif _RCCL_BLOCK.match(text):
            self.records += 1
        elif is_torn(text):
            self.tear(number, text)
        else:
            self.foreign += 1

    def tear(self, number: int, text: str) -> None:
        """Count the remains of a record, and name them if they are among the first."""
        self.torn += 1
        if len(self._torn_lines) < _NAMED_TORN:
            self._torn_lines.append((number, mask_text(text.strip())[-80:]))

    def miss(self, number: int, count: int = 1) -> None:
        """Count messages of no known form, the first of them in a line."""
        self.unknown += count
        if len(self._unknown_lines) < _NAMED_TORN:
            self._unknown_lines.append(number)

    def understand(self, level: str, text: str) -> Understood:
        """What a message of a level is."""
        message = self._classify(text)
        if message is None and level not in _LOUD:
            return Understood(None, "torn" if _looks_torn(text) else "unknown", None, handled=False, repeatable=False)
        kind = message.kind if message is not None else ""
        handled = kind in self._handlers
        return Understood(message, "records", event_of(message, level), handled, not handled or kind in _SAME_AGAIN)

    def _record(self, record: Record) -> None:
        process = self.state.process(record.host, record.pid)
        rank = prefix_rank(record.prefix) if record.prefix else None
        if rank is not None:
            process.prefix_ranks[rank] += 1
        if record.level == "TRACE":  # steps of transfers, from a library that was built for it: nothing here uses them
            self.records += 1
            return
        found = self.understand(record.level, record.message)
        if found.fate == "torn":
            self.tear(record.line, record.message or f"{record.host}:{record.pid}:{record.tid} NCCL {record.level}")
        elif found.fate == "unknown":
            self.miss(record.line)
        else:
            self.records += 1
            self.take(process, record, found)

    def take(self, process: Process, record: Record, found: Understood) -> None:
        """What an understood record changes, and the event that it is."""
        if found.message is not None and found.handled:
            self._handlers[found.message.kind](process, record, found.message)
        if found.event is None:
            return
        loud = record.level in _LOUD
        ts_ns = timestamp_ns(record.prefix or record.message) if loud or record.prefix else None
        if loud:
            self.sayings.single(process, None, record.level, found.event, record.message, record.line, ts_ns)
        else:
            self.sayings.add(process, self.sayings.number(record.level, found.event, record.message), record.line, ts_ns)

    def handle(self, process: Process, record: Record, found: Understood) -> None:
        """Only what an understood record changes."""
        if found.message is not None:
            self._handlers[found.message.kind](process, record, found.message)

    def _classify(self, text: str) -> Message | None:
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

    def _watchdog(self, text: str, number: int) -> bool:
        event = watchdog_event(text)
        if event is None:
            return False
        self.records += 1
        self.watchdog_lines += 1
        shown = text[text.find("[rank") :] if "[rank" in text else text
        self.sayings.single(None, prefix_rank(text), "ERROR", event, shown, number, timestamp_ns(shown))
        return True

    # -- results

    def finish(self, sink: Sink) -> None:
        """Settle identities and write the tables."""
        self.state.finish()
        for row in self.sayings.singles:
            if row.event[0] == "version" and row.process is None:
                row.process = self.state.speaker_of_line.get(row.line)
        sink.write("communicators", communicator_rows(self.state, self._source))
        sink.write("nccl_events", self.sayings.frame(self.state, self._source))
        sink.write("tuning_predictions", self._tuning.frame(self._source))
        for name, frame in self._topology.frames(self._source).items():
            sink.write(name, frame)
        self._bulk = None
        for frame in self.connections.frames(self.state, self._source):
            sink.write("connections", frame)
        for frame in self.rings.frames(self.state, self._source):
            sink.write("communicator_edges", frame)
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
            for number, text in sorted(self._torn_lines)
        ]
        if self.torn > len(self._torn_lines):
            message = (
                f"{self._source}: {self.torn} records are cut off in all; give each process its own file (NCCL_DEBUG_FILE=nccl.%h.%p)."
            )
            issues.append(Issue(code="TORN_RECORD", source=self._source, message=message))
        if self.unknown:
            first = min(self._unknown_lines)
            message = f"{self._source}: {self.unknown} NCCL messages are of no known form (first in line {first}); they were skipped."
            issues.append(Issue(code="UNKNOWN_MESSAGE", severity="info", source=self._source, line=first, message=message))
        if self.foreign:
            message = f"{self._source}: {self.foreign} lines hold no NCCL record (the application's own text); they were skipped."
            issues.append(Issue(code="FOREIGN_LINES", severity="info", source=self._source, message=message))
        if self._invalid_utf8_line is not None:
            message = f"{self._source} line {self._invalid_utf8_line}: bytes that are no UTF-8 were replaced."
            issues.append(Issue(code="INVALID_UTF8", severity="info", source=self._source, line=self._invalid_utf8_line, message=message))
        if self.sayings.dropped:
            message = f"{self._source}: {self.sayings.dropped} events were not kept, since there are too many."
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
