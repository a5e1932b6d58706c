"""What each communication activity did: operation, bytes, peers; taken from the host's record where the kernel carries nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from netlab.align.classify import SEND_RECV, operation_of_name
from netlab.align.events import METADATA
from netlab.units import dtype_bytes

__all__ = ["batched_messages", "describe_communication", "fill_from_calls"]

_EVENT = ["file", "event"]
#: More elements than any memory holds.
_MOST_ELEMENTS = 1 << 50


def fill_from_calls(events: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Give communication kernels without metadata that of the ``record_param_comms`` call that launched them.

    The call is found by external id, else as the one that encloses the kernel's launch on its thread, else, where a file has exactly as
    many unused calls as kernels left and their operations agree, in order of launch.
    """
    known = _working_calls(calls).with_row_index("call")
    bare = events.filter(pl.col("collective").is_null())
    if known.is_empty() or bare.is_empty():
        return events
    found = _same_external_id(bare, known).unique(_EVENT, keep="first", maintain_order=True)
    rest = bare.join(found, on=_EVENT, how="anti")
    found = pl.concat([found, _enclosing_call(rest, known)])
    rest = bare.join(found, on=_EVENT, how="anti")
    labelled = events.filter(pl.col("collective").is_not_null())
    unused = _without_kernel(known.join(found, on="call", how="anti"), labelled)
    found = pl.concat([found, _by_order(rest, unused)])
    fill = found.join(known.select("call", *METADATA), on="call").drop("call")
    joined = events.join(fill, on=_EVENT, how="left", suffix="_call")
    return joined.with_columns(pl.coalesce(name, f"{name}_call").alias(name) for name in METADATA).drop(f"{name}_call" for name in METADATA)


def _working_calls(calls: pl.DataFrame) -> pl.DataFrame:
    """Calls that launch work; the host records ``wait`` and ``init`` in the same way."""
    names = [
        name for name in calls["collective"].unique().drop_nulls() if operation_of_name(name) != "unknown" or "coalesc" in name.lower()
    ]
    return calls.filter(pl.col("collective").is_in(sorted(names)))


