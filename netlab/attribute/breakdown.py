"""Where the time of each step went: one sweep over a rank's activities, parts that add up exactly."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.intervals import Int64s, fold_times
from netlab.schema.analysis import BREAKDOWN, SPANS

__all__ = ["HOST_COPY", "breakdown", "spans"]

#: Copies between host and device, as CUPTI (`Memcpy HtoD (Pinned -> Device)`), roctracer (`CopyHostToDevice`) and Level Zero name them.
HOST_COPY = r"(?i)HtoD|DtoH|host.?to.?device|device.?to.?host|\bM2D\b|\bD2M\b"

#: Whether work was queued can be told only where almost every kernel's launch is in the trace.
LAUNCHES_KNOWN = 0.9

#: Classes of the sweep, one bit each. Communication is entered several times, with the ends that the class asks for.
(
    _COMPUTE,
    _INTER,
    _INTRA,
    _UNPLACED,
    _KNOWN,
    _MEASURED,
    _BOUNDED,
    _WAIT,
    _MEMORY,
    _LOW,
    _HIGH,
    _DELAYED,
    _PENDING,
    _HOST_COPY,
) = range(14)

_Mask = NDArray[np.bool_]


def _measures(on: Callable[[int], _Mask]) -> dict[str, _Mask]:
    """For every combination of classes, which measures it counts for; the definitions of docs/methods.md, word for word."""
    compute, wait, memory = on(_COMPUTE), on(_WAIT), on(_MEMORY)
    inter, intra, unplaced = on(_INTER), on(_INTRA), on(_UNPLACED)
    transfer = inter | intra | unplaced
    unknown = transfer & ~on(_KNOWN)
    communication = transfer | wait
    idle = ~(compute | communication | memory)
    return {
        "compute_ns": compute,
        "exposed_transfer_ns": transfer & ~compute,
        "exposed_wait_ns": wait & ~transfer & ~compute,
        "exposed_comm_ns": communication & ~compute,
        "exposed_memory_ns": memory & ~communication & ~compute,
        "idle_ns": idle,
        "hidden_comm_ns": communication & compute,
        "hidden_transfer_ns": transfer & compute,
        "hidden_wait_ns": wait & ~transfer & compute,
        "comm_ns": communication,
        "exposed_transfer_inter_node_ns": inter & ~compute,
        "exposed_transfer_intra_node_ns": intra & ~inter & ~compute,
        "exposed_transfer_unplaced_ns": unplaced & ~inter & ~intra & ~compute,
        "exposed_unknown_ns": unknown & ~compute,
        "exposed_bounded_ns": on(_BOUNDED) & ~on(_MEASURED) & ~unknown & ~compute,
        "hidden_unknown_ns": unknown & compute,
        "exposed_transfer_low_ns": on(_LOW) & ~compute,
        "exposed_transfer_high_ns": on(_HIGH) & ~compute,
        "exposed_delay_ns": (transfer | on(_DELAYED)) & ~compute,
        "idle_unqueued_ns": idle & ~on(_PENDING),
        "host_copy_ns": on(_HOST_COPY),
        "exposed_host_copy_ns": on(_HOST_COPY) & ~communication & ~compute,
    }


@lru_cache(maxsize=1)
def _table() -> tuple[tuple[str, ...], _Mask]:
    masks = np.arange(1 << 14)
    measures = _measures(lambda bit: (masks >> bit & 1).astype(bool))
    return tuple(measures), np.stack(list(measures.values()), axis=1)


def breakdown(activities: pl.DataFrame, steps: pl.DataFrame, delayed: pl.Series | None = None) -> pl.DataFrame:
    """Cut the time of every complete step into compute, exposed transfer, exposed wait, exposed memory and idle.

    Parameters
    ----------
    activities
        ``ACTIVITIES``. Kernels that cross a border count on both sides of it with the part that lies there.
    steps
        ``STEPS``; incomplete ones get no row.
    delayed
        Numbers of the activities whose wait was caused by transfer elsewhere (`netlab.attribute.delayed_activities`); without it
        ``exposed_delay_ns`` equals ``exposed_transfer_ns``.

    Returns
    -------
    ``BREAKDOWN``: one row per (rank, window, step), and per device where a rank drives several. compute + exposed_transfer + exposed_wait
    + exposed_memory + idle = step to the nanosecond, and exposed_transfer_low <= exposed_transfer <= exposed_transfer_high.

    Examples
    --------
    Compute in [0, 70), an all-reduce in [40, 100) that waits until 50: 30 exposed, all transfer; 10 of the hidden time is waiting.

    >>> from netlab.schema.timeline import ACTIVITIES, STEPS
    >>> kernels = ACTIVITIES.conform(pl.DataFrame({
    ...     "rank": [0, 0], "activity": [0, 1], "kind": ["compute", "communication"], "name": ["gemm", "ncclDevKernel"],
    ...     "start_ns": [0, 40], "end_ns": [70, 100], "window": [0, 0], "split": [None, "measured"], "transfer_start_ns": [None, 50]}))
    >>> step = STEPS.conform(pl.DataFrame({
    ...     "rank": [0], "window": [0], "step": [3], "start_ns": [0], "end_ns": [100], "complete": [True], "mark_start_ns": [0]}))
    >>> breakdown(kernels, step).select("compute_ns", "exposed_transfer_ns", "hidden_transfer_ns", "hidden_wait_ns").row(0)
    (70, 30, 20, 10)
    """
    windows = steps.filter("complete").select("rank", "window", "step", "start_ns", "end_ns")
    frame = _sweep(activities, windows, delayed).with_columns(step_ns=pl.col("end_ns") - pl.col("start_ns"))
    return BREAKDOWN.validate(BREAKDOWN.conform(frame))


def spans(activities: pl.DataFrame, delayed: pl.Series | None = None) -> pl.DataFrame:
    """The same figures from the first to the last device activity of each rank, as other tools give them.

    Where a rank has several profiler windows, the figures of its windows are added; the time between them was not seen.

    Returns
    -------
    ``SPANS``: one row per rank that has device activity (and per device where it drives several).
    """
    windows = activities.group_by("rank", "window").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    frame = _sweep(activities, windows, delayed).with_columns(step_ns=pl.col("end_ns") - pl.col("start_ns"))
    names, _ = _table()
    added = frame.group_by("rank", "device").agg(pl.col("start_ns").min(), pl.col("step_ns").sum(), *(_sum_or_null(name) for name in names))
    return SPANS.validate(SPANS.conform(_with_quality(added)))


def _sum_or_null(name: str) -> pl.Expr:
    return pl.when(pl.col(name).is_null().any()).then(None).otherwise(pl.col(name).sum()).alias(name)


def _sweep(activities: pl.DataFrame, windows: pl.DataFrame, delayed: pl.Series | None) -> pl.DataFrame:
    lanes = _lanes(activities, windows)
    placed = windows.join(lanes, on="rank").sort("lane", "start_ns", maintain_order=True)
    columns = [*placed.columns, "queue_known"]
    marked = _with_lane(activities, lanes)
    lane, start, end, bit = _intervals(marked, delayed)
    names, table = _table()
    window_lane, window_start, window_end = (placed[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "end_ns"))
    times = fold_times(lane, start, end, bit, window_lane, window_start, window_end, table)
    launched = pl.col("launch_end_ns").is_not_null().filter(pl.col("kind") != "memory").mean()
    known = marked.group_by("lane").agg(queue_known=launched >= LAUNCHES_KNOWN)
    frame = placed.join(known, on="lane", how="left", maintain_order="left").select(columns)
    frame = frame.hstack(pl.DataFrame(times, schema=list(names), orient="row"))
    frame = frame.with_columns(idle_unqueued_ns=pl.when(pl.col("queue_known").fill_null(False)).then("idle_unqueued_ns"))
    return _with_quality(frame)


def _lanes(activities: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """One timeline per rank; one per device of a rank only where it runs kernels on several."""
    running = activities.filter(pl.col("kind") != "memory") if activities.height else activities
    devices = pl.concat([running, activities.join(running, on="rank", how="anti")]) if activities.height else activities
    found = devices.group_by("rank").agg(pl.col("device").drop_nulls().unique().sort().alias("devices"))
    lanes = windows.select("rank").unique().join(found, on="rank", how="left").sort("rank")
    several = pl.col("devices").list.len().fill_null(0) > 1
    # An empty or absent list explodes to null: a rank whose device is not named still has its timeline.
    lanes = lanes.with_columns(split_devices=several).explode("devices", empty_as_null=True).rename({"devices": "device"})
    return lanes.with_columns(lane=pl.int_range(pl.len(), dtype=pl.Int64))


def _with_lane(activities: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    one = lanes.filter(~pl.col("split_devices")).select("rank", "lane")
    many = lanes.filter("split_devices").select("rank", "device", "lane")
    if not many.height:
        return activities.join(one, on="rank", how="inner", maintain_order="left")
    return pl.concat([activities.join(one, on="rank"), activities.join(many, on=["rank", "device"])])


def _intervals(marked: pl.DataFrame, delayed: pl.Series | None) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Every activity as intervals of classes, ordered by lane and start."""
    kind, layer, split = pl.col("kind"), pl.col("layer").fill_null("unplaced"), pl.col("split").fill_null("unknown")
    marked = marked.filter(pl.col("end_ns") > pl.col("start_ns"))
    communication = marked.filter(kind == "communication").with_columns(split=split, layer=layer)
    begin = pl.col("transfer_start_ns").fill_null(pl.col("start_ns")).clip(pl.col("start_ns"), pl.col("end_ns"))
    communication = communication.with_columns(begin=pl.when(split == "unknown").then("start_ns").otherwise(begin))
    communication = communication.with_columns(
        low=pl.max_horizontal("begin", pl.col("transfer_start_low_ns").fill_null(_low_default()).clip("begin", "end_ns")),
        high=pl.min_horizontal("begin", pl.col("transfer_start_high_ns").fill_null(pl.col("begin")).clip("start_ns", "begin")),
    )
    known, bounded = split != "unknown", split == "bounded"
    caused = pl.col("activity").is_in(delayed.to_list() if delayed is not None and len(delayed) else [])
    pieces = [
        _piece(marked, _COMPUTE, kind == "compute", "start_ns", "end_ns"),
        _piece(marked, _MEMORY, kind == "memory", "start_ns", "end_ns"),
        _piece(marked, _HOST_COPY, (kind == "memory") & pl.col("name").str.contains(HOST_COPY), "start_ns", "end_ns"),
        _piece(marked, _PENDING, pl.col("launch_end_ns") < pl.col("start_ns"), "launch_end_ns", "start_ns"),
        _piece(communication, _INTER, layer == "inter_node", "begin", "end_ns"),
        _piece(communication, _INTRA, layer == "intra_node", "begin", "end_ns"),
        _piece(communication, _UNPLACED, ~layer.is_in(["inter_node", "intra_node"]), "begin", "end_ns"),
        _piece(communication, _KNOWN, known, "begin", "end_ns"),
        _piece(communication, _MEASURED, split == "measured", "begin", "end_ns"),
        _piece(communication, _BOUNDED, bounded, "start_ns", "end_ns"),
        _piece(communication, _WAIT, known, "start_ns", "begin"),
        _piece(communication, _LOW, pl.lit(True), "low", "end_ns"),
        _piece(communication, _HIGH, pl.lit(True), "high", "end_ns"),
        _piece(communication, _DELAYED, known & caused, "start_ns", "begin"),
    ]
    # Compute comes sorted from the table; a stable sort of few sorted runs is close to a merge.
    joined = pl.concat(pieces).sort("lane", "start", maintain_order=True)
    return tuple(joined[name].to_numpy().astype(np.int64, copy=False) for name in ("lane", "start", "end", "bit"))  # type: ignore[return-value]


