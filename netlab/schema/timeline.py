"""Tables of the aligned run: one clock, steps, matched collectives with wait and transfer told apart."""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = ["ACTIVITIES", "CLOCKS", "COLLECTIVES", "GROUPS", "P2P", "RANKS", "STEPS", "TIMELINE_TABLES"]

_RANK = Column("rank", pl.Int32, "Global rank.", refers_to="ranks.rank")
_SPLIT = "measured (all members seen), bounded (members missing: transfer is at most this) or unknown."

RANKS = Table(
    name="ranks",
    doc="One row per rank that was seen in any input.",
    key=("rank",),
    columns=(
        Column("rank", pl.Int32, "Global rank."),
        Column("host", pl.String, "Host of the rank.", nullable=True),
        Column("local_rank", pl.Int32, "Rank within its host.", nullable=True),
        Column("device", pl.Int32, "Device index on which its kernels ran.", nullable=True),
        Column("gpu_name", pl.String, "Model of that device.", nullable=True),
        Column("nic", pl.String, "NIC that carries its traffic, where known.", nullable=True),
    ),
)

GROUPS = Table(
    name="groups",
    doc="Process groups by their members.",
    key=("group", "name"),
    columns=(
        Column("group", pl.String, "Sorted member list as text, e.g. `0,1,2,3`."),
        Column("name", pl.String, "Process-group name; empty where the trace has none."),
        Column("description", pl.String, "Process-group description.", nullable=True),
        Column("size", pl.Int32, "Number of members."),
        Column("members", pl.List(pl.Int32), "Global ranks."),
        Column("layer", pl.String, "intra_node, inter_node or unplaced (hosts unknown)."),
        Column(
            "parallelism",
            pl.String,
            "DP, TP, PP, EP or CP where the description or the pattern of members tells.",
            nullable=True,
        ),
        Column("parallelism_reason", pl.String, "Why it is called so.", nullable=True),
    ),
)

CLOCKS = Table(
    name="clocks",
    doc="Clock offset of each clock domain. Positive = ahead; it was subtracted from every instant of the domain.",
    key=("domain", "rank"),
    columns=(
        Column("domain", pl.String, "Host name, or `rank N` where the data names no host or a rank deviates from its host."),
        Column("host", pl.String, "Host of the domain.", nullable=True),
        _RANK,
        Column(
            "offset_ns",
            pl.Int64,
            "Offset against the domain of the lowest rank; null if it could not be measured.",
            unit="ns",
            nullable=True,
        ),
        Column("drift_ppm", pl.Float64, "Drift; only for captures longer than 60 s.", nullable=True),
        Column("error_ns", pl.Int64, "Median residual; null with fewer than 3 shared instances.", unit="ns", nullable=True),
        Column("samples", pl.Int64, "Collective instances used."),
    ),
)

STEPS = Table(
    name="steps",
    doc="Borders of each step of each rank by the rule of docs/methods.md, on the aligned clock.",
    key=("rank", "window", "step"),
    columns=(
        _RANK,
        Column("window", pl.Int32, "Profiler window (0 unless one rank has several files)."),
        Column("step", pl.Int32, "Step number as the trace names it."),
        Column("start_ns", pl.Int64, "Start.", unit="ns"),
        Column("end_ns", pl.Int64, "End, exclusive.", unit="ns"),
        Column("complete", pl.Boolean, "False: kept out of the figures, for `reason`."),
        Column("reason", pl.String, "Why it is incomplete, or start_from_device.", nullable=True),
        Column("mark_start_ns", pl.Int64, "Start of the host's ProfilerStep mark.", unit="ns"),
        Column("mark_end_ns", pl.Int64, "End of the mark.", unit="ns", nullable=True),
    ),
)

