"""What NCCL logs tell of NICs and errors: which NIC carries how many connections, and what went wrong when."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.attribute.nccl import listed_nics
from netlab.figures.frames import records
from netlab.figures.theme import INK, MUTED, WIDTH, titled
from netlab.units import NS_PER_S, plural

__all__ = ["error_timeline", "error_timeline_frame", "nic_use", "nic_use_frame"]

_NICS_SHOWN = 32
_LANES_SHOWN = 24
_SIDE_COLOURS = {"sends": "#3b6fa0", "receives": "#8cbfe6", "either": "#6f7fb0"}
_LEVELS = ["WARN", "ERROR", "ABORT"]
#: Colours of the most frequent codes; the rest share the last one.
_CODE_COLOURS = ("#d1495b", "#edae49", "#3b6fa0", "#9c5f8f", "#2f8f7f", "#7d8894")


def nic_use_frame(connections: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Connections to other hosts of each NIC, also of those that were found and carry none.

    Parameters
    ----------
    connections, events
        ``CONNECTIONS`` and ``NCCL_EVENTS`` of the logs.

    Returns
    -------
    ``host``, ``nic``, ``network``, ``sends``, ``receives``, ``either`` (connections whose side is not printed), ``gdr_share``, ``total``,
    ``uneven`` (largest minus smallest total of the host), the most uneven host first.
    """
    net = connections.filter((pl.col("transport") == "NET") & pl.col("nic").is_not_null() & pl.col("host").is_not_null())
    used = net.group_by("host", "nic").agg(
        pl.col("network").drop_nulls().mode().sort().first(),
        sends=(pl.col("side") == "send").sum(),
        receives=(pl.col("side") == "receive").sum(),
        either=pl.col("side").is_null().sum(),
        gdr_share=pl.col("gdr").mean(),
    )
    # A host without any connection over RDMA uses sockets: its idle NICs are told by a finding.
    listed = listed_nics(events).join(used.select("host").unique(), on="host", how="semi")
    # A merged NIC and its parts are one piece of hardware: if one of them carries connections, the other is not idle.
    named = set(used.select("host", "nic").iter_rows())
    busy = {(host, part) for host, nic in named for part in nic.split("+")}
    kept = [
        (host, nic) in named or not any((host, part) in busy for part in nic.split("+"))
        for host, nic in listed.select("host", "nic").iter_rows()
    ]
    listed = listed.filter(pl.Series(kept, dtype=pl.Boolean))
    frame = used.join(listed, on=["host", "nic"], how="full", coalesce=True).with_columns(
        pl.col("sends", "receives", "either").fill_null(0).cast(pl.Int64), pl.coalesce("network", "link").alias("network")
    )
    frame = frame.with_columns(total=pl.col("sends") + pl.col("receives") + pl.col("either"))
    frame = frame.with_columns(uneven=(pl.col("total").max() - pl.col("total").min()).over("host"))
    columns = ["host", "nic", "network", "sends", "receives", "either", "gdr_share", "total", "uneven"]
    return frame.select(columns).sort("uneven", "host", "nic", descending=[True, False, False])


def nic_use(frame: pl.DataFrame) -> Any:
    """Bars of connections per NIC.

    Parameters
    ----------
    frame
        Result of ``nic_use_frame``; the first 32 NICs are drawn.
    """
    shown = frame.head(_NICS_SHOWN).with_columns(pl.format("{}  {}", "host", "nic").alias("name"))
    names = shown["name"].to_list()
    long = shown.unpivot(["sends", "receives", "either"], index=["name", "host", "nic", "network", "gdr_share"], variable_name="side")
    long = long.filter(pl.col("value") > 0)
    y = alt.Y("name:N", title=None, sort=names, scale=alt.Scale(domain=names), axis=alt.Axis(labelColor=INK, labelLimit=230))
    present = [side for side in _SIDE_COLOURS if side in set(long["side"])]
    most = int(shown["total"].max() or 0)  # type: ignore[arg-type]
    axis = alt.Axis(format="d", values=list(range(most + 1))) if most <= 10 else alt.Axis(format="d")
    bars = (
        alt.Chart(alt.InlineData(values=records(long)))
        .mark_bar(height={"band": 0.62})
        .encode(
            x=alt.X("value:Q", title="connections to other hosts", axis=axis),
            y=y,
            color=alt.Color("side:N", title=None, scale=alt.Scale(domain=present, range=[_SIDE_COLOURS[side] for side in present])),
            order=alt.Order("side:N", sort="descending"),
            tooltip=[
                alt.Tooltip("host:N", title="host"),
                alt.Tooltip("nic:N", title="NIC"),
                alt.Tooltip("network:N", title="network"),
                alt.Tooltip("side:N", title="it"),
                alt.Tooltip("value:Q", title="connections"),
                alt.Tooltip("gdr_share:Q", title="with GPUDirect", format=".0%"),
            ],
        )
    )
    idle = shown.filter(pl.col("total") == 0).select("name")
    told = (
        alt.Chart(alt.InlineData(values=records(idle)))
        .mark_text(align="left", dx=5, fontSize=11.5, color=MUTED)
        .encode(x=alt.datum(0), y=y, text=alt.value("carries none"))
    )
    chart = alt.layer(bars, told).properties(width=WIDTH - 250, height=alt.Step(21))
    subtitle = ["Connections that NCCL logs show, per NIC of a host. A NIC without a bar was found and carries none."]
    if frame.height > shown.height:
        subtitle.append(f"{plural(frame.height - shown.height, 'further NIC')}, on hosts that use theirs more evenly, stand in the table.")
    return titled(chart, "nic-use", _nic_title(frame), subtitle, f"Bars of {plural(shown.height, 'NIC')}.")


