"""The scanner without a compiler: primitives for the scanner on a ``bytearray``, built on regular expressions and dictionaries.

About 10 MB/s; it reads what ``strict`` refuses (damaged pieces of small files) and every file where numba does not work.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from netlab.readers.kineto import fields, layout, shared

__all__ = ["WordPool", "category", "host_kind", "is_query", "number", "scan_events", "skip_space", "skip_stream", "skip_text", "skip_value"]

_QUOTE = re.compile(rb'["\\]').search
_STRUCTURAL = re.compile(rb'["{}\[\]]').search
_NO_SPACE = re.compile(rb"[^\x00-\x20]").search

_EVENT_FIELDS = {name.encode(): what << 6 | slot for name, (what, slot) in fields.EVENT_FIELDS.items()}
_ARGUMENT_FIELDS = {name.encode(): what << 6 | slot for name, (what, slot) in fields.ARGUMENT_FIELDS.items()}
_KINDS = {name.encode(): kind for name, kind in fields.CATEGORIES.items()}
_QUERIES = frozenset(f"{prefix}{stem}".encode() for prefix in fields.QUERY_PREFIXES for stem in fields.QUERY_STEMS)
_SUFFIXES = {name.encode(): kind for name, kind in fields.SUFFIXES.items()}


class WordPool:
    """Texts met so far, each with a number. ``limit`` words or ``limit_bytes`` fill it; rows are then handed on and it starts afresh."""

    def __init__(self, limit: int = 1 << 16, limit_bytes: int = 8 << 20) -> None:
        self.limit, self.limit_bytes = limit, limit_bytes
        self.codes: dict[bytes, int] = {}
        self.size_bytes = 0

    def add(self, word: bytes, raw: int) -> int:
        """The code of a text: twice its number, plus one for a value that was no string. -2 when the pool is full."""
        number = self.codes.get(word)
        if number is None:
            number = len(self.codes)
            if number >= self.limit or (number and self.size_bytes + len(word) > self.limit_bytes):
                return -2
            self.codes[word] = number
            self.size_bytes += len(word)
        return number * 2 + raw

    def words(self) -> list[bytes]:
        """All texts in the order of their numbers."""
        return list(self.codes)

    def clear(self) -> None:
        """Forget all texts."""
        self.codes.clear()
        self.size_bytes = 0


def _next_quote(b: bytearray, p: int, e: int) -> int:
    found = _QUOTE(b, p, e)
    return found.start() if found else e


def _next_structural(b: bytearray, p: int, e: int) -> int:
    found = _STRUCTURAL(b, p, e)
    return found.start() if found else e


def _skip_space(b: bytearray, p: int, e: int) -> int:
    if p < e and b[p] > 32:
        return p
    found = _NO_SPACE(b, p, e)
    return found.start() if found else e


def _event_field(b: bytearray, p: int, e: int) -> int:
    return _EVENT_FIELDS.get(bytes(b[p:e]), -1)


def _argument_field(b: bytearray, p: int, e: int) -> int:
    return _ARGUMENT_FIELDS.get(bytes(b[p:e]), -1)


def category(b: bytes | bytearray, p: int, e: int) -> int:
    """Kind of a category's text."""
    text = bytes(b[p:e]).lower()
    kind = _KINDS.get(text)
    if kind is None:
        kind = next((kind for suffix, kind in _SUFFIXES.items() if text.endswith(suffix)), fields.IGNORED)
    return kind


def host_kind(b: bytes | bytearray, p: int, e: int) -> int:
    """Kind of a host operator by its name: a collective's call, a mark that older profilers filed under operators, or an operator."""
    if b[p:e] == b"record_param_comms":
        return fields.COMM_CALL
    if b.startswith(fields.MARK_NAMES, p, e):
        return fields.ANNOTATION
    return fields.HOST_OP


def is_query(b: bytes | bytearray, p: int, e: int) -> bool:
    """Whether a runtime call only asks or sets something."""
    return bytes(b[p:e]) in _QUERIES


def _intern(b: bytearray, p: int, e: int, raw: int, pool: WordPool) -> int:
    return pool.add(bytes(b[p:e]), raw)


_SCANNER = shared.bind(
    {
        "next_quote": _next_quote,
        "next_structural": _next_structural,
        "skip_space": _skip_space,
        "event_field": _event_field,
        "argument_field": _argument_field,
        "category": category,
        "host_kind": host_kind,
        "is_query": is_query,
        "intern": _intern,
        # Single elements of lists are read much faster than those of numpy arrays.
        "WANTED_INTEGERS": layout.WANTED_INTEGERS.tolist(),
        "WANTED_TEXTS": layout.WANTED_TEXTS.tolist(),
    },
    lambda _name, function: function,
)
# The scanner's functions without a compiler.
scan_events: Callable[..., tuple[int, int, int]] = _SCANNER["scan_events"]
number: Callable[[bytes | bytearray, int, int, int], tuple[int, int]] = _SCANNER["number"]
skip_stream: Callable[..., int] = _SCANNER["skip_stream"]
skip_text: Callable[[bytearray, int, int], int] = _SCANNER["skip_text"]
skip_value: Callable[[bytearray, int, int, list[int]], int] = _SCANNER["skip_value"]
skip_space = _skip_space
