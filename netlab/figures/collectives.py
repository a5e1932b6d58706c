"""Collectives: what bandwidth they reach against the link, and how long their slowest instances take."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import members_text, records
from netlab.figures.theme import INK, LAYER_COLOURS, PART_COLOURS, RULE, WIDTH, titled
from netlab.units import NS_PER_MS, format_bytes, format_ms, format_percent, plural

__all__ = ["bus_bandwidth", "bus_bandwidth_frame", "tails_frame", "transfer_tails"]

_TAILS_SHOWN = 14
_POINTS_SHOWN = 400
_ROOFLINES_SHOWN = 4


def bus_bandwidth_frame(collectives: pl.DataFrame, by_group: pl.DataFrame) -> pl.DataFrame:
    """Collectives with a bus bandwidth, beside the roofline of their group.

    Parameters
    ----------
    collectives
        ``verdict.collectives`` as a frame.
    by_group
        ``verdict.by_group`` as a frame: gives layer and roofline.

    Returns
    -------
    Columns ``members``, ``op``, ``dtype``, ``bytes``, ``count``, ``busbw_gb_per_s``, ``algbw_gb_per_s``, ``roofline_gb_per_s``,
    ``efficiency``, ``layer``, ``transfer_ms_median``; the largest total transfer first.
    """
    text = pl.col("group").cast(pl.List(pl.String)).list.join(",")
    rooflines = by_group.select(text.alias("key"), "layer", pl.col("roofline_gb_per_s").cast(pl.Float64)).unique("key", keep="first")
    joined = collectives.with_columns(text.alias("key")).join(rooflines, on="key", how="left")
    members = joined["group"].to_list()
    frame = joined.with_columns(
        pl.Series("members", [members_text(group) for group in members], dtype=pl.String),
        (pl.col("busbw_gb_per_s") / pl.col("roofline_gb_per_s")).alias("efficiency"),
        pl.col("layer").fill_null("unplaced"),
        (pl.col("transfer_ms_median") * pl.col("count")).alias("total"),
    )
    names = ("members", "op", "dtype", "bytes", "count", "transfer_ms_median", "transfer_ms_p95", "wait_ms_mean")
    more = ("algbw_gb_per_s", "busbw_gb_per_s", "roofline_gb_per_s", "efficiency", "layer", "split")
    return frame.sort("total", descending=True, nulls_last=True).select(*names, *more)


def bus_bandwidth(frame: pl.DataFrame) -> Any:
    """Bus bandwidth of each kind of collective over its size, with the roofline of each layer as a labelled rule.

    Parameters
    ----------
    frame
        Result of ``bus_bandwidth_frame``; rows without bandwidth or size are not drawn.
    """
    shown = frame.filter(pl.col("busbw_gb_per_s").is_not_null() & (pl.col("bytes") > 0)).head(_POINTS_SHOWN)
    shown = shown.with_columns(pl.Series("size", [format_bytes(value) for value in shown["bytes"].to_list()], dtype=pl.String))
    layers = [layer for layer in LAYER_COLOURS if layer in set(shown["layer"])]
    ops = sorted(shown["op"].unique().to_list())
    # Groups of one layer may have different rooflines: eight GPUs of a host share eight NICs, a pair across hosts has one.
    roof = (
        shown.filter(pl.col("roofline_gb_per_s").is_not_null())
        .select("layer", "roofline_gb_per_s")
        .unique(maintain_order=True)
        .head(_ROOFLINES_SHOWN)
    )
    top = max([*shown["busbw_gb_per_s"].to_list(), *roof["roofline_gb_per_s"].to_list(), 0.0])
    rates = [*roof["roofline_gb_per_s"].to_list(), top]
    # Rates inside and between hosts differ by a hundred: on a linear axis the slower layer is a line on the ground.
    wide = top > 8 * min(rates)
    least = max(min(shown["busbw_gb_per_s"].to_list()), min(rates) / 1_000)
    low, high = (least / 1.6, top * 1.6) if wide else (0.0, top * 1.08)
    scale = alt.Scale(type="log", clamp=True, domain=[low, high], nice=False) if wide else alt.Scale(domain=[low, high], nice=False)
    ticks: dict[str, Any] = {"values": [10.0**power for power in range(-9, 7) if low <= 10.0**power <= high]} if wide else {"tickCount": 6}
    title = "bus bandwidth (GB/s, logarithmic)" if wide else "bus bandwidth (GB/s)"
    y = alt.Y("busbw_gb_per_s:Q", title=title, scale=scale, axis=alt.Axis(format=",~g", **ticks))
    colour = alt.Color("layer:N", title="layer", scale=alt.Scale(domain=layers, range=[LAYER_COLOURS[layer] for layer in layers]))
    size_axis = alt.Axis(format="~s", grid=False, tickCount=6, labelExpr="replace(format(datum.value, '~s'), 'G', ' G') + 'B'")
    points = (
        alt.Chart(alt.InlineData(values=records(shown)))
        .mark_point(filled=True, size=130, opacity=0.9)
        .encode(
            x=alt.X(
                "bytes:Q", title="message size (bytes, logarithmic)", scale=alt.Scale(type="log", padding=18, nice=False), axis=size_axis
            ),
            y=y,
            color=colour,
            shape=alt.Shape("op:N", title="operation", scale=alt.Scale(domain=ops), legend=alt.Legend(symbolFillColor=INK)),
            tooltip=[
                alt.Tooltip("op:N", title="operation"),
                alt.Tooltip("size:N", title="size"),
                alt.Tooltip("members:N", title="ranks"),
                alt.Tooltip("count:Q", title="instances"),
                alt.Tooltip("busbw_gb_per_s:Q", title="bus bandwidth (GB/s)", format=".3~g"),
                alt.Tooltip("roofline_gb_per_s:Q", title="roofline (GB/s)", format=".3~g"),
                alt.Tooltip("efficiency:Q", title="efficiency", format=".0%"),
                alt.Tooltip("transfer_ms_median:Q", title="median transfer (ms)", format=".3~g"),
            ],
        )
    )
    parts = [points]
    if roof.height:
        texts = [f"roofline {layer.replace('_', ' ')}: {rate:.3g} GB/s" for layer, rate in roof.rows()]
        base = alt.Chart(
            alt.InlineData(
                values=records(
                    roof.with_columns(
                        pl.Series("text", texts), pl.col("roofline_gb_per_s").rank("dense").cast(pl.Int64).mod(2).alias("side")
                    )
                )
            )
        )
        at = alt.Y("roofline_gb_per_s:Q", scale=scale)
        parts.append(base.mark_rule(strokeDash=[6, 4], strokeWidth=1.6).encode(y=at, color=colour))
        # Labels of neighbouring lines take turns, so that they do not lie on each other.
        for side, align, place in ((1, "right", WIDTH), (0, "left", WIDTH // 4)):
            text = base.transform_filter(f"datum.side == {side}").mark_text(align=align, baseline="bottom", dy=-4, fontWeight=600)
            parts.append(text.encode(y=at, x=alt.value(place), text="text:N", color=colour))
    chart = alt.layer(*parts).properties(width=WIDTH, height=250)
    subtitle = "Data per second once the last member has arrived. Dashed: what the link can do, for all that share it."
    return titled(
        chart, "bus-bandwidth", _bandwidth_title(shown), subtitle, f"{plural(shown.height, 'point')}, one per operation, size and group."
    )


def _bandwidth_title(shown: pl.DataFrame) -> str:
    rated = shown.filter(pl.col("efficiency").is_not_null())
    if rated.height:
        # The rows come with the largest total transfer first: that one is worth a title.
        row = rated.row(0, named=True)
        return (
            f"{row['op']} of {format_bytes(row['bytes'])} reaches {row['busbw_gb_per_s']:.3g} GB/s, "
            f"{format_percent(row['efficiency'], 0)} of what its link can do"
        )
    if shown.height:
        row = shown.row(0, named=True)
        return f"{row['op']} of {format_bytes(row['bytes'])} reaches {row['busbw_gb_per_s']:.3g} GB/s; the rate of its link is not known"
    return "No collective has a bandwidth"


def tails_frame(collectives: pl.DataFrame) -> pl.DataFrame:
    """Spread of the transfer times of each kind of collective.

    Parameters
    ----------
    collectives
        ``COLLECTIVES``: one row per (instance, member). Instances whose split is unknown are left out.

    Returns
    -------
    Columns ``members``, ``op``, ``bytes``, ``count``, ``median_ms``, ``p95_ms``, ``max_ms``, ``tail`` (p95 over median), ``kind`` (label);
    at most 14 kinds, the largest total transfer first.
    """
    known = collectives.filter(pl.col("transfer_ns").is_not_null() & (pl.col("op") != "barrier"))
    per_instance = known.group_by("instance", "group", "op", "bytes").agg((pl.col("end_ns").max() - pl.col("start_ns").max()).alias("ns"))
    ms = pl.col("ns").clip(0) / NS_PER_MS
    spread = (
        per_instance.group_by("group", "op", "bytes")
        .agg(
            pl.len().alias("count"),
            ms.median().alias("median_ms"),
            ms.quantile(0.95, "nearest").alias("p95_ms"),
            ms.max().alias("max_ms"),
            ms.sum().alias("total_ms"),
        )
        .sort("total_ms", "group", "op", "bytes", descending=[True, False, False, False], nulls_last=True)
        .head(_TAILS_SHOWN)
    )
    kinds = [
        f"{op} {format_bytes(size)} · ranks {members_text(group, 3)}" for op, size, group in spread.select("op", "bytes", "group").rows()
    ]
    members = [members_text(group) for group in spread["group"].to_list()]
    return spread.with_columns(
        pl.Series("kind", kinds, dtype=pl.String),
        pl.Series("members", members, dtype=pl.String),
        (pl.col("p95_ms") / pl.col("median_ms")).alias("tail"),
    ).select("kind", "members", "op", "bytes", "count", "median_ms", "p95_ms", "max_ms", "tail")


def transfer_tails(tails: pl.DataFrame) -> Any:
    """Median, 95th percentile and maximum of the transfer time of each kind of collective.

    Parameters
    ----------
    tails
        Result of ``tails_frame``.
    """
    kinds = tails["kind"].to_list()
    base = alt.Chart(alt.InlineData(values=records(tails)))
    y = alt.Y("kind:N", title=None, sort=kinds, axis=alt.Axis(labelColor=INK, labelLimit=320))
    axis = alt.Axis(format=",~f", tickCount=7)
    tooltip = [
        alt.Tooltip("kind:N", title="collective"),
        alt.Tooltip("count:Q", title="instances"),
        alt.Tooltip("median_ms:Q", title="median (ms)", format=".3~g"),
        alt.Tooltip("p95_ms:Q", title="95th percentile (ms)", format=".3~g"),
        alt.Tooltip("max_ms:Q", title="longest (ms)", format=".3~g"),
    ]
    red = PART_COLOURS["exposed transfer"]
    chart = alt.layer(
        base.mark_rule(strokeWidth=2, opacity=0.5, color=red).encode(
            x=alt.X("median_ms:Q", title="transfer time (ms)", axis=axis), x2="max_ms:Q", y=y
        ),
        base.mark_bar(height=9, opacity=0.55, color=red).encode(x="median_ms:Q", x2="p95_ms:Q", y=y, tooltip=tooltip),
        base.mark_tick(thickness=3, size=17, color=INK).encode(x="median_ms:Q", y=y, tooltip=tooltip),
        base.mark_point(filled=True, size=45, color=RULE).encode(x="max_ms:Q", y=y, tooltip=tooltip),
    ).properties(width=WIDTH - 230, height=alt.Step(26))
    subtitle = "Upright line: median. Bar: up to the 95th percentile. Dot: the longest. Time from the last arrival to the last end."
    return titled(chart, "transfer-tails", _tail_title(tails), subtitle, f"Ranges of {plural(tails.height, 'kind')} of collectives.")


def _tail_title(tails: pl.DataFrame) -> str:
    several = tails.filter((pl.col("count") >= 5) & pl.col("tail").is_finite()).sort("tail", descending=True)
    if several.height and several["tail"][0] >= 1.2:
        row = several.row(0, named=True)
        return f"The slowest twentieth of {row['op']} {format_bytes(row['bytes'])} takes {row['tail']:.1f} times its median or longer"
    if tails.height:
        row = tails.row(0, named=True)
        return f"{row['op']} {format_bytes(row['bytes'])} takes {format_ms(row['median_ms'])} to move, with no long tail"
    return "No transfer time is known"