def _low_default() -> pl.Expr:
    """Without a stated bound the split itself is the bound where it was measured; nothing is certain elsewhere."""
    return pl.when(pl.col("split") == "measured").then("begin").otherwise("end_ns")


def _piece(frame: pl.DataFrame, bit: int, condition: pl.Expr, start: str, end: str) -> pl.DataFrame:
    return frame.filter(condition).select("lane", start=pl.col(start), end=pl.col(end), bit=pl.lit(bit, pl.Int64))


def _with_quality(frame: pl.DataFrame) -> pl.DataFrame:
    """``split`` and ``basis`` of a row, from its own nanoseconds; the rule that `netlab.attribute.pool` applies to sums."""
    base = pl.when(pl.col("exposed_comm_ns") > 0).then("exposed_comm_ns").otherwise("comm_ns")
    exposed = pl.col("exposed_comm_ns") > 0
    unknown = pl.when(exposed).then("exposed_unknown_ns").otherwise("hidden_unknown_ns")
    bounded = pl.when(exposed).then("exposed_bounded_ns").otherwise(0)
    split = pl.when(100 * unknown > base).then(pl.lit("unknown")).when(100 * (unknown + bounded) > base).then(pl.lit("bounded"))
    basis = (
        pl.when(2 * pl.col("exposed_unknown_ns") > pl.col("exposed_transfer_ns"))
        .then(pl.lit("communication"))
        .otherwise(pl.lit("transfer"))
    )
    return frame.with_columns(split=split.otherwise(pl.lit("measured")), basis=basis)
