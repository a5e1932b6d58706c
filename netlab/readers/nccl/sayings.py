"""Events of a log in columns: what was said is kept once, and who said it, where and how often as numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.readers.nccl.secrets import mask_text
from netlab.readers.nccl.state import LogState, Process
from netlab.schema import TABLES

__all__ = ["Event", "Sayings", "SingleEvent"]

#: Code, name of a value, value.
Event = tuple[str, str | None, str | None]
_LIMIT = 1_000_000
_TEXTS_OF_ONE = 20_000
_SMALL_BYTES = 100_000_000
_BYTES = re.compile(r"(\d{1,15}) Bytes")
_NONE = -1


@dataclass(slots=True)
class SingleEvent:
    """An event that stands for itself: a warning, or one of a process that is not known."""

    process: Process | None
    rank: int | None
    level: str
    event: Event
    message: str
    line: int
    ts_ns: int | None
    count: int = 1


class Sayings:
    """The events of a file. Equal ones of a process count once, the first is shown; warnings stand for themselves."""

    def __init__(self) -> None:
        self.singles: list[SingleEvent] = []
        self.dropped = 0
        self._number_of: dict[tuple[str, str], int] = {}
        self._texts: list[str] = []
        self._meaning: list[int] = []
        self._meaning_of: dict[tuple[str, Event, bool], int] = {}
        #: Texts of a meaning so far, and the last one, which stands for those that follow when they are too many.
        self._many: dict[int, tuple[int, int]] = {}
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._blocks: list[tuple[NDArray[np.int64], ...]] = []
        self._unheard: dict[tuple[str, Event], SingleEvent] = {}
        self._kept = 0

    def number(self, level: str, event: Event, text: str) -> int:
        """The number of a saying."""
        number = self._number_of.get((level, text))
        if number is None:
            # A choice for a small message is told apart from one for a large message: that is what matters about it.
            said = (level, _masked(event), event[0] == "tuning_choice" and _is_small(text))
            meaning = self._meaning_of.setdefault(said, len(self._meaning_of))
            if meaning in self._many and self._many[meaning][0] >= _TEXTS_OF_ONE:
                return self._many[meaning][1]
            number = self._number_of[level, text] = len(self._texts)
            self._texts.append(mask_text(text))
            self._meaning.append(meaning)
            self._many[meaning] = (self._many.get(meaning, (0, 0))[0] + 1, number)
        return number

    def add(self, process: Process, saying: int, line: int, ts_ns: int | None) -> None:
        """A process said it."""
        self._rows.append((process.number, saying, line, 1, _NONE if ts_ns is None else ts_ns))
        if len(self._rows) >= 50_000:
            self._seal()

    def add_columns(
        self,
        process: NDArray[np.int64],
        saying: NDArray[np.int64],
        line: NDArray[np.int64],
        count: NDArray[np.int64],
        ts_ns: NDArray[np.int64],
    ) -> None:
        """Processes said things ``count`` times, first in a line; -1 stands for no time."""
        self._blocks.append((process, saying, line, count, ts_ns))
        self._kept += len(line)
        if self._kept > 2 * _LIMIT:
            self._merge()

    def single(self, process: Process | None, rank: int | None, level: str, event: Event, text: str, line: int, ts_ns: int | None) -> None:
        """An event that stands for itself; of those without a process and a warning's level, equal ones count once."""
        known = self._unheard.get((level, event)) if process is None and level == "INFO" else None
        if known is not None:
            known.count += 1
        elif len(self.singles) >= _LIMIT:
            self.dropped += 1
        else:
            row = SingleEvent(process, rank, level, _masked(event), mask_text(text), line, ts_ns)
            self.singles.append(row)
            if process is None and level == "INFO":
                self._unheard[level, event] = row

    def _seal(self) -> None:
        if self._rows:
            rows, self._rows = np.array(self._rows, dtype=np.int64), []
            self.add_columns(*(rows[:, i].copy() for i in range(5)))

    def _merge(self) -> pl.DataFrame:
        """One row per process and meaning, with the first line."""
        names = ("process", "saying", "line", "count", "ts_ns")
        if not self._blocks:
            return pl.DataFrame(schema=dict.fromkeys((*names, "meaning"), pl.Int64))
        frame = pl.DataFrame({name: np.concatenate([block[i] for block in self._blocks]) for i, name in enumerate(names)})
        frame = frame.with_columns(pl.Series("meaning", np.array(self._meaning, dtype=np.int64)[frame["saying"].to_numpy()]))
        merged = frame.sort("line").group_by("process", "meaning", maintain_order=True).agg(
            pl.col("saying", "line", "ts_ns").first(), pl.col("count").sum()
        )  # fmt: skip
        if merged.height > _LIMIT:
            self.dropped += merged.height - _LIMIT
            merged = merged.head(_LIMIT)
        self._blocks = [tuple(merged[name].to_numpy() for name in names)]
        self._kept = merged.height
        return merged

    def frame(self, state: LogState, source: str) -> pl.DataFrame:
        """``nccl_events``."""
        self._seal()
        merged = self._merge()
        processes = list(state.processes.values())
        meanings = list(self._meaning_of)
        at, who, said = merged["meaning"].to_numpy(), merged["process"].to_numpy(), merged["saying"].to_numpy()
        codes: dict[str, list[str | None]] = {"level": [level for level, _, _ in meanings]}
        for i, name in enumerate(("code", "key", "value")):
            codes[name] = [event[i] for _, event, _ in meanings]
        many = pl.DataFrame({
            "host": pl.Series([p.host for p in processes], dtype=pl.String)[who],
            "pid": pl.Series([p.pid for p in processes], dtype=pl.Int64)[who],
            "rank": pl.Series([p.global_rank for p in processes], dtype=pl.Int64)[who],
            **{name: pl.Series(values, dtype=pl.String)[at] for name, values in codes.items()},
            "message": pl.Series(self._texts, dtype=pl.String)[said],
            "count": merged["count"],
            "ts_ns": merged["ts_ns"].set(merged["ts_ns"] < 0, None),
            "line": merged["line"],
        })  # fmt: skip
        rows = [
            (
                e.process.host if e.process else None, e.process.pid if e.process else None,
                e.process.global_rank if e.process and e.rank is None else e.rank, e.level, *e.event, e.message, e.count, e.ts_ns, e.line,
            )
            for e in self.singles
        ]  # fmt: skip
        few = pl.DataFrame(rows, schema=many.schema, orient="row")
        return TABLES["nccl_events"].conform(pl.concat([many, few]).with_columns(pl.lit(source).alias("source")))


def _masked(event: Event) -> Event:
    """Values may be whole texts of others, such as those of plugins."""
    code, key, value = event
    return code, None if key is None else mask_text(key), None if value is None else mask_text(value)


def _is_small(text: str) -> bool:
    size = _BYTES.search(text)
    return size is not None and int(size[1]) < _SMALL_BYTES
