"""Reader of NCCL_DEBUG logs (NCCL 2.4 to 2.30, RCCL, the AWS OFI plugin), of one process or of a whole job on one pipe.

PyTorch's watchdog writes to the same stream, so its lines are read here too.
"""

from __future__ import annotations

import re
from pathlib import Path

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed, Sink
from netlab.readers.nccl.chunks import LineChunks
from netlab.readers.nccl.collect import LogCollector
from netlab.readers.nccl.records import HEADER

__all__ = ["LogReader", "collect_log"]

_TESTS_TABLE = re.compile(r"^# nThread|^#\s+size\s+count\b|^# (?:nccl|rccl)-tests version", re.MULTILINE)
_OTHER_SIGNS = re.compile(
    r"^(?:.{0,200}\s)?(?:NCCL version \d+\.\d+\.\d+|RCCL version ?:? ?\d)"
    r"|ProcessGroupNCCL\.cpp:\d+\] .*(?:[Ww]atchdog|dump signal|NCCL work)",
    re.MULTILINE,
)


#: Excerpts hide the host: ``<...>:1:2 [0] NCCL INFO``.
_ANONYMOUS = re.compile(rb"<[^<>]{0,64}>:\d+:\d+ ")
#: The head of a log (versions, first records) is read line by line; pieces from this size on pay for compiled code.
_HEAD_BYTES = 65_536
_LARGE_BYTES = 2 << 20


def collect_log(path: Path, source: str, sink: Sink | None = None, large_bytes: int = _LARGE_BYTES) -> tuple[LogCollector, list[Issue]]:
    """Read every record of a text file; the issues are those of its compression. Calls may go to the sink while reading."""
    collector = LogCollector(source, sink)
    chunks = LineChunks(path)
    for number, data in enumerate(chunks):
        cut = data.find(b"\n", _HEAD_BYTES) + 1 if number == 0 else 0
        head, rest = data[:cut], data[cut:]
        if head or not rest:
            collector.feed(head)
        if len(rest) >= large_bytes:
            collector.feed_large(rest)
        elif rest:
            collector.feed(rest)
    issues = []
    if chunks.damage is not None:
        message = f"{source}: {chunks.damage.message}; the records before that are kept."
        issues.append(Issue(code=chunks.damage.code, severity="error", source=source, line=collector.lines, message=message))
    return collector, issues


class LogReader:
    """NCCL_DEBUG text, to communicators, connections and their edges, events, operations, predictions and host topology."""

    name = "nccl_log"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A NCCL header, a version line or a watchdog line in the first kilobytes; not JSON, a table of nccl-tests or a RAS status."""
        start = head.lstrip()[:2]
        if _ANONYMOUS.match(head.lstrip()):
            start = b""
        if (start[:1] in (b"{", b"<") and not head.startswith(b'{"log":')) or start in (b"[{", b"[\n", b'["', b"[]") or head[:1] == b"\x80":
            return False
        if b"NCCL" not in head and b"RCCL" not in head:
            return False
        if b"Job summary" in head and b"Communicators..." in head:
            return False
        text = head.decode("utf-8", "replace")
        text = text.replace('{"log":"', "\n") if head.startswith(b"{") else text
        return not _TESTS_TABLE.search(text) and (HEADER.search(text) is not None or _OTHER_SIGNS.search(text) is not None)

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read a log. Torn records, unknown messages and foreign lines are counted; the first torn ones are named.

        Raises
        ------
        ParseError
            If there is no NCCL record at all.
        """
        collector, issues = collect_log(path, source, sink)
        if not collector.records:
            raise ParseError(f"NO_RECORDS: {source} holds no NCCL record; set NCCL_DEBUG=INFO and record it again.")
        collector.finish(sink)
        damage = next((issue for issue in issues if issue.severity == "error"), None)
        return Parsed(
            reader=self.name,
            rows=collector.records,
            lines_unparsed=collector.unparsed,
            status="ok" if damage is None else "partial",
            message=None if damage is None else f"{damage.code}: {damage.message}",
            issues=(*issues, *collector.issues()),
            facts=collector.facts(),
        )
