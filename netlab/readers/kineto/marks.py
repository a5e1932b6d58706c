"""Begin and end events (phases B and E) put together to events with a duration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from netlab.readers.kineto import fields, layout

if TYPE_CHECKING:
    from netlab.readers.kineto.columns import Counts
    from netlab.readers.kineto.document import Batch

__all__ = ["MarkPairs"]

_TS, _DUR, _PID, _TID = (fields.INTEGERS.index(name) for name in ("ts", "dur", "pid", "tid"))
#: Open begins that are kept; a hostile file must not fill the memory.
_OPEN_LIMIT = 100_000


@dataclass(frozen=True)
class _Begin:
    integers: npt.NDArray[np.int64]
    texts: npt.NDArray[np.int32]
    number: int
    words: list[tuple[bytes, int]]


@dataclass
class MarkPairs:
    """Open begins of each thread; the last one opened is the first one closed."""

    _open: dict[tuple[int, int], list[_Begin]] = field(default_factory=dict)
    _count: int = 0
    _done: list[_Begin] = field(default_factory=list)

    def add(self, batch: Batch, index: npt.NDArray[np.int64], counts: Counts) -> None:
        """Take the begin and end events of a batch at ``index``, in the order of the file."""
        for row in index.tolist():
            integers, texts = batch.integers[row].copy(), batch.texts[row].copy()
            thread = (int(integers[_PID]), int(integers[_TID]))
            stack = self._open.setdefault(thread, [])
            if texts[layout.PHASE_COLUMN] == fields.MARKS[0]:
                if self._count >= _OPEN_LIMIT:
                    counts.missing_times += 1
                    continue
                words = [(batch.words[code >> 1], int(code)) for code in texts[: layout.TEXT_COUNT].tolist() if code >= 0]
                stack.append(_Begin(integers, texts, batch.first + row, words))
                self._count += 1
            elif stack:
                begin = stack.pop()
                self._count -= 1
                if begin.integers[_TS] != layout.NULL and integers[_TS] != layout.NULL:
                    begin.integers[_DUR] = int(integers[_TS]) - int(begin.integers[_TS])
                self._done.append(begin)

    def end(self, counts: Counts) -> None:
        """No end comes any more: annotations stay without one, everything else is counted as missing its duration."""
        for stack in self._open.values():
            self._done.extend(stack)
        self._open.clear()
        self._done.sort(key=lambda begin: begin.number)

    def take(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int64], list[bytes]] | None:
        """Rows that are complete, as (integers, texts, numbers, words); None if there are none."""
        if not self._done:
            return None
        codes: dict[bytes, int] = {}
        for begin in self._done:
            slots = [slot for slot in range(layout.TEXT_COUNT) if begin.texts[slot] >= 0]
            for slot, (word, code) in zip(slots, begin.words, strict=True):
                begin.texts[slot] = codes.setdefault(word, len(codes)) * 2 + (code & 1)
        done, self._done = self._done, []
        integers = np.stack([begin.integers for begin in done])
        texts = np.stack([begin.texts for begin in done])
        return integers, texts, np.array([begin.number for begin in done], np.int64), list(codes)
