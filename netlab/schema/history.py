"""The table of many reports: one row per verdict."""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = ["HISTORY"]

HISTORY = Table(
    name="history",
    doc="Verdicts of many reports, oldest first within each run.",
    key=("name", "created_at", "path"),
    columns=(
        Column("path", pl.String, "verdict.json, relative to the folder that was searched."),
        Column("name", pl.String, "Name of the run."),
        Column("cluster", pl.String, "Where it ran, as `[run] cluster` or `NETLAB_RUN_CLUSTER` says.", nullable=True),
        Column("created_at", pl.String, "When the verdict was made, ISO 8601 in UTC."),
        Column("status", pl.String, "pass, warn, flagged or inconclusive."),
        Column("cause", pl.String, "Cause that the verdict names."),
        Column("headline", pl.String, "The verdict as one sentence."),
        Column("threshold", pl.Float64, "Limit of the network share."),
        Column("iteration_ms", pl.Float64, "Mean step time.", unit="ms", nullable=True),
        Column("network_share", pl.Float64, "Network share.", nullable=True),
        Column("comm_share", pl.Float64, "Communication share.", nullable=True),
        Column("wait_share", pl.Float64, "Wait share.", nullable=True),
        Column("fabric_share", pl.Float64, "Fabric share.", nullable=True),
        Column("ranks", pl.Int64, "Ranks that were seen."),
        Column("world_size", pl.Int64, "Ranks of the job.", nullable=True),
        Column("steps", pl.Int64, "Steps that were analysed."),
        Column("critical", pl.Int64, "Critical findings."),
        Column("warnings", pl.Int64, "Findings that are warnings."),
        Column("first_finding", pl.String, "Code of the first finding.", nullable=True),
        Column("netlab_version", pl.String, "Version that made the verdict."),
    ),
)
