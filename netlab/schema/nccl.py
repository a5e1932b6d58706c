"""Tables of what NCCL itself says: debug logs, flight recorder, inspector, nccl-tests."""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = [
    "COMMUNICATORS",
    "CONNECTIONS",
    "FLIGHT",
    "LINK_SPEED_TESTS",
    "LOGGED_OPERATIONS",
    "NCCL_EVENTS",
    "NCCL_TABLES",
    "PROFILER_EVENTS",
]


def _text(name: str, doc: str, *, nullable: bool = True) -> Column:
    return Column(name, pl.String, doc, nullable=nullable)


def _int(name: str, doc: str, *, nullable: bool = True, unit: str = "") -> Column:
    return Column(name, pl.Int64, doc, nullable=nullable, unit=unit)


COMMUNICATORS = Table(
    name="communicators",
    doc="One row per (communicator, rank) seen in an NCCL log or dump.",
    key=("comm_id", "host", "pid", "rank"),
    unique=False,
    columns=(
        _text("comm_id", "Identity of the communicator (commId); the log's pointer where no id is printed."),
        _text("host", "Host."),
        _int("pid", "Process id."),
        _int("rank", "Rank in the communicator."),
        _int("nranks", "Size of the communicator."),
        _int("global_rank", "Rank in the world where it could be told."),
        _int("cuda_device", "CUDA device index."),
        _text("bus_id", "PCI bus id of the GPU."),
        _int("nvml_device", "Device index as the driver counts, before CUDA_VISIBLE_DEVICES."),
        _text("nccl_version", "NCCL or RCCL version, as x.y.z; where one process prints it, all of the same file have it."),
        _text("pointer", "Address of the communicator inside its process."),
        _text("parent", "Communicator that this one was split from."),
        _int("nodes", "Hosts of the communicator as NCCL counts them."),
        _int("local_rank", "Rank within its host, in this communicator."),
        _int("coll_channels", "Channels for collectives."),
        _int("nvls_channels", "Channels for NVLink SHARP."),
        _int("p2p_channels", "Channels for point-to-point."),
        _text("network", "Network that the process chose (`Using network`)."),
        Column("init_ms", pl.Float64, "Initialisation time.", unit="ms", nullable=True),
        Column("complete", pl.Boolean, "Init COMPLETE was seen."),
        Column("ended", pl.Boolean, "Destroy COMPLETE or Abort COMPLETE was seen.", nullable=True),
        _text("source", "File.", nullable=False),
        _int("line", "Line of the first record about it."),
    ),
)

CONNECTIONS = Table(
    name="connections",
    doc="One row per (communicator, channel, source, destination, side).",
    key=("comm_id", "channel", "src_rank", "dst_rank", "side", "host"),
    unique=False,
    columns=(
        _text("comm_id", "Identity of the communicator."),
        _int("channel", "Channel."),
        _int("src_rank", "Sender, rank in the communicator."),
        _int("dst_rank", "Receiver, rank in the communicator."),
        _int("src_global", "Sender, rank in the world."),
        _int("dst_global", "Receiver, rank in the world."),
        _text("side", "send or receive."),
        _text("host", "Host that printed the line."),
        _text("transport", "P2P, SHM, NET, COLLNET, NVLS."),
        _text("network", "IB, RoCE, Socket, OFI, or the plugin's name."),
        _text("nic", "NIC of the connection."),
        Column("gdr", pl.Boolean, "GPUDirect RDMA in use; null unless NET.", nullable=True),
        _int("pid", "Process that printed the line."),
        _int("connection", "0: ring and collectives; 1: send/recv or the second set; null where the version prints none."),
        _int("nic_index", "Index of the NIC in its plugin."),
        _int("proxy_rank", "Rank whose GPU relays to the NIC (PXN)."),
        _text("path", "The transport as printed."),
        _text("source", "File.", nullable=False),
        _int("line", "Line number."),
    ),
)

NCCL_EVENTS = Table(
    name="nccl_events",
    doc="Warnings, errors, tuning choices and environment values from logs.",
    key=("source", "line"),
    unique=False,
    columns=(
        _text("host", "Host."),
        _int("pid", "Process id."),
        _int("rank", "Rank in the world where it could be told."),
        _text("level", "INFO, WARN, ERROR, ..."),
        _text("code", "Kind of event.", nullable=False),
        _text("key", "Name of the value (environment variable, NIC, algorithm, ...)."),
        _text("value", "The value; credentials are masked."),
        _text("message", "The line, credentials masked."),
        _int("count", "Equal records of the process in the file; the first one is shown."),
        _int("ts_ns", "Instant, where the record or its launcher prints one (local time is taken as UTC).", unit="ns"),
        _text("source", "File.", nullable=False),
        _int("line", "Line number."),
    ),
)