def _nic_title(frame: pl.DataFrame) -> str:
    hosts, nics = frame["host"].n_unique(), plural(frame.height, "NIC")
    idle = frame.filter(pl.col("total") == 0)
    if idle.height:
        of = frame.filter(pl.col("host") == idle["host"][0])
        used = of.filter(pl.col("total") > 0).height
        more = idle["host"].n_unique() - 1
        return f"{idle['host'][0]} uses {used} of its {plural(of.height, 'NIC')}" + (
            f", and so {'does' if more == 1 else 'do'} {plural(more, 'other host')}" if more else ""
        )
    row = frame.row(0, named=True)
    if row["uneven"] == 0:
        return (
            f"{nics} of {plural(hosts, 'host')} carry the same number of connections each"
            if frame.height > 1
            else f"{row['nic']} carries all"
        )
    top = frame.filter(pl.col("host") == row["host"]).sort("total", "nic", descending=[True, False])
    return f"{top['nic'][0]} of {row['host']} carries {top['total'][0]} connections, {top['nic'][-1]} {top['total'][-1]}"


def error_timeline_frame(events: pl.DataFrame) -> pl.DataFrame:
    """Warnings and errors of the logs.

    Parameters
    ----------
    events
        ``NCCL_EVENTS``.

    Returns
    -------
    ``lane`` (host and rank as far as they are known), ``code`` (the five most frequent ones, else ``other``), ``kind`` (the code itself),
    ``level``, ``message``, ``source``, ``line``, ``count`` and ``at_s``, seconds since the first of them; without any time stamp null.
    """
    chosen = events.filter(pl.col("level").is_in(_LEVELS)).sort("ts_ns", "source", "line", nulls_last=True)
    frequent = chosen["code"].value_counts(sort=True).sort("count", "code", descending=[True, False])["code"].head(len(_CODE_COLOURS) - 1)
    host, rank = pl.col("host"), pl.format("rank {}", "rank")
    lane = pl.coalesce(pl.concat_str(host, rank, separator=" "), host, rank, pl.col("source"))
    words = pl.col("code").str.replace_all("_", " ")
    return chosen.select(
        lane.alias("lane"),
        pl.when(pl.col("code").is_in(frequent.implode())).then(words).otherwise(pl.lit("other")).alias("code"),
        words.alias("kind"),
        "level",
        "message",
        "source",
        "line",
        "count",
        at_s=(pl.col("ts_ns") - pl.col("ts_ns").min()) / NS_PER_S,
    )


def error_timeline(frame: pl.DataFrame) -> Any:
    """When which host or rank printed a warning or an error; by line of the log where no time is printed.

    Parameters
    ----------
    frame
        Result of ``error_timeline_frame``.
    """
    timed = frame["at_s"].is_not_null().all()
    place, title = ("at_s", "seconds since the first") if timed else ("line", "line of the log")
    lanes = frame["lane"].unique(maintain_order=True).head(_LANES_SHOWN).to_list()
    shown = frame.filter(pl.col("lane").is_in(lanes))
    codes = [code for code in shown["code"].unique(maintain_order=True).to_list() if code != "other"]
    codes += ["other"] if (shown["code"] == "other").any() else []
    text = shown.with_columns(pl.col("message").str.slice(0, 160))
    axis = alt.Axis() if timed else alt.Axis(tickMinStep=1)
    chart = (
        alt.Chart(alt.InlineData(values=records(text)))
        .mark_point(filled=True, size=95, opacity=0.9)
        .encode(
            x=alt.X(f"{place}:Q", title=title, scale=alt.Scale(zero=False, nice=False, padding=14), axis=axis),
            y=alt.Y("lane:N", title=None, sort=lanes, axis=alt.Axis(labelColor=INK, labelLimit=230)),
            color=alt.Color("code:N", title=None, scale=alt.Scale(domain=codes, range=list(_CODE_COLOURS[: len(codes)]))),
            tooltip=[
                alt.Tooltip("lane:N", title="from"),
                alt.Tooltip("kind:N", title="kind"),
                alt.Tooltip("message:N", title="message"),
                alt.Tooltip("source:N", title="file"),
                alt.Tooltip("line:Q", title="line"),
            ],
        )
        .properties(width=WIDTH - 230, height=alt.Step(26))
    )
    subtitle = [
        "Each point is a warning or an error of the NCCL logs; the first one is nearest to the cause, the rest often follow from it."
    ]
    if not timed:
        subtitle.append("The logs print no times (NCCL_DEBUG_TIMESTAMP_LEVELS=ALL from 2.26 on), so places in the file stand for them.")
    if len(lanes) < frame["lane"].n_unique():
        subtitle.append(f"{plural(frame['lane'].n_unique() - len(lanes), 'further lane')} stand in the table.")
    first = frame.row(0, named=True)
    told = (
        f"{plural(frame.height, 'warning')} and errors; the first comes from {first['lane']} ({first['kind']})" if frame.height > 1 else ""
    )
    return titled(
        chart, "nccl-errors", told or f"{first['lane']} printed one {first['level']}: {first['kind']}", subtitle, "Points over time."
    )
