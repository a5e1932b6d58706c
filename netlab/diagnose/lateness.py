"""Findings about those that others wait for: stragglers, slow transfer elsewhere, the pipeline's schedule."""

from __future__ import annotations

import polars as pl

from netlab.diagnose.limits import OWN_DESIGN, P_VALUE, WEIGHT_SHARE
from netlab.diagnose.shares import percent
from netlab.diagnose.timeline import Timeline, cost_ms, layer_cause, name_group, name_ranks, shares
from netlab.findings import Finding, Subject
from netlab.units import NS_PER_MS

__all__ = ["pipeline_bubble", "slow_transfer_elsewhere", "stragglers"]

_OWN = {"compute": "its own compute", "host": "its host", "input": "its input"}
_ACTIONS = {
    "compute": "Compare its kernels with another rank's: clocks and thermal limits of its GPU, uneven work, a neighbour on the device.",
    "host": "Look at its host: CPU load, garbage collection, logging, checkpoints, NUMA binding; its GPU stood idle meanwhile.",
    "input": "Look at its data loader: more workers, prefetching, the file system of its host.",
}


def stragglers(timeline: Timeline, waits: pl.DataFrame) -> list[Finding]:
    """STRAGGLER: a rank that makes the others wait by its own compute, host or input, more often than chance and for long enough.

    Where that holds for every rank of a host together, the finding is about the host. ``waits`` is the result of `pooled_waits`.
    """
    waits = waits.filter((pl.col("cause") == "straggler") & pl.col("root_by").is_in(list(_OWN)))
    caused = waits["root_rank"].unique().to_list()
    sure = timeline.stragglers.filter(pl.coalesce("clear", pl.col("p_value") < P_VALUE) & pl.col("rank").is_in(caused))
    findings = []
    for host, ranks in _whole_hosts(timeline, sure["rank"].to_list()).items():
        mine = waits.filter(pl.col("root_rank").is_in(ranks))
        if shares(timeline, mine) >= WEIGHT_SHARE:
            findings.append(_straggler(timeline, sure.filter(pl.col("rank").is_in(ranks)), mine, host))
            sure = sure.filter(~pl.col("rank").is_in(ranks))
    for rank in sure["rank"].to_list():
        mine = waits.filter(pl.col("root_rank") == rank)
        if shares(timeline, mine) >= WEIGHT_SHARE:
            findings.append(_straggler(timeline, sure.filter(pl.col("rank") == rank), mine, None))
    return findings


def _whole_hosts(timeline: Timeline, ranks: list[int]) -> dict[str, list[int]]:
    """Hosts of several ranks all of which are among the given ones, while another host has none of them."""
    by_host = timeline.ranks.drop_nulls("host").group_by("host").agg(pl.col("rank").sort())
    found = {host: members for host, members in by_host.sort("host").iter_rows() if len(members) > 1 and set(members) <= set(ranks)}
    return found if len(found) < by_host.height else {}


def _straggler(timeline: Timeline, rows: pl.DataFrame, mine: pl.DataFrame, host: str | None) -> Finding:
    by = mine.group_by("root_by").agg(pl.col("exposed_ns").sum()).sort("exposed_ns", "root_by", descending=[True, False])
    reason, share = str(by["root_by"][0]), percent(shares(timeline, mine))
    ranks = rows["rank"].sort().to_list()
    counted: list[float] = rows.filter(pl.col("clear").is_null())["p_value"].to_list()
    chance = f" (by chance with probability {max(counted):.1e} or less, after Bonferroni)" if counted else ""
    who = f"Rank {ranks[0]}" if host is None else f"Host {host} ({name_ranks(ranks)})"
    last, count = int(rows["last_count"].sum()), int(rows["instances"].sum())
    return Finding(
        code="STRAGGLER",
        title=f"{who} is a straggler: delayed by {_OWN[reason]}, it makes the others wait {share} of the step",
        detail=(
            f"It is last in {last} of {count} collectives{chance}. The others' waits for it are {share} of pooled step time; the limit is "
            f"{percent(WEIGHT_SHARE)}. What delayed it is told by difference to the other members since their last common collective."
        ),
        action=_ACTIONS[reason],
        source=OWN_DESIGN,
        subject=Subject(hosts=[host] if host is not None else [], ranks=ranks, steps=_steps(timeline, mine)),
        evidence=_evidence(mine),
        time_lost_ms=cost_ms(timeline, mine),
        cause="straggler",
    )


