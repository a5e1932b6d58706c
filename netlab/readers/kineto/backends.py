"""Who runs the scanner: plain Python or compiled code."""

from __future__ import annotations

import logging
import sys
from typing import Any, Protocol

from netlab.readers.kineto import plain

__all__ = ["Backend", "PlainBackend", "choose_backend"]


_LOG = logging.getLogger(__name__)


class Backend(Protocol):
    """The scanner's functions over a window's data."""

    name: str
    #: Whether other threads run while it scans.
    releases_gil: bool

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
        """``scan_events``."""
        ...

    def skip_stream(self, data: bytearray, at: int, end: int, state: Any) -> int:
        """``skip_stream``."""
        ...


class PlainBackend:
    """No compiler."""

    name = "plain"
    releases_gil = False

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
        """``scan_events``."""
        status, at, row = plain.scan_events(data, at, end, row, integers, texts, pool, tally, keep_hosts)
        return status, at, row

    def skip_stream(self, data: bytearray, at: int, end: int, state: Any) -> int:
        """``skip_stream``."""
        return int(plain.skip_stream(data, at, end, state))


def choose_backend(is_small: bool) -> Backend:
    """Compiled code for large files, or where it is loaded already; otherwise msgspec, also where numba does not work."""
    from netlab.readers.kineto.strict import StrictBackend

    if is_small and "netlab.readers.kineto.compiled" not in sys.modules:
        return StrictBackend()
    try:
        from netlab.readers.kineto.compiled import CompiledBackend
    except (ImportError, OSError) as error:
        _LOG.warning("numba cannot be loaded (%s); traces are read without compiled code, several times slower", error)
        return StrictBackend()
    return CompiledBackend()
