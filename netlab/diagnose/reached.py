"""How fast groups of ranks move data, beside what their links can do."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.diagnose.timeline import Timeline, name_group, pooled_exposed

__all__ = ["AGAINST", "KIND", "name_groups", "reached"]

Int64s = NDArray[np.int64]

#: Groups that can be compared with each other.
KIND = ["op", "layer", "members"]
#: Where the stated rate of a link comes from.
AGAINST = {
    "tested": "what nccl-tests measured",
    "declared": "the declared link",
    "predicted": "what NCCL's TUNING table predicts",
    "logged": "the logged link",
}


def reached(timeline: Timeline, chosen: pl.Expr, *, shared: bool = False) -> pl.DataFrame:
    """Pooled busbw of each (group, op) over chosen messages, with its exposed transfer and the stated rate of its link.

    ``chosen`` may ask for ``bytes`` and for ``ideal_ns``, the time that the message needs at that rate (null without one). With ``shared``
    transfers that run at the same time on one rank and layer count together: each has but a part of the link.
    """
    stated = timeline.rooflines.filter(pl.col("origin") != "reached").select("group", "roofline_gb_per_s", "origin")
    found = timeline.instances.filter(pl.col("busbw_gb_per_s").is_not_null()).join(stated, on="group", how="left")
    ideal = pl.col("busbw_gb_per_s") * pl.col("transfer_ns") / pl.col("roofline_gb_per_s")
    found = found.with_columns(ideal_ns=ideal).filter(chosen)
    if shared:
        found = found.join(_at_once(timeline), on="instance", how="left").with_columns(
            pl.col("busbw_gb_per_s") * pl.col("at_once").fill_null(1.0)
        )
    exposed = pooled_exposed(timeline).group_by("instance").agg(exposed_ns=pl.col("exposed_transfer_ns").sum())
    return (
        found.join(exposed, on="instance", how="left")
        .group_by("group", *KIND)
        .agg(
            count=pl.len(),
            bytes=pl.col("bytes").median().cast(pl.Int64),
            ideal_ns=pl.col("ideal_ns").median(),
            exposed_ns=pl.col("exposed_ns").sum(),
            roofline_gb_per_s=pl.col("roofline_gb_per_s").first(),
            origin=pl.col("origin").first(),
            busbw=(pl.col("busbw_gb_per_s") * pl.col("transfer_ns")).sum() / pl.col("transfer_ns").sum(),
        )
        .sort("group", "op")
    )


def _at_once(timeline: Timeline) -> pl.DataFrame:
    """How many transfers are under way on a rank's links of one layer while an instance moves, itself included; the mean over its ranks."""
    moving = timeline.activities.filter(pl.col("instance").is_not_null() & (pl.col("transfer_start_ns") < pl.col("end_ns")))
    parts = []
    for (_, _), rows in moving.group_by("rank", "layer", maintain_order=True):
        starts, ends = rows["transfer_start_ns"].to_numpy(), rows["end_ns"].to_numpy()
        begun, over = np.sort(starts), np.sort(ends)
        origin = int(begun[0])
        sums = [np.concatenate(([0], np.cumsum(edge - origin))) for edge in (begun, over)]

        def spent(at: Int64s, begun: Int64s = begun, over: Int64s = over, sums: list[Int64s] = sums, origin: int = origin) -> Int64s:
            """Time that all transfers together have taken up to an instant."""
            counts = [np.searchsorted(edge, at) for edge in (begun, over)]
            return (counts[0] * (at - origin) - sums[0][counts[0]]) - (counts[1] * (at - origin) - sums[1][counts[1]])

        at_once = (spent(ends) - spent(starts)) / (ends - starts)
        parts.append(rows.select("instance").with_columns(pl.Series("at_once", at_once)))
    if not parts:
        return pl.DataFrame(schema={"instance": pl.Int64, "at_once": pl.Float64})
    return pl.concat(parts).group_by("instance").agg(pl.col("at_once").mean())


def name_groups(timeline: Timeline, rows: pl.DataFrame) -> str:
    """Rows of one kind as text: ``between ranks 0 and 4``, ``in group 0-3 (dp)`` or ``in 8 groups of 4 ranks``."""
    groups = rows["group"].unique().sort().to_list()
    if len(groups) > 1:
        return f"in {len(groups)} groups of {rows['members'][0]} ranks"
    about = timeline.groups.filter(pl.col("group") == groups[0])["description"].drop_nulls()
    word = "between" if groups[0].count(",") == 1 else "in"
    return f"{word} {name_group(groups[0], about[0] if len(about) else None)}"
