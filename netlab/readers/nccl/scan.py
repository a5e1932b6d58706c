# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""One pass over the bytes of a large log: which lines need a closer look, and the COLL lines as numbers.

COLL lines are nine tenths of a large log and all alike, so they are parsed here. A line that is handed on carries a hash of its record, so
that the same record is looked at once. Everything unusual (control characters, torn headers, several records) is handed on as it is.

Importing this module imports numba: only large logs do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["BARRIER", "CALL", "FOREIGN", "PARTIAL", "PLAIN", "UNUSUAL", "VIA", "Scan", "scan_lines"]

#: Kinds of lines. After a BARRIER (the end of a communicator) an address may mean another one; a PARTIAL line goes on in the next.
BLANK, FOREIGN, UNUSUAL, PLAIN, CALL, BARRIER, PARTIAL, VIA = 0, 1, 2, 3, 4, 5, 6, 7
#: Columns of ``Scan.calls``.
HOST_START, HOST_END, PID, NAME_START, NAME_END, SEQ, COUNT, DTYPE, ROOT, COMM, NRANKS, STREAM, HOST_HASH, NAME_HASH = range(14)
_FIELDS = 14
#: Columns of ``Scan.vias``.
VIA_CHANNEL, VIA_NUMBER, VIA_SRC, VIA_DST, VIA_SIDE, PATH_START, PATH_HASH, VIA_HOST_HASH = range(8)
_VIA_FIELDS = 8

Int64s = NDArray[np.int64]


class Scan(NamedTuple):
    """Lines of a piece of a log. ``calls`` has one row per line of kind CALL, ``vias`` one per line of kind VIA, in order.

    ``digest`` is the hash of a PLAIN or VIA line's record, ``parts`` the places of its host, its pid and tid, and where its message begins.
    """

    start: Int64s
    end: Int64s
    kind: NDArray[np.int8]
    digest: Int64s
    parts: Int64s
    calls: Int64s
    vias: Int64s


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _jit(function: _Function) -> _Function:
    """Compile on first call; numba keeps the result beside the package or in the user's cache, where either can be written."""
    try:
        return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba found no place for a cache
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]


# The texts between the numbers of a COLL line (NCCL 2.4 to 2.30), in one array with their borders.
_TEXTS = (
    b": opCount ",
    b" sendbuff ",
    b" recvbuff ",
    b" count ",
    b" datatype ",
    b" op ",
    b" root ",
    b" comm 0x",
    b" [nranks=",
    b"] stream ",
    b" task ",
    b" globalrank ",
)
_VIA_TEXTS = (b"Channel ", b"Ring ", b" : ", b" -> ", b" [send]", b" [receive]", b" via ")
_LITERALS = np.frombuffer(b"".join((*_TEXTS, *_VIA_TEXTS)), dtype=np.uint8)
_BORDERS = np.cumsum([0, *(len(text) for text in (*_TEXTS, *_VIA_TEXTS))])


@_jit
def _scan(buffer, start, end, kind, digest, parts, calls, vias):
    size, line, found, connected, at = len(buffer), 0, 0, 0, 0
    while at < size:
        special, torn, blank, marks, any_marks, mark = False, False, True, 0, 0, 0
        i = at
        while i < size:
            byte = buffer[i]
            if byte == 10:
                break
            if byte > 32:
                blank = False
                if byte == 78 and i + 4 < size and buffer[i + 1] == 67 and buffer[i + 2] == 67 and buffer[i + 3] == 76:  # NCCL
                    any_marks += 1
                    if i > at and buffer[i - 1] == 32 and buffer[i + 4] == 32 and _is_level(buffer, i + 5, size):
                        marks += 1
                        if marks == 1:
                            mark = i
                elif byte == 82 and i + 3 < size and buffer[i + 1] == 67 and buffer[i + 2] == 67 and buffer[i + 3] == 76:  # RCCL
                    any_marks += 1
                elif byte == 91 and i - 2 >= at and buffer[i - 1] == 32:  # " [" behind host:pid:tid
                    j = i - 2
                    while j > at and 48 <= buffer[j] <= 57:
                        j -= 1
                    if buffer[j] == 58:
                        k = j - 1
                        while k > at and 48 <= buffer[k] <= 57:
                            k -= 1
                        torn = torn or (k < j - 1 and buffer[k] == 58)
            elif byte == 27 or byte == 13 or byte == 0:
                special = True
            i += 1
        start[line], end[line] = at, i
        result = UNUSUAL
        if special:
            result = UNUSUAL
        elif any_marks == 0:
            result = BLANK if blank else UNUSUAL if torn or _is_block(buffer, at, i) else FOREIGN
        elif marks == 1:
            host, host_end, pid, tid, body = _header(buffer, at, i, mark)
            if host >= 0:
                ok = _call(buffer, body, i, calls, found)
                if ok:
                    calls[found, HOST_START], calls[found, HOST_END], calls[found, PID] = host, host_end, pid
                    calls[found, HOST_HASH] = _hash(buffer, host, host_end)
                    calls[found, NAME_HASH] = _hash(buffer, calls[found, NAME_START], calls[found, NAME_END])
                    found += 1
                    result = CALL
                else:
                    digest[line] = _hash(buffer, host, i)
                    parts[line, 0], parts[line, 1], parts[line, 2], parts[line, 3], parts[line, 4] = host, host_end, pid, tid, body
                    result = PLAIN
                    if _ends_communicator(buffer, at, i):
                        result = BARRIER
                    elif _via(buffer, body, i, vias, connected):
                        vias[connected, VIA_HOST_HASH] = _hash(buffer, host, host_end)
                        connected += 1
                        result = VIA
            elif host == -2:
                result = PARTIAL
        kind[line] = result
        line += 1
        at = i + 1
    return found, connected


