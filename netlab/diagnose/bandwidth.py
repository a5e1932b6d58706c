"""Findings about how far collectives are from what their links can do."""

from __future__ import annotations

import polars as pl

from netlab.diagnose.limits import EFFICIENCY_LOW, LARGE_MESSAGE_BYTES, LINE_RATE_TOLERANCE, WEIGHT_SHARE
from netlab.diagnose.shares import percent
from netlab.diagnose.timeline import Timeline, layer_cause, name_group
from netlab.findings import Finding, Subject
from netlab.units import NS_PER_MS, format_bytes

__all__ = ["above_line_rate", "low_bandwidth", "unmatched_messages"]

_SOURCE = "nccl-tests doc/PERFORMANCE.md (bus bandwidth); " + "netlab docs/methods.md"

#: Groups of one kind are compared with each other from this many on.
_PEERS = 3


def _large(timeline: Timeline) -> pl.DataFrame:
    """Pooled busbw of each group's large messages, per operation, with its exposed transfer."""
    found = timeline.instances.filter(pl.col("busbw_gb_per_s").is_not_null() & (pl.col("bytes") >= LARGE_MESSAGE_BYTES))
    exposed = timeline.exposed.group_by("instance").agg(exposed_ns=pl.col("exposed_transfer_ns").sum())
    bus_bytes = (pl.col("busbw_gb_per_s") * pl.col("transfer_ns")).sum()
    return (
        found.join(exposed, on="instance", how="left")
        .group_by("group", "op", "layer", "members")
        .agg(
            count=pl.len(),
            bytes=pl.col("bytes").median().cast(pl.Int64),
            exposed_ns=pl.col("exposed_ns").sum(),
            busbw=bus_bytes / pl.col("transfer_ns").sum(),
        )
        .sort("group", "op")
    )


def low_bandwidth(timeline: Timeline) -> list[Finding]:
    """LOW_BUS_BANDWIDTH: large messages at less than half of the stated link, or of what groups of the same kind reach beside them."""
    table = _large(timeline)
    stated = timeline.rooflines.filter(pl.col("origin") != "reached")
    table = table.join(stated.select("group", "roofline_gb_per_s", "origin"), on="group", how="left")
    kind = ["op", "layer", "members"]
    peers = pl.len().over(kind)
    table = table.with_columns(peer=pl.when(peers >= _PEERS).then(pl.col("busbw").median().over(kind)))
    limit = pl.coalesce("roofline_gb_per_s", "peer")
    table = table.with_columns(limit=limit, below_peers=(pl.col("busbw") < EFFICIENCY_LOW * pl.col("peer")).fill_null(False))
    low = table.filter((pl.col("busbw") < EFFICIENCY_LOW * pl.col("roofline_gb_per_s")).fill_null(False) | pl.col("below_peers"))
    whole = int(timeline.pooled["step_ns"].sum())
    rows = max(timeline.pooled.height, 1)
    names = dict(timeline.groups.group_by("group").agg(pl.col("description").drop_nulls().first()).iter_rows())
    # Groups of one kind that are all slow are one finding about the fabric, not one for each of them.
    findings = []
    single = low.filter("below_peers")
    for part in (
        single,
        *(piece for _, piece in low.filter(~pl.col("below_peers")).group_by("op", "layer", "members", maintain_order=True)),
    ):
        for together in part.partition_by("group", maintain_order=True) if part is single else [part]:
            exposed = int(together["exposed_ns"].sum())
            if together.height and exposed >= WEIGHT_SHARE * whole:
                findings.append(_low(together, exposed / whole, exposed / rows / NS_PER_MS, names, against_peers=part is single))
    return findings


