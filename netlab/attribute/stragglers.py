"""Which ranks make the others wait, how surely, and what delayed them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.units import NS_PER_MS

__all__ = ["in_pool", "straggler_rows", "stragglers"]

#: With fewer instances than this counting says nothing, and lateness is compared with the spread of the others instead.
COUNTED_FROM = 5
#: A lateness is clear above this multiple of the spread of the others' arrivals.
CLEAR_SPREADS = 3

_OWN = ("compute", "host", "input")


def in_pool(found: pl.DataFrame, pooled: pl.DataFrame) -> pl.DataFrame:
    """Instances that lie in pooled steps; all of them where figures are over the whole capture."""
    if "step" not in pooled.columns:
        return found
    steps = pooled.select("window", "step").unique()
    return found.join(steps, on=["window", "step"], how="semi", maintain_order="left")


def stragglers(found: pl.DataFrame, collectives: pl.DataFrame, delays: pl.DataFrame, pooled: pl.DataFrame) -> pl.DataFrame:
    """How often each rank comes last, what that costs the others, and whether chance explains it.

    Parameters
    ----------
    found
        Result of `netlab.attribute.instances`.
    collectives
        ``COLLECTIVES``.
    delays
        Result of `netlab.attribute.delays`.
    pooled
        Result of `netlab.attribute.pooled_rows`; instances outside its steps do not count.

    Returns
    -------
    One row per rank that takes part in a measured instance, sorted by rank:

    ``instances, last_count``
        Measured instances in which it takes part, and those in which it is last by more than the clock error.
    ``caused_wait_ns, share_of_wait``
        Waits of the others there beyond the clock error; its part of all such waits.
    ``z_score, p_value``
        Standard score of ``last_count`` against being last by chance (once in n for a group of n) in the instances in which somebody is
        last, and the exact binomial tail (convolved over group sizes) after Bonferroni over ranks.
    ``clear``
        With fewer than 5 such instances: in one of them its lateness exceeds 3 times the spread of the others. Null with more.
    ``own_wait_ns``
        Waits whose first cause is this rank's own compute, host or input, here or at the end of a chain.
    ``delayed_by``
        compute, host, input or transfer: what delayed it, by the waits that it caused; waiting is followed to its first cause; null if
        unknown.
    """
    inside = in_pool(found.filter(pl.col("split") == "measured"), pooled)
    members = collectives.select("instance", "rank").join(inside.select("instance", "members", "last_rank"), on="instance")
    # Where all arrive together nobody had the chance of being last.
    chance, decided = 1 / pl.col("members"), pl.col("last_rank").is_not_null()
    part = members.group_by("rank").agg(
        instances=pl.len(),
        decided=decided.sum(),
        expected=chance.filter(decided).sum(),
        variance=(chance * (1 - chance)).filter(decided).sum(),
        sizes=pl.col("members").filter(decided),
    )
    late = delays.join(inside.select("instance", "last_rank", "excess_ns", "first_start_ns", "second_start_ns"), on="instance")
    by_root = pl.when(pl.col("cause") != "unknown").then("root_by")
    late = late.with_columns(reason=by_root, spread_ns=pl.col("second_start_ns") - pl.col("first_start_ns"))
    clear = (pl.col("excess_ns") > CLEAR_SPREADS * pl.col("spread_ns")).any()
    alone = late.filter(pl.col("last_rank").is_not_null())
    last = alone.group_by(rank="last_rank").agg(last_count=pl.len(), caused_wait_ns=pl.col("wait_ns").sum(), clear=clear)
    reasons = alone.filter(pl.col("reason").is_not_null()).group_by("last_rank", "reason").agg(pl.col("wait_ns").sum())
    reasons = (
        reasons.sort("wait_ns", "reason", descending=[True, False]).group_by(rank="last_rank").agg(delayed_by=pl.col("reason").first())
    )
    own = late.filter((pl.col("cause") == "straggler") & pl.col("root_by").is_in(_OWN))
    own = own.group_by(rank="root_rank").agg(own_wait_ns=pl.col("wait_ns").sum())
    table = part
    for more in (last, reasons, own):
        table = table.join(more, on="rank", how="left")
    total = int(late["wait_ns"].sum())
    table = table.with_columns(pl.col("last_count", "caused_wait_ns", "own_wait_ns").fill_null(0)).sort("rank")
    tail = [_tail(np.asarray(sizes), count) for sizes, count in table.select("sizes", "last_count").iter_rows()]
    few = pl.col("decided") < COUNTED_FROM
    return table.select(
        "rank",
        "instances",
        "last_count",
        "caused_wait_ns",
        pl.when(total > 0).then(pl.col("caused_wait_ns") / max(total, 1)).alias("share_of_wait"),
        pl.when(pl.col("variance") > 0).then((pl.col("last_count") - pl.col("expected")) / pl.col("variance").sqrt()).alias("z_score"),
        (pl.Series("p_value", tail, dtype=pl.Float64) * table.height).clip(upper_bound=1.0),
        pl.when(few).then(pl.col("clear").fill_null(False)).alias("clear"),
        "own_wait_ns",
        "delayed_by",
    )


def straggler_rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Ranks that are last at least once as rows of ``netlab.check/1``, the most caused waiting first."""
    rows = table.filter(pl.col("last_count") > 0).sort("caused_wait_ns", "rank", descending=[True, False])
    return [
        {
            "rank": row["rank"],
            "last_count": row["last_count"],
            "caused_wait_ms": row["caused_wait_ns"] / NS_PER_MS,
            "share_of_wait": row["share_of_wait"],
            "z_score": row["z_score"],
            "delayed_by": row["delayed_by"],
        }
        for row in rows.iter_rows(named=True)
    ]


def _tail(sizes: NDArray[np.int64], count: int) -> float:
    """Probability of being last at least ``count`` times by chance, once in n for each instance of n members."""
    if count <= 0:
        return 1.0
    distribution = np.ones(1)
    for size, times in zip(*np.unique(sizes, return_counts=True), strict=True):
        distribution = np.convolve(distribution, _binomial(int(times), 1 / int(size)))
    return float(min(distribution[count:].sum(), 1.0))


def _binomial(times: int, chance: float) -> NDArray[np.float64]:
    k = np.arange(times + 1)
    factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, times + 1)))))
    if chance >= 1:
        return np.asarray(k == times, np.float64)
    logarithm = factorial[times] - factorial[k] - factorial[times - k] + k * math.log(chance) + (times - k) * math.log1p(-chance)
    return np.asarray(np.exp(logarithm), np.float64)
