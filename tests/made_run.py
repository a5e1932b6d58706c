"""A small made run for the rooms that only show: two hosts, a straggler, a clock that is ahead. All numbers come from its timeline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from netlab.findings import Finding, Subject, findings_frame, ranked
from netlab.intervals import mask_times
from netlab.issues import Issue, issues_frame
from netlab.run import Run, RunFacts
from netlab.schema import TABLES
from netlab.verdict.model import ClockSummary, FindingRow, RunSummary, Verdict
from netlab.verdict.rows import (
    Breakdown,
    CollectiveRow,
    GroupRow,
    InstanceRow,
    P2PRow,
    RankRow,
    RankStepRow,
    SourceRow,
    StepRow,
    StragglerRow,
)

__all__ = ["Made", "made_run"]

_MS = 1_000_000
_EPOCH_NS = 1_700_000_000 * 1_000_000_000


@dataclass(frozen=True)
class Made:
    """A run and its verdict."""

    run: Run
    verdict: Verdict


def made_run(ranks: int = 8, steps: int = 6, *, slow_rank: int = 5, delay_ms: int = 8, threshold: float = 0.25, name: str = "made") -> Made:
    """A data-parallel run: three buckets, the last one exposed; ``slow_rank`` computes longer in odd steps."""
    activities, collectives, borders = _timeline(ranks, steps, slow_rank, delay_ms)
    breakdown = _breakdown(activities, borders)
    step_rows = [
        {"rank": rank, "window": 0, "step": step, "start_ns": a, "end_ns": b, "complete": True, "mark_start_ns": a, "mark_end_ns": b}
        for (rank, step), (a, b) in sorted(borders.items())
    ]
    half = max(1, ranks // 2)
    frames = {
        "ranks": pl.DataFrame([{"rank": r, "host": "nodea" if r < half else "nodeb", "device": r % half} for r in range(ranks)]),
        "steps": pl.DataFrame(step_rows),
        "activities": pl.DataFrame(activities, infer_schema_length=None),
        "collectives": pl.DataFrame(collectives),
        "clocks": pl.DataFrame(
            [
                {
                    "domain": "nodea" if r < half else "nodeb",
                    "rank": r,
                    "offset_ns": 0 if r < half else 3 * _MS,
                    "error_ns": 12_000,
                    "samples": 18,
                }
                for r in range(ranks)
            ]
        ),
        "p2p": pl.DataFrame(
            [
                {
                    "instance": 10_000 + r,
                    "src": r,
                    "dst": (r + 1) % ranks,
                    "bytes": 4_000_000,
                    "start_ns": _EPOCH_NS,
                    "transfer_ns": 400_000 + 90_000 * r,
                    "wait_src_ns": 0,
                    "wait_dst_ns": 50_000,
                    "step": 0,
                    "split": "measured",
                }
                for r in range(ranks)
                if ranks > 1
            ]
        ),
        "breakdown": breakdown,
    }
    finding = Finding(
        code="STRAGGLER",
        title=f"Rank {slow_rank} is late: the others wait for its compute",
        detail=f"Rank {slow_rank} arrives last in half of the steps; its compute is {delay_ms} ms longer than the others' there.",
        action=f"Look at rank {slow_rank}: clocks, ECC, thermal state of its GPU; then at its share of the batch.",
        source="docs/methods.md, Straggler",
        subject=Subject(ranks=[slow_rank], steps=list(range(1, steps, 2))),
        evidence=[{"step": 1, "rank": slow_rank, "late_ms": float(delay_ms)}],
        time_lost_ms=delay_ms / 2,
        cause="straggler",
    )
    findings = ranked([finding])
    issues = [Issue(code="CLOCK_SKEW", severity="info", message="nodeb is 3.000 ms ahead of nodea; it was corrected.")]
    hosts = {"nodea": list(range(half)), "nodeb": list(range(half, ranks))}
    facts = RunFacts(name=name, world_size=ranks, ranks=list(range(ranks)), hosts=hosts, steps=list(range(steps)), clock_aligned=True)
    checked = {key: TABLES[key].validate(TABLES[key].conform(frame)) for key, frame in frames.items() if frame.height}
    run = Run.from_frames({**checked, "findings": findings_frame(findings), "issues": issues_frame(issues)}, facts)
    return Made(run, _verdict(run, breakdown, findings, issues, threshold))


def _timeline(ranks: int, steps: int, slow: int, delay_ms: int):  # type: ignore[no-untyped-def]
    activities, collectives, borders = [], [], {}
    origin, number = _EPOCH_NS, 0
    group = ",".join(map(str, range(ranks)))
    for step in range(steps):
        late = {r: (r * 37 % 11) * 20_000 for r in range(ranks)}
        ready = {r: origin + 20 * _MS + late[r] for r in range(ranks)}
        kernels: list[tuple[int, str, int, int, int, int | None, int | None]] = [
            (r, "compute", 7, origin + 300_000, ready[r], None, None) for r in range(ranks)
        ]
        done = 0
        for bucket in range(3):
            start = {r: max(ready[r], done) for r in range(ranks)}
            arrived = max(start.values())
            done = arrived + (9 + bucket) * _MS
            instance = step * 3 + bucket
            for r in range(ranks):
                kernels.append((r, "communication", 20, start[r], done, instance, arrived))
                if bucket < 2:
                    longer = delay_ms * _MS if bucket and r == slow and step % 2 else 0
                    kernels.append((r, "compute", 7, ready[r], ready[r] + 9 * _MS + longer, None, None))
                    ready[r] += 9 * _MS + longer
        end = done + 2 * _MS
        for r, kind, stream, a, b, instance, arrived in kernels:
            row = {
                "rank": r,
                "activity": number,
                "device": r,
                "stream": stream,
                "kind": kind,
                "name": "ncclDevKernel_AllReduce" if kind == "communication" else "gemm",
                "start_ns": a,
                "end_ns": b,
                "window": 0,
                "step": step,
            }
            if instance is not None:
                from_ns = max(a, arrived)
                row |= {
                    "instance": instance,
                    "group": group,
                    "group_name": "default_pg",
                    "seq": instance,
                    "op": "all_reduce",
                    "dtype": "Float",
                    "bytes": 25_000_000,
                    "layer": "inter_node",
                    "split": "measured",
                    "transfer_start_ns": from_ns,
                    "transfer_start_low_ns": from_ns,
                    "transfer_start_high_ns": from_ns,
                }
                collectives.append(
                    {
                        "instance": instance,
                        "group": group,
                        "group_name": "default_pg",
                        "seq": instance,
                        "op": "all_reduce",
                        "dtype": "Float",
                        "bytes": 25_000_000,
                        "rank": r,
                        "activity": number,
                        "window": 0,
                        "step": step,
                        "start_ns": a,
                        "end_ns": b,
                        "wait_ns": from_ns - a,
                        "transfer_ns": b - from_ns,
                        "split": "measured",
                        "layer": "inter_node",
                        "members": ranks,
                        "seen": ranks,
                        "error_ns": 12_000,
                    }
                )
            activities.append(row)
            number += 1
        for r in range(ranks):
            borders[(r, step)] = (origin, end)
        origin = end
    return activities, collectives, borders


def _breakdown(activities, borders) -> pl.DataFrame:  # type: ignore[no-untyped-def]
    lane, start, end, bit = [], [], [], []
    for row in activities:
        if row["kind"] == "compute":
            parts = [(row["start_ns"], row["end_ns"], 0)]
        else:
            parts = [(row["start_ns"], row["transfer_start_ns"], 2), (row["transfer_start_ns"], row["end_ns"], 1)]
        for a, b, kind in parts:
            lane.append(row["rank"]), start.append(a), end.append(b), bit.append(kind)
    keys = sorted(borders)
    a64 = lambda values: np.array(values, np.int64)  # noqa: E731
    times = mask_times(
        a64(lane),
        a64(start),
        a64(end),
        a64(bit),
        a64([k[0] for k in keys]),
        a64([borders[k][0] for k in keys]),
        a64([borders[k][1] for k in keys]),
        3,
    )
    rows = []
    for (rank, step), m in zip(keys, times.tolist(), strict=True):
        compute = m[1] + m[3] + m[5] + m[7]
        transfer, wait, hidden_t, hidden_w = m[2] + m[6], m[4], m[3] + m[7], m[5]
        rows.append(
            {
                "rank": rank,
                "window": 0,
                "step": step,
                "device": rank,
                "step_ns": sum(m),
                "compute_ns": compute,
                "exposed_transfer_ns": transfer,
                "exposed_wait_ns": wait,
                "exposed_comm_ns": transfer + wait,
                "exposed_memory_ns": 0,
                "idle_ns": m[0],
                "hidden_comm_ns": hidden_t + hidden_w,
                "hidden_transfer_ns": hidden_t,
                "hidden_wait_ns": hidden_w,
                "comm_ns": transfer + wait + hidden_t + hidden_w,
                "exposed_transfer_inter_node_ns": transfer,
                "exposed_transfer_intra_node_ns": 0,
                "exposed_transfer_unplaced_ns": 0,
                "exposed_unknown_ns": 0,
                "exposed_bounded_ns": 0,
                "hidden_unknown_ns": 0,
                "exposed_transfer_low_ns": transfer,
                "exposed_transfer_high_ns": transfer,
                "exposed_delay_ns": transfer,
                "split": "measured",
                "basis": "transfer",
            }
        )
    zero = {column.name: 0 for column in TABLES["breakdown"].columns if column.unit == "ns" and column.name not in rows[0]}
    return pl.DataFrame([{**row, **zero} for row in rows])


def _pool(rows: pl.DataFrame, threshold: float) -> dict[str, object]:
    total = {name: int(rows[name].sum()) for name in rows.columns if name.endswith("_ns")}
    count, step = rows.height, int(rows["step_ns"].sum())
    ms = {
        name.removesuffix("_ns") + "_ms": value / count / _MS
        for name, value in total.items()
        if name.removesuffix("_ns") + "_ms" in Breakdown.__struct_fields__
    }
    network = total["exposed_transfer_ns"] / step
    flagged = network > threshold
    shares = {
        "network_share": network,
        "network_share_low": network,
        "network_share_high": network,
        "comm_share": total["exposed_comm_ns"] / step,
        "wait_share": total["exposed_wait_ns"] / step,
        "fabric_share": network,
        "network_delay_share": network,
    }
    return {
        "iterations": count,
        "iteration_ms": step / count / _MS,
        **ms,
        **shares,
        "split": "measured",
        "basis": "transfer",
        "flagged": flagged,
        "flag_certain": flagged,
    }


def _verdict(run: Run, breakdown: pl.DataFrame, findings: list[Finding], issues: list[Issue], threshold: float) -> Verdict:
    totals = _pool(breakdown, threshold)
    facts = run.facts
    slow = findings[0].subject.ranks[0]
    group = facts.ranks
    per_instance = (
        run.frame("collectives")
        .group_by("instance", "step")
        .agg(pl.col("transfer_ns").min(), "rank", "wait_ns", pl.col("start_ns").min())
        .sort("instance")
    )
    instances = [
        InstanceRow(
            group=group,
            name="default_pg",
            seq=i,
            op="all_reduce",
            bytes=25_000_000,
            step=s,
            first_rank=r[w.index(max(w))],
            last_rank=r[w.index(0)],
            start_ms=(at - _EPOCH_NS) / _MS,
            transfer_ms=t / _MS,
            waits_ms={str(a): b / _MS for a, b in zip(r, w, strict=True)},
            split="measured",
        )
        for i, s, t, r, w, at in per_instance.rows()
    ]
    share = totals["network_share"]
    return Verdict(
        netlab_version="0.1.0",
        created_at="2026-11-30T12:00:00Z",
        run=RunSummary(
            name=facts.name,
            world_size=facts.world_size,
            ranks=facts.ranks,
            missing_ranks=[],
            hosts=facts.hosts,
            steps=facts.steps,
            excluded_steps=[],
            window="step",
            backend="device",
            sources=[
                SourceRow(path=f"rank{r}.json", reader="kineto", sha256="ab" * 32, rows=100, lines_unparsed=0, status="ok")
                for r in facts.ranks
            ],
        ),
        clock=ClockSummary(aligned=True, offsets_ms={"nodea": 0.0, "nodeb": 3.0}, max_error_ms=0.012),
        threshold=threshold,
        status="flagged" if totals["flagged"] else "warn",
        flagged=bool(totals["flagged"]),
        cause="fabric" if totals["flagged"] else "straggler",
        headline=f"The network moves data for {share:.1%} of the step." if totals["flagged"] else f"Mostly waiting for rank {slow}.",
        split="measured",
        basis="transfer",
        totals=Breakdown(**totals),  # type: ignore[arg-type]
        by_rank=[RankRow(rank=r, device=r, **_pool(part, threshold)) for (r,), part in breakdown.group_by("rank", maintain_order=True)],  # type: ignore[arg-type]
        by_step=[StepRow(step=s, **_pool(part, threshold)) for (s,), part in breakdown.sort("step").group_by("step", maintain_order=True)],  # type: ignore[arg-type]
        by_rank_step=[
            RankStepRow(rank=r, step=s, device=r, **_pool(part, threshold))
            for (r, s), part in breakdown.group_by("rank", "step", maintain_order=True)
        ],  # type: ignore[arg-type]
        by_group=[
            GroupRow(
                group=group,
                name="default_pg",
                layer="inter_node",
                transfer_ms=180.0,
                wait_ms=60.0,
                exposed_transfer_ms=66.0,
                bytes=450_000_000,
                busbw_gb_per_s=4.4,
                roofline_gb_per_s=12.5,
                efficiency=0.35,
            )
        ],
        collectives=[
            CollectiveRow(
                group=group,
                op="all_reduce",
                dtype="Float",
                bytes=25_000_000,
                count=len(instances),
                transfer_ms_median=10.0,
                transfer_ms_p95=11.0,
                wait_ms_mean=1.2,
                algbw_gb_per_s=2.5,
                busbw_gb_per_s=4.4,
                split="measured",
            )
        ],
        instances=instances,
        p2p=[
            P2PRow(
                src=row["src"],
                dst=row["dst"],
                bytes=row["bytes"],
                step=0,
                transfer_ms=row["transfer_ns"] / _MS,
                wait_src_ms=0.0,
                wait_dst_ms=0.05,
                split="measured",
            )
            for row in run.frame("p2p").to_dicts()
        ],
        stragglers=[StragglerRow(rank=slow, last_count=9, caused_wait_ms=56.0, share_of_wait=0.9, z_score=5.5, delayed_by="compute")],
        findings=[FindingRow.of(finding) for finding in findings],
        issues=issues,
    )
