"""The scanner: bytes of a ``traceEvents`` array to rows, in one pass and without an object per event.

One source, two uses. ``compiled`` hands these functions to numba together with vectorised primitives; ``plain`` runs them as they are,
with primitives built on regular expressions, for small damaged files and where no compiler is at hand. Both therefore agree on every byte,
also on damaged ones. The functions use only what both understand: integers, indexing, loops; the primitives below are put in by the user.

Rules for bytes that are no JSON: a value that is none (NaN, Infinity, a missing one) is null and counted; a trailing comma is passed over
and counted; a broken structure is reported at once so that the caller can look for the next event; the last of two equal keys wins. Times
are exact: decimal text to integer nanoseconds, halves rounded away from zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from netlab.readers.kineto import fields

__all__ = [
    "ARRAY_END",
    "DAMAGE",
    "EXPORTED",
    "NEED_MORE",
    "NULL",
    "PRIMITIVES",
    "ROWS_FULL",
    "TALLY",
    "WORDS_FULL",
    "number",
    "scan_event",
    "scan_events",
    "scan_scalar",
    "skip_object",
    "skip_stream",
    "skip_text",
    "skip_value",
]

#: Null in a row of integers.
NULL = -(2**63)
_LARGEST = 2**63 - 1
_TENTH = _LARGEST // 10

# What scan_events and scan_event report.
NEED_MORE, ARRAY_END, ROWS_FULL, WORDS_FULL, DAMAGE, KEPT, SKIPPED = range(7)

#: Counters that both paths keep: objects seen, objects with a phase, values that are no JSON, numbers beyond 64 bits, trailing commas, host
#: operators passed over.
TALLY = ("objects", "events", "odd_values", "overflows", "extra_commas", "host_events")
OBJECTS, EVENTS, ODD_VALUES, OVERFLOWS, EXTRA_COMMAS, HOST_EVENTS = range(len(TALLY))

#: Functions that the user of this module provides under these names.
PRIMITIVES = ("next_quote", "next_structural", "skip_space", "event_field", "argument_field", "category", "host_kind", "intern")

INTEGER_COUNT = len(fields.INTEGERS)
TEXT_COUNT = len(fields.TEXTS)
#: Columns of the array of texts behind those of TEXTS: kind and phase.
KIND_COLUMN, PHASE_COLUMN = TEXT_COUNT, TEXT_COUNT + 1

_FIRST_ARGUMENT_INTEGER = fields.INTEGERS.index("correlation")


def _mask(wanted: dict[int, tuple[str, ...]], names: tuple[str, ...], kind: int) -> int:
    if kind == fields.UNKNOWN:
        return (1 << len(names)) - 1
    return sum(1 << names.index(name) for name in wanted.get(kind, ()))


WANTED_INTEGERS = np.array([_mask(fields.WANTED_INTEGERS, fields.INTEGERS, kind) for kind in range(fields.UNKNOWN + 1)], np.int64)
WANTED_TEXTS = np.array([_mask(fields.WANTED_TEXTS, fields.TEXTS, kind) for kind in range(fields.UNKNOWN + 1)], np.int64)

HOST_OP, FLOW = fields.HOST_OP, fields.FLOW
IGNORED, UNKNOWN = fields.IGNORED, fields.UNKNOWN
INTEGER_FIELD, TIME_FIELD, TEXT_FIELD = fields.INTEGER_FIELD, fields.TIME_FIELD, fields.TEXT_FIELD
FIELD_PHASE, FIELD_CATEGORY, FIELD_NAME, FIELD_ARGS = fields.FIELD_PHASE, fields.FIELD_CATEGORY, fields.FIELD_NAME, fields.FIELD_ARGS

# Bytes in the code below: " 34, comma 44, - 45, . 46, digits 48 to 57, : 58, [ 91, \ 92, ] 93, { 123, } 125.
# Phases: B 66, E 69, X 88, f 102, s 115, t 116. First letters of true, false, null: 116, 102, 110.

# Replaced by the primitives of ``plain`` or ``compiled``.
next_quote: Any = None
next_structural: Any = None
skip_space: Any = None
event_field: Any = None
argument_field: Any = None
category: Any = None
host_kind: Any = None
intern: Any = None


def skip_text(b: Any, p: int, e: int) -> int:
    """From behind an opening quote to behind the closing one; -1 when the buffer ends first."""
    while True:
        p = next_quote(b, p, e)
        if p >= e:
            return -1
        if b[p] == 34:
            return p + 1
        p += 2


def skip_object(b: Any, p: int, e: int, depth: int) -> int:
    """Step over values until ``depth`` brackets are closed.

    -1 when the buffer ends first, -2 where the start of an event shows that this one was cut.
    """
    while True:
        p = next_structural(b, p, e)
        if p >= e:
            return -1
        c = b[p]
        p += 1
        if c == 34:
            p = skip_text(b, p, e)
            if p < 0:
                return -1
        elif c == 123:
            depth += 1
            q = skip_space(b, p, e)
            if q + 4 > e:
                return -1
            if b[q] == 34 and b[q + 1] == 112 and b[q + 2] == 104 and b[q + 3] == 34:
                return -2
        elif c == 91:
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return p


def scan_scalar(b: Any, p: int, e: int) -> int:
    """To the end of a number or literal; -1 when the buffer ends first."""
    while p < e:
        c = b[p]
        if c <= 32 or c == 44 or c == 125 or c == 93 or c == 123 or c == 91 or c == 34 or c == 58:
            return p
        p += 1
    return -1


def skip_stream(b: Any, p: int, e: int, state: Any) -> int:
    """Step over a value of any size, buffer by buffer.

    ``state`` is (depth, inside a text, behind a backslash, done), all 0 at the value's start.
    Returns the position behind the value, with ``state[3]`` set, or ``e``.
    """
    while p < e:
        if state[1] == 1:
            if state[2] == 1:
                state[2] = 0
                p += 1
                continue
            p = next_quote(b, p, e)
            if p >= e:
                return e
            if b[p] == 92:
                state[2] = 1
                p += 1
                continue
            p += 1
            state[1] = 0
        elif state[0] == 0 and not (b[p] == 34 or b[p] == 123 or b[p] == 91):
            p = scan_scalar(b, p, e)
            if p < 0:
                return e
        else:
            p = next_structural(b, p, e)
            if p >= e:
                return e
            c = b[p]
            p += 1
            if c == 34:
                state[1] = 1
                continue
            if c == 123 or c == 91:
                state[0] += 1
                continue
            state[0] -= 1
        if state[0] == 0:
            state[3] = 1
            return p
    return e


def skip_value(b: Any, p: int, e: int, tally: Any) -> int:
    """Step over a value of any kind; as skip_object. A value that is none is counted."""
    c = b[p]
    if c == 34:
        return skip_text(b, p + 1, e)
    if c == 123 or c == 91:
        return skip_object(b, p, e, 0)
    q = scan_scalar(b, p, e)
    if q < 0:
        return -1
    # -Infinity begins like a number; true, false, null like themselves.
    if not (48 <= c <= 57 or (c == 45 and q > p + 1 and 48 <= b[p + 1] <= 57) or c == 116 or c == 102 or c == 110):
        tally[ODD_VALUES] += 1
    return q


def number(b: Any, p: int, e: int, scale: int) -> tuple[int, int]:
    """Decimal text times ten to the ``scale`` as an integer.

    Returns the value and 0; or 0 and 1 (no number, or with ``scale`` 0 none without a fraction), 2 (beyond 64 bits). Never inexact:
    digits that find no room in 64 bits decide only the rounding.
    """
    negative = False
    if p < e and b[p] == 45:
        negative = True
        p += 1
    mantissa = 0
    shift = scale
    digits = 0
    dropped = 0
    first_dropped = 0
    lost = False
    while p < e and 48 <= b[p] <= 57:
        digit = int(b[p]) - 48
        if dropped == 0 and (mantissa < _TENTH or (mantissa == _TENTH and digit <= 7)):
            mantissa = mantissa * 10 + digit
        else:
            if dropped == 0:
                first_dropped = digit
            dropped += 1
            lost = lost or digit > 0
            shift += 1
        p += 1
        digits += 1
    if p < e and b[p] == 46:
        p += 1
        while p < e and 48 <= b[p] <= 57:
            digit = int(b[p]) - 48
            if dropped == 0 and (mantissa < _TENTH or (mantissa == _TENTH and digit <= 7)):
                mantissa = mantissa * 10 + digit
                shift -= 1
            else:
                if dropped == 0:
                    first_dropped = digit
                dropped += 1
                lost = lost or digit > 0
            p += 1
            digits += 1
    if digits == 0:
        return 0, 1
    if p < e and (b[p] == 101 or b[p] == 69):
        p += 1
        sign = 1
        if p < e and (b[p] == 45 or b[p] == 43):
            if b[p] == 45:
                sign = -1
            p += 1
        exponent = 0
        exponent_digits = 0
        while p < e and 48 <= b[p] <= 57:
            if exponent < 1_000_000:
                exponent = exponent * 10 + int(b[p]) - 48
            exponent_digits += 1
            p += 1
        if exponent_digits == 0:
            return 0, 1
        shift += sign * exponent
    if p != e:
        return 0, 1
    if mantissa == 0:
        return 0, 0
    if shift > 0:
        while shift > 0:
            if mantissa > _TENTH:
                return 0, 2
            mantissa *= 10
            shift -= 1
    elif shift == 0:
        if lost and scale == 0:
            return 0, 1
        if first_dropped >= 5:
            if mantissa == _LARGEST:
                return 0, 2
            mantissa += 1
    elif shift < -18:
        if scale == 0:
            return 0, 1
        mantissa = 1 if shift == -19 and mantissa >= 5_000_000_000_000_000_000 else 0
    else:
        power = 1
        while shift < 0:
            power *= 10
            shift += 1
        rest = mantissa % power
        mantissa = mantissa // power
        if scale == 0 and (rest > 0 or lost):
            return 0, 1
        if rest >= power - rest:
            mantissa += 1
    if negative:
        return -mantissa, 0
    return mantissa, 0


def scan_event(b: Any, p: int, e: int, row: int, integers: Any, texts: Any, pool: Any, tally: Any, keep_hosts: bool) -> tuple[int, int]:
    """Read the event whose opening brace is at ``p`` into a row.

    Returns (KEPT, SKIPPED, NEED_MORE, WORDS_FULL or DAMAGE, next position).
    """
    for slot in range(INTEGER_COUNT):
        integers[row, slot] = NULL
    for slot in range(TEXT_COUNT):
        texts[row, slot] = -1
    kind = UNKNOWN
    phase = 0
    name_at = -1
    name_size = 0
    name_raw = 0
    level = 0
    seen_args = False
    after_value = False
    after_comma = False
    odd = 0
    overflows = 0
    commas = 0
    p += 1
    while True:
        p = skip_space(b, p, e)
        if p >= e:
            return NEED_MORE, p
        c = b[p]
        if c == 125:
            p += 1
            if after_comma:
                commas += 1
            if level == 0:
                break
            level = 0
            after_value = True
            after_comma = False
            continue
        if after_value:
            if c != 44:
                return DAMAGE, p
            p += 1
            after_value = False
            after_comma = True
            continue
        if c != 34:
            return DAMAGE, p
        key = p + 1
        p = skip_text(b, key, e)
        if p < 0:
            return NEED_MORE, e
        key_end = p - 1
        p = skip_space(b, p, e)
        if p >= e:
            return NEED_MORE, p
        if b[p] != 58:
            return DAMAGE, p
        p = skip_space(b, p + 1, e)
        if p >= e:
            return NEED_MORE, p
        c = b[p]
        after_value = True
        after_comma = False
        if c == 44 or c == 125:  # the value is missing
            odd += 1
            continue
        field = event_field(b, key, key_end) if level == 0 else argument_field(b, key, key_end)
        what = field >> 6 if field >= 0 else -1
        slot = field & 63
        if what == FIELD_ARGS and c == 123:
            if seen_args:
                for again in range(_FIRST_ARGUMENT_INTEGER, INTEGER_COUNT):
                    integers[row, again] = NULL
                for again in range(1, TEXT_COUNT):
                    texts[row, again] = -1
            seen_args = True
            level = 1
            p += 1
            after_value = False
            continue
        if level == 1 and what >= 0:
            wanted = kind
            if kind == HOST_OP:
                wanted = UNKNOWN
                if name_at >= 0:
                    wanted = host_kind(b, name_at, name_at + name_size)
            mask = WANTED_TEXTS[wanted] if what == TEXT_FIELD else WANTED_INTEGERS[wanted]
            if (mask >> slot) & 1 == 0:
                what = -1
        start = p
        if c == 34:
            p = skip_text(b, p + 1, e)
            if p < 0:
                return NEED_MORE, e
        elif c == 123 or c == 91:
            p = skip_object(b, p, e, 0)
            if p == -1:
                return NEED_MORE, e
            if p == -2:
                return DAMAGE, start
        else:
            p = scan_scalar(b, p, e)
            if p < 0:
                return NEED_MORE, e
            if not (48 <= c <= 57 or (c == 45 and p > start + 1 and 48 <= b[start + 1] <= 57) or c == 116 or c == 102 or c == 110):
                odd += 1
                if p == start:
                    return DAMAGE, p
                if what >= TEXT_FIELD:
                    c = 110
        if what < 0:
            continue
        if what <= TIME_FIELD:
            value = NULL
            status = 1
            if c == 34:
                value, status = number(b, start + 1, p - 1, 3 if what == TIME_FIELD else 0)
            elif c != 123 and c != 91:
                value, status = number(b, start, p, 3 if what == TIME_FIELD else 0)
            if status == 2:
                overflows += 1
            integers[row, slot] = value if status == 0 else NULL
        elif what == TEXT_FIELD:
            code = -1
            if c == 34:
                code = intern(b, start + 1, p - 1, 0, pool)
            elif c != 110:
                code = intern(b, start, p, 1, pool)
            if code == -2:
                return WORDS_FULL, start
            texts[row, slot] = code
        elif what == FIELD_NAME:
            if c == 34:
                name_at = start + 1
                name_size = p - 1 - name_at
                name_raw = 0
            elif c != 110:
                name_at = start
                name_size = p - start
                name_raw = 1
            else:
                name_at = -1
        elif what == FIELD_PHASE:
            phase = int(b[start + 1]) if c == 34 and p == start + 3 else 0
        elif what == FIELD_CATEGORY:
            kind = category(b, start + 1, p - 1) if c == 34 else UNKNOWN
        if level == 0 and what >= FIELD_PHASE and phase != 0 and phase != 66 and phase != 69:
            # Enough is known to tell whether this event can be stepped over.
            skip = kind == IGNORED
            if phase == 88:
                if kind == FLOW:
                    skip = True
                elif kind == HOST_OP and name_at >= 0 and not keep_hosts and host_kind(b, name_at, name_at + name_size) == HOST_OP:
                    skip = True
                    tally[HOST_EVENTS] += 1
            elif phase == 115 or phase == 102 or phase == 116:
                skip = kind != FLOW and kind != UNKNOWN
            else:
                skip = True
            if skip:
                p = skip_object(b, p, e, 1)
                if p == -1:
                    return NEED_MORE, e
                if p == -2:
                    return DAMAGE, start
                tally[OBJECTS] += 1
                tally[EVENTS] += 1
                tally[ODD_VALUES] += odd
                tally[EXTRA_COMMAS] += commas
                return SKIPPED, p
    keep = False
    if kind == HOST_OP and name_at >= 0:
        kind = host_kind(b, name_at, name_at + name_size)
    if kind == HOST_OP and (phase == 88 or phase == 66) and not keep_hosts:
        tally[HOST_EVENTS] += 1
    if phase == 88:
        keep = kind != IGNORED and kind != UNKNOWN and kind != FLOW and (kind != HOST_OP or keep_hosts)
    elif phase == 66 or phase == 69:
        keep = True
    elif phase == 115 or phase == 102:
        keep = kind == FLOW
    if keep and name_at >= 0:
        code = intern(b, name_at, name_at + name_size, name_raw, pool)
        if code == -2:
            return WORDS_FULL, p
        texts[row, 0] = code
    tally[OBJECTS] += 1
    if phase != 0:
        tally[EVENTS] += 1
    tally[ODD_VALUES] += odd
    tally[EXTRA_COMMAS] += commas
    if not keep:
        return SKIPPED, p
    tally[OVERFLOWS] += overflows
    texts[row, KIND_COLUMN] = kind
    texts[row, PHASE_COLUMN] = phase
    return KEPT, p


def scan_events(
    b: Any, p: int, e: int, row: int, integers: Any, texts: Any, pool: Any, tally: Any, keep_hosts: bool
) -> tuple[int, int, int]:
    """Read events inside an array, up to its closing bracket. Commas between events may be missing or repeated.

    Returns (why it stopped, position, number of rows).
    """
    capacity = integers.shape[0]
    after_comma = False
    comma = 0
    while True:
        p = skip_space(b, p, e)
        if p >= e:
            # A comma is read again with what follows it, so that the result does not depend on where buffers end.
            return NEED_MORE, comma if after_comma else p, row
        c = b[p]
        if c == 44:
            if after_comma:
                tally[EXTRA_COMMAS] += 1
            after_comma = True
            comma = p
            p += 1
            continue
        if c == 93:
            if after_comma:
                tally[EXTRA_COMMAS] += 1
            return ARRAY_END, p + 1, row
        if c != 123:
            return DAMAGE, p, row
        if row >= capacity:
            return ROWS_FULL, comma if after_comma else p, row
        status, q = scan_event(b, p, e, row, integers, texts, pool, tally, keep_hosts)
        if status == KEPT:
            row += 1
        elif status != SKIPPED:
            return status, comma if after_comma and status != DAMAGE else p, row
        p = q
        after_comma = False


#: In the order in which they need each other.
EXPORTED = ("skip_text", "skip_object", "scan_scalar", "skip_stream", "skip_value", "number", "scan_event", "scan_events")
