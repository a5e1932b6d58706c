"""Rows of a verdict as frames, and the words that several charts use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import polars as pl

from netlab.units import format_percent, plural

__all__ = ["members_text", "records", "rows_frame", "share_text"]


def rows_frame(rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct] | None = None) -> pl.DataFrame:
    """Rows of a verdict as a frame with one column per field.

    Parameters
    ----------
    rows
        ``verdict.by_rank`` or another list of one kind of row.
    kind
        Their type; needed only where the list may be empty.

    Returns
    -------
    One row per row. A column in which nothing is known is Float64 and all null.

    Examples
    --------
    >>> from netlab.verdict.rows import StepRow
    >>> rows_frame([StepRow(step=3, iteration_ms=2.5)]).select("step", "iteration_ms", "compute_ms").row(0)
    (3, 2.5, None)
    """
    if not rows:
        fields = msgspec.structs.fields(kind) if kind is not None else ()
        return pl.DataFrame(schema={field.name: _dtype(str(field.type)) for field in fields})
    frame = pl.DataFrame([msgspec.to_builtins(row) for row in rows], infer_schema_length=None)
    return frame.with_columns(pl.col(pl.Null).cast(pl.Float64))


def _dtype(annotation: str) -> Any:
    """Column type for a field's annotation; only what rows of the verdict hold."""
    for word, dtype in (("list", pl.List(pl.Int64)), ("dict", pl.String), ("str", pl.String), ("bool", pl.Boolean), ("float", pl.Float64)):
        if word in annotation:
            return dtype
    return pl.Int64


def records(frame: pl.DataFrame, digits: int = 5) -> list[dict[str, Any]]:
    """Rows for a chart, floats rounded to so many significant digits: a picture shows no more, and the file stays small."""
    rounded = frame.with_columns(pl.col(pl.Float64, pl.Float32).round_sig_figs(digits))
    return rounded.to_dicts()


def share_text(share: float | None) -> str:
    """A share for a title; a threshold keeps no needless digit.

    >>> share_text(0.25), share_text(0.3004), share_text(None)
    ('25 %', '30.0 %', 'unknown')
    """
    if share is None:
        return "unknown"
    return format_percent(share, 0 if abs(share * 100 - round(share * 100)) < 1e-9 else 1)


def members_text(members: Sequence[int] | str, shown: int = 8, noun: str = "rank") -> str:
    """Numbers of ranks or steps, shortened: runs as ``0-7``, long lists by their ends.

    >>> members_text([0, 1, 2, 3, 8]), members_text(list(range(0, 64, 2)), shown=4)
    ('0-3, 8', '0, 2, 4 ... 62 (32 ranks)')
    """
    ranks = [int(part) for part in members.split(",") if part.strip()] if isinstance(members, str) else sorted(members)
    spans: list[tuple[int, int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], rank)
        else:
            spans.append((rank, rank))
    texts = [str(a) if a == b else f"{a}-{b}" if b > a + 1 else f"{a}, {b}" for a, b in spans]
    if len(texts) <= shown:
        return ", ".join(texts)
    return f"{', '.join(texts[: shown - 1])} ... {texts[-1]} ({plural(len(ranks), noun)})"
