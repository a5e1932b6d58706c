"""From bytes of a log to records: repaired lines, then every NCCL header found anywhere in a line.

Stages one and two of the three of docs/nccl.md; `messages` is the third.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["HEADER", "Record", "RecordSplitter", "clean", "prefix_rank", "timestamp_ns"]

#: A header may stand anywhere. An empty or ``<...>`` host occurs in excerpts.
HEADER = re.compile(
    r"(?P<host>[A-Za-z0-9][\w-]*|<[^<>]*>|):(?P<pid>\d{1,15}):(?P<tid>\d{1,15}) (?:\[(?P<dev>-?\d+)\] )?(?:(?P<ms>\d+\.\d+) )?"
    r"(?:(?P<src>[\w./+-]+:\d+)(?: \((?P<func>[^()]*)\))? )?NCCL (?P<level>INFO|WARN|TRACE|CALL|ABORT|ERROR)(?: |$)"
)
_NEXT_HEADER = re.compile(r" NCCL (?:INFO|WARN|TRACE|CALL|ABORT|ERROR)\b")
#: The beginning of a header whose rest is lost.
_TORN_HEADER = re.compile(
    r"(?:^|[^\w.-])[A-Za-z][\w.-]*:\d+:\d+ (?:\[-?\d+\]? ?)(?:N(?:C(?:C(?:L(?: [A-Z]{0,5})?)?)?)?)?$"
    r"|NCCL [A-Z]*$|:\d+:\d+ \[-?\d+\] NCCL \w"
)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_CRI = re.compile(r"(\d{4}-\d\d-\d\dT\S+) (stdout|stderr) ([PF]) (.*)$", re.DOTALL)
#: Docker's json-file driver.
_JSON_LINE = '{"log":'
_ZONE_END = re.compile(r"[+-]\d\d:$")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")
_RANK_PREFIXES = (
    re.compile(r"\[rank(\d{1,7})\]:?"),
    re.compile(r"^\[\d+,(\d{1,7})\]<std(?:out|err)>:"),
    re.compile(r"^ *(\d{1,7}): "),
    re.compile(r"^\[(\d{1,7})\] $"),
)


class Record(NamedTuple):
    """One NCCL log record. ``line`` counts from 1; ``host`` is None where the header has none."""

    line: int
    host: str | None
    pid: int
    tid: int
    level: str
    message: str
    prefix: str
    origin: str | None


def clean(text: str) -> str:
    """A physical line without carriage returns, NUL and terminal colours.

    >>> clean("\\x1b[36mstep 1\\x1b[0m\\r")
    'step 1'
    """
    if "\r" in text or "\0" in text:
        text = text.replace("\r", "").replace("\0", "")
    return _ANSI.sub("", text) if "\x1b" in text else text


def prefix_rank(prefix: str) -> int | None:
    """The rank that a launcher put in front of a line.

    >>> prefix_rank("[rank3]: "), prefix_rank("[1,2]<stdout>:"), prefix_rank(" 5: "), prefix_rank("worker-0: ")
    (3, 2, 5, None)
    """
    for pattern in _RANK_PREFIXES:
        found = pattern.search(prefix)
        if found:
            return int(found[1])
    return None


def timestamp_ns(text: str) -> int | None:
    """The first date and time in a text as nanoseconds since the Unix epoch; a time without zone is taken as UTC.

    >>> timestamp_ns("[1970-01-01 00:00:01.5] ")
    1500000000
    """
    import calendar

    found = _TIME.search(text)
    if not found:
        return None
    year, month, day, hour, minute, second = (int(found[i]) for i in range(1, 7))
    # Nanoseconds of later years do not fit 64 bits.
    if not (1970 <= year < 2262 and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60):
        return None
    seconds = calendar.timegm((year, month, day, hour, minute, second))
    zone = found[8]
    if zone and zone != "Z":
        offset = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
        seconds -= offset if zone[0] == "+" else -offset
    return seconds * 1_000_000_000 + int((found[7] or "0").ljust(9, "0"))


class RecordSplitter:
    """Splits physical lines into records and remembers the hosts it has met, so that glued records can be cut at the right place."""

    def __init__(self) -> None:
        self._hosts: set[str] = set()
        self._host_of_pid: dict[int, str] = {}
        self._partial: dict[str, str] = {}

    def learn(self, text: str) -> None:
        """Remember the host of a line that begins with a header."""
        found = HEADER.match(text)
        if found and found["host"]:
            self.remember(found["host"], int(found["pid"]))

    def remember(self, host: str, pid: int) -> None:
        """Know a host and one of its processes."""
        if host.isdigit():  # the end of a name whose beginning was cut off
            return
        self._hosts.add(host)
        self._host_of_pid.setdefault(pid, host)

    def known_host(self, host: str, pid: int) -> str:
        """The host of a process, where a name ends like it."""
        known = self._host_of_pid.get(pid)
        return known if known and host not in self._hosts and host.endswith(known) else host

    def glue(self, text: str) -> str | None:
        """Undo what containers put around a line, and their partial lines: None while the line goes on."""
        if text.startswith(_JSON_LINE):
            text = _unwrapped(text)
        found = _CRI.match(text)
        if not found:
            return text
        stream = found[2]
        held = self._partial.pop(stream, None)
        whole = f"{held}{found[4]}" if held is not None else text
        if found[3] == "P":
            self._partial[stream] = whole if held is not None else f"{found[1]} {stream} F {found[4]}"
            return None
        return whole

    def split(self, text: str, line: int) -> Iterator[Record]:
        """Every record of a repaired line, in order; nothing for a line without a header."""
        first = HEADER.match(text)
        if first and not _NEXT_HEADER.search(text, first.end() - 1):
            self.remember(first["host"], int(first["pid"]))
            yield self._record(first, first["host"], text[first.end() :], "", line)
            return
        marks = list(HEADER.finditer(text))
        starts = []
        for number, mark in enumerate(marks):
            host = self._true_host(mark, text)
            starts.append((mark.end("host") - len(host), host))
            if number == 0 and (mark.start() == 0 or text[mark.start() - 1] in " \t]>:"):
                self.remember(host, int(mark["pid"]))
        for number, mark in enumerate(marks):
            end = starts[number + 1][0] if number + 1 < len(marks) else len(text)
            if number + 1 < len(marks):
                end = _without_prefix(text, mark.end(), end)
            yield self._record(mark, starts[number][1], text[mark.end() : end], text[: starts[0][0]] if number == 0 else "", line)

    def _true_host(self, mark: re.Match[str], text: str) -> str:
        """Cut what another record left in front of the host name."""
        host = mark["host"]
        if not host or host.startswith("<") or host in self._hosts:
            return host
        if _ZONE_END.search(text[: mark.start()]) and len(host) > 2 and host[:2].isdigit():
            host = host[2:]
        known = self.known_host(host, int(mark["pid"]))
        if known != host:
            return known
        fits = [name for name in self._hosts if name and host.endswith(name)]
        return max(fits, key=len) if fits and mark.start() > 0 else host

    @staticmethod
    def _record(mark: re.Match[str], host: str, message: str, prefix: str, line: int) -> Record:
        short = host.split(".")[0] if host and not host.startswith("<") else None
        return Record(line, short, int(mark["pid"]), int(mark["tid"]), mark["level"], message.rstrip(), prefix, mark["src"])


def _unwrapped(text: str) -> str:
    """The line inside Docker's ``{"log": ..., "time": ...}``, its time in front."""
    try:
        held = json.loads(text)
    except ValueError:
        return text
    line = held.get("log") if isinstance(held, dict) else None
    return clean(f"{held.get('time', '')} {line}".rstrip()) if isinstance(line, str) else text


def is_torn(text: str) -> bool:
    """Whether a line without a whole header holds the remains of one."""
    return bool(_TORN_HEADER.search(text))


_INNER_PREFIX = re.compile(r"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d]*\] |\[(?:rank|default)\d+\]: ?|\[\d+,\d+\]<std(?:out|err)>: ?)$")


def _without_prefix(text: str, begin: int, end: int) -> int:
    """Where a record ends if the prefix of the next one stands directly behind it."""
    found = _INNER_PREFIX.search(text, begin, end)
    return found.start() if found else end