ACTIVITIES = Table(
    name="activities",
    doc="Device activities (or their Gloo/CPU stand-ins) on the aligned clock, with the split of communication into wait and transfer.",
    key=("rank", "start_ns", "end_ns", "stream", "activity"),
    columns=(
        _RANK,
        Column("activity", pl.Int64, "Number of the activity, unique in the run."),
        Column("device", pl.Int32, "Device index.", nullable=True),
        Column("stream", pl.Int64, "Stream; the thread for a Gloo/CPU stand-in.", nullable=True),
        Column("kind", pl.String, "compute, communication or memory."),
        Column("name", pl.String, "Name as the trace has it."),
        Column("start_ns", pl.Int64, "Start.", unit="ns"),
        Column("end_ns", pl.Int64, "End, exclusive.", unit="ns"),
        Column("correlation", pl.Int64, "Correlation id.", nullable=True),
        Column("launch_start_ns", pl.Int64, "Start of the launching host call.", unit="ns", nullable=True),
        Column("launch_end_ns", pl.Int64, "End of the launching host call.", unit="ns", nullable=True),
        Column("launch_thread", pl.Int64, "Thread that launched it.", nullable=True),
        Column("window", pl.Int32, "Profiler window."),
        Column("step", pl.Int32, "Step in which it starts.", nullable=True),
        Column("instance", pl.Int64, "Matched collective, or null.", nullable=True, refers_to="collectives.instance"),
        Column("group", pl.String, "Sorted member list as text.", nullable=True),
        Column("group_name", pl.String, "Process-group name.", nullable=True),
        Column("seq", pl.Int64, "Sequence number in the process group.", nullable=True),
        Column(
            "op",
            pl.String,
            "all_reduce, all_gather, ..., send, recv, barrier or unknown; null for compute and memory.",
            nullable=True,
        ),
        Column("dtype", pl.String, "Element type as the trace has it.", nullable=True),
        Column("bytes", pl.Int64, "Larger of input and output message, or bytes of a copy.", unit="B", nullable=True),
        Column("grid", pl.String, "Launch grid.", nullable=True),
        Column("layer", pl.String, "inter_node, intra_node or unplaced; null unless communication.", nullable=True),
        Column("split", pl.String, f"{_SPLIT} Null unless communication.", nullable=True),
        Column(
            "transfer_start_ns",
            pl.Int64,
            "Wait is before, transfer from here to the end; null if unknown or not communication.",
            unit="ns",
            nullable=True,
        ),
        Column(
            "transfer_start_low_ns",
            pl.Int64,
            "Latest plausible start of transfer (end if none is certain).",
            unit="ns",
            nullable=True,
        ),
        Column(
            "transfer_start_high_ns",
            pl.Int64,
            "Earliest plausible start of transfer (start if all may be).",
            unit="ns",
            nullable=True,
        ),
    ),
)

COLLECTIVES = Table(
    name="collectives",
    doc="Matched collective instances, one row per member that was seen. A point-to-point pair is an instance of two.",
    key=("instance", "rank"),
    columns=(
        Column("instance", pl.Int64, "Number of the instance, unique in the run, in order of time."),
        Column("group", pl.String, "Sorted member list as text."),
        Column("group_name", pl.String, "Process-group name.", nullable=True),
        Column("seq", pl.Int64, "Sequence number; null where the trace has none.", nullable=True),
        Column("op", pl.String, "One name per operation, see docs/methods.md."),
        Column("dtype", pl.String, "Element type.", nullable=True),
        Column("bytes", pl.Int64, "Larger of input and output message.", unit="B", nullable=True),
        _RANK,
        Column("activity", pl.Int64, "The member's kernel.", refers_to="activities.activity"),
        Column("window", pl.Int32, "Profiler window of the member."),
        Column("step", pl.Int32, "Step in which the member starts.", nullable=True),
        Column("start_ns", pl.Int64, "Arrival of the member.", unit="ns"),
        Column("end_ns", pl.Int64, "End of the member.", unit="ns"),
        Column("wait_ns", pl.Int64, "Time until the last member arrived; null if unknown.", unit="ns", nullable=True),
        Column(
            "transfer_ns",
            pl.Int64,
            "End minus the later of own and last arrival; null if unknown.",
            unit="ns",
            nullable=True,
        ),
        Column("split", pl.String, _SPLIT),
        Column("layer", pl.String, "inter_node, intra_node or unplaced."),
        Column("members", pl.Int32, "Members that the group has."),
        Column("seen", pl.Int32, "Members that were seen."),
        Column("error_ns", pl.Int64, "Clock error of the instance; null if unknown.", unit="ns", nullable=True),
    ),
)

P2P = Table(
    name="p2p",
    doc="Point-to-point messages whose two ends were matched.",
    key=("instance", "src", "dst"),
    columns=(
        Column("instance", pl.Int64, "Instance in `collectives`.", refers_to="collectives.instance"),
        Column("src", pl.Int32, "Sending rank."),
        Column("dst", pl.Int32, "Receiving rank."),
        Column("bytes", pl.Int64, "Message size.", unit="B", nullable=True),
        Column("start_ns", pl.Int64, "Arrival of the later end.", unit="ns"),
        Column("transfer_ns", pl.Int64, "Last end minus last arrival.", unit="ns", nullable=True),
        Column("wait_src_ns", pl.Int64, "Time the sender waited.", unit="ns", nullable=True),
        Column("wait_dst_ns", pl.Int64, "Time the receiver waited.", unit="ns", nullable=True),
        Column("step", pl.Int32, "Step of the sender.", nullable=True),
        Column("split", pl.String, _SPLIT),
    ),
)

TIMELINE_TABLES = (RANKS, GROUPS, CLOCKS, STEPS, ACTIVITIES, COLLECTIVES, P2P)
