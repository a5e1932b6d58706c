"""Columns of rows: integers with nulls, texts decoded from their codes, instants, and a count of everything that is dropped on the way."""

from __future__ import annotations

import json
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from netlab.readers.kineto import fields, layout

__all__ = ["LONGEST_NS", "TIME_LIMIT", "Counts", "Integers", "Rows", "Texts", "Words", "nullable"]

Integers = npt.NDArray[np.int64]
Texts = npt.NDArray[np.int32]

_SLOT = {name: slot for slot, name in enumerate(fields.INTEGERS)}
_TEXT = {name: slot for slot, name in enumerate(fields.TEXTS)}
_LONG_INTEGERS = ("in_elements", "out_elements", "seq")
_SHORT_INTEGERS = ("group_size", "src_rank", "dst_rank")
_COLLECTIVE_TEXTS = ("collective", "dtype", "group_name", "group_description", "group_ranks", "comms_id", "in_split", "out_split")
_INT32 = (-(2**31), 2**31 - 1)
#: Instants must fit 64 bits together with a duration and a base time.
TIME_LIMIT = 2**62
#: Longest duration of a device event that is kept, 73 years: alignment clips what outlasts its capture.
LONGEST_NS = 2**61


@dataclass
class Counts:
    """What was dropped or mended on the way."""

    device_events: int = 0
    rows: int = 0
    missing_times: int = 0
    negative_durations: int = 0
    #: The first event of each of these two kinds, as people find it in the file.
    first_missing: str = ""
    first_negative: str = ""
    invalid_texts: bool = False
    bad_escapes: bool = False
    #: The latest start, without base time, to tell absolute times from relative ones.
    latest_ns: int = 0

    def add(self, other: Counts) -> None:
        """Take over the counts of another pass over the same file."""
        self.rows += other.rows
        self.missing_times += other.missing_times
        self.negative_durations += other.negative_durations
        self.first_missing = self.first_missing or other.first_missing
        self.first_negative = self.first_negative or other.first_negative
        self.invalid_texts |= other.invalid_texts
        self.bad_escapes |= other.bad_escapes
        self.latest_ns = max(self.latest_ns, other.latest_ns)


class Words:
    """Texts of a batch, decoded when they are first asked for."""

    def __init__(self, words: list[bytes], counts: Counts) -> None:
        self.size = len(words)
        self._words, self._counts = words, counts
        self._series: pl.Series | None = None

    def column(self, codes: Texts) -> pl.Series:
        if self._series is None:
            decoded = [self._decode(word, True) for word in self._words]
            # Codes of values that were no strings are odd; their text is taken as it stands.
            plain = [self._decode(word, False) if b"\\" in word else text for word, text in zip(self._words, decoded, strict=True)]
            self._series = pl.Series(decoded + plain, dtype=pl.String)
        index = (codes >> 1) + (codes & 1) * self.size
        chosen = pl.Series(index.astype(np.int64))
        if (codes < 0).any():
            chosen = chosen.set(pl.Series(codes < 0), None)
        return self._series.gather(chosen)

    def _decode(self, word: bytes, escaped: bool) -> str:
        try:
            if escaped and b"\\" in word:
                return msgspec.json.decode(b'"' + word + b'"', type=str)
            return word.decode()
        except (UnicodeDecodeError, msgspec.DecodeError):
            return self._mend(word, escaped)

    def _mend(self, word: bytes, escaped: bool) -> str:
        text = word.decode("utf-8", "replace")
        self._counts.invalid_texts |= "\ufffd" in text and "\ufffd".encode() not in word
        if escaped and "\\" in text:
            try:
                text = json.loads(f'"{text}"', strict=False)
            except ValueError:
                self._counts.bad_escapes = True
        mended = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self._counts.invalid_texts |= mended != text
        return mended


class Rows:
    """Rows of one table, columns on demand."""

    def __init__(self, integers: Integers, texts: Texts, numbers: Integers, words: Words, base_time_ns: int) -> None:
        self.integers, self.texts, self.numbers = integers, texts, numbers
        self._words, self._base = words, base_time_ns

    def keep(self, index: npt.NDArray[np.bool_]) -> None:
        if not index.all():
            self.integers, self.texts, self.numbers = self.integers[index], self.texts[index], self.numbers[index]

    def raw(self, name: str) -> Integers:
        return self.integers[:, _SLOT[name]]

    def integer(self, name: str, dtype: type[pl.Int64 | pl.Int32] = pl.Int64) -> pl.Series:
        return nullable(self.raw(name), dtype)

    def first_of(self, *names: str) -> Integers:
        values = self.raw(names[0])
        for name in names[1:]:
            values = np.where(values == layout.NULL, self.raw(name), values)
        return values

    def text(self, name: str) -> pl.Series:
        return self._words.column(self.texts[:, _TEXT[name]])

    def timed(self, counts: Counts, *, endless: bool = False, longest: bool = False) -> None:
        """Drop rows without a usable time; ``endless`` rows may lack a duration. One that no clock holds is none, or the ``longest``."""
        start, duration = self.raw("ts"), self.raw("dur")
        has_start = (start != layout.NULL) & (start < TIME_LIMIT) & (start > -TIME_LIMIT)
        if longest:
            np.minimum(duration, LONGEST_NS, out=duration)
        has_duration = (duration != layout.NULL) & (duration < TIME_LIMIT)
        negative = has_start & has_duration & (duration < 0)
        missing = ~has_start | ~has_duration
        counts.missing_times += int(missing.sum())
        counts.negative_durations += int(negative.sum())
        counts.first_missing = counts.first_missing or self._first(missing, has_start)
        counts.first_negative = counts.first_negative or self._first(negative, has_start)
        self.keep(has_start & ((has_duration & ~negative) | endless))

    def _first(self, chosen: npt.NDArray[np.bool_], has_start: npt.NDArray[np.bool_]) -> str:
        """Name of the first chosen row, and its time in microseconds as the file has it; empty if there is none."""
        places = np.flatnonzero(chosen)
        if not len(places):
            return ""
        at = places[0]
        name = self._words.column(self.texts[at : at + 1, _TEXT["name"]])[0]
        return f"{name or 'without a name'!r}" + (f" at {self.raw('ts')[at] / 1000:.3f} us" if has_start[at] else "")

    def start(self) -> Integers:
        return self.raw("ts") + self._base

    def end(self) -> Integers:
        return self.start() + self.raw("dur")

    def external_id(self) -> pl.Series:
        return nullable(self.first_of("external_id", "external_id_capital", "external_id_lower"))

    def collective(self) -> dict[str, pl.Series]:
        return {
            **{name: self.integer(name) for name in _LONG_INTEGERS},
            **{name: self.integer(name, pl.Int32) for name in _SHORT_INTEGERS},
            **{name: self.text(name) for name in _COLLECTIVE_TEXTS},
        }


def nullable(values: Integers, dtype: type[pl.Int64 | pl.Int32] = pl.Int64) -> pl.Series:
    """Integers with nulls; those that do not fit the type are null."""
    null = values == layout.NULL
    if dtype == pl.Int32:
        null |= (values < _INT32[0]) | (values > _INT32[1])
    column = pl.Series(values)
    if null.any():
        column = column.set(pl.Series(null), None)
    return column.cast(dtype)
