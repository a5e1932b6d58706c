"""Who runs the scanner: plain Python or compiled code."""

from __future__ import annotations

import logging
import sys
from typing import Any, Protocol

from netlab.readers.kineto import plain, shared

__all__ = ["Backend", "PlainBackend", "choose_backend"]


_LOG = logging.getLogger(__name__)
_LOADED_FROM_BYTES, _MADE_FROM_BYTES = 4 << 20, 512 << 20


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


class _Amount:
    """Bytes of small files that this process has read."""

    read_bytes = 0


def choose_backend(small_bytes: int | None) -> Backend:
    """Compiled code for a large file (None), or once many small ones have come; otherwise msgspec, also where numba does not work.

    Loading the compiled code costs as much as reading 4 MB without it; making it, as much as 512 MB.
    """
    from netlab.readers.kineto.strict import StrictBackend

    if small_bytes is not None and "netlab.readers.kineto.compiled" not in sys.modules:
        _Amount.read_bytes += small_bytes
        if _Amount.read_bytes < _MADE_FROM_BYTES and (_Amount.read_bytes < _LOADED_FROM_BYTES or not shared.is_compiled()):
            return StrictBackend()
    try:
        from netlab.readers.kineto.compiled import CompiledBackend

        return CompiledBackend()
    except (ImportError, OSError) as error:
        _LOG.warning("numba cannot be loaded (%s); traces are read without compiled code, several times slower", error)
        return StrictBackend()
