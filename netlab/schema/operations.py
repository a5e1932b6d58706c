"""Table of operation-level job traces: what each pipeline stage of a Megatron job did, without kernels."""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = ["JOB_OPERATIONS", "OPERATION_TABLES"]

JOB_OPERATIONS = Table(
    name="job_operations",
    doc="Operations of a pipeline-parallel job, one row per operation of one rank in one step (ByteDance's straggler traces).",
    key=("source", "step", "dp_rank", "stage", "start_ns", "op", "sequence"),
    unique=False,
    columns=(
        Column("source", pl.String, "File.", refers_to="sources.path"),
        Column("rank", pl.Int32, "Rank as the trace counts it."),
        Column("dp_rank", pl.Int32, "Data-parallel rank."),
        Column("stage", pl.Int32, "Pipeline stage."),
        Column("step", pl.Int32, "Step number."),
        Column("op", pl.String, "forward-compute, backward-recv, grads-reduce-scatter, optimizer, ..."),
        Column("sequence", pl.Int32, "Running number among operations of this kind in the step and stage."),
        Column("start_ns", pl.Int64, "Start, from an origin that the trace does not name.", unit="ns"),
        Column("end_ns", pl.Int64, "End.", unit="ns"),
        Column("model_chunk", pl.Int32, "Model chunk of the stage (virtual pipeline); null where the operation has none.", nullable=True),
        Column("micro_batch", pl.Int32, "Micro-batch; null where the operation has none.", nullable=True),
        Column("global_chunk", pl.Int32, "Model chunk in the whole model; null where the operation has none.", nullable=True),
    ),
)

OPERATION_TABLES = (JOB_OPERATIONS,)
