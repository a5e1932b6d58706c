"""How much longer compute takes beside communication: fitted from the run, else from the literature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from netlab.intervals import cover

__all__ = ["Contention", "contention"]

#: Slow-down of compute beside communication, average and worst of A100, H100, MI250 and MI210 (arXiv 2507.03114).
_USUAL, _WORST = 1.189, 1.40
#: A kernel counts as beside communication if this much of it is; fewer than so many of each sort say nothing.
_BESIDE = 0.9
_MIN_EACH = 5


@dataclass(frozen=True)
class Contention:
    """Time of kernels beside communication over the time of the same kernels alone, for intervals of 80 and 95 %."""

    ratio80: float
    ratio95: float
    #: Kinds of kernel that were seen both ways; 0: the ratios come from the literature.
    kinds: int

    def extra_ms(self, more_hidden_ms: float) -> tuple[float, float]:
        """How much longer a step may get if so much more communication runs beside compute, for 80 and 95 %.

        >>> Contention(1.25, 1.5, 3).extra_ms(8.0), Contention(1.25, 1.5, 3).extra_ms(-8.0)
        ((2.0, 4.0), (0.0, 0.0))
        """
        more = max(0.0, more_hidden_ms)
        return more * (self.ratio80 - 1), more * (self.ratio95 - 1)


def contention(activities: pl.DataFrame) -> Contention:
    """Median over kinds of kernel (rank, name, grid) that ran at least 5 times beside communication and 5 times alone.

    The 95 % ratio is the largest of the middle nine tenths of the kinds. Ratios below 1 are noise and count as 1.
    """
    compute = activities.filter((pl.col("kind") == "compute") & (pl.col("end_ns") > pl.col("start_ns")))
    moving = activities.filter(pl.col("kind") == "communication").with_columns(pl.col("transfer_start_ns").fill_null(pl.col("start_ns")))
    if compute.is_empty() or moving.is_empty():
        return Contention(_USUAL, _WORST, 0)

    def ints(frame: pl.DataFrame, name: str) -> np.ndarray:
        return frame[name].cast(pl.Int64).to_numpy()

    busy = (ints(moving, "rank"), ints(moving, "transfer_start_ns"), ints(moving, "end_ns"))
    covered = cover(*busy, ints(compute, "rank"), ints(compute, "start_ns"), ints(compute, "end_ns"))
    timed = compute.with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("length"),
        pl.Series("covered", covered, pl.Int64),
    )
    beside, alone = pl.col("covered") >= _BESIDE * pl.col("length"), pl.col("covered") == 0
    sorts = {"beside": pl.col("length").filter(beside), "alone": pl.col("length").filter(alone)}
    kinds = (
        timed.group_by("rank", "name", "grid")
        .agg(*(own.median().alias(name) for name, own in sorts.items()), *(own.len().alias(f"{name}_n") for name, own in sorts.items()))
        .filter((pl.col("beside_n") >= _MIN_EACH) & (pl.col("alone_n") >= _MIN_EACH))
    )
    if kinds.is_empty():
        return Contention(_USUAL, _WORST, 0)
    ratios = (kinds["beside"] / kinds["alone"]).to_numpy()
    usual, worst = (max(1.0, float(value)) for value in np.quantile(ratios, [0.5, 0.95]))
    return Contention(usual, max(usual, worst), kinds.height)
