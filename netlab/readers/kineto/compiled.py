"""The scanner as machine code: numba, without the GIL, with 32 bytes at a time where strings and brackets are stepped over.

Compiling takes seconds and happens once (`netlab.machine_code`); afterwards the code loads without numba.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt

from netlab.machine_code import machine_code
from netlab.readers.kineto import shared

__all__ = ["CompiledBackend", "Pool"]

_WORDS = 1 << 16
_WORD_BYTES = 8 << 20
_TABLE = 4 * _WORDS
_ARENA = _WORD_BYTES + 64

#: Long and called from many places; everything else is inlined.
_CALLED = frozenset({"skip_object", "number"})

Pool = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.uint8], npt.NDArray[np.int64]]

_SCAN_EVENTS = (
    *("u8[]", "i64", "i64", "i64", "i64"),  # data, its size, at, end, row
    *("i64[]", "i64", "i64", "i32[]", "i64", "i64"),  # integers and texts, each with rows and columns
    *("i32[]", "i64[]", "i32[]", "u8[]", "i64[]"),  # the pool
    *("i64[]", "i64", "i64", "i64[]"),  # tally and its size, keep hosts, (status, at, row)
)
_SKIP_STREAM = ("u8[]", "i64", "i64", "i64", "i64[]", "i64", "i64[]")


def _jitted() -> dict[str, Any]:
    from numba import njit

    from netlab.readers.kineto import compiled_primitives

    def wrap(name: str, function: FunctionType) -> Any:
        return njit(nogil=True, boundscheck=False, error_model="numpy", forceinline=name not in _CALLED)(function)

    return shared.bind({name: getattr(compiled_primitives, name) for name in shared.PRIMITIVES}, wrap)


def _make_scan_events() -> Callable[..., None]:
    from numba import carray

    scan_events = _jitted()["scan_events"]

    def entry(  # type: ignore[no-untyped-def]
        data, size, at, end, row, integers, rows, columns, texts, text_rows, text_columns, table, offsets, lengths, arena, count, tally,
        tally_size, keep_hosts, out,
    ):  # fmt: skip
        pool = (
            carray(table, (_TABLE,)),
            carray(offsets, (_WORDS,)),
            carray(lengths, (_WORDS,)),
            carray(arena, (_ARENA,)),
            carray(count, (2,)),
        )
        numbers, words = carray(integers, (rows, columns)), carray(texts, (text_rows, text_columns))
        found = scan_events(carray(data, (size,)), at, end, row, numbers, words, pool, carray(tally, (tally_size,)), keep_hosts != 0)
        result = carray(out, (3,))
        result[0], result[1], result[2] = found[0], found[1], found[2]

    return entry


def _make_skip_stream() -> Callable[..., None]:
    from numba import carray

    skip_stream = _jitted()["skip_stream"]

    def entry(data, size, at, end, state, state_size, out):  # type: ignore[no-untyped-def]
        carray(out, (1,))[0] = skip_stream(carray(data, (size,)), at, end, carray(state, (state_size,)))

    return entry


@lru_cache(maxsize=1)
def _functions() -> tuple[Callable[..., None], Callable[..., None]]:
    """The compiled entry points, from the cache on disk or made now."""
    return (
        machine_code("scan_events", shared.version(), _SCAN_EVENTS, _make_scan_events),
        machine_code("skip_stream", shared.version(), _SKIP_STREAM, _make_skip_stream),
    )


class CompiledBackend:
    """Machine code. Making one compiles, or loads what was compiled before."""

    name = "compiled"
    releases_gil = True

    def __init__(self) -> None:
        self._scan_events, self._skip_stream = _functions()

    def new_pool(self) -> Pool:
        """An empty pool of texts: hash table, offsets, lengths, bytes, (number of texts, number of bytes)."""
        table = np.full(_TABLE, -1, np.int32)
        return table, np.zeros(_WORDS, np.int64), np.zeros(_WORDS, np.int32), np.zeros(_ARENA, np.uint8), np.zeros(2, np.int64)

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
        found = np.empty(3, np.int64)
        tables = (integers, *integers.shape, texts, *texts.shape)
        self._scan_events(np.frombuffer(data, np.uint8), len(data), at, end, row, *tables, *pool, tally, len(tally), keep_hosts, found)
        status, at, row = found.tolist()
        return status, at, row

    def skip_stream(self, data: bytearray, at: int, end: int, state: Any) -> int:
        """``skip_stream``."""
        found = np.empty(1, np.int64)
        self._skip_stream(np.frombuffer(data, np.uint8), len(data), at, end, state, len(state), found)
        return int(found[0])
