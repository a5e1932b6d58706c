"""Who waits for whom, and which pairs of ranks are slow."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.theme import ramp, titled
from netlab.units import NS_PER_MS, format_ms, format_percent, plural

__all__ = ["pairs_frame", "rank_pairs", "waiting_frame", "waiting_matrix"]

_RANKS_SHOWN = 48


def waiting_frame(collectives: pl.DataFrame, steps: int = 1) -> pl.DataFrame:
    """Time that each rank waits for each other one, because that one came last.

    Parameters
    ----------
    collectives
        ``COLLECTIVES``: only instances that were measured count, and only waits beyond their clock error.
    steps
        Number of steps, to give means per step.

    Returns
    -------
    Columns ``rank``, ``last_rank``, ``wait_ms`` (per step), ``count`` (instances); the longest first.

    Examples
    --------
    >>> rows = {"instance": [1, 1], "rank": [0, 1], "start_ns": [0, 8_000_000], "wait_ns": [8_000_000, 0], "split": ["measured"] * 2,
    ...         "error_ns": [0, 0]}
    >>> waiting_frame(pl.DataFrame(rows)).rows()
    [(0, 1, 8.0, 1)]
    """
    measured = collectives.filter((pl.col("split") == "measured") & pl.col("wait_ns").is_not_null())
    last = measured.group_by("instance").agg(pl.col("rank").sort_by("start_ns", "rank").last().alias("last_rank"))
    waits = measured.join(last, on="instance").filter(
        (pl.col("rank") != pl.col("last_rank")) & (pl.col("wait_ns") > pl.col("error_ns").fill_null(0))
    )
    return (
        waits.group_by("rank", "last_rank")
        .agg((pl.col("wait_ns").sum() / NS_PER_MS / max(steps, 1)).alias("wait_ms"), pl.len().alias("count"))
        .sort("wait_ms", "rank", "last_rank", descending=[True, False, False])
    )


def waiting_matrix(waits: pl.DataFrame, ranks: list[int], per: str = "step") -> Any:
    """Matrix of who waits (row) for whom (column).

    Parameters
    ----------
    waits
        Result of ``waiting_frame``.
    ranks
        All ranks that were seen; of more than 48 those with the most waiting are shown.
    per
        What the times are per: ``step`` or ``capture``.
    """
    rows, columns = _busiest(waits, "rank", ranks), _busiest(waits, "last_rank", ranks)
    shown = waits.filter(pl.col("rank").is_in(rows) & pl.col("last_rank").is_in(columns))
    size = max(9, min(34, 520 // max(len(rows), len(columns), 1)))
    most = max([*shown["wait_ms"].to_list(), 1e-9])
    base = alt.Chart(alt.InlineData(values=records(shown))).encode(
        x=alt.X(
            "last_rank:O",
            title="rank that came last",
            scale=alt.Scale(domain=columns),
            axis=alt.Axis(orient="top", labelAngle=0, grid=False),
        ),
        y=alt.Y("rank:O", title="rank that waits", scale=alt.Scale(domain=rows), axis=alt.Axis(grid=False)),
    )
    chart = base.mark_rect(stroke=None, cornerRadius=2).encode(
        color=alt.Color(
            "wait_ms:Q",
            title=f"ms per {per}",
            scale=alt.Scale(domain=[0, most], range=ramp("wait")),
            legend=alt.Legend(orient="right", direction="vertical", gradientLength=110, format=".2~g"),
        ),
        tooltip=[
            alt.Tooltip("rank:O", title="waits"),
            alt.Tooltip("last_rank:O", title="for rank"),
            alt.Tooltip("wait_ms:Q", title=f"ms per {per}", format=".3~g"),
            alt.Tooltip("count:Q", title="collectives"),
        ],
    )
    wide = max(size, min(40, 420 // max(len(columns), 1)))
    chart = chart.properties(width=alt.Step(wide), height=alt.Step(size))
    subtitle = ["A strong column is a rank that makes the others wait; a chequered matrix is noise. Only waits beyond the clock error."]
    if len(rows) < len(ranks):
        subtitle.append(f"Of {plural(len(ranks), 'rank')}, those with the most waiting.")
    return titled(chart, "who-waits-for-whom", _waiting_title(waits, per), subtitle, f"Matrix of {len(rows)} by {len(columns)} ranks.")


def _busiest(waits: pl.DataFrame, column: str, ranks: list[int]) -> list[int]:
    if len(ranks) <= _RANKS_SHOWN:
        return sorted(ranks)
    busy = waits.group_by(column).agg(pl.col("wait_ms").sum()).sort("wait_ms", column, descending=[True, False])[column].to_list()
    return sorted(busy[:_RANKS_SHOWN])


def _waiting_title(waits: pl.DataFrame, per: str) -> str:
    if not waits.height:
        return "No rank waits for another beyond the clock error"
    by_last = waits.group_by("last_rank").agg(pl.col("wait_ms").sum(), pl.col("rank").n_unique().alias("waiters"))
    row = by_last.sort("wait_ms", "last_rank", descending=[True, False]).row(0, named=True)
    share = row["wait_ms"] / float(by_last["wait_ms"].sum())
    mean = row["wait_ms"] / row["waiters"]
    if share >= 0.4:
        on = plural(row["waiters"], "rank")
        return f"{format_percent(share, 0)} of all waiting is for rank {row['last_rank']}: {format_ms(mean)} a {per} on {on}"
    return f"No single rank is to blame for the waiting; rank {row['last_rank']} causes {format_percent(share, 0)} of it"


def pairs_frame(p2p: pl.DataFrame) -> pl.DataFrame:
    """Messages between each pair of ranks.

    Parameters
    ----------
    p2p
        ``P2P``.

    Returns
    -------
    Columns ``src``, ``dst``, ``count``, ``bytes`` (mean), ``transfer_ms`` (median), ``gb_per_s`` (bytes over transfer time; null where
    either is unknown), ``wait_src_ms`` and ``wait_dst_ms`` (means); the slowest first.
    """
    known = pl.col("bytes").is_not_null() & (pl.col("transfer_ns") > 0)
    pairs = p2p.group_by("src", "dst").agg(
        pl.len().alias("count"),
        pl.col("bytes").mean().cast(pl.Int64),
        (pl.col("transfer_ns").median() / NS_PER_MS).alias("transfer_ms"),
        (pl.col("bytes").filter(known).sum() / pl.col("transfer_ns").filter(known).sum()).alias("gb_per_s"),
        (pl.col("wait_src_ns").mean() / NS_PER_MS).alias("wait_src_ms"),
        (pl.col("wait_dst_ns").mean() / NS_PER_MS).alias("wait_dst_ms"),
    )
    rate = pl.when(pl.col("gb_per_s").is_finite()).then(pl.col("gb_per_s"))
    return pairs.with_columns(rate.alias("gb_per_s")).sort(
        "gb_per_s", "transfer_ms", "src", "dst", descending=[False, True, False, False], nulls_last=True
    )


def rank_pairs(pairs: pl.DataFrame) -> Any:
    """Heat map of the bandwidth between pairs of ranks, senders in rows.

    Parameters
    ----------
    pairs
        Result of ``pairs_frame``; of more than 48 ranks, the pairs that are slowest.
    """
    rated = pairs.filter(pl.col("gb_per_s").is_not_null())
    rate = rated.height > 0
    column, unit = ("gb_per_s", "GB/s") if rate else ("transfer_ms", "ms")
    shown = rated if rate else pairs.filter(pl.col("transfer_ms").is_not_null())
    ranks = sorted({*shown["src"].to_list(), *shown["dst"].to_list()})
    if len(ranks) > _RANKS_SHOWN:
        worst = list(dict.fromkeys(rank for pair in shown.select("src", "dst").rows() for rank in pair))
        ranks = sorted(worst[:_RANKS_SHOWN])
        shown = shown.filter(pl.col("src").is_in(ranks) & pl.col("dst").is_in(ranks))
    size = max(9, min(34, 520 // max(len(ranks), 1)))
    colours = ramp("neutral")[::-1] if rate else ramp("neutral")
    chart = (
        alt.Chart(alt.InlineData(values=records(shown)))
        .mark_rect(cornerRadius=2)
        .encode(
            x=alt.X("dst:O", title="receives", scale=alt.Scale(domain=ranks), axis=alt.Axis(orient="top", labelAngle=0, grid=False)),
            y=alt.Y("src:O", title="sends", scale=alt.Scale(domain=ranks), axis=alt.Axis(grid=False)),
            color=alt.Color(
                f"{column}:Q",
                title=unit,
                scale=alt.Scale(range=colours, zero=False),
                legend=alt.Legend(orient="right", direction="vertical", gradientLength=110, format=".2~g"),
            ),
            tooltip=[
                alt.Tooltip("src:O", title="from rank"),
                alt.Tooltip("dst:O", title="to rank"),
                alt.Tooltip("count:Q", title="messages"),
                alt.Tooltip("gb_per_s:Q", title="GB/s", format=".3~g"),
                alt.Tooltip("transfer_ms:Q", title="median transfer (ms)", format=".3~g"),
                alt.Tooltip("wait_dst_ms:Q", title="receiver waits (ms)", format=".3~g"),
            ],
        )
        .properties(width=alt.Step(size), height=alt.Step(size))
    )
    subtitle = "Point-to-point messages. Strong cells are slow pairs; a strong row or column is one slow rank, a strong block two hosts."
    return titled(chart, "rank-pairs", _pairs_title(shown, rate), subtitle, f"Matrix of {plural(len(ranks), 'rank')}.")


def _pairs_title(shown: pl.DataFrame, rate: bool) -> str:
    if not shown.height:
        return "No message between two ranks has a known time"
    if not rate:
        row = shown.sort("transfer_ms", descending=True).row(0, named=True)
        return f"The longest messages go from rank {row['src']} to rank {row['dst']}: {format_ms(row['transfer_ms'])}"
    row, median = shown.row(0, named=True), float(shown["gb_per_s"].median() or 0.0)  # type: ignore[arg-type]
    if shown.height == 1 or row["gb_per_s"] > 0.8 * median:
        return f"All pairs of ranks are alike: the slowest reaches {row['gb_per_s']:.3g} GB/s, the median {median:.3g}"
    return f"Rank {row['src']} to rank {row['dst']} is the slowest pair: {row['gb_per_s']:.3g} GB/s against a median of {median:.3g}"
