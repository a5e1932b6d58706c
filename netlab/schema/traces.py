"""Tables as trace readers write them: one set per trace file, on that file's own clock.

In a file's own part directory the column ``file`` is absent; the pipeline adds it when parts of several files are put together.
"""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = [
    "ANNOTATIONS",
    "COMM_CALLS",
    "DEVICE_EVENTS",
    "FLOWS",
    "HOST_OPS",
    "LAUNCHES",
    "PROCESS_GROUPS",
    "RAW_TABLES",
    "SYNC_EVENTS",
    "TRACE_FILES",
]

_FILE = Column("file", pl.Int32, "Position of the trace file in `trace_files`.", refers_to="trace_files.file")

_COLLECTIVE_METADATA = (
    Column(
        "collective",
        pl.String,
        "`Collective name` as the trace has it (allreduce, _allgather_base, ...).",
        nullable=True,
    ),
    Column("in_elements", pl.Int64, "`In msg nelems`.", nullable=True),
    Column("out_elements", pl.Int64, "`Out msg nelems`.", nullable=True),
    Column("dtype", pl.String, "`dtype` as the trace has it.", nullable=True),
    Column("group_size", pl.Int32, "`Group size`.", nullable=True),
    Column("group_name", pl.String, "`Process Group Name`.", nullable=True),
    Column("group_description", pl.String, "`Process Group Description`.", nullable=True),
    Column("group_ranks", pl.String, "`Process Group Ranks` as text; the profiler cuts it after 30 ranks.", nullable=True),
    Column("seq", pl.Int64, "`Seq`, the collective's sequence number in its process group.", nullable=True),
    Column("comms_id", pl.String, "`Comms Id`, a communicator identity, where the profiler writes one.", nullable=True),
    Column("src_rank", pl.Int32, "`Src Rank` of a point-to-point operation.", nullable=True),
    Column("dst_rank", pl.Int32, "`Dst Rank` of a point-to-point operation.", nullable=True),
    Column("in_split", pl.String, "`In split size` as text.", nullable=True),
    Column("out_split", pl.String, "`Out split size` as text.", nullable=True),
)

TRACE_FILES = Table(
    name="trace_files",
    doc="One row per trace file that was read: what it says about itself.",
    key=("file",),
    columns=(
        Column("file", pl.Int32, "Position of the file among the run's trace files, in path order."),
        Column("path", pl.String, "Path as in `sources`.", refers_to="sources.path"),
        Column("rank", pl.Int32, "distributedInfo.rank; in an aligned run the rank that was settled.", nullable=True),
        Column("window", pl.Int32, "Profiler window that the file holds; null before alignment.", nullable=True),
        Column("world_size", pl.Int32, "distributedInfo.world_size.", nullable=True),
        Column("host", pl.String, "host_name.", nullable=True),
        Column("backend", pl.String, "distributedInfo.backend.", nullable=True),
        Column("nccl_version", pl.String, "distributedInfo.nccl_version.", nullable=True),
        Column("gpu_name", pl.String, "Name of the first device in deviceProperties.", nullable=True),
        Column("base_time_ns", pl.Int64, "baseTimeNanoseconds; instants in the tables already include it.", unit="ns"),
        Column("complete", pl.Boolean, "False for a truncated or damaged file."),
        Column(
            "truncated", pl.Boolean, "The file ends in the middle, so that its last step is not whole; null if not known.", nullable=True
        ),
        Column("device_event_count", pl.Int64, "Device events (kernels, copies, memsets) in the file."),
    ),
)

PROCESS_GROUPS = Table(
    name="process_groups",
    doc="distributedInfo.pg_config of each trace file.",
    key=("file", "name"),
    unique=False,
    columns=(
        _FILE,
        Column("name", pl.String, "pg_name."),
        Column("description", pl.String, "pg_desc.", nullable=True),
        Column("backend", pl.String, "backend_config.", nullable=True),
        Column("size", pl.Int32, "pg_size.", nullable=True),
        Column("ranks", pl.List(pl.Int32), "Global ranks of the members.", nullable=True),
    ),
)

DEVICE_EVENTS = Table(
    name="device_events",
    doc="Kernels, copies and memsets of one trace file. GPU annotations are never device time and are not here.",
    key=("file", "start_ns", "end_ns", "stream", "event"),
    columns=(
        _FILE,
        Column("event", pl.Int64, "Running number of the event in the file."),
        Column("category", pl.String, "kernel, memcpy or memset (dialects are mapped to these)."),
        Column("name", pl.String, "Kernel or copy name as the trace has it."),
        Column("device", pl.Int32, "Device index.", nullable=True),
        Column("stream", pl.Int64, "Stream of the device.", nullable=True),
        Column(
            "start_ns",
            pl.Int64,
            "Start on the file's own clock, Unix epoch where the trace gives a base time.",
            unit="ns",
        ),
        Column("end_ns", pl.Int64, "End, exclusive.", unit="ns"),
        Column("correlation", pl.Int64, "Links to `launches.correlation`.", nullable=True),
        Column("external_id", pl.Int64, "Links to the CPU operator or `comm_calls.external_id`.", nullable=True),
        Column("bytes", pl.Int64, "Bytes of a copy or memset.", unit="B", nullable=True),
        Column("grid", pl.String, "Launch grid, to tell kernels of one name but different work apart.", nullable=True),
        *_COLLECTIVE_METADATA,
    ),
)

