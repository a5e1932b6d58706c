"""The scanner as machine code: numba, without the GIL, with 32 bytes at a time where strings and brackets are stepped over.

Compiling takes seconds and happens once: the code is cached beside the package if that can be written, else in the user's cache, else not
at all. Nothing here calls itself: numba's cached recursive functions abort the process on the second run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from pickle import UnpicklingError
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from netlab.readers.kineto import compiled_primitives, shared

__all__ = ["CompiledBackend", "Pool"]

_LOG = logging.getLogger(__name__)
_WORDS = 1 << 16
_WORD_BYTES = 8 << 20

_BYTES = types.Array(types.uint8, 1, "C")
_INTEGERS = types.Array(types.int64, 1, "C")
_CODES = types.Array(types.int32, 1, "C")
_POOL = types.Tuple((_CODES, _INTEGERS, _CODES, _BYTES, _INTEGERS))
_SIGNATURES = {
    "scan_events": types.Tuple((types.int64, types.int64, types.int64))(
        _BYTES,
        types.int64,
        types.int64,
        types.int64,
        types.Array(types.int64, 2, "C"),
        types.Array(types.int32, 2, "C"),
        _POOL,
        _INTEGERS,
        types.boolean,
    ),
    "skip_stream": types.int64(_BYTES, types.int64, types.int64, _INTEGERS),
}

#: Long and called from many places; everything else is inlined.
_CALLED = frozenset({"skip_object", "number"})

Pool = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.uint8], npt.NDArray[np.int64]]


@lru_cache(maxsize=1)
def _functions() -> dict[str, Callable[..., Any]]:
    """The compiled entry points, from the cache on disk or made now."""
    try:
        return _compile(cache=True)
    except (RuntimeError, OSError, EOFError, UnpicklingError) as error:
        # No folder can be written, the disk is full, or a cache file is damaged: numba says so in one of these ways.
        _LOG.debug("compiled code is not cached: %s", error)
        return _compile(cache=False)


def _compile(cache: bool) -> dict[str, Callable[..., Any]]:
    def wrap(name: str, function: FunctionType) -> Any:
        if name not in _SIGNATURES:
            return njit(nogil=True, boundscheck=False, error_model="numpy", forceinline=name not in _CALLED)(function)
        # numba looks only at the file of this function for changes; the name makes the cache follow the others, too.
        function.__qualname__ = f"{name}_{shared.version()}"
        return njit(_SIGNATURES[name], nogil=True, boundscheck=False, error_model="numpy", cache=cache)(function)

    return shared.bind({name: getattr(compiled_primitives, name) for name in shared.PRIMITIVES}, wrap)


class CompiledBackend:
    """Machine code. Making one compiles, or loads what was compiled before."""

    name = "compiled"
    releases_gil = True

    def __init__(self) -> None:
        functions = _functions()
        self._scan_events, self._skip_stream = functions["scan_events"], functions["skip_stream"]

    def new_pool(self) -> Pool:
        """An empty pool of texts: hash table, offsets, lengths, bytes, (number of texts, number of bytes)."""
        table = np.full(4 * _WORDS, -1, np.int32)
        return table, np.zeros(_WORDS, np.int64), np.zeros(_WORDS, np.int32), np.zeros(_WORD_BYTES + 64, np.uint8), np.zeros(2, np.int64)

    def words(self, pool: Pool) -> list[bytes]:
        """The texts of a pool in the order of their numbers."""
        _, offsets, lengths, arena, count = pool
        number = int(count[0])
        content = arena[: int(count[1])].tobytes()
        starts, sizes = offsets[:number].tolist(), lengths[:number].tolist()
        return [content[start : start + size] for start, size in zip(starts, sizes, strict=True)]

    def clear(self, pool: Pool) -> None:
        """Empty a pool."""
        pool[0].fill(-1)
        pool[4].fill(0)

    def scan_events(
        self, data: bytearray, at: int, end: int, row: int, integers: Any, texts: Any, pool: Pool, tally: Any, keep_hosts: bool
    ) -> tuple[int, int, int]:
        """``scan_events``."""
        status, at, row = self._scan_events(np.frombuffer(data, np.uint8), at, end, row, integers, texts, pool, tally, keep_hosts)
        return status, at, row

    def skip_stream(self, data: bytearray, at: int, end: int, state: Any) -> int:
        """``skip_stream``."""
        return int(self._skip_stream(np.frombuffer(data, np.uint8), at, end, state))
