"""Findings about how far collectives are from what their links can do."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.diagnose.limits import EFFICIENCY_LOW, LARGE_MESSAGE_NS, LINE_RATE_TOLERANCE, PEER_MESSAGE_BYTES, WEIGHT_SHARE
from netlab.diagnose.shares import percent
from netlab.diagnose.timeline import Timeline, layer_cause, name_group, pooled_exposed
from netlab.findings import Finding, Subject
from netlab.units import NS_PER_MS, format_bytes, format_ms

__all__ = ["above_line_rate", "low_bandwidth", "small_messages", "unmatched_messages"]

Int64s = NDArray[np.int64]

_SOURCE = "nccl-tests doc/PERFORMANCE.md (bus bandwidth); netlab docs/methods.md"

#: Groups of one kind are compared with each other from this many on.
_PEERS = 3
_KIND = ["op", "layer", "members"]
#: Where the stated rate of a link comes from.
_AGAINST = {
    "tested": "what nccl-tests measured",
    "declared": "the declared link",
    "predicted": "what NCCL's TUNING table predicts",
    "logged": "the logged link",
}


def _reached(timeline: Timeline, chosen: pl.Expr, *, shared: bool = False) -> pl.DataFrame:
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
        .group_by("group", *_KIND)
        .agg(
            count=pl.len(),
            bytes=pl.col("bytes").median().cast(pl.Int64),
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


def low_bandwidth(timeline: Timeline) -> list[Finding]:
    """LOW_BUS_BANDWIDTH: below half of the stated link at large sizes, or below half of what groups of the same kind reach beside it."""
    whole = int(timeline.pooled["step_ns"].sum())
    if not whole:
        return []
    findings = []
    peers = _reached(timeline, pl.col("bytes") >= PEER_MESSAGE_BYTES)
    peers = peers.filter(pl.len().over(_KIND) >= _PEERS).with_columns(reference=pl.col("busbw").median().over(_KIND))
    slow = peers.filter(pl.col("busbw") < EFFICIENCY_LOW * pl.col("reference"))
    rank_time = dict(timeline.pooled.group_by("rank").agg(pl.col("step_ns").sum()).iter_rows())
    for together in slow.partition_by("group", maintain_order=True):
        # One slow pair among many weighs little in the whole; what counts is the time of its own members.
        members = sum(rank_time.get(int(rank), 0) for rank in together["group"][0].split(","))
        if members and int(together["exposed_ns"].sum()) >= WEIGHT_SHARE * members:
            findings.append(_low(timeline, together, "what groups of its kind reach"))
    named = set(slow["group"].to_list())
    table = _reached(timeline, pl.col("ideal_ns") >= LARGE_MESSAGE_NS, shared=True).with_columns(reference="roofline_gb_per_s")
    low = table.filter((pl.col("busbw") < EFFICIENCY_LOW * pl.col("reference")) & ~pl.col("group").is_in(named))
    # Groups of one kind that are all slow are one finding about their layer, not one for each of them.
    for together in low.partition_by(_KIND, maintain_order=True):
        if int(together["exposed_ns"].sum()) >= WEIGHT_SHARE * whole:
            findings.append(_low(timeline, together, _AGAINST[together["origin"][0]]))
    return findings


def _low(timeline: Timeline, rows: pl.DataFrame, against: str) -> Finding:
    worst = rows.sort("busbw").row(0, named=True)
    ratio = worst["busbw"] / worst["reference"]
    whole = int(timeline.pooled["step_ns"].sum())
    # Transfers at the same time are each exposed for as long as both are.
    exposed = min(int(rows["exposed_ns"].sum()), whole)
    groups = rows["group"].unique().sort().to_list()
    return Finding(
        code="LOW_BUS_BANDWIDTH",
        title=f"{worst['op']} {_where(timeline, rows)} reaches {worst['busbw']:.3g} GB/s, {percent(ratio)} of {against} "
        f"({worst['reference']:.3g} GB/s)",
        detail=(
            f"Bus bandwidth over transfer alone (median message {format_bytes(worst['bytes'])}); below {percent(EFFICIENCY_LOW)} counts as "
            f"low. Its exposed transfer is {percent(exposed / whole)} of pooled step time."
        ),
        action="Run nccl-tests on the same ranks and sizes; read transport and NIC from the NCCL log (NCCL_DEBUG=INFO). Half of the line "
        "rate with GPUDirect on points to PCIe ACS or the IOMMU (lspci: ACSCtl SrcValid+).",
        source=_SOURCE,
        subject=Subject(
            groups=groups, ranks=sorted({int(rank) for group in groups for rank in group.split(",")}) if len(groups) == 1 else []
        ),
        evidence=_evidence(rows),
        time_lost_ms=exposed / max(timeline.pooled.height, 1) / NS_PER_MS * (1 - min(ratio, 1.0)),
        cause=layer_cause(worst["layer"]),
        symptom=True,
    )


def small_messages(timeline: Timeline) -> list[Finding]:
    """SMALL_MESSAGES: collectives too small to fill the stated link, so that latency takes most of their time in the open."""
    table = _reached(timeline, pl.col("ideal_ns") < LARGE_MESSAGE_NS).with_columns(reference="roofline_gb_per_s")
    on_path = timeline.groups.filter(pl.col("parallelism").is_in(["TP", "CP", "EP", "PP"]))["group"].unique().to_list()
    low = table.filter((pl.col("busbw") < EFFICIENCY_LOW * pl.col("reference")) & ~pl.col("group").is_in(on_path))
    exposed, whole = int(low["exposed_ns"].sum()), int(timeline.pooled["step_ns"].sum())
    if not low.height or not whole or exposed < WEIGHT_SHARE * whole:
        return []
    worst = low.sort("exposed_ns", "group", "op", descending=[True, False, False]).row(0, named=True)
    lost = (pl.col("exposed_ns") * (1 - pl.col("busbw") / pl.col("reference"))).sum()
    return [
        Finding(
            code="SMALL_MESSAGES",
            title=f"{int(low['count'].sum())} collectives are too small for their link: {format_bytes(worst['bytes'])} reach "
            f"{worst['busbw']:.3g} of {worst['reference']:.3g} GB/s",
            detail=(
                f"At the line rate they would need less than {format_ms(LARGE_MESSAGE_NS / NS_PER_MS)}: latency takes most of the time. "
                f"Their exposed transfer is {percent(exposed / whole)} of pooled step time (limit {percent(WEIGHT_SHARE)})."
            ),
            action="Send fewer, larger messages: DDP bucket_cap_mb, FSDP units of several layers, coalesced collectives.",
            source=_SOURCE,
            subject=Subject(groups=low["group"].unique().sort().to_list()),
            evidence=_evidence(low),
            time_lost_ms=float(low.select(lost).item()) / max(timeline.pooled.height, 1) / NS_PER_MS,
            cause="schedule",
        )
    ]


def _where(timeline: Timeline, rows: pl.DataFrame) -> str:
    groups = rows["group"].unique().sort().to_list()
    if len(groups) > 1:
        return f"in {len(groups)} groups of {rows['members'][0]} ranks"
    about = timeline.groups.filter(pl.col("group") == groups[0])["description"].drop_nulls()
    word = "between" if groups[0].count(",") == 1 else "in"
    return f"{word} {name_group(groups[0], about[0] if len(about) else None)}"


def _evidence(rows: pl.DataFrame) -> list[dict[str, object]]:
    return [
        {
            "group": row["group"],
            "op": row["op"],
            "busbw_gb_per_s": row["busbw"],
            "reference_gb_per_s": row["reference"],
            "count": row["count"],
        }
        for row in rows.sort("busbw", "group", "op").head(8).iter_rows(named=True)
    ]


def above_line_rate(timeline: Timeline) -> list[Finding]:
    """BUSBW_ABOVE_LINE_RATE: faster than the stated link can be, so the statement is wrong (or the switch adds up on the way)."""
    # Pooled over messages of some size: a single short transfer is all clock error.
    table = _reached(timeline, pl.col("bytes") >= PEER_MESSAGE_BYTES).filter(pl.col("origin").is_in(["declared", "logged"]))
    above = table.filter(pl.col("busbw") > LINE_RATE_TOLERANCE * pl.col("roofline_gb_per_s"))
    findings = []
    for (layer, origin), rows in sorted(above.group_by("layer", "origin"), key=lambda item: str(item[0])):
        worst = rows.sort("busbw", "group", "op", descending=[True, False, False]).row(0, named=True)
        groups = rows["group"].unique().sort().to_list()
        rate, limit = worst["busbw"], worst["roofline_gb_per_s"]
        findings.append(
            Finding(
                code="BUSBW_ABOVE_LINE_RATE",
                title=f"{worst['op']} reaches {rate:.3g} GB/s on the {layer} layer, above its {origin} line rate of {limit:.3g} GB/s",
                detail=(
                    f"{int(rows['count'].sum())} instances together are above the {origin} line rate. Either the rate is not that of one "
                    "direction and one GPU, or the collective was reduced in the network (SHARP, NVLS), which can double the bus bandwidth "
                    "of an all_reduce."
                ),
                action=f"Check {layer}_gbps under [links] in netlab.toml: Gbit/s, one direction, per GPU.",
                source=_SOURCE,
                severity="warning",
                subject=Subject(groups=groups),
                evidence=[{"group": worst["group"], "op": worst["op"], "busbw_gb_per_s": rate, "line_rate_gb_per_s": limit}],
                cause="none",
            )
        )
    return findings


def unmatched_messages(timeline: Timeline) -> list[Finding]:
    """P2P_UNMATCHED: a send or receive inside a pooled step whose partner was captured, but has no counterpart."""
    alone = timeline.instances.filter((pl.col("seen") == 1) & (pl.col("members") == 2))["instance"]
    unmet = pl.col("instance").is_null() | pl.col("instance").is_in(alone.implode())
    messages = timeline.activities.filter(pl.col("op").is_in(["send", "recv"]) & unmet)
    if "step" in timeline.pooled.columns:
        messages = messages.join(timeline.pooled.select("rank", "window", "step").unique(), on=["rank", "window", "step"], how="semi")
    captured = {str(rank) for rank in timeline.pooled["rank"].unique().to_list()}
    groups = [group for group in messages["group"].drop_nulls().unique().to_list() if set(group.split(",")) <= captured]
    messages = messages.filter(pl.col("group").is_in(groups))
    if not messages.height:
        return []
    ranks = sorted(messages["rank"].unique().to_list())
    return [
        Finding(
            code="P2P_UNMATCHED",
            title=f"{messages.height} point-to-point operations have no counterpart, on {len(ranks)} ranks",
            detail=(
                "Their partner was captured, but has no matching send or receive in the same order; their waiting is not known. "
                "The partner's kernel was lost, or one kernel served several peers under the label of the first."
            ),
            action="Compare the order of sends and receives of the two ranks; a message that is never met hangs the job.",
            source="netlab docs/methods.md",
            severity="info",
            subject=Subject(ranks=ranks, groups=sorted(messages["group"].unique().to_list())),
            evidence=[
                {"rank": row["rank"], "op": row["op"], "group": row["group"], "step": row["step"], "seq": row["seq"]}
                for row in messages.head(8).iter_rows(named=True)
            ],
        )
    ]
