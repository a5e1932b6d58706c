"""Who arrived when: one row per collective instance, made from one row per member."""

from __future__ import annotations

from typing import Any

import polars as pl

from netlab.units import ms_from_ns

__all__ = ["QUALITY", "group_list", "instance_rows", "instances", "p2p_rows"]

#: From best to poorest.
QUALITY = ("measured", "bounded", "unknown")


def group_list(group: str) -> list[int]:
    """Members of a group's text.

    >>> group_list("0,1,12")
    [0, 1, 12]
    """
    return [int(rank) for rank in group.split(",") if rank]


def instances(collectives: pl.DataFrame) -> pl.DataFrame:
    """One row per instance of ``COLLECTIVES``: arrivals, transfer, waits.

    Returns
    -------
    Sorted by ``instance``, with its names (``group``, ``group_name``, ``seq``, ``op``, ``dtype``, ``bytes``, ``window``, ``step``,
    ``members``, ``seen``, ``layer``, ``error_ns``), ``split`` (poorest of its members) and

    ``first_start_ns``, ``last_start_ns``, ``last_end_ns``
        First and last arrival and last end among the members that were seen.
    ``second_start_ns``
        Arrival of the member before the last; null with one member.
    ``first_rank``, ``last_rank``
        Null unless measured, and where two members arrive within the clock error of each other: nobody can be called last there.
    ``late_ranks``, ``late_rank``
        Members that arrive within the clock error of the last, and the last of them (lowest rank of a tie), whose delay stands for
        theirs; null unless measured, and where all arrive together.
    ``transfer_ns``
        Last end minus last arrival; where bounded, transfer is at most this; null where unknown.
    ``wait_ns``
        Sum of the members' waits; null where unknown.
    ``excess_ns``, ``lateness_ns``
        How much later the last member arrives than the one before it, and than the median of those in the earlier half of the time
        between first and last arrival: a group that is held up together is not compared with itself.

    Examples
    --------
    >>> from netlab.schema.timeline import COLLECTIVES
    >>> rows = COLLECTIVES.conform(pl.DataFrame({
    ...     "instance": [0, 0], "group": ["0,1"] * 2, "op": ["all_reduce"] * 2, "rank": [0, 1], "activity": [5, 6], "window": [0, 0],
    ...     "start_ns": [8, 16], "end_ns": [18, 18], "wait_ns": [8, 0], "transfer_ns": [2, 2], "split": ["measured"] * 2,
    ...     "layer": ["intra_node"] * 2, "members": [2, 2], "seen": [2, 2]}))
    >>> instances(rows).select("first_rank", "last_rank", "transfer_ns", "wait_ns", "excess_ns").row(0)
    (0, 1, 2, 8, 8)
    """
    quality = pl.col("split").replace_strict({name: place for place, name in enumerate(QUALITY)}, return_dtype=pl.Int8)
    by_start, since = pl.col("start_ns").sort(), pl.col("start_ns") - pl.col("start_ns").min()
    rows = (
        collectives.lazy()
        .group_by("instance")
        .agg(
            pl.col("group", "group_name", "seq", "op", "dtype", "layer", "members", "seen", "error_ns").first(),
            pl.col("bytes").max(),
            pl.col("window").min(),
            pl.col("step").min(),
            quality=quality.max(),
            first_start_ns=pl.col("start_ns").min(),
            next_start_ns=by_start.get(1, null_on_oob=True),
            second_start_ns=by_start.get(-2, null_on_oob=True),
            last_start_ns=pl.col("start_ns").max(),
            last_end_ns=pl.col("end_ns").max(),
            first_rank=pl.col("rank").sort_by("start_ns", "rank").first(),
            last_rank=pl.col("rank").sort_by("start_ns", "rank").last(),
            late_rank=pl.col("rank").sort_by(-pl.col("start_ns"), "rank").first(),
            late_ranks=pl.col("rank").filter(pl.col("start_ns") >= pl.col("start_ns").max() - pl.col("error_ns").fill_null(0)).sort(),
            waits=pl.col("wait_ns").sum(),
            # Relative to the first arrival, because a median is a float and an instant of today has more digits than one.
            early_ns=since.filter(2 * since <= since.max()).median(),
        )
        .sort("instance")
        .with_columns(split=pl.col("quality").replace_strict(dict(enumerate(QUALITY)), return_dtype=pl.String))
        .collect()
    )
    measured, unknown = pl.col("split") == "measured", pl.col("split") == "unknown"
    error = pl.col("error_ns").fill_null(0)
    excess = pl.col("last_start_ns") - pl.col("second_start_ns")
    apart = pl.col("last_start_ns") - pl.col("first_start_ns") > error
    return rows.with_columns(
        first_rank=pl.when(measured & (pl.col("next_start_ns") - pl.col("first_start_ns") > error)).then("first_rank"),
        last_rank=pl.when(measured & (excess > error)).then("last_rank"),
        late_rank=pl.when(measured & apart).then("late_rank"),
        late_ranks=pl.when(measured & apart).then("late_ranks"),
        excess_ns=pl.when(measured).then(excess),
        lateness_ns=pl.when(measured).then((pl.col("last_start_ns") - pl.col("first_start_ns") - pl.col("early_ns")).cast(pl.Int64)),
        transfer_ns=pl.when(~unknown).then((pl.col("last_end_ns") - pl.col("last_start_ns")).clip(lower_bound=0)),
        wait_ns=pl.when(~unknown).then("waits"),
    ).drop("quality", "next_start_ns", "waits", "early_ns")


