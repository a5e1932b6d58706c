"""Runs on CPU over Gloo have no device events: their Gloo spans and leaf operators stand in for them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

import polars as pl

from netlab.align.events import METADATA
from netlab.shelf import Shelf
from netlab.units import dtype_bytes

__all__ = ["GLOO_PREFIX", "host_activities", "is_gloo_run"]

GLOO_PREFIX = "gloo:"


def is_gloo_run(device_events: Shelf, annotations: pl.DataFrame) -> bool:
    """Whether no file has device events and at least one Gloo span was recorded."""
    return device_events.height == 0 and bool(annotations["name"].str.starts_with(GLOO_PREFIX).any())


def host_activities(raw: Mapping[str, pl.DataFrame], files: pl.DataFrame) -> pl.DataFrame:
    """Gloo spans as communication and leaf CPU operators as compute, in the shape of :func:`netlab.align.events.device_activities`.

    The thread takes the place of the stream. A leaf operator is one that no other operator of its thread starts inside.
    """
    spans = raw["annotations"].filter(pl.col("name").str.starts_with(GLOO_PREFIX) & pl.col("end_ns").is_not_null())
    shapes = {key: _message_elements(*key) for key in set(zip(spans["input_dims"], spans["input_types"], strict=True))}
    described = [shapes[key] for key in zip(spans["input_dims"], spans["input_types"], strict=True)]
    communication = spans.select(
        "file",
        "name",
        "start_ns",
        "end_ns",
        stream="thread",
        kind=pl.lit("communication"),
        in_elements=pl.Series([elements for elements, _ in described], dtype=pl.Int64),
        out_elements=pl.Series([elements for elements, _ in described], dtype=pl.Int64),
        dtype=pl.Series([dtype for _, dtype in described], dtype=pl.String),
    )
    ops = raw["host_ops"].sort("file", "thread", "start_ns", pl.col("end_ns") * -1, nulls_last=True)
    follower = pl.col("start_ns").shift(-1).over("file", "thread")
    compute = ops.filter((follower.is_null() | (follower >= pl.col("end_ns"))) & (pl.col("end_ns") > pl.col("start_ns"))).select(
        "file", "name", "start_ns", "end_ns", stream="thread", kind=pl.lit("compute")
    )
    both = pl.concat([communication, compute], how="diagonal")
    missing = {
        "device": pl.Int32,
        "correlation": pl.Int64,
        "external_id": pl.Int64,
        "launch_start_ns": pl.Int64,
        "launch_end_ns": pl.Int64,
        "launch_thread": pl.Int64,
        "launch_external_id": pl.Int64,
        "bytes": pl.Int64,
        "grid": pl.String,
        "collective": pl.String,
        "group_size": pl.Int32,
        "seq": pl.Int64,
        "src_rank": pl.Int32,
        "dst_rank": pl.Int32,
        **{name: pl.String for name in METADATA if name not in both.columns and name not in _TYPED},
    }
    return (
        both.join(files.select("file", "rank", "window"), on="file")
        .with_columns(
            *(pl.lit(None, dtype).alias(name) for name, dtype in missing.items()),
            copy=pl.lit(value=False),
            clipped=pl.lit(value=False),
            category=pl.lit("host"),
        )
        .sort("file", "start_ns", "end_ns", "stream", "name")
        .with_columns(event=pl.int_range(pl.len(), dtype=pl.Int64).over("file"))
    )


_TYPED = ("collective", "in_elements", "out_elements", "dtype", "group_size", "seq", "src_rank", "dst_rank")


def _message_elements(dims: str | None, types: str | None) -> tuple[int | None, str | None]:
    """Elements and element type of a Gloo span's tensors, from its ``Input Dims`` and ``Input type``.

    >>> _message_elements("[[2, 3]]", '["c10::Half"]'), _message_elements("[[[4], [5]]]", '["TensorList"]'), _message_elements(None, None)
    ((6, 'c10::Half'), (9, None), (None, None))
    """
    if not dims:
        return None, None
    try:
        shapes = json.loads(dims)
    except ValueError:
        return None, None
    kinds = re.findall(r"[A-Za-z_][\w: ]*", types or "")
    dtype = next((kind for kind in kinds if dtype_bytes(kind) is not None), None)
    total = _elements(shapes)
    return (total or None), dtype


def _elements(shapes: object) -> int:
    """Sum over tensors of the product of their extents; an empty shape is no tensor here."""
    if not isinstance(shapes, list) or not shapes:
        return 0
    if all(isinstance(extent, int) for extent in shapes):
        return math.prod(shapes)
    return sum(_elements(shape) for shape in shapes)
