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
    """Open begins of each thread; the last one opened is the first one closed. None stands for a begin that no table keeps."""

    _open: dict[tuple[int, int], list[_Begin | None]] = field(default_factory=dict)
    _count: int = 0
    _done: list[_Begin] = field(default_factory=list)

    def add(self, batch: Batch, index: npt.NDArray[np.int64], counts: Counts) -> None:
        """Take the begin and end events of a batch at ``index``, in the order of the file."""
        columns = batch.integers[index][:, (_PID, _TID, _TS)].T.tolist()
        is_begin = (batch.texts[index, layout.PHASE_COLUMN] == fields.MARKS[0]).tolist()
        kinds = batch.texts[index, layout.KIND_COLUMN].tolist()
        for row, process, thread, ts, begins, kind in zip(index.tolist(), *columns, is_begin, kinds, strict=True):
            stack = self._open.get((process, thread), [])
            if begins and self._count < _OPEN_LIMIT:
                stack.append(self._begin(batch, row) if kind not in (fields.IGNORED, fields.UNKNOWN) else None)
                self._open[process, thread] = stack
                self._count += 1
            elif begins:
                counts.missing_times += 1
            elif stack:
                begin = stack.pop()
                self._count -= 1
                if not stack:
                    del self._open[process, thread]
                if begin is not None:
                    if begin.integers[_TS] != layout.NULL and ts != layout.NULL:
                        begin.integers[_DUR] = ts - int(begin.integers[_TS])
                    self._done.append(begin)

    @staticmethod
    def _begin(batch: Batch, row: int) -> _Begin:
        texts = batch.texts[row].copy()
        words = [(batch.words[code >> 1], code) for code in texts[: layout.TEXT_COUNT].tolist() if code >= 0]
        return _Begin(batch.integers[row].copy(), texts, batch.first + row, words)

    def end(self) -> None:
        """No end comes any more: what is open goes on without a duration."""
        for stack in self._open.values():
            self._done.extend(begin for begin in stack if begin is not None)
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
