"""What-if answers as a frame, and which of them is worth a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

__all__ = ["best_scenario", "scenario_frame"]


def scenario_frame(answers: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Answered scenarios of a verdict's ``what_if``, the largest speed-up first; refused ones are left out.

    Returns
    -------
    Columns ``name``, ``predicted_ms``, ``low80_ms``, ``high80_ms``, ``low95_ms``, ``high95_ms``, ``speedup``, ``network_share``,
    ``confidence``.
    """
    rows = []
    for answer in answers:
        if answer.get("predicted_ms") is None:
            continue
        low80, high80 = answer.get("interval80_ms") or (None, None)
        low95, high95 = answer.get("interval95_ms") or (None, None)
        kept = {key: answer.get(key) for key in ("name", "predicted_ms", "speedup", "network_share", "confidence")}
        rows.append({**kept, "low80_ms": low80, "high80_ms": high80, "low95_ms": low95, "high95_ms": high95})
    text, number = ("name", "confidence"), ("predicted_ms", "low80_ms", "high80_ms", "low95_ms", "high95_ms", "speedup", "network_share")
    frame = pl.DataFrame(rows, schema={**dict.fromkeys(text, pl.String), **dict.fromkeys(number, pl.Float64)}, strict=False)
    return frame.select("name", *number, "confidence").sort("speedup", "name", descending=[True, False], nulls_last=True)


def best_scenario(frame: pl.DataFrame) -> dict[str, Any] | None:
    """The scenario with the largest speed-up among those that can be had: a mere bound is nobody's plan.

    Its ``sure`` says whether it is faster at the upper end of its 95 % interval too.

    >>> answers = [{"name": "bound", "predicted_ms": 5.0, "speedup": 2.0, "confidence": "bound-only"},
    ...            {"name": "bf16", "predicted_ms": 8.0, "speedup": 1.25, "interval95_ms": [7.0, 11.0], "confidence": "datasheet"}]
    >>> best = best_scenario(scenario_frame(answers))
    >>> best["name"], best["sure"]
    ('bf16', False)
    """
    real = frame.filter((pl.col("confidence") != "bound-only") & (pl.col("speedup") > 1.0))
    if not real.height:
        return None
    row = real.row(0, named=True)
    slowest = row["high95_ms"]
    return {**row, "sure": slowest is not None and row["speedup"] * row["predicted_ms"] > slowest}