@_jit
def _ends_communicator(buffer, start, end):
    """``... Destroy COMPLETE`` or ``... Abort COMPLETE``: told by the letters y or t in front of the last word."""
    if end - start < 20 or buffer[end - 1] != 69 or buffer[end - 8] != 67 or buffer[end - 9] != 32:
        return False
    return (buffer[end - 10] == 121 and buffer[end - 11] == 111) or (buffer[end - 10] == 116 and buffer[end - 11] == 114)


@_jit
def _bracket(buffer, at, end):
    """The position behind ``[device]``, or the same one where there is none."""
    if at < 0 or at >= end or buffer[at] != 91:
        return at
    _, i = _digits(buffer, at + 1, end, 16)
    return i + 1 if 0 <= i < end and buffer[i] == 93 else -1


@_jit
def _via(buffer, at, end, vias, row):
    """Read a ``via`` line into a row; False if the message does not begin like one. The transport is judged by the caller."""
    i = _literal(buffer, at, end, 12)
    if i < 0:
        i = _literal(buffer, at, end, 13)
    vias[row, VIA_CHANNEL], i = _digits(buffer, i, end, 10)
    vias[row, VIA_NUMBER] = -1
    if 0 <= i < end and buffer[i] == 47:
        vias[row, VIA_NUMBER], i = _digits(buffer, i + 1, end, 10)
        if vias[row, VIA_NUMBER] < 0:
            return False
    vias[row, VIA_SRC], i = _digits(buffer, _literal(buffer, i, end, 14), end, 10)
    vias[row, VIA_DST], i = _digits(buffer, _literal(buffer, _bracket(buffer, i, end), end, 15), end, 10)
    i = _bracket(buffer, i, end)
    vias[row, VIA_SIDE] = 0
    for side in range(1, 3):
        behind = _literal(buffer, i, end, 15 + side)
        if behind >= 0:
            vias[row, VIA_SIDE] = side
            i = behind
    i = _literal(buffer, i, end, 18)
    if i < 0 or i >= end or min(vias[row, VIA_SRC], vias[row, VIA_DST], vias[row, VIA_CHANNEL]) < 0 or vias[row, VIA_NUMBER] < -1:
        return False
    # Numbers no job has belong to torn lines; the patterns of the other reader have the same limits.
    if max(vias[row, VIA_SRC], vias[row, VIA_DST], vias[row, VIA_CHANNEL]) > 9_999_999 or vias[row, VIA_NUMBER] > 999:
        return False
    vias[row, PATH_START] = i
    vias[row, PATH_HASH] = _hash(buffer, i, end)
    return True


@_jit
def _is_level(buffer, at, size):
    """INFO, WARN, TRACE, CALL, ABORT or ERROR by their first letters: a message may hold the word NCCL, too."""
    if at + 2 >= size:
        return True
    a, b = buffer[at], buffer[at + 1]
    return (
        (a == 73 and b == 78) or (a == 87 and b == 65) or (a == 84 and b == 82) or (a == 67 and b == 65) or (a == 65 and b == 66)
        or (a == 69 and b == 82) or a < 32
    )  # fmt: skip


@_jit
def _is_block(buffer, start, end):
    """The first letters of RCCL's version block: HIP, ROC, Hos, Lib."""
    if end - start < 12:
        return False
    a, b, c = buffer[start], buffer[start + 1], buffer[start + 2]
    return (
        (a == 72 and ((b == 73 and c == 80) or (b == 111 and c == 115)))
        or (a == 82 and b == 79 and c == 67)
        or (a == 76 and b == 105 and c == 98)
    )


@_jit
def _hash(buffer, start, end):
    """FNV-1a, 64 bit."""
    value = np.uint64(14695981039346656037)
    for i in range(start, end):
        value = (value ^ np.uint64(buffer[i])) * np.uint64(1099511628211)
    return np.int64(value >> np.uint64(1))