def batched_messages(events: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The single messages of SendRecv kernels that run several (``batch_isend_irecv``), from the host's record of each.

    A kernel's calls carry its external id, or were made on its thread since the SendRecv kernel before it.

    Returns
    -------
    One row per message: file, event (the kernel), op, src_rank, dst_rank, bytes, dtype. Kernels with one call that say so themselves
    are left out.
    """
    ops = _mapping(calls["collective"].unique().drop_nulls().to_list(), "collective", "call_op", operation_of_name, pl.String)
    ops = ops.filter(pl.col("call_op").is_in(["send", "recv"]))
    known = calls.with_row_index("call").filter(pl.col("collective").is_in(ops["collective"].implode()))
    known = known.join(ops, on="collective", maintain_order="left")
    kernels = events.filter(pl.col("kernel_op") == SEND_RECV)
    if known.is_empty() or kernels.is_empty():
        return _message_parts(known, pl.DataFrame(schema={"file": pl.Int32, "event": pl.Int64, "call": pl.UInt32}))
    own = _same_external_id(kernels, known)
    several = own.filter(pl.len().over(_EVENT) > 1)
    unclear = kernels.filter(pl.col("collective").is_null() | ~pl.col("op").is_in(["send", "recv", "all_to_all", "gather", "scatter"]))
    waiting = _without_kernel(known, kernels).filter(pl.col("thread").is_not_null())
    launches = unclear.join(own, on=_EVENT, how="anti").filter(pl.col("launch_start_ns").is_not_null())
    since = waiting.sort("start_ns").join_asof(
        launches.select(*_EVENT, "launch_start_ns", thread="launch_thread").sort("launch_start_ns"),
        left_on="start_ns",
        right_on="launch_start_ns",
        by=["file", "thread"],
        strategy="forward",
        check_sortedness=False,
    )
    return _message_parts(known, pl.concat([several, since.drop_nulls("event").select(*_EVENT, "call")]))


def _message_parts(known: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    sizes = _mapping(known["dtype"].unique().drop_nulls().to_list(), "dtype", "element_bytes", dtype_bytes, pl.Int64)
    told = known.join(sizes, on="dtype", how="left", maintain_order="left").select(
        "call",
        "src_rank",
        "dst_rank",
        "dtype",
        op="call_op",
        bytes=_message_bytes(),
    )
    return found.join(told, on="call").sort(*_EVENT, "call").drop("call")


def _same_external_id(kernels: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    keys = [kernels.select(*_EVENT, "external_id"), kernels.select(*_EVENT, external_id="launch_external_id")]
    return (
        pl.concat(keys)
        .drop_nulls("external_id")
        .unique(maintain_order=True)
        .join(calls.select("file", "external_id", "call"), on=["file", "external_id"], maintain_order="left_right")
        .select(*_EVENT, "call")
        .unique(maintain_order=True)
    )


def _without_kernel(calls: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """Calls whose external id no kernel of a set carries."""
    for column in ("external_id", "launch_external_id"):
        calls = calls.join(kernels, left_on=["file", "external_id"], right_on=["file", column], how="anti")
    return calls


def _enclosing_call(bare: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    launches = bare.filter(pl.col("launch_start_ns").is_not_null()).select(*_EVENT, "launch_start_ns", thread="launch_thread")
    spans = known.select("file", "thread", "call", call_start_ns="start_ns", call_end_ns="end_ns")
    return (
        launches.sort("launch_start_ns")
        .join_asof(
            spans.sort("call_start_ns"),
            left_on="launch_start_ns",
            right_on="call_start_ns",
            by=["file", "thread"],
            check_sortedness=False,
        )
        .filter(pl.col("launch_start_ns") < pl.col("call_end_ns"))
        .select(*_EVENT, "call")
    )


def _by_order(bare: pl.DataFrame, unused: pl.DataFrame) -> pl.DataFrame:
    at = pl.coalesce("launch_start_ns", "start_ns")
    left = bare.sort("file", at).with_columns(place=pl.int_range(pl.len()).over("file"), count=pl.len().over("file"))
    right = unused.sort("file", "start_ns").with_columns(place=pl.int_range(pl.len()).over("file"), count=pl.len().over("file"))
    ops = _mapping(unused["collective"].unique().to_list(), "collective", "op", operation_of_name, pl.String)
    right = right.join(ops, on="collective", how="left").select("file", "place", "count", "call", "op")
    pairs = left.join(right, on=["file", "place", "count"])
    agree = (pl.col("op") == pl.col("kernel_op")) | pl.col("kernel_op").is_in(["unknown", SEND_RECV]).fill_null(value=True)
    return pairs.filter(agree.all().over("file")).select(*_EVENT, "call")


def describe_communication(events: pl.DataFrame) -> pl.DataFrame:
    """Name the operation and its bytes.

    Adds ``op`` (of the fixed list, or ``send_recv`` where nothing tells what a SendRecv kernel did) and sets ``bytes`` to the
    larger of input and output message (null for a barrier, and for element types of unknown size).
    """
    stated = _mapping(events["collective"].unique().drop_nulls().to_list(), "collective", "stated_op", operation_of_name, pl.String)
    sizes = _mapping(events["dtype"].unique().drop_nulls().to_list(), "dtype", "element_bytes", dtype_bytes, pl.Int64)
    for frame, key in ((stated, "collective"), (sizes, "dtype")):
        events = events.join(frame, on=key, how="left", maintain_order="left")
    # Labels such as "coalesced" say nothing; then the kernel's name does. Otherwise the label is right: p2p and more share SendRecv
    # kernels.
    op = (
        pl.when(pl.col("stated_op").is_not_null() & (pl.col("stated_op") != "unknown"))
        .then("stated_op")
        .otherwise(pl.col("kernel_op").fill_null("unknown"))
    )
    message = pl.when((pl.col("stated_op") != "barrier").fill_null(value=True)).then(_message_bytes())
    return events.with_columns(op=op, bytes=message).drop("stated_op", "element_bytes")


def _message_bytes() -> pl.Expr:
    """Bytes of the larger of input and output; null for element types of unknown size and for counts that only damage can give."""
    elements = pl.max_horizontal("in_elements", "out_elements")
    return pl.when(elements.is_between(0, _MOST_ELEMENTS)).then(elements * pl.col("element_bytes"))


def _mapping(
    keys: Sequence[str], key: str, value: str, function: Callable[[str], object], dtype: pl.DataType | type[pl.DataType]
) -> pl.DataFrame:
    return pl.DataFrame({key: keys, value: [function(item) for item in keys]}, schema={key: pl.String, value: dtype})
