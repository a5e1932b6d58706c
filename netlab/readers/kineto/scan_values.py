"""Values of JSON as the scanner sees them: stepping over texts, brackets and scalars, and exact numbers from decimal text.

Part of the scanner that ``scan_events`` describes; plain Python and numba both run it. Where the buffer ends inside a value the answer is
-1.
"""

from __future__ import annotations

from typing import Any

from netlab.readers.kineto.layout import ODD_VALUES

__all__ = ["number", "scan_scalar", "skip_object", "skip_stream", "skip_text", "skip_value"]

_LARGEST = 2**63 - 1
_TENTH = _LARGEST // 10

# Bytes in the code below: " 34, comma 44, - 45, . 46, digits 48 to 57, : 58, [ 91, \\ 92, ] 93, { 123, } 125.
# First letters of true, false, null: 116, 102, 110.

# Put in by ``plain`` or ``compiled``.
next_quote: Any = None
next_structural: Any = None
skip_space: Any = None


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

    Returns the value and 0; or 0 and 1 (no number, or with ``scale`` 0 none without a fraction); or the sign and 2 (beyond 64 bits). Never
    inexact: digits that find no room in 64 bits decide only the rounding.
    """
    negative = False
    beyond = 1
    if p < e and b[p] == 45:
        negative = True
        beyond = -1
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
    if digits == 0:
        return 0, 1
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
        if dropped > 0:
            return beyond, 2
        while shift > 0:
            if mantissa > _TENTH:
                return beyond, 2
            mantissa *= 10
            shift -= 1
    elif shift == 0:
        if lost and scale == 0:
            return 0, 1
        if first_dropped >= 5:
            if mantissa == _LARGEST:
                return beyond, 2
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