LAUNCHES = Table(
    name="launches",
    doc="Runtime and driver calls of the host that carry a correlation id: launches, copies, synchronisation. Mere queries are left out.",
    key=("file", "start_ns", "correlation"),
    unique=False,
    columns=(
        _FILE,
        Column("process", pl.Int64, "Process id.", nullable=True),
        Column("thread", pl.Int64, "Thread id.", nullable=True),
        Column("name", pl.String, "cudaLaunchKernel, hipMemcpyAsync, cudaStreamSynchronize, ..."),
        Column("start_ns", pl.Int64, "Start of the call on the host.", unit="ns"),
        Column("end_ns", pl.Int64, "End of the call.", unit="ns"),
        Column("correlation", pl.Int64, "Correlation id."),
        Column("external_id", pl.Int64, "The CPU operator that made the call.", nullable=True),
    ),
)

SYNC_EVENTS = Table(
    name="sync_events",
    doc="CUDA synchronisation records (only with enable_cuda_sync_events): who waits for what.",
    key=("file", "start_ns"),
    unique=False,
    columns=(
        _FILE,
        Column("name", pl.String, "Stream Wait Event, Stream Sync, Event Sync or Context Sync."),
        Column("device", pl.Int32, "Device index.", nullable=True),
        Column("stream", pl.Int64, "The waiting or synchronised stream.", nullable=True),
        Column("start_ns", pl.Int64, "Start.", unit="ns"),
        Column("end_ns", pl.Int64, "End.", unit="ns"),
        Column("correlation", pl.Int64, "Correlation of the host call.", nullable=True),
        Column("wait_on_stream", pl.Int64, "Stream on which the awaited event was recorded.", nullable=True),
        Column("wait_on_event", pl.Int64, "CUDA event id.", nullable=True),
        Column("wait_on_record_correlation", pl.Int64, "Correlation of the cudaEventRecord call.", nullable=True),
    ),
)

ANNOTATIONS = Table(
    name="annotations",
    doc="User annotations of the host: ProfilerStep marks, record_function ranges, Gloo spans.",
    key=("file", "start_ns", "name"),
    unique=False,
    columns=(
        _FILE,
        Column("process", pl.Int64, "Process id.", nullable=True),
        Column("thread", pl.Int64, "Thread id.", nullable=True),
        Column("name", pl.String, "Text of the mark."),
        Column("start_ns", pl.Int64, "Start.", unit="ns"),
        Column("end_ns", pl.Int64, "End; null for a mark without an end.", unit="ns", nullable=True),
        Column("external_id", pl.Int64, "External id.", nullable=True),
        Column("input_dims", pl.String, "`Input Dims` of a Gloo span.", nullable=True),
        Column("input_types", pl.String, "`Input type` of a Gloo span.", nullable=True),
    ),
)

HOST_OPS = Table(
    name="host_ops",
    doc="CPU operators; kept only for files without device events, where leaf operators stand in for compute.",
    key=("file", "start_ns", "end_ns"),
    unique=False,
    columns=(
        _FILE,
        Column("process", pl.Int64, "Process id.", nullable=True),
        Column("thread", pl.Int64, "Thread id.", nullable=True),
        Column("name", pl.String, "Operator name."),
        Column("start_ns", pl.Int64, "Start.", unit="ns"),
        Column("end_ns", pl.Int64, "End.", unit="ns"),
        Column("external_id", pl.Int64, "External id.", nullable=True),
        Column("input_dims", pl.String, "`Input Dims` of c10d and copy operators.", nullable=True),
        Column("input_types", pl.String, "`Input type` of the same.", nullable=True),
    ),
)

COMM_CALLS = Table(
    name="comm_calls",
    doc="record_param_comms events of the host: collective metadata for kernels that carry none.",
    key=("file", "start_ns"),
    unique=False,
    columns=(
        _FILE,
        Column("thread", pl.Int64, "Thread id.", nullable=True),
        Column("start_ns", pl.Int64, "Start.", unit="ns"),
        Column("end_ns", pl.Int64, "End.", unit="ns"),
        Column("external_id", pl.Int64, "External id.", nullable=True),
        *_COLLECTIVE_METADATA,
    ),
)

FLOWS = Table(
    name="flows",
    doc="Forward-to-backward hand-overs between threads (fwdbwd flow events).",
    key=("file", "flow", "phase"),
    unique=False,
    columns=(
        _FILE,
        Column("flow", pl.Int64, "Flow id."),
        Column("phase", pl.String, "s (start) or f (finish)."),
        Column("process", pl.Int64, "Process id.", nullable=True),
        Column("thread", pl.Int64, "Thread id.", nullable=True),
        Column("at_ns", pl.Int64, "Instant.", unit="ns"),
    ),
)

RAW_TABLES = (
    TRACE_FILES,
    PROCESS_GROUPS,
    DEVICE_EVENTS,
    LAUNCHES,
    SYNC_EVENTS,
    ANNOTATIONS,
    HOST_OPS,
    COMM_CALLS,
    FLOWS,
)
