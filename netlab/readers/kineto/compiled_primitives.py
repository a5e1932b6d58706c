"""Primitives of the scanner for numba: vector loads, perfect hash tables of the known keys, a pool of texts in arrays.

The vector forms read up to 32 bytes behind the end that they are given; buffers are padded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from netlab.readers.kineto import fields

__all__ = ["argument_field", "category", "event_field", "host_kind", "intern", "is_query", "next_quote", "next_structural", "skip_space"]

_inline = numba.njit(nogil=True, boundscheck=False, error_model="numpy", forceinline=True)

_TABLE = 512
_WORD_LIMIT = 1 << 16
_BYTE_LIMIT = 8 << 20


def _vector_mask(builder: Any, loaded: Any, values: Iterable[int]) -> Any:
    """Bit i is set where byte i of a vector of 32 equals one of the values."""
    kind = loaded.type
    mask = None
    for value in values:
        equal = builder.icmp_unsigned("==", loaded, ir.Constant(kind, [value] * 32))
        mask = equal if mask is None else builder.or_(mask, equal)
    return mask


def _load(context: Any, builder: Any, signature: Any, args: Any, kind: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    loaded = builder.load(builder.bitcast(builder.gep(array.data, [args[1]]), kind.as_pointer()))
    loaded.align = 1
    return loaded


@intrinsic  # type: ignore[untyped-decorator]
def _quotes32(typing_context: Any, array: Any, index: Any) -> Any:
    """Where among 32 bytes a quote or a backslash stands."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = _load(context, builder, signature, args, ir.VectorType(ir.IntType(8), 32))
        return builder.bitcast(_vector_mask(builder, loaded, b'"\\'), ir.IntType(32))

    return types.uint32(array, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _structural32(typing_context: Any, array: Any, index: Any) -> Any:
    """Where among 32 bytes a quote or a bracket of any kind stands."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), 32)
        loaded = _load(context, builder, signature, args, kind)
        # Setting one bit makes [ and ] the same as { and }.
        folded = builder.or_(loaded, ir.Constant(kind, [32] * 32))
        mask = builder.or_(_vector_mask(builder, loaded, b'"'), _vector_mask(builder, folded, b"{}"))
        return builder.bitcast(mask, ir.IntType(32))

    return types.uint32(array, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _load64(typing_context: Any, array: Any, index: Any) -> Any:
    """Eight bytes as one number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _load(context, builder, signature, args, ir.IntType(64))

    return types.uint64(array, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _trailing_zeros(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.cttz(args[0], ir.Constant(ir.IntType(1), 0)), ir.IntType(64))

    return types.int64(types.uint32), generate


@_inline
def next_quote(b, p, e):  # type: ignore[no-untyped-def]
    """The next quote or backslash, or ``e``."""
    while p < e:
        mask = _quotes32(b, p)
        if mask != 0:
            return min(p + _trailing_zeros(mask), e)
        p += 32
    return e


@_inline
def next_structural(b, p, e):  # type: ignore[no-untyped-def]
    """The next quote or bracket, or ``e``."""
    while p < e:
        mask = _structural32(b, p)
        if mask != 0:
            return min(p + _trailing_zeros(mask), e)
        p += 32
    return e


@_inline
def skip_space(b, p, e):  # type: ignore[no-untyped-def]
    """To the next byte that is no space."""
    while p < e and b[p] <= 32:
        p += 1
    return p


def _perfect_hash(values: Mapping[str, int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], int, int]:
    """A table without collisions: rows of (offset, length, value), the keys' bytes, and the two factors that make it so."""
    keys = [key.encode() for key in values]
    for first in range(1, 800, 2):
        for second in range(1, 64, 2):
            places = [(len(key) * first + key[0] * second + key[-1] * 3 + key[len(key) // 2] * 5 + key[-2] * 7) % _TABLE for key in keys]
            if len(set(places)) == len(places):
                table = np.full((_TABLE, 3), -1, np.int64)
                content = b"".join(keys)
                offset = 0
                for key, place, value in zip(keys, places, values.values(), strict=True):
                    table[place] = (offset, len(key), value)
                    offset += len(key)
                return table, np.frombuffer(content, np.uint8).copy(), first, second
    raise AssertionError("no perfect hash for the keys; enlarge the table")


_EVENT_TABLE, _EVENT_KEYS, _EVENT_FIRST, _EVENT_SECOND = _perfect_hash(
    {name: what << 6 | slot for name, (what, slot) in fields.EVENT_FIELDS.items()}
)
_ARGUMENT_TABLE, _ARGUMENT_KEYS, _ARGUMENT_FIRST, _ARGUMENT_SECOND = _perfect_hash(
    {name: what << 6 | slot for name, (what, slot) in fields.ARGUMENT_FIELDS.items()}
)
_CATEGORY_TABLE, _CATEGORY_KEYS, _CATEGORY_FIRST, _CATEGORY_SECOND = _perfect_hash(fields.CATEGORIES)


@_inline
def _same(b, p, n, keys, offset):  # type: ignore[no-untyped-def]
    for i in range(n):  # noqa: SIM110 - numba has no generator expressions
        if b[p + i] != keys[offset + i]:
            return False
    return True


@_inline
def event_field(b, p, e):  # type: ignore[no-untyped-def]
    """Field of an event's key, or -1."""
    n = e - p
    if n < 2:
        return -1
    place = (
        n * _EVENT_FIRST + np.int64(b[p]) * _EVENT_SECOND + np.int64(b[e - 1]) * 3 + np.int64(b[p + n // 2]) * 5 + np.int64(b[e - 2]) * 7
    ) & (_TABLE - 1)
    if _EVENT_TABLE[place, 1] != n or not _same(b, p, n, _EVENT_KEYS, _EVENT_TABLE[place, 0]):
        return -1
    return _EVENT_TABLE[place, 2]


@_inline
def argument_field(b, p, e):  # type: ignore[no-untyped-def]
    """Field of a key of ``args``, or -1."""
    n = e - p
    if n < 2:
        return -1
    place = (
        n * _ARGUMENT_FIRST
        + np.int64(b[p]) * _ARGUMENT_SECOND
        + np.int64(b[e - 1]) * 3
        + np.int64(b[p + n // 2]) * 5
        + np.int64(b[e - 2]) * 7
    ) & (_TABLE - 1)
    if _ARGUMENT_TABLE[place, 1] != n or not _same(b, p, n, _ARGUMENT_KEYS, _ARGUMENT_TABLE[place, 0]):
        return -1
    return _ARGUMENT_TABLE[place, 2]


@_inline
def _lower(c):  # type: ignore[no-untyped-def]
    return np.int64(c) + 32 if 65 <= c <= 90 else np.int64(c)


def _suffix_table() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    content = b"".join(name.encode() for name in fields.SUFFIXES)
    rows, offset = [], 0
    for name, kind in fields.SUFFIXES.items():
        rows.append((offset, len(name), kind))
        offset += len(name)
    return np.frombuffer(content, np.uint8).copy(), np.array(rows, np.int64)


_SUFFIX_KEYS, _SUFFIX_ROWS = _suffix_table()


@_inline
def category(b, p, e):  # type: ignore[no-untyped-def]
    """Kind of a category's text."""
    n = e - p
    if n < 2:
        return fields_ignored
    place = (
        n * _CATEGORY_FIRST + _lower(b[p]) * _CATEGORY_SECOND + _lower(b[e - 1]) * 3 + _lower(b[p + n // 2]) * 5 + _lower(b[e - 2]) * 7
    ) & (_TABLE - 1)
    if _CATEGORY_TABLE[place, 1] == n:
        same = True
        for i in range(n):
            if _lower(b[p + i]) != _CATEGORY_KEYS[_CATEGORY_TABLE[place, 0] + i]:
                same = False
                break
        if same:
            return _CATEGORY_TABLE[place, 2]
    for row in range(_SUFFIX_ROWS.shape[0]):
        size = _SUFFIX_ROWS[row, 1]
        if n < size:
            continue
        same = True
        for i in range(size):
            if _lower(b[e - size + i]) != _SUFFIX_KEYS[_SUFFIX_ROWS[row, 0] + i]:
                same = False
                break
        if same:
            return _SUFFIX_ROWS[row, 2]
    return fields_ignored


fields_ignored = fields.IGNORED
_COMM_NAME = np.frombuffer(b"record_param_comms", np.uint8).copy()
_MARK_KEYS = np.frombuffer(b"".join(fields.MARK_NAMES), np.uint8).copy()
_MARK_SIZES = np.array([len(name) for name in fields.MARK_NAMES], np.int64)
_COMM_CALL, _ANNOTATION, _HOST_OP = fields.COMM_CALL, fields.ANNOTATION, fields.HOST_OP


@_inline
def host_kind(b, p, e):  # type: ignore[no-untyped-def]
    """Kind of a host operator by its name."""
    n = e - p
    if n == _COMM_NAME.shape[0] and _same(b, p, n, _COMM_NAME, 0):
        return _COMM_CALL
    offset = 0
    for row in range(_MARK_SIZES.shape[0]):
        size = _MARK_SIZES[row]
        if n >= size and _same(b, p, size, _MARK_KEYS, offset):
            return _ANNOTATION
        offset += size
    return _HOST_OP


def _query_tables() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The stems one behind the other, ordered by length, and for each length the range of its stems: (offset, number)."""
    stems = sorted((stem.encode() for stem in fields.QUERY_STEMS), key=len)
    ranges = np.zeros((len(stems[-1]) + 1, 2), np.int64)
    offset = 0
    for stem in stems:
        if ranges[len(stem), 1] == 0:
            ranges[len(stem), 0] = offset
        ranges[len(stem), 1] += 1
        offset += len(stem)
    return np.frombuffer(b"".join(stems), np.uint8).copy(), ranges


_QUERY_BYTES, _QUERY_RANGES = _query_tables()
_PREFIX_BYTES = np.frombuffer("".join(fields.QUERY_PREFIXES).encode(), np.uint8).copy()
_PREFIX_SIZES = np.array([len(prefix) for prefix in fields.QUERY_PREFIXES], np.int64)


@_inline
def is_query(b, p, e):  # type: ignore[no-untyped-def]
    """Whether a runtime call only asks or sets something."""
    offset = 0
    for row in range(_PREFIX_SIZES.shape[0]):
        size = _PREFIX_SIZES[row]
        n = e - p - size
        if 0 < n < _QUERY_RANGES.shape[0] and _same(b, p, size, _PREFIX_BYTES, offset):
            for number in range(_QUERY_RANGES[n, 1]):
                if _same(b, p + size, n, _QUERY_BYTES, _QUERY_RANGES[n, 0] + number * n):
                    return True
        offset += size
    return False


@_inline
def _hash(b, p, n):  # type: ignore[no-untyped-def]
    mixed = np.uint64(n) * np.uint64(0x9E3779B97F4A7C15)
    i = 0
    while i + 8 <= n:
        mixed = (mixed ^ _load64(b, p + i)) * np.uint64(0xFF51AFD7ED558CCD)
        mixed ^= mixed >> np.uint64(32)
        i += 8
    if i < n:
        tail = _load64(b, p + i) & ((np.uint64(1) << np.uint64(8 * (n - i))) - np.uint64(1))
        mixed = (mixed ^ tail) * np.uint64(0xFF51AFD7ED558CCD)
        mixed ^= mixed >> np.uint64(32)
    return mixed


@_inline
def _equal(left, p, right, q, n):  # type: ignore[no-untyped-def]
    i = 0
    while i + 8 <= n:
        if _load64(left, p + i) != _load64(right, q + i):
            return False
        i += 8
    while i < n:
        if left[p + i] != right[q + i]:
            return False
        i += 1
    return True


@_inline
def intern(b, p, e, raw, pool):  # type: ignore[no-untyped-def]
    """The code of a text in the pool; -2 when the pool is full. The same rule as ``plain.WordPool``."""
    table, offsets, lengths, arena, count = pool
    n = e - p
    mask = table.shape[0] - 1
    place = np.int64(_hash(b, p, n) & np.uint64(mask))
    while True:
        number = np.int64(table[place])
        if number < 0:
            break
        if lengths[number] == n and _equal(arena, offsets[number], b, p, n):
            return number * 2 + raw
        place = (place + 1) & mask
    number = count[0]
    if number >= _WORD_LIMIT or (number > 0 and count[1] + n > _BYTE_LIMIT):
        return np.int64(-2)
    table[place] = number
    start = count[1]
    offsets[number] = start
    lengths[number] = n
    for i in range(n):
        arena[start + i] = b[p + i]
    count[0] = number + 1
    count[1] = start + n
    return number * 2 + raw