@_jit
def _header(buffer, start, end, mark):
    """``host:pid:tid [device] NCCL INFO `` before a mark: start and end of the host, pid, tid, start of the message; or -1."""
    none = (-1, -1, -1, -1, -1)
    if (
        mark + 10 > end
        or buffer[mark + 5] != 73
        or buffer[mark + 6] != 78
        or buffer[mark + 7] != 70
        or buffer[mark + 8] != 79
        or buffer[mark + 9] != 32
    ):
        return none
    i = mark - 2
    if i < start or buffer[i] != 93:
        return none
    i -= 1
    while i > start and 48 <= buffer[i] <= 57:
        i -= 1
    if buffer[i] == 45:
        i -= 1
    if i - 1 < start or buffer[i] != 91 or buffer[i - 1] != 32:
        return none
    i -= 2
    stop, tid, scale = i, 0, 1
    while i > start and 48 <= buffer[i] <= 57 and stop - i < 15:
        tid += (buffer[i] - 48) * scale
        scale *= 10
        i -= 1
    if i == stop or buffer[i] != 58:
        return none
    i -= 1
    stop, pid, scale = i, 0, 1
    while i > start and 48 <= buffer[i] <= 57 and stop - i < 15:
        pid += (buffer[i] - 48) * scale
        scale *= 10
        i -= 1
    if i == stop or buffer[i] != 58:
        return none
    host_end = i
    while i > start and _is_host(buffer[i - 1]):
        i -= 1
    if i == host_end or buffer[i] == 45 or buffer[i] == 95:
        return none
    if i > start:
        before = buffer[i - 1]
        if before != 32 and before != 9 and before != 93 and before != 62 and before != 58:
            return none
        # A container log's partial line: the next line belongs to it.
        if before == 32 and i - 3 >= start and buffer[i - 2] == 80 and buffer[i - 3] == 32:
            return -2, -1, -1, -1, -1
        # "...-07:00host": the zone of a time stamp touches the name.
        if before == 58 and i - 4 >= start and (buffer[i - 4] == 43 or buffer[i - 4] == 45):
            return none
    return i, host_end, pid, tid, mark + 10


@_jit
def _is_host(byte):
    return 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122 or byte == 45 or byte == 95


@_jit
def _literal(buffer, at, end, number):
    """The position behind a fixed text, or -1."""
    first, last = _BORDERS[number], _BORDERS[number + 1]
    if at < 0 or at + last - first > end:
        return -1
    for i in range(first, last):
        if buffer[at + i - first] != _LITERALS[i]:
            return -1
    return at + last - first


@_jit
def _digits(buffer, at, end, base):
    """A number and the position behind it; position -1 if there is none."""
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


@_jit
def _word(buffer, at, end):
    """The position of the next blank."""
    while 0 <= at < end and buffer[at] != 32:
        at += 1
    return at


@_jit
def _call(buffer, at, end, calls, row):
    """Read a COLL line into a row; False if the message is not exactly one."""
    i = at
    while i < end and (65 <= buffer[i] <= 90 or 97 <= buffer[i] <= 122 or 48 <= buffer[i] <= 57 or buffer[i] == 95):
        i += 1
    if i == at:
        return False
    calls[row, NAME_START], calls[row, NAME_END] = at, i
    calls[row, SEQ], i = _digits(buffer, _literal(buffer, i, end, 0), end, 16)
    i = _word(buffer, _literal(buffer, i, end, 1), end)
    i = _word(buffer, _literal(buffer, i, end, 2), end)
    calls[row, COUNT], i = _digits(buffer, _literal(buffer, i, end, 3), end, 10)
    calls[row, DTYPE], i = _digits(buffer, _literal(buffer, i, end, 4), end, 10)
    _, i = _digits(buffer, _literal(buffer, i, end, 5), end, 10)
    calls[row, ROOT], i = _digits(buffer, _literal(buffer, i, end, 6), end, 10)
    calls[row, COMM], i = _digits(buffer, _literal(buffer, i, end, 7), end, 16)
    calls[row, NRANKS], i = _digits(buffer, _literal(buffer, i, end, 8), end, 10)
    i = _literal(buffer, i, end, 9)
    if i < 0 or min(calls[row, NRANKS], calls[row, COUNT], calls[row, DTYPE]) < 0:
        return False
    if calls[row, NRANKS] > 9_999_999 or calls[row, DTYPE] > 9_999 or abs(calls[row, ROOT]) > 999_999_999:
        return False
    if i + 5 == end and buffer[i] == 40:  # (nil)
        calls[row, STREAM] = -1
        return True
    if i + 2 >= end or buffer[i] != 48 or buffer[i + 1] != 120:
        return False
    calls[row, STREAM], i = _digits(buffer, i + 2, end, 16)
    if 0 <= i < end:  # RCCL's suffix
        _, i = _digits(buffer, _literal(buffer, i, end, 10), end, 10)
        _, i = _digits(buffer, _literal(buffer, i, end, 11), end, 10)
    return i == end


def scan_lines(data: bytes) -> Scan:
    """Scan a piece of whole lines."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    start, end = np.empty(lines, np.int64), np.empty(lines, np.int64)
    kind, digest = np.zeros(lines, np.int8), np.zeros(lines, np.int64)
    parts = np.empty((lines, 5), np.int64)
    calls = np.empty((lines, _FIELDS), np.int64)
    vias = np.empty((lines, _VIA_FIELDS), np.int64)
    found, connected = _scan(buffer, start, end, kind, digest, parts, calls, vias)
    return Scan(start, end, kind, digest, parts, calls[:found], vias[:connected])