def _steps(timeline: Timeline, mine: pl.DataFrame) -> list[int]:
    """Steps in which these waits weigh; all that have any where none weighs by itself."""
    if "step" not in timeline.pooled.columns:
        return []
    length = timeline.pooled.group_by("window", "step").agg(pl.col("step_ns").sum())
    waited = mine.group_by("window", "step").agg(pl.col("exposed_ns").sum()).join(length, on=["window", "step"])
    heavy = waited.filter(pl.col("exposed_ns") >= WEIGHT_SHARE * pl.col("step_ns"))
    return sorted(set((heavy if heavy.height else waited)["step"].to_list()))


def _evidence(waits: pl.DataFrame, count: int = 8) -> list[dict[str, object]]:
    worst = waits.sort("exposed_ns", "instance", "rank", descending=[True, False, False]).head(count)
    return [
        {
            "group": row["group"],
            "step": row["step"],
            "waiting_rank": row["rank"],
            "last_rank": row["late_rank"],
            "first_cause": f"rank {row['root_rank']}: {row['root_by']}",
            "wait_ms": row["exposed_ns"] / NS_PER_MS,
        }
        for row in worst.iter_rows(named=True)
    ]


def slow_transfer_elsewhere(timeline: Timeline, waits: pl.DataFrame) -> list[Finding]:
    """SLOW_TRANSFER_ELSEWHERE: members held up by transfer in another group, whose own group waits for them."""
    waits = waits.filter(pl.col("cause") == "transfer").drop_nulls("culprit_group")
    findings = []
    names = dict(timeline.groups.group_by("group").agg(pl.col("description").drop_nulls().first()).iter_rows())
    for (group,), mine in sorted(waits.group_by("culprit_group"), key=lambda item: str(item[0])):
        share = shares(timeline, mine)
        if share < WEIGHT_SHARE:
            continue
        members = [int(rank) for rank in str(group).split(",")]
        where = name_group(str(group), names.get(str(group)))
        layer = str(mine["layer"].mode().sort()[0])
        findings.append(
            Finding(
                code="SLOW_TRANSFER_ELSEWHERE",
                title=f"Transfer between {where} holds its members up, and the others wait {percent(share)} of the step for them",
                detail=(
                    f"In the instances that wait, the last member had spent more time than the others in transfer of {where}. These waits "
                    f"are {percent(share)} of pooled step time (limit {percent(WEIGHT_SHARE)}). They look like a straggler, but are a "
                    "network fault."
                ),
                action=f"Measure the links between {where}: nccl-tests on these ranks alone, error counters and speed of their NICs.",
                source=OWN_DESIGN,
                subject=Subject(groups=[str(group)], ranks=members, steps=_steps(timeline, mine)),
                evidence=_evidence(mine),
                time_lost_ms=cost_ms(timeline, mine),
                cause=layer_cause(layer),
            )
        )
    return findings


def pipeline_bubble(timeline: Timeline, waits: pl.DataFrame) -> list[Finding]:
    """PIPELINE_BUBBLE: receives that wait for their sender's normal compute."""
    waits = waits.filter(pl.col("cause") == "schedule")
    share = shares(timeline, waits)
    if share < WEIGHT_SHARE:
        return []
    ranks = waits.group_by("rank").agg(pl.col("exposed_ns").sum()).sort("exposed_ns", "rank", descending=[True, False])
    return [
        Finding(
            code="PIPELINE_BUBBLE",
            title=f"Pipeline bubble: ranks wait {percent(share)} of the step for the normal compute of the stage before or after them",
            detail=(
                f"Messages waited for a partner that was computing as long as it always does, most on {name_ranks(ranks['rank'].head(8))}. "
                f"The limit is {percent(WEIGHT_SHARE)} of pooled step time. It is the schedule, not the network and not a straggler."
            ),
            action="Use more micro-batches or an interleaved schedule, or balance the stages.",
            source=OWN_DESIGN,
            severity="warning" if share > float(timeline.threshold) else "info",
            subject=Subject(ranks=sorted(ranks["rank"].to_list()), steps=_steps(timeline, waits)),
            evidence=_evidence(waits),
            time_lost_ms=cost_ms(timeline, waits),
            cause="schedule",
        )
    ]
