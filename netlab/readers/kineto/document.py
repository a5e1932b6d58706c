"""From the bytes of a trace file to batches of rows, its header, and an account of all damage.

The document may be an object with ``traceEvents`` anywhere, or a bare list of events. Where its structure is broken (a second writer, a
lost block) the reader looks for the next thing that begins like an event and goes on there.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from netlab.readers.kineto import layout, plain
from netlab.readers.kineto.backends import Backend
from netlab.readers.kineto.window import END, FULL, MORE, Window

__all__ = ["HEADER_KEYS", "Batch", "Damage", "Document", "read_document"]

#: Top-level keys that are kept; all others (user, job and cluster names among them) are stepped over.
HEADER_KEYS = frozenset({"distributedInfo", "deviceProperties", "baseTimeNanoseconds", "host_name", "hostname"})
_HEADER_BYTES = 8 << 20
_TOP_LEVEL_KEYS = 100_000
#: Longest event that is read; real ones have a few hundred bytes. The pool of texts must be larger.
_EVENT_BYTES = 4 << 20
_KEY_BYTES = 1 << 16
_BATCH_ROWS = 1 << 15
# Bounds on the time that a hostile file can take: places of damage, and bytes scanned again because an event did not end.
_DAMAGE_LIMIT = 100_000
_RESCANNED_BYTES = 256 << 20
#: Places of damage that are named one by one.
_NAMED_PLACES = 20
#: What an event begins with; the byte before tells whether it is an event or the value of a key.
_EVENT_START = re.compile(rb'\{[\x00-\x20]{0,64}"(?:ph|cat|name|pid|tid|ts|dur|args)"[\x00-\x20]{0,64}:')
_START_BYTES = 160
_BEFORE_BYTES = 80
_HEADER_KEY = re.compile(rb'"(baseTimeNanoseconds|distributedInfo|deviceProperties)"\s{0,64}:\s{0,64}')


@dataclass(frozen=True)
class Batch:
    """Rows of kept events, the texts of their codes, the number of kept events before them, the header as far as it is known.

    The arrays are used again two batches later.
    """

    integers: npt.NDArray[np.int64]
    texts: npt.NDArray[np.int32]
    words: list[bytes]
    first: int
    header: Mapping[str, bytes]


@dataclass(frozen=True)
class Damage:
    """A place where the JSON is broken: issue code, offset, what was found."""

    code: str
    offset: int
    message: str


@dataclass
class Document:
    """What was read beside the rows."""

    header: dict[str, bytes] = field(default_factory=dict)
    tally: dict[str, int] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    damage_count: int = 0
    #: An array of events was found.
    has_events: bool = False
    truncated: bool = False
    size_bytes: int = 0
    kept: int = 0


def read_document(window: Window, backend: Backend, on_batch: Callable[[Batch], None], keep_hosts: bool) -> Document:
    """Read everything; batches go to ``on_batch`` in the order of the file."""
    reading = _Reading(window, backend, on_batch, keep_hosts)
    reading.run()
    return reading.document


class _EndError(Exception):
    """The end of the bytes."""


class _Reading:
    def __init__(self, window: Window, backend: Backend, on_batch: Callable[[Batch], None], keep_hosts: bool) -> None:
        self.window, self.backend, self.on_batch, self.keep_hosts = window, backend, on_batch, keep_hosts
        self.document = Document()
        self.integers, self.texts = self._buffers()
        self.spare = self._buffers()
        self.tally = np.zeros(len(layout.TALLY), np.int64)
        self.pool = backend.new_pool()
        self.row = 0
        self.rescanned = 0

    def run(self) -> None:
        with contextlib.suppress(_EndError):
            self._document()
        self._flush()
        document = self.document
        document.size_bytes = self.window.offset + self.window.end
        document.tally = dict(zip(layout.TALLY, self.tally.tolist(), strict=True))

    @staticmethod
    def _buffers() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        return np.empty((_BATCH_ROWS, layout.INTEGER_COUNT), np.int64), np.empty((_BATCH_ROWS, layout.TEXT_COUNT + 2), np.int32)

    # The top level.

    def _document(self) -> None:
        if self.window.more(_KEY_BYTES) == END:
            raise _EndError
        if self.window.data.startswith(b"\xef\xbb\xbf"):
            self.window.at = 3
        first = self._peek()
        if first == ord("["):
            self.window.at += 1
            self.document.has_events = True
            self._events()
        elif first == ord("{"):
            self.window.at += 1
            self._object()
        else:
            raise _EndError
        while True:
            if self._peek(at_end=True) < 0:
                return
            self._damaged("bytes follow the end of the document")

    def _object(self) -> None:
        """Keys and values of the top level, up to its closing brace."""
        need_comma, keys = False, 0
        while True:
            byte = self._peek()
            if byte == ord("}"):
                self.window.at += 1
                return
            if need_comma:
                if byte != ord(","):
                    self._damaged("a comma is missing between the keys of the top level")
                    return
                self.window.at += 1
                need_comma = False
                continue
            key, keys = self._key() if byte == ord('"') else None, keys + 1
            if key is None or keys > _TOP_LEVEL_KEYS:
                self._damaged("a key is expected at the top level")
                return
            if self._peek() != ord(":"):
                self._damaged("a colon is expected at the top level")
                return
            self.window.at += 1
            byte = self._peek()
            if key == "traceEvents" and byte == ord("["):
                self.window.at += 1
                self.document.has_events = True
                self._events()
            elif byte in b",}]:":
                self._damaged("a value is missing at the top level")
                return
            else:
                self._value(key)
            need_comma = True

    def _peek(self, at_end: bool = False) -> int:
        """The next byte that is no space; at the end of the bytes -1 if that is allowed, else the document is cut."""
        window = self.window
        while True:
            window.at = plain.skip_space(window.data, window.at, window.end)
            if window.at < window.end:
                return window.data[window.at]
            if window.more(_KEY_BYTES) != MORE:
                if at_end:
                    return -1
                self._truncated(window.position)

    def _key(self) -> str | None:
        window = self.window
        while True:
            end = plain.skip_text(window.data, window.at + 1, window.end)
            if end >= 0:
                key = bytes(window.data[window.at + 1 : end - 1])
                window.at = end
                return key.decode("utf-8", "replace")
            answer = window.more(_KEY_BYTES)
            if answer == END:
                self._truncated(window.position)
            if answer == FULL:
                return None

    def _value(self, key: str) -> None:
        """Keep a header's value, or step over it whatever its size."""
        window, start = self.window, self.window.position
        ignored = [0] * len(layout.TALLY)
        while key in HEADER_KEYS:
            end = plain.skip_value(window.data, window.at, window.end, ignored)
            if end >= 0:
                # Behind damage the header may be another writer's: the first one counts.
                if self.document.damage_count == 0 or key not in self.document.header:
                    self.document.header[key] = bytes(window.data[window.at : end])
                window.at = end
                return
            answer = window.more(_HEADER_BYTES) if end == -1 else FULL
            if answer == END:
                self._truncated(start)
            if answer == FULL:
                break
        self._skip_value(start)

    def _skip_value(self, start: int) -> None:
        window, state = self.window, np.zeros(4, np.int64)
        while True:
            window.at = self.backend.skip_stream(window.data, window.at, window.end, state)
            if state[3]:
                return
            if window.more(_KEY_BYTES) != MORE:
                self._truncated(start)

    # Events.

    def _events(self) -> None:
        """Inside an array of events, up to its closing bracket."""
        window = self.window
        while True:
            status, window.at, self.row = self.backend.scan_events(
                window.data, window.at, window.end, self.row, self.integers, self.texts, self.pool, self.tally, self.keep_hosts
            )
            if status == layout.ARRAY_END:
                return
            if status in (layout.ROWS_FULL, layout.WORDS_FULL):
                self._flush()
            elif status == layout.DAMAGE:
                self._damaged("an event is broken", inside=True)
            else:
                answer = window.more(_EVENT_BYTES)
                if answer == FULL:
                    self._oversized()
                elif answer == END:
                    self._cut()

    def _flush(self) -> None:
        if self.row:
            words = self.backend.words(self.pool)
            header = dict(self.document.header)
            self.on_batch(Batch(self.integers[: self.row], self.texts[: self.row], words, self.document.kept, header))
            (self.integers, self.texts), self.spare = self.spare, (self.integers, self.texts)
            self.document.kept += self.row
            self.row = 0
        self.backend.clear(self.pool)

    def _cut(self) -> None:
        """The bytes end inside the array; unless another event begins behind, which shows that this one was broken before."""
        start = self._to_event()
        if self._find_event(self.window.at + 1, self.window.end) >= 0:
            self._damaged("an event is broken", inside=True)
            return
        self._truncated(start)

    def _oversized(self) -> None:
        start = self._to_event()
        if self.window.at == self.window.end:
            return  # nothing but space
        if self._find_event(self.window.at + 1, self.window.end) >= 0:
            self._damaged("an event is broken", inside=True)
            return
        self._note("OVERSIZED_EVENT", start, f"an event is longer than {_EVENT_BYTES >> 20} MiB; it was left out")
        self._skip_value(start)

    def _to_event(self) -> int:
        """Put the window on the beginning of an event of which only a part is there; returns the place."""
        window = self.window
        self.rescanned += window.end - window.at
        window.at = plain.skip_space(window.data, window.at, window.end)
        if window.at < window.end and window.data[window.at] == ord(","):
            window.at = plain.skip_space(window.data, window.at + 1, window.end)
        return window.position

    # Damage.

    def _note(self, code: str, offset: int, message: str) -> None:
        self.document.damage_count += 1
        if len(self.document.damage) < _NAMED_PLACES:
            self.document.damage.append(Damage(code, offset, message))

    def _truncated(self, offset: int) -> NoReturn:
        self.document.truncated = True
        self._note("TRUNCATED_JSON", offset, "the JSON ends in the middle")
        raise _EndError

    def _damaged(self, message: str, inside: bool = False) -> None:
        """Note broken structure at the window's position, look for the next event, and read on there."""
        window = self.window
        self._note("MALFORMED_JSON", window.position, message)
        if self.document.damage_count > _DAMAGE_LIMIT or self.rescanned > _RESCANNED_BYTES:
            self._note("MALFORMED_JSON", window.position, "the rest is too damaged to be searched for events")
            raise _EndError
        window.at += 1
        search = window.at
        while True:
            found = self._find_event(search, window.end)
            self._rescue(window.at, found if found >= 0 else window.end)
            if found >= 0:
                window.at = found
                break
            # An event's start may lie across the border; what may stand before it must stay visible, too.
            window.at = max(window.at, window.end - _START_BYTES - _BEFORE_BYTES)
            if window.more(_EVENT_BYTES) != MORE:
                raise _EndError
            search = window.at + _BEFORE_BYTES
        if not inside:
            self.document.has_events = True
            self._events()

    def _find_event(self, start: int, end: int) -> int:
        """Where the next event begins, or -1. The value of a key (``"args": {"name": ...``) is none."""
        data = self.window.data
        while (found := _EVENT_START.search(data, start, end)) is not None:
            before = found.start() - 1
            while before >= 0 and data[before] <= 32:
                before -= 1
            if before < 0 or data[before] != ord(":"):
                return found.start()
            start = found.start() + 1
        return -1

    def _rescue(self, start: int, end: int) -> None:
        """Header values in a stretch that is passed over (the base time stands at the end of the file)."""
        data = self.window.data
        ignored = [0] * len(layout.TALLY)
        for found in _HEADER_KEY.finditer(data, start, end):
            stop = plain.skip_value(data, found.end(), end, ignored) if found.end() < end else -1
            if stop >= 0:
                self.document.header.setdefault(found[1].decode(), bytes(data[found.end() : stop]))