def instance_rows(found: pl.DataFrame, collectives: pl.DataFrame, *, limit: int = 200, origin_ns: int = 0) -> list[dict[str, Any]]:
    """The worst instances by transfer + wait as rows of ``netlab.check/1``, worst first.

    Parameters
    ----------
    found
        Result of `instances`.
    collectives
        ``COLLECTIVES``, for the waits of each member.
    limit
        How many rows at most.
    origin_ns
        Instant from which ``start_ms`` counts.
    """
    cost = pl.col("transfer_ns").fill_null(pl.col("last_end_ns") - pl.col("first_start_ns")) + pl.col("wait_ns").fill_null(0)
    worst = found.with_columns(cost=cost).sort("cost", "instance", descending=[True, False]).head(limit)
    members = collectives.join(worst.select("instance"), on="instance", how="semi").sort("instance", "rank")
    waits: dict[int, dict[str, float | None]] = {}
    for instance, rank, wait in members.select("instance", "rank", "wait_ns").iter_rows():
        waits.setdefault(instance, {})[str(rank)] = ms_from_ns(wait)
    return [
        {
            "group": group_list(row["group"]),
            "name": row["group_name"],
            "seq": row["seq"],
            "op": row["op"],
            "bytes": row["bytes"],
            "step": row["step"],
            "first_rank": row["first_rank"],
            "last_rank": row["last_rank"],
            "start_ms": ms_from_ns(row["first_start_ns"] - origin_ns),
            "transfer_ms": ms_from_ns(row["transfer_ns"]),
            "waits_ms": waits.get(row["instance"], {}),
            "split": row["split"],
        }
        for row in worst.iter_rows(named=True)
    ]


def p2p_rows(p2p: pl.DataFrame, *, limit: int = 1000) -> list[dict[str, Any]]:
    """Point-to-point messages as rows of ``netlab.check/1``: the worst by transfer + waits, in order of time."""
    cost = pl.sum_horizontal("transfer_ns", "wait_src_ns", "wait_dst_ns")
    worst = (
        p2p.with_columns(cost=cost)
        .sort("cost", "instance", descending=[True, False])
        .head(limit)
        .sort("start_ns", "instance", "src", "dst")
    )
    return [
        {
            "src": row["src"],
            "dst": row["dst"],
            "bytes": row["bytes"],
            "step": row["step"],
            "transfer_ms": ms_from_ns(row["transfer_ns"]),
            "wait_src_ms": ms_from_ns(row["wait_src_ns"]),
            "wait_dst_ms": ms_from_ns(row["wait_dst_ns"]),
            "split": row["split"],
        }
        for row in worst.iter_rows(named=True)
    ]
