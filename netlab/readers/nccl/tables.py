"""Rows of the tables that come from a log's state."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from netlab.readers.nccl.state import Communicator, LogState
from netlab.schema import TABLES

__all__ = ["communicator_rows"]


def _frame(table: str, rows: Sequence[tuple[object, ...]], columns: list[str]) -> pl.DataFrame:
    schema = {name: TABLES[table].schema[name] for name in columns}
    return TABLES[table].conform(pl.DataFrame(rows, schema=schema, orient="row"))


def communicator_rows(state: LogState, source: str) -> pl.DataFrame:
    """``communicators`` of a file."""
    columns = [
        "comm_id",
        "host",
        "pid",
        "rank",
        "nranks",
        "global_rank",
        "cuda_device",
        "bus_id",
        "nvml_device",
        "nccl_version",
        "pointer",
        "parent",
        "nodes",
        "local_rank",
        "coll_channels",
        "nvls_channels",
        "p2p_channels",
        "network",
        "init_ms",
        "complete",
        "ended",
        "source",
        "line",
    ]
    rows = [
        (
            c.comm_id,
            process.host,
            process.pid,
            c.rank,
            c.nranks,
            c.global_rank,
            c.device,
            c.bus_id,
            c.nvml_device,
            process.version,
            c.pointer,
            _parent_id(c),
            c.nodes,
            c.local_rank,
            c.coll_channels,
            c.nvls_channels,
            c.p2p_channels,
            process.network,
            c.init_ms,
            c.complete,
            c.ended,
            source,
            c.line,
        )
        for process in state.processes.values()
        for c in process.communicators
    ]
    return _frame("communicators", rows, columns)


def _parent_id(communicator: Communicator) -> str | None:
    if communicator.parent_pointer is None:
        return None
    parent = communicator.process.by_pointer.get(communicator.parent_pointer)
    return parent.comm_id if parent is not None else communicator.parent_pointer
