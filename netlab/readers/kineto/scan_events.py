"""The scanner: bytes of a ``traceEvents`` array to rows, in one pass and without an object per event.

One source, two uses. ``compiled`` hands these functions to numba together with vectorised primitives; ``plain`` runs them as they are,
with primitives built on regular expressions, for small damaged files and where no compiler is at hand. Both therefore agree on every byte,
also on damaged ones. The functions use only what both understand: integers, indexing, loops; ``shared`` puts the primitives in.

Rules for bytes that are no JSON: a value that is none (NaN, Infinity, a missing one) is null and counted; a trailing comma is passed over
and counted; a broken structure is reported at once so that the caller can look for the next event; the last of two equal keys wins. Times
are exact: decimal text to integer nanoseconds, halves rounded away from zero.
"""

from __future__ import annotations

from typing import Any

from netlab.readers.kineto.fields import (
    FIELD_ARGS,
    FIELD_CATEGORY,
    FIELD_NAME,
    FIELD_PHASE,
    FLOW,
    HOST_OP,
    IGNORED,
    INTEGERS,
    LAUNCH,
    TEXT_FIELD,
    TIME_FIELD,
    UNKNOWN,
)
from netlab.readers.kineto.layout import (
    ARRAY_END,
    BEYOND,
    CUT,
    DAMAGE,
    EVENT_INTEGERS,
    EVENTS,
    EXTRA_COMMAS,
    FIRST_ARGUMENT_INTEGER,
    HOST_EVENTS,
    INTEGER_COUNT,
    KEPT,
    KIND_COLUMN,
    NEED_MORE,
    NULL,
    OBJECTS,
    ODD_VALUES,
    OVERFLOWS,
    PHASE_COLUMN,
    ROWS_FULL,
    SKIPPED,
    TEXT_COUNT,
    WANTED_INTEGERS,
    WANTED_TEXTS,
    WORDS_FULL,
)
from netlab.readers.kineto.scan_values import number, scan_scalar, skip_object, skip_text

__all__ = ["scan_event", "scan_events"]

# Bytes in the code below: " 34, comma 44, - 45, digits 48 to 57, : 58, [ 91, ] 93, { 123, } 125.
# Phases: B 66, E 69, X 88, f 102, s 115, t 116. First letters of true, false, null: 116, 102, 110.

_TS, _DUR = INTEGERS.index("ts"), INTEGERS.index("dur")

# Put in by ``plain`` or ``compiled``.
skip_space: Any = None
event_field: Any = None
argument_field: Any = None
category: Any = None
host_kind: Any = None
is_query: Any = None
intern: Any = None


def scan_event(b: Any, p: int, e: int, row: int, integers: Any, texts: Any, pool: Any, tally: Any, keep_hosts: bool) -> tuple[int, int]:
    """Read the event whose opening brace is at ``p`` into a row.

    Returns (KEPT, SKIPPED, NEED_MORE, WORDS_FULL, DAMAGE or CUT, next position). CUT is damage inside ``args`` of an event
    whose name and times stand before it: the row is kept with what was read, for the time was spent.
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
    args_last = False
    broken = False
    last_what = -1
    last_slot = 0
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
            args_last = True
            after_value = True
            after_comma = False
            continue
        if after_value:
            if c != 44:
                broken = True
                break
            p += 1
            after_value = False
            after_comma = True
            continue
        if c != 34:
            broken = True
            break
        key = p + 1
        p = skip_text(b, key, e)
        if p < 0:
            return NEED_MORE, e
        key_end = p - 1
        p = skip_space(b, p, e)
        if p >= e:
            return NEED_MORE, p
        if b[p] != 58:
            broken = True
            break
        p = skip_space(b, p + 1, e)
        if p >= e:
            return NEED_MORE, p
        c = b[p]
        after_value = True
        after_comma = False
        last_what = -1
        args_last = False
        if c == 44 or c == 125:  # the value is missing
            odd += 1
            continue
        field = event_field(b, key, key_end) if level == 0 else argument_field(b, key, key_end)
        what = field >> 6 if field >= 0 else -1
        slot = field & 63
        if what == FIELD_ARGS and c == 123:
            if seen_args:
                for again in range(FIRST_ARGUMENT_INTEGER, INTEGER_COUNT):
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
                broken = True
                break
        else:
            p = scan_scalar(b, p, e)
            if p < 0:
                return NEED_MORE, e
            if not (48 <= c <= 57 or (c == 45 and p > start + 1 and 48 <= b[start + 1] <= 57) or c == 116 or c == 102 or c == 110):
                odd += 1
                if p == start:
                    broken = True
                    break
                if what >= TEXT_FIELD:
                    c = 110
        if what < 0:
            continue
        last_what = what
        last_slot = slot
        if what <= TIME_FIELD:
            value = NULL
            status = 1
            if c == 34:
                value, status = number(b, start + 1, p - 1, 3 if what == TIME_FIELD else 0)
            elif c != 123 and c != 91:
                value, status = number(b, start, p, 3 if what == TIME_FIELD else 0)
            if status == 2 and slot == _DUR:
                value = BEYOND * value
                status = 0
            elif status == 2:
                overflows |= 1 << slot
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
                is_operator = kind == HOST_OP and name_at >= 0 and host_kind(b, name_at, name_at + name_size) == HOST_OP
                is_idle_call = kind == LAUNCH and name_at >= 0 and is_query(b, name_at, name_at + name_size)
                if kind == FLOW or is_idle_call or (is_operator and not keep_hosts):
                    skip = True
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
                if phase == 88 and kind == HOST_OP:
                    tally[HOST_EVENTS] += 1
                tally[OBJECTS] += 1
                tally[EVENTS] += 1
                tally[ODD_VALUES] += odd
                tally[EXTRA_COMMAS] += commas
                return SKIPPED, p
    if broken:
        if level == 0 and not args_last:
            return DAMAGE, p
        if phase != 88 or name_at < 0 or integers[row, _TS] == NULL or integers[row, _DUR] == NULL:
            return DAMAGE, p
        if after_value and level == 1:
            # The damage may have cut the last value short.
            if last_what == TEXT_FIELD:
                texts[row, last_slot] = -1
            elif last_what >= 0:
                integers[row, last_slot] = NULL
                overflows &= ~(1 << last_slot)
    keep = False
    if kind == HOST_OP and name_at >= 0:
        kind = host_kind(b, name_at, name_at + name_size)
    if kind == HOST_OP and (phase == 88 or phase == 66) and not keep_hosts:
        tally[HOST_EVENTS] += 1
    if phase == 88:
        keep = kind != IGNORED and kind != UNKNOWN and kind != FLOW and (kind != HOST_OP or keep_hosts)
        if kind == LAUNCH and name_at >= 0 and is_query(b, name_at, name_at + name_size):
            keep = False
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
        return (DAMAGE if broken else SKIPPED), p
    overflows &= EVENT_INTEGERS | WANTED_INTEGERS[kind]
    while overflows > 0:
        tally[OVERFLOWS] += overflows & 1
        overflows >>= 1
    texts[row, KIND_COLUMN] = kind
    texts[row, PHASE_COLUMN] = phase
    return (CUT if broken else KEPT), p


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
        elif status == CUT:
            return DAMAGE, p, row + 1
        elif status != SKIPPED:
            return status, comma if after_comma and status != DAMAGE else p, row
        p = q
        after_comma = False
