"""A scanned piece of a log: its lines, and the texts of the few that are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netlab.readers.nccl.records import Record
from netlab.readers.nccl.scan import UNUSUAL, Int64s, Scan

if TYPE_CHECKING:
    from netlab.readers.nccl.collect import LogCollector

__all__ = ["HEADED", "Piece"]

_HOST, _HOST_END, _PID, _TID, _BODY, _STOP = range(6)
#: Lines from this number on have a header that the scan has read.
HEADED = UNUSUAL + 1


class Piece:
    """``first`` is the number of lines in front of it, ``who`` the number of each line's process (-1 where there is none)."""

    def __init__(self, collector: LogCollector, data: bytes, found: Scan) -> None:
        self.found = found
        self.first = collector.lines
        self.who: Int64s = np.full(len(found.kind), -1, np.int64)
        self.headed = np.flatnonzero(found.kind >= HEADED)
        self._collector = collector
        self._data = data

    def text(self, start: int, end: int, line: int) -> str:
        """Some bytes of a line as text."""
        return self._collector.decode(self._data[start:end], self.first + line + 1)

    def line(self, line: int) -> str:
        """A whole line."""
        return self.text(int(self.found.start[line]), int(self.found.end[line]), line)

    def host(self, line: int) -> str:
        """Host of a record."""
        return self.text(int(self.found.parts[line, _HOST]), int(self.found.parts[line, _HOST_END]), line)

    def pid(self, line: int) -> int:
        """Process id of a record."""
        return int(self.found.parts[line, _PID])

    def tid(self, line: int) -> int:
        """Thread id of a record."""
        return int(self.found.parts[line, _TID])

    def prefix(self, line: int) -> str:
        """What a launcher put in front of a record."""
        start, host = int(self.found.start[line]), int(self.found.parts[line, _HOST])
        return self.text(start, host, line) if start < host else ""

    def message(self, line: int) -> str:
        """Message of a record."""
        return self.text(int(self.found.parts[line, _BODY]), int(self.found.parts[line, _STOP]), line)

    def record(self, line: int) -> Record:
        """A record whose header the scan has read; of other levels than INFO it leaves all to `records`."""
        process = self._collector.state.in_order[self.who[line]]
        message, prefix = self.message(line), self.prefix(line)
        return Record(self.first + line + 1, process.host or "", process.pid, self.tid(line), "INFO", message, prefix, None)

    def speakers(self, line: int) -> list[int]:
        """Numbers of the processes that speak behind a line, in order, until one comes that is not read yet."""
        at = int(np.searchsorted(self.headed, line, side="right"))
        unread = np.flatnonzero(self.found.kind[line + 1 :] == UNUSUAL)[:1] + line + 1
        end = int(np.searchsorted(self.headed, unread[0])) if len(unread) else len(self.headed)
        return list(dict.fromkeys(self.who[self.headed[at:end]].tolist()))
