"""A bounded window that moves over a stream of bytes."""

from __future__ import annotations

from typing import Protocol

__all__ = ["END", "FULL", "MORE", "PADDING", "ByteSource", "MemorySource", "Window"]

#: Bytes behind the end of the data that may be read (never used) by primitives that load 32 bytes at once.
PADDING = 64
#: What ``Window.more`` answers.
MORE, END, FULL = range(3)


class ByteSource(Protocol):
    """Anything that fills a buffer; 0 at the end."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill a buffer as far as there are bytes."""
        ...


class MemorySource:
    """Bytes in memory, then the rest of a stream."""

    def __init__(self, head: bytes, rest: ByteSource | None = None) -> None:
        self._head, self._at, self._rest = head, 0, rest

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill a buffer as far as there are bytes."""
        count = min(len(buffer), len(self._head) - self._at)
        buffer[:count] = self._head[self._at : self._at + count]
        self._at += count
        if count or self._rest is None:
            return count
        self._head = b""
        self._at = 0
        return self._rest.readinto(buffer)


class Window:
    """Bytes [at, end) of ``data`` are not consumed yet; ``offset`` is the place of ``data[0]`` in the stream."""

    def __init__(self, source: ByteSource, capacity: int) -> None:
        self._source = source
        self.data = bytearray(capacity + PADDING)
        self.at = self.end = self.offset = 0

    @property
    def position(self) -> int:
        """Place of the next byte in the stream."""
        return self.offset + self.at

    def more(self, limit: int) -> int:
        """Get more bytes behind those not consumed. END at the stream's end, FULL if ``limit`` bytes wait already.

        ``data`` may be another object afterwards.
        """
        waiting = self.end - self.at
        if waiting >= limit:
            return FULL
        capacity = len(self.data) - PADDING
        if 2 * waiting > capacity:
            grown = bytearray(2 * capacity + PADDING)
            grown[:waiting] = memoryview(self.data)[self.at : self.end]
            self.data = grown
        elif self.at:
            view = memoryview(self.data)
            view[:waiting] = view[self.at : self.end]
        self.offset += self.at
        self.at, self.end = 0, waiting
        count = self._source.readinto(memoryview(self.data)[waiting : len(self.data) - PADDING])
        self.end += count
        return MORE if count else END
