"""Reader of ByteDance's operation-level straggler traces (Parquet; github.com/ByteDance-Seed/StragglerAnalysis, Apache-2.0)."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed, Reader, Sink
from netlab.schema.operations import JOB_OPERATIONS
from netlab.units import NS_PER_S

__all__ = ["READERS", "OperationTraceReader"]

#: Their column to ours. Times are seconds as float32 from an unnamed origin.
VARIABLE_MAP = {
    "dp_rank": "dp_rank",
    "stage": "stage",
    "rank": "rank",
    "step": "step",
    "optype": "op",
    "seq_id": "sequence",
    "mc": "model_chunk",
    "mb_id": "micro_batch",
    "gmc": "global_chunk",
}
_TIMES = ("start_ts", "duration")
_OPTIONAL = ("model_chunk", "micro_batch", "global_chunk")


class OperationTraceReader:
    """One row per operation of a pipeline stage, as ``trace-*.parquet`` of the published artifact."""

    name = "bytedance_operations"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the file is Parquet with the operation columns; Parquet keeps its column names in the footer, so that is looked at."""
        if not head.startswith(b"PAR1"):
            return False
        try:
            columns = pl.read_parquet_schema(path)
        except (OSError, pl.exceptions.PolarsError):
            return False
        return {*VARIABLE_MAP, *_TIMES} <= set(columns)

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Read the operations into ``job_operations``.

        Raises
        ------
        ParseError
            If the file is damaged or holds no operation.
        """
        try:
            frame = pl.read_parquet(path, columns=[*VARIABLE_MAP, *_TIMES])
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ParseError(f"NOT_A_TRACE: {source} cannot be read as Parquet ({error}); export the trace again.") from error
        usable = frame.filter(pl.all_horizontal(pl.col(name).is_not_null() & pl.col(name).is_finite() for name in _TIMES)).filter(
            pl.col("duration") >= 0
        )
        if usable.is_empty():
            raise ParseError(f"EMPTY_FILE: {source} holds no operation with a start and a duration; export the trace again.")
        start = (pl.col("start_ts").cast(pl.Float64) * NS_PER_S).round().cast(pl.Int64)
        length = (pl.col("duration").cast(pl.Float64) * NS_PER_S).round().cast(pl.Int64)
        shaped = usable.rename(VARIABLE_MAP).with_columns(
            pl.lit(source).alias("source"),
            pl.col("op").cast(pl.String),
            start.alias("start_ns"),
            (start + length).alias("end_ns"),
            *(pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in _OPTIONAL),
        )
        sink.write("job_operations", JOB_OPERATIONS.conform(shaped))
        skipped = frame.height - usable.height
        issues = []
        if skipped:
            issues.append(
                Issue(
                    code="NEGATIVE_DURATION",
                    severity="warning",
                    source=source,
                    message=f"{skipped} operations have no start, no duration or a negative one; they were left out.",
                )
            )
        return Parsed(
            reader=self.name,
            rows=usable.height,
            lines_unparsed=skipped,
            status="partial" if skipped else "ok",
            message="NEGATIVE_DURATION: some operations were left out." if skipped else None,
            issues=tuple(issues),
        )


READERS: tuple[Reader, ...] = (OperationTraceReader(),)
