"""Findings about the shares of the step: transfer above the threshold, or mostly waiting."""

from __future__ import annotations

from fractions import Fraction

import polars as pl

from netlab.diagnose.advice import transfer_action
from netlab.diagnose.limits import OWN_DESIGN
from netlab.diagnose.timeline import Timeline, cost_ms, layer_cause, name_group, name_ranks
from netlab.findings import Finding, Subject
from netlab.units import format_ms, format_numbers, format_percent, share_above

__all__ = [
    "blamed_ranks",
    "comm_above",
    "culprit_group",
    "limit_text",
    "main_layer",
    "main_waits",
    "mostly_waiting",
    "network_share",
    "percent",
    "wait_cause",
]


def percent(share: float | None) -> str:
    """A share with one digit, or with as many as it takes near the usual threshold not to print an excess as equality.

    >>> percent(0.3), percent(0.25), percent(0.25000625), percent(None)
    ('30.0 %', '25.0 %', '25.0006 %', '-')
    """
    if share is None or abs(share - 0.25) > 0.001:
        return format_percent(share)
    exact = (digits for digits in (1, 2, 3, 4, 5) if abs(round(share, digits + 2) - share) < 1e-6)
    return format_percent(share, next(exact, 6))


def limit_text(threshold: Fraction) -> str:
    """A threshold as people wrote it, in percent.

    >>> limit_text(Fraction("0.25")), limit_text(Fraction("0.2500125"))
    ('25 %', '25.00125 %')
    """
    return f"{float(100 * threshold):.9g} %"


def main_layer(timeline: Timeline) -> str | None:
    """The layer that holds most exposed transfer: inter_node, intra_node or unplaced; None without any."""
    return _main_layer(timeline.pooled)


def _main_layer(pooled: pl.DataFrame) -> str | None:
    names = ("inter_node", "intra_node", "unplaced")
    sums = {name: int(pooled[f"exposed_transfer_{name}_ns"].sum()) for name in names}
    best = max(names, key=lambda name: sums[name])
    return best if sums[best] > 0 else None


def comm_above(timeline: Timeline) -> bool:
    """Exposed communication is strictly above the threshold, decided in integers."""
    pooled = timeline.pooled
    return bool(pooled.height) and share_above(int(pooled["exposed_comm_ns"].sum()), int(pooled["step_ns"].sum()), timeline.threshold)


def network_share(timeline: Timeline) -> list[Finding]:
    """NETWORK_SHARE: of the totals, or of single steps or ranks where the totals stay below."""
    totals, limit = timeline.totals, limit_text(timeline.threshold)
    steps = timeline.by_step.filter("flagged")
    ranks = timeline.by_rank.filter("flagged")
    if not totals["flagged"]:
        return _partial(timeline, steps, ranks, limit)
    layer = main_layer(timeline)
    where = {"inter_node": " on the fabric between hosts", "intra_node": " inside hosts"}.get(layer or "", "")
    certain, upper = totals["flag_certain"], totals["basis"] == "communication"
    title = f"Network share {percent(totals['network_share'])} is above {limit}{where}"
    if upper:
        title = f"Network share is at most {percent(totals['network_share'])}, above {limit}, but waiting cannot be told from transfer"
    low, high = format_percent(totals["network_share_low"]), format_percent(totals["network_share_high"])
    detail = (
        f"Transfer that no compute covers takes {percent(totals['network_share'])} of the pooled step (between {low} and {high}); "
        f"the threshold is {limit}, strictly. Split: {totals['split']}."
    )
    action = (
        "Record all ranks (netlab.capture on every rank), so that waiting and transfer can be told apart."
        if upper
        else transfer_action(timeline)
    )
    return [
        Finding(
            code="NETWORK_SHARE",
            title=title,
            detail=detail,
            action=action,
            source=OWN_DESIGN,
            severity="critical" if certain else "warning",
            subject=Subject(ranks=sorted(set(ranks["rank"].to_list())), steps=sorted(set(steps["step"].to_list()))),
            evidence=[{name: totals[name] for name in ("network_share", "network_share_low", "network_share_high", "comm_share", "basis")}],
            time_lost_ms=None if upper else totals["exposed_transfer_ms"],
            cause=layer_cause(layer) if certain else "unknown",
            symptom=True,
        )
    ]


def _partial(timeline: Timeline, steps: pl.DataFrame, ranks: pl.DataFrame, limit: str) -> list[Finding]:
    if not steps.height and not ranks.height:
        return []
    total = percent(timeline.totals["network_share"])
    inside = timeline.pooled.join(steps, on=["window", "step"], how="semi") if steps.height else timeline.pooled
    rows, numbers = (steps, steps["step"].to_list()) if steps.height else (ranks, ranks["rank"].to_list())
    kind = ("step" if len(numbers) == 1 else "steps") if steps.height else ("rank" if len(numbers) == 1 else "ranks")
    subject = Subject(steps=sorted(set(numbers))) if steps.height else Subject(ranks=sorted(set(numbers)))
    worst = rows.sort("network_share", descending=True).row(0, named=True)
    which = format_numbers(numbers)
    return [
        Finding(
            code="NETWORK_SHARE",
            title=f"Network share is above {limit} in {kind} {which}, but {total} overall",
            detail=f"The worst has {percent(worst['network_share'])}; the threshold is {limit}, strictly. The run is not flagged.",
            action=f"Compare {kind} {which} with the others: bytes, groups and transfer of their instances.",
            source=OWN_DESIGN,
            severity="warning" if steps.height and worst["flag_certain"] else "info",
            subject=subject,
            evidence=[{name: row[name] for name in (kind.rstrip("s"), "network_share")} for row in rows.head(20).iter_rows(named=True)],
            cause=layer_cause(_main_layer(inside)) if steps.height and worst["flag_certain"] else "none",
            symptom=True,
        )
    ]


