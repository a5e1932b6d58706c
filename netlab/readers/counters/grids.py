"""Tables that switches print: a header line over a line of dashes, columns aligned by position."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Grid", "dashed_grids", "prompt_device", "spaced_grids"]

_DASHES = re.compile(r"\s*-{2,}(?:\s+-{2,})*\s*")
_PROMPT = re.compile(r"(?:[\w.-]+@)?([\w.-]+)(?::[~/\w.-]*)?[#$>] ?(?:show|nv|sudo|ip|ethtool)\b", re.M)


@dataclass(frozen=True)
class Grid:
    """One table: the line before its header, the headers, and rows with their line numbers."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]


def dashed_grids(text: str) -> Iterator[Grid]:
    """Tables whose dashes show the columns; a row ends a table when it is blank or holds no cell under the dashes.

    >>> grid = next(dashed_grids("Port  Rx\\n----  --\\n  e0   7\\n"))
    >>> grid.headers, grid.rows[0][1]
    (('Port', 'Rx'), ('e0', '7'))
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if number == 0 or not _DASHES.fullmatch(line):
            continue
        spans = [match.span() for match in re.finditer(r"-{2,}", line)]
        if len(spans) < 2 or not lines[number - 1].strip():
            continue
        headers = _cells(lines[number - 1], spans)
        rows = []
        for below in range(number + 1, len(lines)):
            if not lines[below].strip() or lines[below].startswith(("Reminder", "Last cached")) or _DASHES.fullmatch(lines[below]):
                # Blank lines part blocks of one table in some outputs.
                if below + 1 < len(lines) and not lines[below].strip() and _continues(lines, below + 1, spans):
                    continue
                break
            rows.append((below + 1, _cells(lines[below], spans)))
        yield Grid(lines[number - 2].strip() if number > 1 else "", headers, tuple(rows))


def _continues(lines: list[str], at: int, spans: list[tuple[int, int]]) -> bool:
    """Whether a line after a blank one is a further row and no new title or header."""
    following = lines[at + 1] if at + 1 < len(lines) else ""
    cells = _cells(lines[at], spans)
    return bool(lines[at].strip()) and not _DASHES.fullmatch(following) and len(cells) > 2 and all(cells)


def _cells(line: str, spans: list[tuple[int, int]]) -> tuple[str, ...]:
    """Cells under spans; text that runs over a border belongs to the column in which it begins."""
    # Pasted tables lose their alignment; where every cell is there, two spaces part them.
    parts = re.split(r"\s{2,}|\t", line.strip())
    if len(parts) == len(spans) > 2:
        return tuple(parts)
    borders = [0, *(start for start, _ in spans[1:])]
    ends = [*borders[1:], max(len(line), spans[-1][1])]
    # Right-aligned cells may begin before the dashes of their column, but never before the previous column ends.
    return tuple(line[start:end].strip() for start, end in zip(borders, ends, strict=True))


def spaced_grids(text: str, first: str) -> Iterator[Grid]:
    """Tables whose header begins with a word and whose cells hold no spaces, ruled by full lines of dashes (NX-OS, EOS)."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        words = lines[number].split()
        if len(words) < 2 or words[0] != first:
            number += 1
            continue
        rows: list[tuple[int, tuple[str, ...]]] = []
        below = number + 1
        while below < len(lines):
            cells = lines[below].split()
            if not cells or set(lines[below].strip()) == {"-"}:
                if rows or not cells:
                    break
            elif cells[0] == first:
                break
            else:
                rows.append((below + 1, tuple(cells)))
            below += 1
        yield Grid("", tuple(words), tuple(rows))
        number = below


def prompt_device(text: str) -> str | None:
    """The host name in a shell prompt before a command, as in ``admin@sonic:~$ show ...``.

    >>> prompt_device("admin@leaf1:~$ show lldp table")
    'leaf1'
    """
    match = _PROMPT.search(text)
    return match[1] if match else None