def _low(rows: pl.DataFrame, share: float, exposed_ms: float, names: dict[str, str | None], *, against_peers: bool) -> Finding:
    worst = rows.sort("busbw").row(0, named=True)
    reference = worst["peer"] if against_peers else worst["limit"]
    ratio = worst["busbw"] / reference
    groups = rows["group"].unique().sort().to_list()
    where = name_group(groups[0], names.get(groups[0])) if len(groups) == 1 else f"{len(groups)} groups of {worst['members']} ranks"
    against = "what groups of its kind reach" if against_peers else f"the {worst['origin']} link"
    return Finding(
        code="LOW_BUS_BANDWIDTH",
        title=f"{worst['op']} in {where} reaches {worst['busbw']:.3g} GB/s, {percent(ratio)} of {against} ({reference:.3g} GB/s)",
        detail=(
            f"Bus bandwidth over transfer alone, messages of {format_bytes(LARGE_MESSAGE_BYTES)} and more (median "
            f"{format_bytes(worst['bytes'])}); below {percent(EFFICIENCY_LOW)} counts as low. Its exposed transfer is "
            f"{percent(share)} of pooled step time."
        ),
        action="Run nccl-tests on the same ranks and sizes; read transport and NIC from the NCCL log (NCCL_DEBUG=INFO).",
        source=_SOURCE,
        subject=Subject(
            groups=groups, ranks=sorted({int(rank) for group in groups for rank in group.split(",")}) if len(groups) == 1 else []
        ),
        evidence=[
            {
                "group": row["group"],
                "op": row["op"],
                "busbw_gb_per_s": row["busbw"],
                "reference_gb_per_s": row["limit"],
                "count": row["count"],
            }
            for row in rows.head(8).iter_rows(named=True)
        ],
        time_lost_ms=exposed_ms * (1 - min(ratio, 1.0)),
        cause=layer_cause(worst["layer"]),
        symptom=True,
    )


def above_line_rate(timeline: Timeline) -> list[Finding]:
    """BUSBW_ABOVE_LINE_RATE: faster than the stated link can be, so the statement is wrong (or the switch adds up on the way)."""
    stated = timeline.rooflines.filter(pl.col("origin").is_in(["declared", "logged"]))
    found = timeline.instances.filter(pl.col("busbw_gb_per_s").is_not_null()).join(stated.drop("layer"), on="group")
    above = found.filter(pl.col("busbw_gb_per_s") > LINE_RATE_TOLERANCE * pl.col("roofline_gb_per_s"))
    findings = []
    for (layer, origin), rows in sorted(above.group_by("layer", "origin"), key=lambda item: str(item[0])):
        worst = rows.sort("busbw_gb_per_s", "instance", descending=[True, False]).row(0, named=True)
        groups = rows["group"].unique().sort().to_list()
        rate, limit = worst["busbw_gb_per_s"], worst["roofline_gb_per_s"]
        findings.append(
            Finding(
                code="BUSBW_ABOVE_LINE_RATE",
                title=f"{worst['op']} reaches {rate:.3g} GB/s on the {layer} layer, above its {origin} line rate of {limit:.3g} GB/s",
                detail=(
                    f"{rows.height} instances are above {origin} line rate. Either the rate is not that of one direction and one GPU, or "
                    "the collective was reduced in the network (SHARP, NVLS), which can double the bus bandwidth of an all_reduce."
                ),
                action=f"Check {layer}_gbps under [links] in netlab.toml: Gbit/s, one direction, per GPU.",
                source=_SOURCE,
                severity="warning",
                subject=Subject(groups=groups),
                evidence=[{"group": worst["group"], "seq": worst["seq"], "busbw_gb_per_s": rate, "line_rate_gb_per_s": limit}],
                cause="none",
            )
        )
    return findings


def unmatched_messages(timeline: Timeline) -> list[Finding]:
    """P2P_UNMATCHED: a send or receive inside a pooled step whose partner was captured, but has no counterpart."""
    messages = timeline.activities.filter(pl.col("op").is_in(["send", "recv"]) & pl.col("instance").is_null())
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
            detail="Their partner was captured, but has no matching send or receive in the same order; their waiting is not known.",
            action="Compare the order of sends and receives of the two ranks; a message that is never met hangs the job.",
            source="netlab docs/methods.md",
            subject=Subject(ranks=ranks, groups=sorted(messages["group"].unique().to_list())),
            evidence=[
                {"rank": row["rank"], "op": row["op"], "group": row["group"], "step": row["step"], "seq": row["seq"]}
                for row in messages.head(8).iter_rows(named=True)
            ],
        )
    ]
