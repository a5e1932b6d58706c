"""Who runs the scanner: plain Python or compiled code."""

from __future__ import annotations

from typing import Any, Protocol

from netlab.readers.kineto import plain

__all__ = ["Backend", "PlainBackend"]


class Backend(Protocol):
    """The scanner's functions over a window's data."""

    name: str

    def new_pool(self) -> Any:
        """An empty pool of texts."""
        ...

    def words(self, pool: Any) -> list[bytes]:
        """The texts of a pool in the order of their numbers."""
        ...

    def clear(self, pool: Any) -> None:
        """Empty a pool."""
        ...

    def scan_events(
        self, data: bytearray, at: int, end: int, row: int, integers: Any, texts: Any, pool: Any, tally: Any, keep_hosts: bool
    ) -> tuple[int, int, int]:
        """``scan.scan_events``."""
        ...

    def skip_stream(self, data: bytearray, at: int, end: int, state: Any) -> int:
        """``scan.skip_stream``."""
        ...


class PlainBackend:
    """No compiler."""

    name = "plain"

    def new_pool(self) -> plain.WordPool:
        """An empty pool of texts."""
        return plain.WordPool()

    def words(self, pool: plain.WordPool) -> list[bytes]:
        """The texts of a pool in the order of their numbers."""
        return pool.words()

    def clear(self, pool: plain.WordPool) -> None:
        """Empty a pool."""
        pool.clear()

    def scan_events(
        self, data: bytearray, at: int, end: int, row: int, integers: Any, texts: Any, pool: Any, tally: Any, keep_hosts: bool
    ) -> tuple[int, int, int]:
        """``scan.scan_events``."""
        status, at, row = plain.scan_events(data, at, end, row, integers, texts, pool, tally, keep_hosts)
        return status, at, row

    def skip_stream(self, data: bytearray, at: int, end: int, state: Any) -> int:
        """``scan.skip_stream``."""
        return int(plain.skip_stream(data, at, end, state))
