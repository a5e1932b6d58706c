"""Batches of rows to the tables of ``netlab.schema.traces``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from netlab.readers.kineto import fields, scan
from netlab.readers.kineto.document import Batch
from netlab.readers.kineto.marks import MarkPairs
from netlab.schema.traces import (
    ANNOTATIONS,
    COMM_CALLS,
    DEVICE_EVENTS,
    FLOWS,
    HOST_OPS,
    LAUNCHES,
    SYNC_EVENTS,
)

__all__ = ["TableWriter"]

Integers = npt.NDArray[np.int64]
Texts = npt.NDArray[np.int32]

_SLOT = {name: slot for slot, name in enumerate(fields.INTEGERS)}
_TEXT = {name: slot for slot, name in enumerate(fields.TEXTS)}
_CATEGORY_NAMES = {fields.KERNEL: "kernel", fields.MEMCPY: "memcpy", fields.MEMSET: "memset"}
_LONG_INTEGERS = ("in_elements", "out_elements", "seq")
_SHORT_INTEGERS = ("group_size", "src_rank", "dst_rank")
_COLLECTIVE_TEXTS = ("collective", "dtype", "group_name", "group_description", "group_ranks", "comms_id", "in_split", "out_split")
#: Host operators whose input sizes matter: collectives and copies.
_SIZED_OPS = r"^c10d::|^aten::(?:_to_copy|copy_|to|clone)$"
_INT32 = (-(2**31), 2**31 - 1)
#: Instants must fit 64 bits together with a duration and a base time.
_TIME_LIMIT = 2**62


@dataclass
class Counts:
    """What was dropped or mended on the way."""

    device_events: int = 0
    rows: int = 0
    missing_times: int = 0
    negative_durations: int = 0
    invalid_texts: bool = False
    bad_escapes: bool = False
    #: Smallest and largest start of kept events, to tell absolute times from relative ones.
    latest_ns: int = 0


@dataclass
class TableWriter:
    """Turns batches into frames and hands them to ``write(table, frame)``. Instants get ``base_time_ns`` added."""

    write: Callable[[str, pl.DataFrame], None]
    base_time_ns: int = 0
    host_ops_only: bool = False
    counts: Counts = field(default_factory=Counts)
    marks: MarkPairs = field(default_factory=MarkPairs)

    def add(self, batch: Batch) -> None:
        """Write the rows of a batch."""
        kinds = batch.texts[:, scan.KIND_COLUMN]
        phases = batch.texts[:, scan.PHASE_COLUMN]
        numbers = np.arange(batch.first, batch.first + len(kinds), dtype=np.int64)
        words = batch.words
        is_mark = (phases == fields.MARKS[0]) | (phases == fields.MARKS[1])
        if is_mark.any():
            self.marks.add(batch, np.flatnonzero(is_mark), self.counts)
        self._rows(batch.integers, batch.texts, numbers, np.where(is_mark, fields.UNKNOWN, kinds), words)
        self._paired()

    def finish(self) -> None:
        """Write what waited for an end that never came: marks of the host without one."""
        self.marks.end(self.counts)
        self._paired()

    def _paired(self) -> None:
        paired = self.marks.take()
        if paired is not None:
            integers, texts, numbers, words = paired
            self._rows(integers, texts, numbers, texts[:, scan.KIND_COLUMN], words)

    def _rows(self, integers: Integers, texts: Texts, numbers: Integers, kinds: Texts, words: list[bytes]) -> None:
        lookup = _Words(words, self.counts)
        for table, build, members in _BUILDERS:
            if self.host_ops_only != (table == HOST_OPS.name):
                continue
            index = np.flatnonzero(np.isin(kinds, members)) if len(members) > 1 else np.flatnonzero(kinds == members[0])
            if len(index) == 0:
                continue
            rows = _Rows(integers[index], texts[index], numbers[index], lookup, self.base_time_ns)
            frame = build(rows, self.counts)
            if frame.height:
                self.counts.rows += frame.height
                if table == DEVICE_EVENTS.name:
                    self.counts.device_events += frame.height
                self.counts.latest_ns = max(self.counts.latest_ns, int(rows.integers[:, _SLOT["ts"]].max()))
                self.write(table, frame)


class _Words:
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
        import json

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


class _Rows:
    """Rows of one table, columns on demand."""

    def __init__(self, integers: Integers, texts: Texts, numbers: Integers, words: _Words, base_time_ns: int) -> None:
        self.integers, self.texts, self.numbers = integers, texts, numbers
        self._words, self._base = words, base_time_ns

    def keep(self, index: npt.NDArray[np.bool_]) -> None:
        if not index.all():
            self.integers, self.texts, self.numbers = self.integers[index], self.texts[index], self.numbers[index]

    def raw(self, name: str) -> Integers:
        return self.integers[:, _SLOT[name]]

    def integer(self, name: str, dtype: type[pl.Int64 | pl.Int32] = pl.Int64) -> pl.Series:
        return _nullable(self.raw(name), dtype)

    def first_of(self, *names: str) -> Integers:
        values = self.raw(names[0])
        for name in names[1:]:
            values = np.where(values == scan.NULL, self.raw(name), values)
        return values

    def text(self, name: str) -> pl.Series:
        return self._words.column(self.texts[:, _TEXT[name]])

    def timed(self, counts: Counts, endless: bool = False) -> None:
        """Drop rows without a usable time; ``endless`` rows may lack a duration."""
        start, duration = self.raw("ts"), self.raw("dur")
        has_start = (start != scan.NULL) & (start < _TIME_LIMIT) & (start > -_TIME_LIMIT)
        has_duration = (duration != scan.NULL) & (duration < _TIME_LIMIT)
        negative = has_start & has_duration & (duration < 0)
        counts.missing_times += int((~has_start | ~has_duration).sum())
        counts.negative_durations += int(negative.sum())
        self.keep(has_start & ~negative & (has_duration | endless))

    def start(self) -> Integers:
        return self.raw("ts") + self._base

    def end(self) -> Integers:
        return self.start() + self.raw("dur")

    def external_id(self) -> pl.Series:
        return _nullable(self.first_of("external_id", "external_id_capital", "external_id_lower"))

    def collective(self) -> dict[str, pl.Series]:
        return {
            **{name: self.integer(name) for name in _LONG_INTEGERS},
            **{name: self.integer(name, pl.Int32) for name in _SHORT_INTEGERS},
            **{name: self.text(name) for name in _COLLECTIVE_TEXTS},
        }


def _nullable(values: Integers, dtype: type[pl.Int64 | pl.Int32] = pl.Int64) -> pl.Series:
    """Integers with nulls; those that do not fit the type are null."""
    null = values == scan.NULL
    if dtype == pl.Int32:
        null |= (values < _INT32[0]) | (values > _INT32[1])
    column = pl.Series(values)
    if null.any():
        column = column.set(pl.Series(null), None)
    return column.cast(dtype)


def _shape(columns: Mapping[str, object], order: list[str]) -> pl.DataFrame:
    return pl.DataFrame({name: columns[name] for name in order})


def _names(rows: _Rows) -> pl.Series:
    return rows.text("name").fill_null("")


def _device_events(rows: _Rows, counts: Counts) -> pl.DataFrame:
    rows.timed(counts)
    kinds = rows.texts[:, scan.KIND_COLUMN]
    category = pl.Series(kinds.astype(np.int64)).replace_strict(_CATEGORY_NAMES, return_dtype=pl.String)
    # A device event's process is its device and its thread the stream, where the arguments do not say so.
    process, stream = rows.raw("pid"), rows.first_of("stream", "tid")
    device = rows.raw("device")
    device = np.where((device == scan.NULL) & (process >= 0) & (process < 1024), process, device)
    columns = {
        "event": rows.numbers,
        "category": category,
        "name": _names(rows),
        "device": _nullable(device, pl.Int32),
        "stream": _nullable(stream),
        "start_ns": rows.start(),
        "end_ns": rows.end(),
        "correlation": rows.integer("correlation"),
        "external_id": rows.external_id(),
        "bytes": rows.integer("bytes"),
        "grid": rows.text("grid"),
        **rows.collective(),
    }
    return _shape(columns, _COLUMNS[DEVICE_EVENTS.name])


def _launches(rows: _Rows, counts: Counts) -> pl.DataFrame:
    rows.keep(rows.raw("correlation") != scan.NULL)
    rows.timed(counts)
    columns = {**_host(rows), "correlation": rows.raw("correlation")}
    return _shape(columns, _COLUMNS[LAUNCHES.name])


def _sync_events(rows: _Rows, counts: Counts) -> pl.DataFrame:
    rows.timed(counts)
    columns: dict[str, pl.Series | Integers] = {
        "name": _names(rows),
        "device": rows.integer("device", pl.Int32),
        "start_ns": rows.start(),
        "end_ns": rows.end(),
        "correlation": rows.integer("correlation"),
    }
    for name in ("stream", "wait_on_stream", "wait_on_event", "wait_on_record_correlation"):
        # The profiler writes -1 where there is none.
        columns[name] = _nullable(np.where(rows.raw(name) == -1, scan.NULL, rows.raw(name)))
    return _shape(columns, _COLUMNS[SYNC_EVENTS.name])


def _annotations(rows: _Rows, counts: Counts) -> pl.DataFrame:
    rows.timed(counts, endless=True)
    duration = rows.raw("dur")
    endless = (duration == scan.NULL) | (duration >= _TIME_LIMIT)
    end = np.where(endless, scan.NULL, rows.start() + np.where(endless, 0, duration))
    columns = {**_host(rows), "end_ns": _nullable(end), "input_dims": rows.text("input_dims"), "input_types": rows.text("input_types")}
    return _shape(columns, _COLUMNS[ANNOTATIONS.name])


def _host_ops(rows: _Rows, counts: Counts) -> pl.DataFrame:
    rows.timed(counts)
    columns = {**_host(rows), "input_dims": rows.text("input_dims"), "input_types": rows.text("input_types")}
    frame = _shape(columns, _COLUMNS[HOST_OPS.name])
    sized = pl.col("name").str.contains(_SIZED_OPS)
    return frame.with_columns(pl.when(sized).then(pl.col("input_dims", "input_types")).otherwise(None))


def _comm_calls(rows: _Rows, counts: Counts) -> pl.DataFrame:
    rows.timed(counts)
    return _shape({**_host(rows), **rows.collective()}, _COLUMNS[COMM_CALLS.name])


def _flows(rows: _Rows, counts: Counts) -> pl.DataFrame:
    start = rows.raw("ts")
    rows.keep((rows.raw("id") != scan.NULL) & (start != scan.NULL) & (abs(start) < _TIME_LIMIT))
    phase = pl.Series(rows.texts[:, scan.PHASE_COLUMN].astype(np.int64)).replace_strict(
        {ord("s"): "s", ord("f"): "f"}, return_dtype=pl.String
    )
    columns = {
        "flow": rows.raw("id"),
        "phase": phase,
        "process": rows.integer("pid"),
        "thread": rows.integer("tid"),
        "at_ns": rows.start(),
    }
    return _shape(columns, _COLUMNS[FLOWS.name])


def _host(rows: _Rows) -> dict[str, pl.Series | Integers]:
    return {
        "process": rows.integer("pid"),
        "thread": rows.integer("tid"),
        "name": _names(rows),
        "start_ns": rows.start(),
        "end_ns": rows.end(),
        "external_id": rows.external_id(),
    }


_Builder = Callable[[_Rows, Counts], pl.DataFrame]
_BUILDERS: tuple[tuple[str, _Builder, tuple[int, ...]], ...] = (
    (DEVICE_EVENTS.name, _device_events, (fields.KERNEL, fields.MEMCPY, fields.MEMSET)),
    (LAUNCHES.name, _launches, (fields.LAUNCH,)),
    (SYNC_EVENTS.name, _sync_events, (fields.SYNC,)),
    (ANNOTATIONS.name, _annotations, (fields.ANNOTATION,)),
    (HOST_OPS.name, _host_ops, (fields.HOST_OP,)),
    (COMM_CALLS.name, _comm_calls, (fields.COMM_CALL,)),
    (FLOWS.name, _flows, (fields.FLOW,)),
)
_COLUMNS = {
    table.name: [column.name for column in table.columns if column.name != "file"]
    for table in (DEVICE_EVENTS, LAUNCHES, SYNC_EVENTS, ANNOTATIONS, HOST_OPS, COMM_CALLS, FLOWS)
}
