"""All tables of a run as CSV or Parquet files."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from netlab.export.files import claimed, write_bytes, write_text
from netlab.run import Run

__all__ = ["export_csv", "export_parquet", "write_table"]


def _as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Lists as comma-separated text, since CSV has no lists; counters above 2^53 exactly, which the float beside them is not."""
    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    if {"value", "value_int"} <= set(frame.columns):
        frame = frame.with_columns(pl.coalesce(pl.col("value_int").cast(pl.String), pl.col("value").cast(pl.String)).alias("value"))
    return frame.with_columns(pl.col(name).cast(pl.List(pl.String)).list.join(",") for name in lists)


def export_csv(run: Run, folder: Path) -> list[Path]:
    """One CSV per table that the run has; null is an empty cell."""
    paths = claimed(folder, [f"{name}.csv" for name in sorted(run.manifest.tables)])
    for path in paths:
        write_text(path, _as_text(run.frame(path.stem)).write_csv())
    return paths


def export_parquet(run: Run, folder: Path) -> list[Path]:
    """One Parquet file per table that the run has."""
    paths = claimed(folder, [f"{name}.parquet" for name in sorted(run.manifest.tables)])
    for path in paths:
        write_table(run.frame(path.stem), path)
    return paths


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write one table as Parquet; the file appears whole or not at all."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    write_bytes(path, buffer.getvalue())
