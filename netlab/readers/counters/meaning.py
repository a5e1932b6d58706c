"""What a counter's name means: canonical metric, direction, kind, scale, width and behaviour at the end of its range."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

__all__ = ["DIRECTIONS", "Meaning", "NameTable", "both", "first_meaning"]


@dataclass(frozen=True)
class Meaning:
    """The registry's entry of one source name.

    ``scale`` multiplies the source's number (4 for InfiniBand words). ``equals`` turns a state number into 1 (that state) or 0.
    Several names of one port may mean the same metric (64-bit and 32-bit octets, wire and software bytes): the lowest ``preference`` takes
    the canonical name and the others go by ``otherwise`` (default: their own name), so that nothing counts twice.
    """

    metric: str
    direction: str = "none"
    kind: str = "counter"
    scale: float = 1
    width_bits: int | None = 64
    overflow: str | None = "wrap"
    queue: str | None = None
    preference: int = 0
    otherwise: str | None = None
    equals: int | None = None


def both(receive: str, transmit: str, metric: str, like: Meaning | None = None) -> dict[str, Meaning]:
    """Entries for the two directions of one counter.

    >>> [m.direction for m in both("ifHCInOctets", "ifHCOutOctets", "bytes").values()]
    ['rx', 'tx']
    """
    base = like or Meaning(metric)
    return {receive: replace(base, metric=metric, direction="rx"), transmit: replace(base, metric=metric, direction="tx")}


@dataclass(frozen=True)
class NameTable:
    """Names of one source: exact ones, and patterns whose groups ``q`` (queue) and ``d`` (direction) are filled in.

    ``fold`` brings spellings of one name together; ``otherwise`` is asked last.
    """

    exact: Mapping[str, Meaning]
    patterns: Sequence[tuple[str, Meaning]] = ()
    fold: Callable[[str], str] = str
    otherwise: Callable[[str], Meaning | None] | None = None
    _compiled: list[tuple[re.Pattern[str], Meaning]] = field(default_factory=list, init=False, repr=False)
    _folded: dict[str, Meaning] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._compiled.extend((re.compile(pattern), meaning) for pattern, meaning in self.patterns)
        self._folded.update({self.fold(name): meaning for name, meaning in self.exact.items()})

    def find(self, name: str) -> Meaning | None:
        """The meaning of a name, or None."""
        found = self._folded.get(self.fold(name))
        if found is not None:
            return found
        for pattern, meaning in self._compiled:
            match = pattern.fullmatch(name)
            if match:
                return _filled(meaning, match.groupdict())
        return None if self.otherwise is None else self.otherwise(name)


#: Words for the direction of a counter, as seen by its owner.
DIRECTIONS = {
    **dict.fromkeys(("rx", "in", "input", "receive", "received", "rcv", "ingress", "inbound"), "rx"),
    **dict.fromkeys(("tx", "out", "output", "transmit", "transmitted", "xmit", "sent", "egress", "outbound"), "tx"),
}


def _filled(meaning: Meaning, groups: Mapping[str, str | None]) -> Meaning:
    direction = DIRECTIONS.get((groups.get("d") or "").lower())
    queue = groups.get("q")
    metric = meaning.metric.format(**{key: (value or "").lower() for key, value in groups.items()})
    return replace(meaning, metric=metric, direction=direction or meaning.direction, queue=queue if queue is not None else meaning.queue)


def first_meaning(tables: Sequence[NameTable], name: str) -> Meaning | None:
    """The first table's meaning of a name, or None."""
    return next((meaning for table in tables if (meaning := table.find(name)) is not None), None)