def wait_cause(waits: pl.DataFrame) -> str:
    """What delayed those that were waited for, by exposed waiting: straggler, schedule, fabric, intra_node or unknown."""
    if not waits.height:
        return "unknown"
    named = pl.when(pl.col("cause") == "transfer").then(pl.col("layer").replace_strict(_LAYERS, default="unknown", return_dtype=pl.String))
    sums = (
        waits.group_by(word=named.otherwise("cause")).agg(pl.col("exposed_ns").sum()).sort("exposed_ns", "word", descending=[True, False])
    )
    return str(sums["word"][0])


_LAYERS = {"inter_node": "fabric", "intra_node": "intra_node"}


def blamed_ranks(waits: pl.DataFrame) -> list[int]:
    """The ranks for which most was waited, by first cause: those with at least half of what the first of them has."""
    sums = waits.drop_nulls("blamed").explode("blamed").group_by("blamed").agg(pl.col("exposed_ns").sum())
    return sorted(sums.filter(pl.col("exposed_ns") * 2 >= pl.col("exposed_ns").max())["blamed"].to_list())


def mostly_waiting(timeline: Timeline, waits: pl.DataFrame) -> list[Finding]:
    """MOSTLY_WAITING: communication above the threshold while the network share is not."""
    totals = timeline.totals
    if totals["flagged"] or not comm_above(timeline):
        return []
    cause, limit = wait_cause(waits), limit_text(timeline.threshold)
    waiting = int(timeline.pooled["exposed_wait_ns"].sum()) > int(timeline.pooled["exposed_transfer_ns"].sum())
    main = main_waits(waits, cause)
    ranks = blamed_ranks(main) if cause != "schedule" else []
    culprit = culprit_group(main) if cause in ("fabric", "intra_node") else None
    comm, network = percent(totals["comm_share"]), percent(totals["network_share"])
    if not waiting:
        title = (
            f"Exposed communication takes {comm} of the step, {network} of it transfer: neither transfer nor waiting alone is above {limit}"
        )
    elif cause == "schedule":
        title = f"Mostly waiting for the pipeline schedule: {comm} of the step is communication, {network} is transfer"
    elif culprit is not None:
        title = f"Mostly waiting for {name_group(culprit)}, held up by their own transfer: {comm} of the step is communication"
    elif not ranks:
        title = f"Mostly waiting: {comm} of the step is communication, {network} is transfer"
    else:
        title = f"Mostly waiting for {name_ranks(ranks)}: {comm} of the step is communication, {network} is transfer"
    by_rank = waits.group_by("rank").agg(pl.col("exposed_ns").sum()).sort("exposed_ns", "rank", descending=[True, False])
    return [
        Finding(
            code="MOSTLY_WAITING",
            title=title,
            detail=(
                f"Waiting for late members takes {percent(totals['wait_share'])} of the pooled step and transfer {network}; "
                f"communication is above the threshold of {limit}, the network share is not. A faster network removes none of the waiting."
            ),
            action=(
                f"Find out what holds {name_ranks(ranks)} up before collectives."
                if ranks and cause == "straggler"
                else "Look at the instances with the longest waits and at what delayed their last members."
            ),
            source=OWN_DESIGN,
            severity="warning",
            subject=_subject(ranks, culprit) if waiting else Subject(),
            evidence=[{"rank": name, "exposed_wait_ms": format_ms(ns / 1e6)} for name, ns in by_rank.head(8).iter_rows()],
            time_lost_ms=cost_ms(timeline, main) if main.height else None,
            cause=cause if waiting else "unknown",
            symptom=True,
        )
    ]


def culprit_group(waits: pl.DataFrame) -> str | None:
    """The group whose transfer held up those that were waited for, by exposed waiting."""
    sums = waits.drop_nulls("culprit_group").group_by("culprit_group").agg(pl.col("exposed_ns").sum())
    return str(sums.sort("exposed_ns", "culprit_group", descending=[True, False])["culprit_group"][0]) if sums.height else None


def _subject(ranks: list[int], culprit: str | None) -> Subject:
    if culprit is not None:
        return Subject(groups=[culprit], ranks=[int(member) for member in culprit.split(",")])
    return Subject(ranks=ranks)


def main_waits(waits: pl.DataFrame, cause: str) -> pl.DataFrame:
    """The waits that the finding about the cause is made from, so that both lose the same time and stand together."""
    if cause == "straggler":
        mine = waits.filter(pl.col("cause") == "straggler")
        own = pl.col("exposed_ns").sum().over("root_rank")
        return mine.filter(2 * own >= own.max())
    if cause == "schedule":
        return waits.filter(pl.col("cause") == "schedule")
    if cause in ("fabric", "intra_node"):
        moved = waits.filter(pl.col("cause") == "transfer")
        return moved.filter(pl.col("culprit_group") == culprit_group(moved))
    return waits
