"""Tables about the inputs themselves: what was read and what was wrong with it."""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = ["ISSUES", "SOURCES"]

SOURCES = Table(
    name="sources",
    doc="Every input file that was looked at, also those that nobody could read.",
    key=("path",),
    columns=(
        Column("path", pl.String, "Path relative to the input folder (or as given, for a single file)."),
        Column("reader", pl.String, "Reader that claimed the file; null if nobody did.", nullable=True),
        Column("sha256", pl.String, "Hash of the file's bytes.", nullable=True),
        Column("bytes", pl.Int64, "Size on disk.", unit="B", nullable=True),
        Column("rows", pl.Int64, "Records that were read from it.", nullable=True),
        Column("lines_unparsed", pl.Int64, "Lines or records that could not be read.", nullable=True),
        Column("status", pl.String, "ok, partial or rejected."),
        Column("message", pl.String, "Why it is partial or rejected, beginning with the issue code.", nullable=True),
    ),
)

ISSUES = Table(
    name="issues",
    doc="Every defect of an input and every doubt: nothing is skipped without a row here.",
    key=("source", "line", "code", "message"),
    unique=False,
    columns=(
        Column("severity", pl.String, "info, warning or error."),
        Column("source", pl.String, "Path of the file, or null when it concerns the run as a whole.", nullable=True),
        Column("line", pl.Int64, "Line (text formats) or byte offset (JSON traces) where it was seen.", nullable=True),
        Column("code", pl.String, "Stable code; docs/codes.md explains each."),
        Column("message", pl.String, "One sentence: what, where, what to do."),
    ),
)
