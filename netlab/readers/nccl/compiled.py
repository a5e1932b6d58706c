# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Compiled functions over the bytes of a log: numbers, fixed texts, words, hashes. Importing this imports numba: only large logs do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

__all__ = ["bracket", "digits", "hash_bytes", "hexadecimal", "jit", "literal", "text_number", "word"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def jit(function: _Function) -> _Function:
    """Compile on first call; numba keeps the result beside the package or in the user's cache, where either can be written."""
    try:
        return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba found no place for a cache
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]


#: The texts between the numbers of messages (NCCL 2.4 to 2.30), in one array with their borders.
_TEXTS = (
    ": opCount ", " sendbuff ", " recvbuff ", " count ", " datatype ", " op ", " root ", " comm 0x", " [nranks=", "] stream ", " task ",
    " globalrank ", "Channel ", "Ring ", " : ", " -> ", " [send]", " [receive]", " via ", "comm 0x", " rank ", " nranks ", " cudaDev ",
    " nvmlDev ", " busId ", " commId 0x", " - Init START", " - Init COMPLETE", " - Destroy COMPLETE", " - Abort COMPLETE", " nRanks ",
    " nNodes ", " localRanks ", " localRank ", " MNNVL ", "Trees ", "Tree ", "] ", "->",
    "NET/IB: NCCL Dev ", "NET/IB : Dev ", " mtu ", ": ", " Bytes -> ", " time ",
)  # fmt: skip
_LITERALS = np.frombuffer("".join(_TEXTS).encode(), dtype=np.uint8)
_BORDERS = np.cumsum([0, *(len(text) for text in _TEXTS)])


def text_number(text: str) -> np.int64:
    """The number of a fixed text, for `literal`.

    No plain ``int``: numba would compile `literal` anew for each of them.
    """
    return np.int64(_TEXTS.index(text))


@jit
def literal(buffer, at, end, number):
    """The position behind a fixed text, or -1."""
    first, last = _BORDERS[number], _BORDERS[number + 1]
    if at < 0 or at + last - first > end:
        return -1
    for i in range(first, last):
        if buffer[at + i - first] != _LITERALS[i]:
            return -1
    return at + last - first


@jit
def digits(buffer, at, end, base):
    """A number of at most 15 digits and the position behind it; position -1 if there is none."""
    value, i, negative = 0, at, False
    if at < 0:
        return 0, -1
    if base == 10 and i < end and buffer[i] == 45:
        negative, i = True, i + 1
    first = i
    while i < end:
        byte = buffer[i]
        digit = byte - 48 if 48 <= byte <= 57 else byte - 87 if base == 16 and 97 <= byte <= 102 else -1
        if digit < 0 or i - first > 14:
            break
        value = value * base + digit
        i += 1
    return (-value if negative else value), (i if i > first else -1)


@jit
def hexadecimal(buffer, at, end):
    """At most 16 hexadecimal digits without a leading zero as a signed number, and the position behind them; -1 if there is none."""
    value, i = np.uint64(0), at
    if at < 0 or at >= end or (buffer[at] == 48 and at + 1 < end and (48 <= buffer[at + 1] <= 57 or 97 <= buffer[at + 1] <= 102)):
        return np.int64(0), -1
    while i < end and i - at < 16:
        byte = buffer[i]
        if 48 <= byte <= 57:
            value = value * np.uint64(16) + np.uint64(byte - 48)
        elif 97 <= byte <= 102:
            value = value * np.uint64(16) + np.uint64(byte - 87)
        else:
            break
        i += 1
    return np.int64(value), (i if i > at else -1)


@jit
def word(buffer, at, end):
    """The position of the next blank."""
    while 0 <= at < end and buffer[at] != 32:
        at += 1
    return at


@jit
def bracket(buffer, at, end):
    """The position behind ``[device]``, or the same one where there is none."""
    if at < 0 or at >= end or buffer[at] != 91:
        return at
    _, i = digits(buffer, at + 1, end, 16)
    return i + 1 if 0 <= i < end and buffer[i] == 93 else -1


@jit
def hash_bytes(buffer, start, end):
    """FNV-1a, 63 bit."""
    value = np.uint64(14695981039346656037)
    for i in range(start, end):
        value = (value ^ np.uint64(buffer[i])) * np.uint64(1099511628211)
    return np.int64(value >> np.uint64(1))
