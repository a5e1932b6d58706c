"""Reading of ``--steps 12:20`` and ``--ranks 0,8-15``."""

from __future__ import annotations

import re

from netlab.errors import ConfigError

__all__ = ["parse_ranks", "parse_steps"]


def parse_steps(text: str, name: str = "--steps") -> tuple[int | None, int | None]:
    """A half-open range of step numbers, as in Python; an empty side is open. ``name`` is where the text stands.

    >>> parse_steps("12:20"), parse_steps(":3"), parse_steps("7")
    ((12, 20), (None, 3), (7, 8))
    """
    match = re.fullmatch(r"\s*(\d*)\s*(:?)\s*(\d*)\s*", text)
    if match is None or not (match[1] or match[2]) or (match[3] and not match[2]):
        raise ConfigError(f"{name} is {text!r}; expected a half-open range such as 12:20.")
    first = int(match[1]) if match[1] else None
    if not match[2]:
        assert first is not None
        return first, first + 1
    last = int(match[3]) if match[3] else None
    if first is not None and last is not None and last <= first:
        raise ConfigError(f"{name} is {text!r}, which holds no step; the end of the range is exclusive.")
    return first, last


def parse_ranks(text: str, name: str = "--ranks") -> frozenset[int]:
    """A set of ranks from numbers and closed ranges. ``name`` is where the text stands.

    >>> sorted(parse_ranks("0,8-10"))
    [0, 8, 9, 10]
    """
    ranks: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise ConfigError(f"{name} is {text!r}; expected numbers and ranges such as 0,8-15.")
        ranks.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(ranks)
