"""Logs that were written twice: a job's output beside one file per process. Equal records of two files count once."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from netlab.schema import TABLES

__all__ = ["without_repeats"]

#: Columns that say where a row was read, not what it says.
_PLACE = ("source", "line", "count")
_WHOLE = ("communicators", "connections", "communicator_edges", "tuning_predictions")
_PER_PROCESS = ("nccl_events", "logged_operations")


def without_repeats(frames: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The log tables without the rows that another file has already told.

    Communicators, connections, edges and predictions are facts: each stands once. Events and calls may happen several times, so a file's
    rows are only dropped where another file shows at least as many of them for the same process.

    Returns
    -------
    The tables that changed.
    """
    changed: dict[str, pl.DataFrame] = {}
    for name in (*_WHOLE, *_PER_PROCESS):
        frame = frames.get(name)
        if frame is None or frame.is_empty() or frame["source"].n_unique() < 2:
            continue
        kept = _facts(name, frame) if name in _WHOLE else _happenings(frame)
        if kept.height != frame.height:
            changed[name] = TABLES[name].conform(kept)
    flight = frames.get("flight")
    if flight is not None and not flight.is_empty() and flight["source"].n_unique() > 1:
        # One rank may have been dumped as pickle and as JSON, or twice: the later state counts, and what has a frame.
        state = pl.col("state").replace_strict({"completed": 0, "started": 1}, default=2, return_dtype=pl.Int8)
        known = flight.sort(state, pl.col("frame").is_null(), "source", maintain_order=True)
        kept = known.unique(
            ["rank", "group", "group_name", "seq", "is_p2p", "record", "op", "created_ns"], keep="first", maintain_order=True
        )
        if kept.height != flight.height:
            changed["flight"] = TABLES["flight"].conform(kept)
    return changed


def _facts(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    if name != "communicators":
        return frame.unique([column for column in frame.columns if column not in _PLACE], keep="first", maintain_order=True)
    key = ["comm_id", "host", "pid", "rank", "pointer"]
    # One file may end before Init COMPLETE: what any of them saw holds.
    merged = [pl.col(column).drop_nulls().first() for column in frame.columns if column not in (*key, "complete", "ended")]
    grouped = frame.group_by(key, maintain_order=True).agg(*merged, pl.col("complete").any(), pl.col("ended").any())
    return grouped.select(frame.columns)


def _happenings(frame: pl.DataFrame) -> pl.DataFrame:
    """Per process and saying, the rows of the file that has most of them; of two equal files the first."""
    saying = [column for column in frame.columns if column not in _PLACE]
    own = frame.with_row_index("row").filter(pl.col("host").is_not_null())
    counted = own.group_by([*saying, "source"], maintain_order=True).agg(pl.len().alias("rows"))
    best = counted.sort(["rows", "source"], descending=[True, False]).unique(saying, keep="first", maintain_order=True)
    kept = own.join(best.select(*saying, "source"), on=[*saying, "source"], how="semi", nulls_equal=True)
    other = frame.with_row_index("row").filter(pl.col("host").is_null())
    return pl.concat([kept, other]).sort("row").drop("row")
