"""Tables of `netlab compare`: two runs side by side."""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = [
    "COMPARED_CHANGES",
    "COMPARED_COLLECTIVES",
    "COMPARED_RANKS",
    "COMPARED_SCOPE",
    "COMPARED_STEPS",
    "COMPARISON_TABLES",
]

_PART = Column("part", pl.String, "step, or one of its parts: compute, exposed_transfer, exposed_wait, exposed_memory, idle.")


def _mean(name: str, doc: str) -> Column:
    return Column(name, pl.Float64, doc, unit="ns", nullable=True)


COMPARED_STEPS = Table(
    name="compared_steps",
    doc="Steps of two runs side by side: by number where they share most of them, else first beside first. The warm-up is left out.",
    key=("position", "part"),
    columns=(
        Column("position", pl.Int32, "Place in the row of steps, from 0."),
        _PART,
        Column("base_step", pl.Int32, "Step of the base.", nullable=True),
        Column("run_step", pl.Int32, "Step of the run.", nullable=True),
        _mean("base_ns", "Mean over the base's ranks; null where it has no such step."),
        _mean("run_ns", "Mean over the run's ranks; null where it has no such step."),
    ),
)

COMPARED_RANKS = Table(
    name="compared_ranks",
    doc="Mean step and its parts of each rank in two runs.",
    key=("rank", "part"),
    columns=(
        Column("rank", pl.Int32, "Global rank."),
        _PART,
        _mean("base_ns", "In the base; null if the rank is not there."),
        _mean("run_ns", "In the run; null if the rank is not there."),
    ),
)

COMPARED_COLLECTIVES = Table(
    name="compared_collectives",
    doc="Collectives of two runs side by side: the n-th of an operation and group in a step beside the n-th of the other run.",
    key=("op", "scope", "place"),
    columns=(
        Column("op", pl.String, "Operation."),
        Column("scope", pl.String, "Member list; the layer, as a mean over its groups, where the runs do not share the groups."),
        Column("place", pl.Int32, "Its place among those of this operation and group in a step, from 0."),
        Column("base_share", pl.Float64, "Share of the base's (step, group) that have it; null if none has.", nullable=True),
        Column("run_share", pl.Float64, "Share of the run's (step, group) that have it.", nullable=True),
        Column("base_bytes", pl.Float64, "Mean size in the base; null if it has none there.", unit="B", nullable=True),
        Column("run_bytes", pl.Float64, "Mean size in the run.", unit="B", nullable=True),
        _mean("base_transfer_ns", "Transfer in the base, mean over the steps, members and groups that have it; null if unknown."),
        _mean("run_transfer_ns", "Transfer in the run."),
        _mean("base_wait_ns", "Wait in the base, mean over the steps, members and groups that have it; null if unknown."),
        _mean("run_wait_ns", "Wait in the run."),
    ),
)

COMPARED_CHANGES = Table(
    name="compared_changes",
    doc="What is different between two runs, by area, with the time it made of a mean step where that is known.",
    key=("area", "what"),
    columns=(
        Column("area", pl.String, "compute, waiting, transfer, memory, host, configuration or links."),
        Column("what", pl.String, "What differs."),
        Column("base", pl.String, "In the base.", nullable=True),
        Column("run", pl.String, "In the run.", nullable=True),
        _mean("delta_ns", "Run minus base, of a mean step and rank; null where a difference has no time of its own."),
        Column("explains", pl.Boolean, "It can explain the cause that the comparison names."),
    ),
)

COMPARED_SCOPE = Table(
    name="compared_scope",
    doc="What could be compared between two runs, what could not, and what to record for it.",
    key=("aspect",),
    columns=(
        Column("aspect", pl.String, "What is compared."),
        Column("comparable", pl.Boolean, "Whether both runs have what it takes."),
        Column("says", pl.String, "How it was compared, or why not."),
        Column("action", pl.String, "How to make it comparable.", nullable=True),
    ),
)

COMPARISON_TABLES = (COMPARED_STEPS, COMPARED_RANKS, COMPARED_COLLECTIVES, COMPARED_CHANGES, COMPARED_SCOPE)
