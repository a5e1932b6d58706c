"""Rows of the tables that come from a log's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from netlab.readers.nccl.state import Communicator, Connection, LogState, Process
from netlab.schema import TABLES

__all__ = ["EventRow", "communicator_rows", "connection_rows", "event_rows"]

#: Names under which the libfabric plugin has appeared.
_OFI_NAMES = frozenset({"AWS Libfabric", "Libfabric", "OFI"})


@dataclass(slots=True)
class EventRow:
    """One row of ``nccl_events``."""

    process: Process | None
    rank: int | None
    level: str
    code: str
    key: str | None
    value: str | None
    message: str
    line: int
    ts_ns: int | None
    count: int = 1


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


def connection_rows(state: LogState, source: str) -> pl.DataFrame:
    """``connections`` of a file."""
    columns = [
        "comm_id",
        "channel",
        "src_rank",
        "dst_rank",
        "src_global",
        "dst_global",
        "side",
        "host",
        "transport",
        "network",
        "nic",
        "gdr",
        "pid",
        "connection",
        "nic_index",
        "proxy_rank",
        "path",
        "source",
        "line",
    ]
    globals_of = {(c.comm_id, c.rank): c.global_rank for process in state.processes.values() for c in process.communicators}
    # In the world communicator ranks are global, also those of processes that this file does not show.
    worlds = {c.comm_id: c.nranks or 0 for process in state.processes.values() for c in process.communicators if c.is_world}
    for comm_id, nranks in worlds.items():
        for rank in range(nranks):
            globals_of.setdefault((comm_id, rank), rank)
    host_nics: dict[str | None, Process] = {}
    for process in state.processes.values():
        if process.ib_nics or process.socket_nics:
            host_nics.setdefault(process.host, process)
    rows = []
    for connection in state.connections:
        owner, src, dst, path = connection.communicator, connection.src, connection.dst, connection.path
        transport = "SHM" if path.startswith(("SHM", "direct")) else path.split("/")[0]
        network, nic, index = _network(connection, transport, host_nics)
        row = (
            owner.comm_id if owner else None,
            connection.channel,
            src,
            dst,
            globals_of.get((owner.comm_id, src)) if owner else None,
            globals_of.get((owner.comm_id, dst)) if owner else None,
            connection.side,
            connection.process.host,
            transport,
            network,
            nic,
            None if index is None else connection.gdr,
            connection.process.pid,
            connection.number,
            index,
            connection.proxy,
            path,
            source,
            connection.line,
        )
        rows.append(row)
    return _frame("connections", rows, columns)


def _network(connection: Connection, transport: str, host_nics: dict[str | None, Process]) -> tuple[str | None, str | None, int | None]:
    """Network, NIC and its index. The name of an index is what this process listed, else what another one of its host did."""
    name = connection.name
    if transport not in ("NET", "COLLNET") or name is None:
        return None, None, None
    index = connection.device or 0
    other = host_nics.get(connection.process.host)
    if name == "Socket":
        listed = connection.process.socket_nics or (other.socket_nics if other else {})
        return "Socket", listed.get(index, (f"Socket/{index}", ""))[0], index
    if name.startswith("IB"):
        listed = connection.process.ib_nics or (other.ib_nics if other else {})
        nic, link = listed.get(index, (f"{name}/{index}", "IB"))
        return link, nic, index
    return "OFI" if name in _OFI_NAMES else name, f"{name}/{index}", index


def event_rows(events: list[EventRow], source: str) -> pl.DataFrame:
    """``nccl_events`` of a file."""
    columns = ["host", "pid", "rank", "level", "code", "key", "value", "message", "count", "ts_ns", "source", "line"]
    rows = [
        (
            e.process.host if e.process else None,
            e.process.pid if e.process else None,
            e.process.global_rank if e.process and e.rank is None else e.rank,
            e.level,
            e.code,
            e.key,
            e.value,
            e.message,
            e.count,
            e.ts_ns,
            source,
            e.line,
        )
        for e in events
    ]
    return _frame("nccl_events", rows, columns)
