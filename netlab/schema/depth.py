"""Tables that deepen what is said about collectives: delays, stragglers, traffic, tails, latency and rate, slow-down of compute."""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = ["BANDWIDTH_FITS", "COMPUTE_SLOWDOWN", "DELAYS", "DEPTH_TABLES", "STRAGGLERS", "TRAFFIC", "TRANSFER_TAILS"]

_GROUP = Column("group", pl.String, "Sorted member list as text.")
_INSTANCE = Column("instance", pl.Int64, "Instance in `collectives`.", refers_to="collectives.instance")

DELAYS = Table(
    name="delays",
    doc="What delayed the last member of each measured instance whose members do not arrive together, followed to the first cause.",
    key=("instance",),
    columns=(
        _INSTANCE,
        Column("late_rank", pl.Int32, "Its last member (the lowest of those within the clock error)."),
        Column("wait_ns", pl.Int64, "Waits of the others beyond the clock error.", unit="ns"),
        Column("delayed_by", pl.String, "compute, host, input, transfer, wait or communication (unseen members).", nullable=True),
        Column("cause", pl.String, "straggler, schedule, transfer or unknown, after following waits."),
        Column("root_instance", pl.Int64, "Where the chain of waits ends.", refers_to="collectives.instance"),
        Column("root_rank", pl.Int32, "Its last member."),
        Column("root_by", pl.String, "What delayed that one.", nullable=True),
        Column("culprit", pl.Int64, "Instance whose transfer held it up, where that is the cause.", nullable=True),
    ),
)

STRAGGLERS = Table(
    name="stragglers",
    doc="How often each rank comes last in pooled steps, what that costs the others, and whether chance explains it.",
    key=("rank",),
    columns=(
        Column("rank", pl.Int32, "Global rank.", refers_to="ranks.rank"),
        Column("instances", pl.Int64, "Measured instances in which it takes part."),
        Column("last_count", pl.Int64, "Those in which it is last by more than the clock error."),
        Column("caused_wait_ns", pl.Int64, "Waits of the others there beyond the clock error.", unit="ns"),
        Column("share_of_wait", pl.Float64, "Its part of all such waits.", nullable=True),
        Column("z_score", pl.Float64, "Standard score of last_count against chance (once in n).", nullable=True),
        Column("p_value", pl.Float64, "Binomial tail after Bonferroni over ranks."),
        Column("clear", pl.Boolean, "With fewer than 5 instances: once later than 3 times the spread of the others.", nullable=True),
        Column("own_wait_ns", pl.Int64, "Waits whose first cause is its own compute, host or input.", unit="ns"),
        Column("delayed_by", pl.String, "compute, host, input or transfer; null if unknown.", nullable=True),
    ),
)

TRAFFIC = Table(
    name="traffic",
    doc="Bytes that each rank sends to each other, by the algorithm that the operation implies (rings in rank order).",
    key=("src", "dst"),
    columns=(
        Column("src", pl.Int32, "Sending rank."),
        Column("dst", pl.Int32, "Receiving rank."),
        Column("bytes", pl.Int64, "Bytes over the capture.", unit="B"),
        Column("layer", pl.String, "intra_node, inter_node or unplaced."),
    ),
)

TRANSFER_TAILS = Table(
    name="transfer_tails",
    doc="Distribution of transfer times of like instances, longest tail first.",
    key=(),
    columns=(
        _GROUP,
        Column("op", pl.String, "Operation."),
        Column("bytes", pl.Int64, "Message size.", unit="B", nullable=True),
        Column("count", pl.Int64, "Instances with a known transfer."),
        Column("p50_ns", pl.Float64, "Median transfer.", unit="ns"),
        Column("p95_ns", pl.Float64, "95th percentile.", unit="ns"),
        Column("p99_ns", pl.Float64, "99th percentile.", unit="ns"),
        Column("max_ns", pl.Int64, "Longest transfer.", unit="ns"),
        Column("tail_ns", pl.Float64, "Longest minus median.", unit="ns"),
        Column("worst_instance", pl.Int64, "The longest one.", refers_to="collectives.instance"),
        Column("worst_step", pl.Int32, "Its step.", nullable=True),
    ),
)

BANDWIDTH_FITS = Table(
    name="bandwidth_fits",
    doc="Latency and rate that each group reached: transfer = alpha + bytes / beta through its split transfers.",
    key=("group", "op"),
    columns=(
        _GROUP,
        Column("op", pl.String, "Operation."),
        Column("samples", pl.Int64, "Split transfers."),
        Column("alpha_us", pl.Float64, "Latency.", unit="us", nullable=True),
        Column("beta_gb_per_s", pl.Float64, "Rate of algorithm bandwidth.", unit="GB/s", nullable=True),
        Column("refused", pl.String, "Why there is no fit.", nullable=True),
    ),
)

COMPUTE_SLOWDOWN = Table(
    name="compute_slowdown",
    doc="The same kernel and launch grid under communication and free of it, most time lost first.",
    key=(),
    columns=(
        Column("rank", pl.Int32, "Global rank.", refers_to="ranks.rank"),
        Column("name", pl.String, "Kernel."),
        Column("grid", pl.String, "Launch grid.", nullable=True),
        Column("overlapped", pl.Int64, "Runs at least 90 % under communication."),
        Column("free", pl.Int64, "Runs at most 10 % under it."),
        Column("overlapped_ns", pl.Float64, "Median time under communication.", unit="ns"),
        Column("free_ns", pl.Float64, "Median time free of it.", unit="ns"),
        Column("slowdown", pl.Float64, "Their ratio."),
        Column("lost_ns", pl.Float64, "Excess over all overlapped runs.", unit="ns"),
    ),
)

DEPTH_TABLES = (DELAYS, STRAGGLERS, TRAFFIC, TRANSFER_TAILS, BANDWIDTH_FITS, COMPUTE_SLOWDOWN)
