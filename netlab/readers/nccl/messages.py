"""What a record says: the third stage. Only the patterns that may begin like the message are tried.

A message that fits no pattern is unknown: it is counted, never guessed at, since a torn line looks the same.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from netlab.readers.nccl.patterns import KINDS

__all__ = ["Message", "classify", "strip_tail"]


class Message(NamedTuple):
    """A classified message: its kind and the named parts of its text."""

    kind: str
    parts: dict[str, str | None]


_COMPILED = tuple((kind, closed, re.compile(text)) for kind, closed, text in KINDS)
_WORD = re.compile(r" *\+?[A-Za-z=_]*")


def _literal_starts(text: str) -> str:
    """The letters with which every match of a pattern begins, as far as that is plain."""
    found = re.match(r"[A-Za-z]+", text)
    return found[0] if found and text[found.end() : found.end() + 1] not in ("?", "*", "|") else ""


#: First letters of a message to the patterns that may fit it: most messages meet two or three patterns only.
_STARTS = tuple(_literal_starts(text) if "|" not in text.split("(")[0] else "" for _, _, text in KINDS)
_by_start: dict[str, tuple[tuple[str, bool, re.Pattern[str]], ...]] = {}


def _candidates(message: str) -> tuple[tuple[str, bool, re.Pattern[str]], ...]:
    found = _WORD.match(message)
    word = found[0].strip() if found else ""
    if word not in _by_start:
        if len(_by_start) > 4096:
            _by_start.clear()
        _by_start[word] = tuple(
            entry for entry, start in zip(_COMPILED, _STARTS, strict=True) if not start or start.startswith(word) or word.startswith(start)
        )
    return _by_start[word]


def classify(message: str) -> Message | None:
    """The kind of a message and its parts, or None if no pattern covers it.

    >>> classify("Using network IB").parts["name"]
    'IB'
    >>> classify("Chan") is None
    True
    """
    for kind, _, pattern in _candidates(message):
        found = pattern.fullmatch(message)
        if found:
            return Message(kind, found.groupdict())
    return None


def strip_tail(message: str) -> tuple[Message, str] | None:
    """A message with foreign text behind it: only kinds with a definite end are tried. Returns the message and what was cut off."""
    for kind, closed, pattern in _candidates(message):
        found = pattern.match(message) if closed else None
        if found and (kind != "via" or not message[found.end() : found.end() + 1].isalnum()):
            return Message(kind, found.groupdict()), message[found.end() :]
    return None
