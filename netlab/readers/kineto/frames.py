"""Batches of rows to the tables of ``netlab.schema.traces``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from netlab.readers.kineto import fields, layout
from netlab.readers.kineto.columns import TIME_LIMIT, Counts, Integers, Rows, Texts, Words, nullable
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

_CATEGORY_NAMES = {fields.KERNEL: "kernel", fields.MEMCPY: "memcpy", fields.MEMSET: "memset"}
#: Host operators whose input sizes matter: collectives and copies.
_SIZED_OPS = r"^c10d::|^aten::(?:_to_copy|copy_|to|clone)$|reducer::copy_bucket_to_grad$"


@dataclass
class TableWriter:
    """Turns batches into frames and hands them to ``write(table, frame)``. Instants get ``base_time_ns`` added."""

    write: Callable[[str, pl.DataFrame], None]
    base_time_ns: int = 0
    #: Only these, where given; otherwise all but host operators.
    tables: frozenset[str] = frozenset()
    counts: Counts = field(default_factory=Counts)
    marks: MarkPairs = field(default_factory=MarkPairs)

    def add(self, batch: Batch) -> None:
        """Write the rows of a batch."""
        kinds = batch.texts[:, layout.KIND_COLUMN]
        phases = batch.texts[:, layout.PHASE_COLUMN]
        numbers = np.arange(batch.first, batch.first + len(kinds), dtype=np.int64)
        words = batch.words
        is_mark = (phases == fields.MARKS[0]) | (phases == fields.MARKS[1])
        if is_mark.any():
            self.marks.add(batch, np.flatnonzero(is_mark), self.counts)
        self._rows(batch.integers, batch.texts, numbers, np.where(is_mark, fields.UNKNOWN, kinds), words)
        self._paired()

    def finish(self) -> None:
        """Write what waited for an end that never came: marks of the host without one."""
        self.marks.end()
        self._paired()

    def _paired(self) -> None:
        paired = self.marks.take()
        if paired is not None:
            integers, texts, numbers, words = paired
            self._rows(integers, texts, numbers, texts[:, layout.KIND_COLUMN], words)

    def _rows(self, integers: Integers, texts: Texts, numbers: Integers, kinds: Texts, words: list[bytes]) -> None:
        lookup = Words(words, self.counts)
        for table, build, members in _BUILDERS:
            if table not in (self.tables or _USUAL):
                continue
            index = np.flatnonzero(np.isin(kinds, members)) if len(members) > 1 else np.flatnonzero(kinds == members[0])
            if len(index) == 0:
                continue
            rows = Rows(integers[index], texts[index], numbers[index], lookup, self.base_time_ns)
            frame = build(rows, self.counts)
            if frame.height:
                self.counts.rows += frame.height
                if table == DEVICE_EVENTS.name:
                    self.counts.device_events += frame.height
                self.counts.latest_ns = max(self.counts.latest_ns, int(rows.raw("ts").max()))
                self.write(table, frame)


def _shape(columns: Mapping[str, object], order: list[str]) -> pl.DataFrame:
    return pl.DataFrame({name: columns[name] for name in order})


def _names(rows: Rows) -> pl.Series:
    return rows.text("name").fill_null("")


def _device_events(rows: Rows, counts: Counts) -> pl.DataFrame:
    rows.timed(counts, longest=True)
    kinds = rows.texts[:, layout.KIND_COLUMN]
    category = pl.Series(kinds.astype(np.int64)).replace_strict(_CATEGORY_NAMES, return_dtype=pl.String)
    # A device event's process is its device and its thread the stream, where the arguments do not say so.
    process, stream = rows.raw("pid"), rows.first_of("stream", "tid")
    device = rows.raw("device")
    device = np.where((device == layout.NULL) & (process >= 0) & (process < 1024), process, device)
    columns = {
        "event": rows.numbers,
        "category": category,
        "name": _names(rows),
        "device": nullable(device, pl.Int32),
        "stream": nullable(stream),
        "start_ns": rows.start(),
        "end_ns": rows.end(),
        "correlation": rows.integer("correlation"),
        "external_id": rows.external_id(),
        "bytes": rows.integer("bytes"),
        "grid": rows.text("grid"),
        **rows.collective(),
    }
    return _shape(columns, _COLUMNS[DEVICE_EVENTS.name])


def _launches(rows: Rows, counts: Counts) -> pl.DataFrame:
    rows.keep(rows.raw("correlation") != layout.NULL)
    rows.timed(counts)
    columns = {**_host(rows), "correlation": rows.raw("correlation")}
    return _shape(columns, _COLUMNS[LAUNCHES.name])


def _sync_events(rows: Rows, counts: Counts) -> pl.DataFrame:
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
        columns[name] = nullable(np.where(rows.raw(name) == -1, layout.NULL, rows.raw(name)))
    return _shape(columns, _COLUMNS[SYNC_EVENTS.name])


def _annotations(rows: Rows, counts: Counts) -> pl.DataFrame:
    rows.timed(counts, endless=True)
    duration = rows.raw("dur")
    endless = (duration < 0) | (duration >= TIME_LIMIT)
    end = np.where(endless, layout.NULL, rows.start() + np.where(endless, 0, duration))
    columns = {**_host(rows), "end_ns": nullable(end), "input_dims": rows.text("input_dims"), "input_types": rows.text("input_types")}
    return _shape(columns, _COLUMNS[ANNOTATIONS.name])


def _host_ops(rows: Rows, counts: Counts) -> pl.DataFrame:
    rows.timed(counts)
    columns = {**_host(rows), "input_dims": rows.text("input_dims"), "input_types": rows.text("input_types")}
    frame = _shape(columns, _COLUMNS[HOST_OPS.name])
    sized = pl.col("name").str.contains(_SIZED_OPS)
    return frame.with_columns(pl.when(sized).then(pl.col("input_dims", "input_types")).otherwise(None))


def _comm_calls(rows: Rows, counts: Counts) -> pl.DataFrame:
    rows.timed(counts)
    return _shape({**_host(rows), **rows.collective()}, _COLUMNS[COMM_CALLS.name])


def _flows(rows: Rows, counts: Counts) -> pl.DataFrame:
    start = rows.raw("ts")
    rows.keep((rows.raw("id") != layout.NULL) & (start != layout.NULL) & (abs(start) < TIME_LIMIT))
    phase = pl.Series(rows.texts[:, layout.PHASE_COLUMN].astype(np.int64)).replace_strict(
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


def _host(rows: Rows) -> dict[str, pl.Series | Integers]:
    return {
        "process": rows.integer("pid"),
        "thread": rows.integer("tid"),
        "name": _names(rows),
        "start_ns": rows.start(),
        "end_ns": rows.end(),
        "external_id": rows.external_id(),
    }


_Builder = Callable[[Rows, Counts], pl.DataFrame]
_BUILDERS: tuple[tuple[str, _Builder, tuple[int, ...]], ...] = (
    (DEVICE_EVENTS.name, _device_events, (fields.KERNEL, fields.MEMCPY, fields.MEMSET)),
    (LAUNCHES.name, _launches, (fields.LAUNCH,)),
    (SYNC_EVENTS.name, _sync_events, (fields.SYNC,)),
    (ANNOTATIONS.name, _annotations, (fields.ANNOTATION,)),
    (HOST_OPS.name, _host_ops, (fields.HOST_OP,)),
    (COMM_CALLS.name, _comm_calls, (fields.COMM_CALL,)),
    (FLOWS.name, _flows, (fields.FLOW,)),
)
_USUAL = frozenset(table for table, _, _ in _BUILDERS if table != HOST_OPS.name)
_COLUMNS = {
    table.name: [column.name for column in table.columns if column.name != "file"]
    for table in (DEVICE_EVENTS, LAUNCHES, SYNC_EVENTS, ANNOTATIONS, HOST_OPS, COMM_CALLS, FLOWS)
}
