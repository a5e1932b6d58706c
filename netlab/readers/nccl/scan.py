# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,assignment"
"""One pass over the bytes of a large log: what each line is, and the messages that make up such a log as numbers.

A record that is none of those carries hashes of its process and its message, so that equal messages are looked at once. Everything unusual
(control characters, torn headers, several records, warnings) is handed on as it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netlab.readers.nccl.compiled import digits, hash_bytes, jit, literal, text_number
from netlab.readers.nccl.compiled_messages import (
    CALL_FIELDS,
    EDGE_FIELDS,
    EDGE_LINE,
    HOST_END,
    HOST_HASH,
    HOST_START,
    INIT_FIELDS,
    LAYOUT_FIELDS,
    NAME_END,
    NAME_HASH,
    NAME_START,
    PID,
    VIA_FIELDS,
    read_call,
    read_edges,
    read_init,
    read_layout,
    read_via,
)

__all__ = ["BARRIER", "CALL", "EDGES", "FOREIGN", "INIT", "LAYOUT", "NOTED", "PARTIAL", "PLAIN", "UNUSUAL", "VIA", "Scan", "scan_lines"]

#: Kinds of lines. After a BARRIER (the end of a communicator) an address may mean another one; a PARTIAL line goes on in the next; NOTED is
#: a call of the API or a TRACE record, which add nothing. Kinds behind UNUSUAL have a header.
BLANK, FOREIGN, PARTIAL, UNUSUAL, PLAIN, CALL, BARRIER, VIA, INIT, LAYOUT, EDGES, NOTED = range(12)

Int64s = NDArray[np.int64]
#: Choices for smaller messages and for larger ones are told apart.
SMALL_BYTES = 100_000_000
_QUEUE, _OLD_QUEUE, _MTU, _SAYS, _CHOSEN, _TIME = map(
    text_number, ("NET/IB: NCCL Dev ", "NET/IB : Dev ", " mtu ", ": ", " Bytes -> ", " time ")
)
#: A plain 0 is a type of its own to numba, for which it would compile everything that is called once more.
_ZERO = np.int64(0)

#: Digest of `compiled` and `compiled_messages`: numba makes compiled code anew only where the file that uses it changes, so this one has to
#: change with them. A test says the new value.
PARTS_DIGEST = "7a196ef36c97cb39"


class Scan(NamedTuple):
    """Lines of a piece of a log. ``calls``, ``vias``, ``inits`` and ``layouts`` have one row per line of that kind, in order.

    ``parts`` holds the places of a record's host, its pid and tid, and where its message begins and ends; ``process``, ``message`` and
    ``prefix`` (what stands in front of the host) are hashes.
    """

    start: Int64s
    end: Int64s
    kind: NDArray[np.int8]
    process: Int64s
    message: Int64s
    prefix: Int64s
    parts: Int64s
    calls: Int64s
    vias: Int64s
    inits: Int64s
    layouts: Int64s
    edges: NDArray[np.int32]


@jit
def _scan(buffer, start, end, kind, process, message, prefix, parts, calls, vias, inits, layouts, edges):
    size, line, at = len(buffer), _ZERO, _ZERO
    called, connected, begun, laid, drawn = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
    while at < size:
        special, torn, blank, marks, any_marks, mark = False, False, True, 0, 0, _ZERO
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
            elif byte == 27 or byte == 0 or (byte == 13 and i + 1 < size and buffer[i + 1] != 10):
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
                stop = i
                while stop > body and (buffer[stop - 1] == 32 or buffer[stop - 1] == 13):
                    stop -= 1
                parts[line, 0], parts[line, 1], parts[line, 2], parts[line, 3] = host, host_end, pid, tid
                parts[line, 4], parts[line, 5] = body, stop
                named = hash_bytes(buffer, host, host_end)
                process[line] = named * 1_000_003 + pid
                if host > at:
                    prefix[line] = hash_bytes(buffer, at, host)
                result = PLAIN
                letter, level = buffer[body] if body < stop else 0, buffer[mark + 5]
                if level == 67:  # CALL
                    result = NOTED if _is_api_call(buffer, body, stop) else UNUSUAL
                elif level == 84:  # TRACE
                    result = NOTED
                elif letter == 67 or letter == 82 or letter == 84:  # Channel, Ring, Tree
                    if read_via(buffer, body, stop, vias, connected):
                        connected += 1
                        result = VIA
                    elif letter != 67:
                        count = read_edges(buffer, body, stop, edges, drawn)
                        if count >= 0:
                            for k in range(drawn, drawn + count):
                                edges[k, EDGE_LINE] = line
                            drawn += count
                            result = EDGES
                elif letter == 99 or letter == 110:  # comm, ncclCommInit...
                    if read_init(buffer, body, stop, inits, begun):
                        begun += 1
                        result = INIT
                    elif read_layout(buffer, body, stop, layouts, laid):
                        laid += 1
                        result = LAYOUT
                if result == PLAIN and level == 73:
                    if read_call(buffer, body, stop, calls, called):
                        calls[called, HOST_START], calls[called, HOST_END], calls[called, PID] = host, host_end, pid
                        calls[called, HOST_HASH] = named
                        calls[called, NAME_HASH] = hash_bytes(buffer, calls[called, NAME_START], calls[called, NAME_END])
                        called += 1
                        result = CALL
                    elif _ends_communicator(buffer, at, stop):
                        result = BARRIER
                if result in (PLAIN, BARRIER):
                    message[line] = _message_hash(buffer, body, stop)
            elif host == -2:
                result = PARTIAL
        kind[line] = result
        line += 1
        at = i + 1
    return called, connected, begun, laid, drawn


@jit
def _message_hash(buffer, body, stop):
    """A hash of what a message says; numbers that nobody uses are left out of it, since with them hardly two messages were alike.

    Those are the exact size and the predicted time of a tuning choice, and all but the MTU of a line about an InfiniBand queue.
    """
    first = buffer[body] if body < stop else 0
    if first == 78 and stop - body > 20 and buffer[body + 3] == 47 and buffer[body + 4] == 73 and buffer[body + 5] == 66:  # NET/IB
        word = literal(buffer, body, stop, _QUEUE)
        if word < 0:
            word = literal(buffer, body, stop, _OLD_QUEUE)
        i = word
        while 0 <= i < stop:
            at = literal(buffer, i, stop, _MTU)
            if at >= 0:
                mtu, _ = digits(buffer, at, stop, 10)
                return hash_bytes(buffer, body, word) * 31 + mtu
            i += 1
        return hash_bytes(buffer, body, stop)
    if not (65 <= first <= 90 or 97 <= first <= 122 or 48 <= first <= 57):
        return hash_bytes(buffer, body, stop)
    i = body
    while i < stop and (65 <= buffer[i] <= 90 or 97 <= buffer[i] <= 122):
        i += 1
    start = i
    if i > body:
        start = literal(buffer, i, stop, _SAYS)
        if start < 0:
            return hash_bytes(buffer, body, stop)
    size, i = digits(buffer, start, stop, 10)
    behind = literal(buffer, i, stop, _CHOSEN)
    if behind < 0 or size < 0:
        return hash_bytes(buffer, body, stop)
    end = behind
    while end < stop and literal(buffer, end, stop, _TIME) < 0:
        end += 1
    return (hash_bytes(buffer, body, start) * 31 + hash_bytes(buffer, behind, end)) * 31 + (size < SMALL_BYTES)


@jit
def _ends_communicator(buffer, start, end):
    """``... Destroy COMPLETE`` or ``... Abort COMPLETE``: told by the letters y or t in front of the last word."""
    if end - start < 20 or buffer[end - 1] != 69 or buffer[end - 8] != 67 or buffer[end - 9] != 32:
        return False
    return (buffer[end - 10] == 121 and buffer[end - 11] == 111) or (buffer[end - 10] == 116 and buffer[end - 11] == 114)


@jit
def _is_api_call(buffer, start, end):
    """``ncclAllReduce(...)``: what is printed of the API tells nothing that COLL lines do not."""
    if end - start < 8 or buffer[start] != 110 or buffer[start + 1] != 99 or buffer[start + 2] != 99 or buffer[end - 1] != 41:
        return False
    i = start
    while i < end and (65 <= buffer[i] <= 90 or 97 <= buffer[i] <= 122 or 48 <= buffer[i] <= 57 or buffer[i] == 95):
        i += 1
    return i < end and buffer[i] == 40 and 65 <= buffer[start + 4] <= 90


@jit
def _is_level(buffer, at, size):
    """INFO, WARN, TRACE, CALL, ABORT or ERROR by their first letters: a message may hold the word NCCL, too."""
    if at + 2 >= size:
        return True
    a, b = buffer[at], buffer[at + 1]
    return (
        (a == 73 and b == 78) or (a == 87 and b == 65) or (a == 84 and b == 82) or (a == 67 and b == 65) or (a == 65 and b == 66)
        or (a == 69 and b == 82) or a < 32
    )  # fmt: skip


@jit
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


@jit
def _level_end(buffer, mark, end):
    """Where the message of an INFO, TRACE or CALL record begins; -1 for other levels."""
    i = mark + 5
    if i + 4 >= end:
        return -1
    a, b, c, d = buffer[i], buffer[i + 1], buffer[i + 2], buffer[i + 3]
    if a == 73 and b == 78 and c == 70 and d == 79:
        i += 4
    elif a == 84 and b == 82 and c == 65 and d == 67 and buffer[i + 4] == 69:
        i += 5
    elif a == 67 and b == 65 and c == 76 and d == 76:
        i += 4
    else:
        return -1
    return i + 1 if i < end and buffer[i] == 32 else -1


@jit
def _origin_start(buffer, start, mark):
    """Where ``12.345 file.cc:678 `` begins that a TRACE record has in front of its mark; -1 if there is none."""
    i = mark - 2
    while i > start and buffer[i] != 32:
        i -= 1
    colon = i
    while colon < mark and buffer[colon] != 58:
        colon += 1
    line, behind = digits(buffer, colon + 1, mark, 10)
    if behind != mark - 1 or line < 0:
        return -1
    i -= 1
    stop, dots = i, 0
    while i > start and (48 <= buffer[i] <= 57 or buffer[i] == 46):
        dots += buffer[i] == 46
        i -= 1
    return i + 1 if i < stop and dots == 1 and buffer[i] == 32 else -1


@jit
def _header(buffer, start, end, mark):
    """``host:pid:tid [device] NCCL INFO `` before a mark: start and end of the host, pid, tid, start of the message; or -1."""
    none = (-1, -1, -1, -1, -1)
    body = _level_end(buffer, mark, end)
    if body < 0:
        return none
    level = buffer[mark + 5]
    i = mark - 2
    if level == 84:
        i = _origin_start(buffer, start, mark) - 2
    if i < start:
        return none
    if buffer[i] == 93:
        i -= 1
        stop = i
        while i > start and 48 <= buffer[i] <= 57:
            i -= 1
        if i == stop:
            return none
        if buffer[i] == 45:
            i -= 1
        if i - 1 < start or buffer[i] != 91 or buffer[i - 1] != 32:
            return none
        i -= 2
    elif level != 67:
        return none
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
    return i, host_end, pid, tid, body


@jit
def _is_host(byte):
    return 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122 or byte == 45 or byte == 95


@jit
def number_hashes(hashes, keys, numbers, count, found):
    """Number hashes by first appearance; ``keys`` and ``numbers`` are a table (its size a power of two, 0 is empty) kept between calls."""
    mask = len(keys) - 1
    for i in range(len(hashes)):
        key = hashes[i] if hashes[i] != 0 else 1
        place = (key ^ (key >> 29)) & mask
        while keys[place] != 0 and keys[place] != key:
            place = (place + 1) & mask
        if keys[place] == 0:
            keys[place], numbers[place] = key, count
            count += 1
        found[i] = numbers[place]
    return count


def scan_lines(data: bytes) -> Scan:
    """Scan a piece of whole lines."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    start, end = np.empty(lines, np.int64), np.empty(lines, np.int64)
    kind = np.zeros(lines, np.int8)
    process, message, prefix = np.zeros(lines, np.int64), np.zeros(lines, np.int64), np.zeros(lines, np.int64)
    parts = np.empty((lines, 6), np.int64)
    calls, vias = np.empty((lines, CALL_FIELDS), np.int64), np.empty((lines, VIA_FIELDS), np.int64)
    inits, layouts = np.empty((lines, INIT_FIELDS), np.int64), np.empty((lines, LAYOUT_FIELDS), np.int64)
    # Where a piece holds more edges than this, the rest of their lines is read the long way.
    edges = np.empty((4 * lines + 4096, EDGE_FIELDS), np.int32)
    called, connected, begun, laid, drawn = _scan(
        buffer, start, end, kind, process, message, prefix, parts, calls, vias, inits, layouts, edges
    )
    return Scan(
        start,
        end,
        kind,
        process,
        message,
        prefix,
        parts,
        calls[:called],
        vias[:connected],
        inits[:begun],
        layouts[:laid],
        edges[:drawn].copy(),
    )