LOGGED_OPERATIONS = Table(
    name="logged_operations",
    doc="NCCL COLL lines: every call as the library saw it.",
    key=("source", "line"),
    unique=False,
    columns=(
        _text("comm_id", "Identity of the communicator."),
        _text("host", "Host."),
        _int("pid", "Process id."),
        _int("rank", "Rank in the communicator."),
        _text("op", "Operation, netlab's name.", nullable=False),
        _int("seq", "opCount."),
        _int("count", "Elements."),
        _text("dtype", "Element type."),
        _int("bytes", "Message size.", unit="B"),
        _int("root", "Root of a rooted operation."),
        _text("stream", "Stream pointer."),
        _text("source", "File.", nullable=False),
        _int("line", "Line number."),
    ),
)

PROFILER_EVENTS = Table(
    name="profiler_events",
    doc="Events of the NCCL profiler plugin or Inspector.",
    key=("source", "start_ns"),
    unique=False,
    columns=(
        _text("host", "Host."),
        _int("pid", "Process id."),
        _int("rank", "Rank in the communicator."),
        _text("comm_id", "Identity of the communicator."),
        _int("seq", "Sequence number."),
        _text("kind", "Operation (netlab's name), or category and name of another event.", nullable=False),
        _text("op", "Operation, netlab's name."),
        _text("timing", "What measured the time: kernel_gpu, kernel_cpu, collective_cpu, plugin, period mean, ..."),
        _int("channel", "Channel."),
        _int("peer", "Peer of a point-to-point event."),
        _int("nranks", "Size of the communicator."),
        _text("algorithm", "Algorithm as printed."),
        _text("protocol", "Protocol as printed."),
        _int("bytes", "Message size.", unit="B"),
        _int("start_ns", "Start.", unit="ns"),
        _int("end_ns", "End.", unit="ns"),
        _int("duration_ns", "Duration; null where a stamp is 0.", unit="ns"),
        Column("algbw_gb_per_s", pl.Float64, "Algorithm bandwidth as the tool prints it.", unit="GB/s", nullable=True),
        Column("busbw_gb_per_s", pl.Float64, "Bus bandwidth as the tool prints it.", unit="GB/s", nullable=True),
        _text("source", "File.", nullable=False),
    ),
)

FLIGHT = Table(
    name="flight",
    doc="Flight-recorder entries.",
    key=("rank", "group", "seq", "source"),
    unique=False,
    columns=(
        _int("rank", "Rank in the world."),
        _text("group", "Sorted member list as text where the dump has it, else name and description of the group (`1:tp_group`)."),
        _text("group_name", "Process-group name."),
        _int("seq", "Sequence number in the group."),
        _text("op", "Operation, netlab's name.", nullable=False),
        _text("state", "scheduled, started or completed.", nullable=False),
        Column("retired", pl.Boolean, "The watchdog has retired the entry.", nullable=True),
        _int("bytes", "Message size.", unit="B"),
        _text("dtype", "Element type."),
        _int("created_ns", "Instant of creation.", unit="ns"),
        _int("started_ns", "Instant at which the start was discovered.", unit="ns"),
        _int("completed_ns", "Instant at which completion was discovered.", unit="ns"),
        _int(
            "duration_ns", "Duration: of the device where timing was on, else from start to completion as the watchdog saw them.", unit="ns"
        ),
        _text("timing", "device or watchdog; null without a duration."),
        _int("record", "Number of the record in its ring buffer."),
        Column("is_p2p", pl.Boolean, "Point-to-point.", nullable=True),
        _int("peer", "The other end of a point-to-point call, rank in the world where the dump tells the members."),
        _text("group_description", "Process-group description."),
        _int("timeout_ms", "Timeout of the entry.", unit="ms"),
        _int("last_enqueued", "Last sequence number that the rank enqueued in the group, as the dump's status says."),
        _int("last_completed", "Last sequence number that it completed."),
        _text("frame", "Innermost Python frame that called it, where stacks were recorded."),
        _text("nccl_version", "Version of the communication library."),
        _text("source", "File.", nullable=False),
    ),
)

LINK_SPEED_TESTS = Table(
    name="link_speed_tests",
    doc="Rows of nccl-tests / rccl-tests output: the measured roofline.",
    key=("source", "line"),
    unique=False,
    columns=(
        _text("op", "Operation, netlab's name."),
        _int("bytes", "Message size.", nullable=False, unit="B"),
        _text("dtype", "Element type."),
        Column("time_us", pl.Float64, "Time.", unit="us", nullable=True),
        Column("algbw_gb_per_s", pl.Float64, "Algorithm bandwidth.", unit="GB/s", nullable=True),
        Column("busbw_gb_per_s", pl.Float64, "Bus bandwidth.", unit="GB/s", nullable=True),
        _int("wrong", "Elements with a wrong result; null where the test did not check or does not count them."),
        _int("ranks", "Ranks in the test."),
        _int("hosts", "Hosts in the test."),
        Column("in_place", pl.Boolean, "In-place columns.", nullable=True),
        _text("source", "File.", nullable=False),
        _int("line", "Line number."),
    ),
)

NCCL_TABLES = (COMMUNICATORS, CONNECTIONS, NCCL_EVENTS, LOGGED_OPERATIONS, PROFILER_EVENTS, FLIGHT, LINK_SPEED_TESTS)
