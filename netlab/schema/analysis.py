"""Tables that attribution, diagnosis and what-if produce."""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = ["ANALYSIS_TABLES", "BREAKDOWN", "FINDINGS", "SCENARIOS", "SPANS"]


def _ns(name: str, doc: str, *, nullable: bool = False) -> Column:
    return Column(name, pl.Int64, doc, unit="ns", nullable=nullable)


_PARTS = (
    _ns("compute_ns", "Union of compute."),
    _ns(
        "exposed_transfer_ns",
        "Communication that moves data (or whose split is unknown) and that compute does not cover.",
    ),
    _ns("exposed_wait_ns", "Waiting for a late member, covered neither by compute nor by transfer."),
    _ns("exposed_comm_ns", "exposed_transfer + exposed_wait."),
    _ns("exposed_memory_ns", "Copies and memsets that nothing else covers."),
    _ns("idle_ns", "Nothing ran."),
    _ns("hidden_comm_ns", "Communication under compute: hidden_transfer + hidden_wait."),
    _ns("hidden_transfer_ns", "Transfer (or unknown split) under compute."),
    _ns("hidden_wait_ns", "Waiting under compute."),
    _ns("comm_ns", "Union of communication: exposed_comm + hidden_comm."),
    _ns("exposed_transfer_inter_node_ns", "The part of exposed_transfer on the fabric."),
    _ns("exposed_transfer_intra_node_ns", "The part inside hosts."),
    _ns("exposed_transfer_unplaced_ns", "The part whose layer is not known."),
    _ns("exposed_unknown_ns", "The part of exposed_transfer whose split into wait and transfer is unknown."),
    _ns("exposed_bounded_ns", "The part of exposed_comm that belongs to bounded instances."),
    _ns("hidden_unknown_ns", "The part of hidden_transfer whose split is unknown."),
    _ns("exposed_transfer_low_ns", "Exposed transfer at least."),
    _ns("exposed_transfer_high_ns", "Exposed transfer at most."),
    _ns("exposed_delay_ns", "exposed_transfer plus exposed waits that transfer elsewhere caused."),
    _ns("idle_unqueued_ns", "The part of idle in which no launched work was pending; null where launches are not known.", nullable=True),
    _ns("host_copy_ns", "Union of copies between host and device."),
    _ns("exposed_host_copy_ns", "The part of exposed_memory that copies between host and device cover."),
    Column(
        "split",
        pl.String,
        "Poorest quality that covers more than 1 % of exposed communication: measured, bounded or unknown.",
    ),
    Column("basis", pl.String, "communication if unknown instances are more than half of the numerator, else transfer."),
)

BREAKDOWN = Table(
    name="breakdown",
    doc="Where each rank's step went. compute + exposed_transfer + exposed_wait + exposed_memory + idle = step, exactly.",
    key=("rank", "window", "step", "device"),
    columns=(
        Column("rank", pl.Int32, "Global rank.", refers_to="ranks.rank"),
        Column("window", pl.Int32, "Profiler window."),
        Column("step", pl.Int32, "Step number.", refers_to="steps.step"),
        Column("device", pl.Int32, "Device index; a rank that drives several devices has a row for each.", nullable=True),
        _ns("step_ns", "Length of the step."),
        *_PARTS,
    ),
)

SPANS = Table(
    name="spans",
    doc="The same figures from the first to the last device activity of each rank, comparable with other tools.",
    key=("rank", "device"),
    columns=(
        Column("rank", pl.Int32, "Global rank.", refers_to="ranks.rank"),
        Column("device", pl.Int32, "Device index; a rank that drives several devices has a row for each.", nullable=True),
        _ns("start_ns", "First start of an activity."),
        _ns("step_ns", "Length of the span."),
        *_PARTS,
    ),
)

FINDINGS = Table(
    name="findings",
    doc="What was found, ranked by time lost.",
    key=(),
    columns=(
        Column("id", pl.String, "Unique in the run."),
        Column("code", pl.String, "Kind of finding; docs/codes.md explains each."),
        Column("severity", pl.String, "info, warning or critical."),
        Column("title", pl.String, "The finding as one sentence."),
        Column("detail", pl.String, "Measure, threshold and how to read it."),
        Column("subject", pl.String, "Those affected and nobody else, as JSON."),
        Column("evidence", pl.String, "Rows that show it, as JSON list."),
        Column("action", pl.String, "What to do next."),
        Column("source", pl.String, "Where threshold and method come from."),
        Column(
            "time_lost_ms",
            pl.Float64,
            "Mean time by which the step would shrink without it, at most; null if unknown.",
            unit="ms",
            nullable=True,
        ),
    ),
)

SCENARIOS = Table(
    name="scenarios",
    doc="What-if answers.",
    key=(),
    columns=(
        Column("name", pl.String, "Name of the scenario."),
        Column("changes", pl.String, "Its changes as JSON."),
        Column("predicted_ms", pl.Float64, "Predicted iteration time; null if refused.", unit="ms", nullable=True),
        Column("low95_ms", pl.Float64, "Lower end of the 95 % interval.", unit="ms", nullable=True),
        Column("high95_ms", pl.Float64, "Upper end of the 95 % interval.", unit="ms", nullable=True),
        Column("low80_ms", pl.Float64, "Lower end of the 80 % interval.", unit="ms", nullable=True),
        Column("high80_ms", pl.Float64, "Upper end of the 80 % interval.", unit="ms", nullable=True),
        Column("speedup", pl.Float64, "Measured over predicted iteration time.", nullable=True),
        Column("network_share", pl.Float64, "Predicted network share.", nullable=True),
        Column("comm_share", pl.Float64, "Predicted communication share.", nullable=True),
        Column("bound_best_ms", pl.Float64, "No answer of this kind can be below this.", unit="ms", nullable=True),
        Column("confidence", pl.String, "measured, calibrated, datasheet or bound-only."),
        Column("refused", pl.String, "Why there is no answer.", nullable=True),
    ),
)

ANALYSIS_TABLES = (BREAKDOWN, SPANS, FINDINGS, SCENARIOS)
