"""The layout of a row, and what the functions of the scanner tell each other."""

from __future__ import annotations

import numpy as np

from netlab.readers.kineto import fields

__all__ = [
    "ARRAY_END",
    "BEYOND",
    "CUT",
    "DAMAGE",
    "EVENTS",
    "EVENT_INTEGERS",
    "EXTRA_COMMAS",
    "FIRST_ARGUMENT_INTEGER",
    "HOST_EVENTS",
    "INTEGER_COUNT",
    "KEPT",
    "KIND_COLUMN",
    "NEED_MORE",
    "NULL",
    "OBJECTS",
    "ODD_VALUES",
    "OVERFLOWS",
    "PHASE_COLUMN",
    "ROWS_FULL",
    "SKIPPED",
    "TALLY",
    "TEXT_COUNT",
    "WANTED_INTEGERS",
    "WANTED_TEXTS",
    "WORDS_FULL",
]

#: Null in a row of integers.
NULL = -(2**63)
#: A duration beyond 64 bits: longer than any capture, with its sign.
BEYOND = 2**63 - 1

# What scan_events and scan_event report.
NEED_MORE, ARRAY_END, ROWS_FULL, WORDS_FULL, DAMAGE, KEPT, SKIPPED, CUT = range(8)

#: Counters that all ways of reading keep alike: objects seen, objects with a phase, values that are no JSON, numbers beyond 64 bits,
#: trailing commas, host operators passed over.
TALLY = ("objects", "events", "odd_values", "overflows", "extra_commas", "host_events")
OBJECTS, EVENTS, ODD_VALUES, OVERFLOWS, EXTRA_COMMAS, HOST_EVENTS = range(len(TALLY))

INTEGER_COUNT = len(fields.INTEGERS)
TEXT_COUNT = len(fields.TEXTS)
#: Columns of the array of texts behind those of TEXTS: kind and phase.
KIND_COLUMN, PHASE_COLUMN = TEXT_COUNT, TEXT_COUNT + 1

FIRST_ARGUMENT_INTEGER = fields.INTEGERS.index("correlation")
#: Bits of the integers that stand outside ``args``.
EVENT_INTEGERS = (1 << FIRST_ARGUMENT_INTEGER) - 1


def _mask(wanted: dict[int, tuple[str, ...]], names: tuple[str, ...], kind: int) -> int:
    if kind == fields.UNKNOWN:
        return (1 << len(names)) - 1
    return sum(1 << names.index(name) for name in wanted.get(kind, ()))


#: Bits of the slots from ``args`` that each kind of event needs.
WANTED_INTEGERS = np.array([_mask(fields.WANTED_INTEGERS, fields.INTEGERS, kind) for kind in range(fields.UNKNOWN + 1)], np.int64)
WANTED_TEXTS = np.array([_mask(fields.WANTED_TEXTS, fields.TEXTS, kind) for kind in range(fields.UNKNOWN + 1)], np.int64)
