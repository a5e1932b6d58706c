"""Findings about how far collectives are from what their links can do."""

from __future__ import annotations

import polars as pl

from netlab.diagnose.limits import EFFICIENCY_LOW, LARGE_MESSAGE_NS, LINE_RATE_TOLERANCE, PEER_MESSAGE_BYTES, WEIGHT_SHARE
from netlab.diagnose.reached import AGAINST, KIND, name_groups, reached
from netlab.diagnose.shares import percent
from netlab.diagnose.timeline import Timeline, layer_cause
from netlab.findings import Finding, Subject
from netlab.units import NS_PER_MS, format_bytes, format_ms

__all__ = ["above_line_rate", "low_bandwidth", "small_messages", "unmatched_messages"]

_SOURCE = "nccl-tests doc/PERFORMANCE.md (bus bandwidth); netlab docs/methods.md"

#: Groups of one kind are compared with each other from this many on.
_PEERS = 3


def low_bandwidth(timeline: Timeline) -> list[Finding]:
    """LOW_BUS_BANDWIDTH: below half of the stated link at large sizes, or below half of what groups of the same kind reach beside it."""
    whole = int(timeline.pooled["step_ns"].sum())
    if not whole:
        return []
    findings = []
    peers = reached(timeline, pl.col("bytes") >= PEER_MESSAGE_BYTES)
    peers = peers.filter(pl.len().over(KIND) >= _PEERS).with_columns(reference=pl.col("busbw").median().over(KIND))
    slow = peers.filter(pl.col("busbw") < EFFICIENCY_LOW * pl.col("reference"))
    rank_time = dict(timeline.pooled.group_by("rank").agg(pl.col("step_ns").sum()).iter_rows())
    for together in slow.partition_by("group", maintain_order=True):
        # One slow pair among many weighs little in the whole; what counts is the time of its own members.
        members = sum(rank_time.get(int(rank), 0) for rank in together["group"][0].split(","))
        if members and int(together["exposed_ns"].sum()) >= WEIGHT_SHARE * members:
            findings.append(_low(timeline, together, "what groups of its kind reach"))
    named = set(slow["group"].to_list())
    table = reached(timeline, pl.col("ideal_ns") >= LARGE_MESSAGE_NS, shared=True).with_columns(reference="roofline_gb_per_s")
    low = table.filter((pl.col("busbw") < EFFICIENCY_LOW * pl.col("reference")) & ~pl.col("group").is_in(named))
    # Groups of one kind that are all slow are one finding about their layer, not one for each of them.
    for together in low.partition_by(KIND, maintain_order=True):
        if int(together["exposed_ns"].sum()) >= WEIGHT_SHARE * whole:
            findings.append(_low(timeline, together, AGAINST[together["origin"][0]]))
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
        title=f"{worst['op']} {name_groups(timeline, rows)} reaches {worst['busbw']:.3g} GB/s, {percent(ratio)} of {against} "
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
    table = reached(timeline, pl.col("ideal_ns") < LARGE_MESSAGE_NS).with_columns(reference="roofline_gb_per_s")
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
    table = reached(timeline, pl.col("bytes") >= PEER_MESSAGE_BYTES).filter(pl.col("origin").is_in(["declared", "logged"]))
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
