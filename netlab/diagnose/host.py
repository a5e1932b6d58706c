"""Findings about the host: a GPU that waits for launches, and copies between host and device."""

from __future__ import annotations

import polars as pl

from netlab.diagnose.limits import HOST_COPY_SHARE, IDLE_SHARE, OWN_DESIGN
from netlab.diagnose.shares import percent
from netlab.diagnose.timeline import Timeline, name_ranks
from netlab.findings import Finding, Subject
from netlab.units import NS_PER_MS, format_numbers

__all__ = ["host_bound", "host_copies", "unqueued_share"]


def unqueued_share(timeline: Timeline) -> float | None:
    """Part of pooled step time in which the device was idle with nothing queued; None where launches are not known."""
    pooled = timeline.pooled
    if not pooled.height or pooled["idle_unqueued_ns"].null_count():
        return None
    return int(pooled["idle_unqueued_ns"].sum()) / max(int(pooled["step_ns"].sum()), 1)


def host_bound(timeline: Timeline) -> list[Finding]:
    """HOST_BOUND: idle for more than a quarter of the step while the host had queued nothing."""
    share = unqueued_share(timeline)
    if share is None or share <= IDLE_SHARE:
        return []
    by_rank = timeline.pooled.group_by("rank").agg(pl.col("idle_unqueued_ns", "step_ns").sum())
    by_rank = by_rank.with_columns(share=pl.col("idle_unqueued_ns") / pl.col("step_ns")).sort("share", "rank", descending=[True, False])
    ranks = by_rank.filter(pl.col("share") > IDLE_SHARE)["rank"].sort().to_list()
    return [
        Finding(
            code="HOST_BOUND",
            title=f"The GPUs wait for their hosts: idle {percent(share)} of the step with nothing queued",
            detail=(
                f"Between the end of the last kernel and the end of the next launch call no work was pending. The limit is "
                f"{percent(IDLE_SHARE)} of pooled step time. Highest on {name_ranks(by_rank['rank'].head(3).to_list())}."
            ),
            action="Cut launches (CUDA graphs, torch.compile, larger batches) and synchronising calls (.item()); look at the data loader.",
            source=OWN_DESIGN,
            subject=Subject(ranks=ranks),
            evidence=[{"rank": row["rank"], "idle_unqueued_share": row["share"]} for row in by_rank.head(8).iter_rows(named=True)],
            time_lost_ms=int(timeline.pooled["idle_unqueued_ns"].sum()) / timeline.pooled.height / NS_PER_MS,
            cause="host",
        )
    ]


def host_copies(timeline: Timeline) -> list[Finding]:
    """HOST_COPIES: copies between host and device take more than a tenth of a step."""
    pooled = timeline.pooled
    if not pooled.height:
        return []
    above = pooled.filter(pl.col("host_copy_ns") * round(1 / HOST_COPY_SHARE) > pl.col("step_ns"))
    if not above.height:
        return []
    overall = int(pooled["host_copy_ns"].sum()) / max(int(pooled["step_ns"].sum()), 1)
    bare = int(pooled["exposed_host_copy_ns"].sum()) / max(int(pooled["step_ns"].sum()), 1)
    ranks = sorted(above["rank"].unique().to_list())
    steps = sorted(above["step"].unique().to_list()) if "step" in above.columns else []
    many = overall > HOST_COPY_SHARE
    where = "the step" if many else f"steps {format_numbers(steps)} on {name_ranks(ranks)}" if steps else f"the span on {name_ranks(ranks)}"
    worst = above.with_columns(share=pl.col("host_copy_ns") / pl.col("step_ns")).sort("share", "rank", descending=[True, False])
    shown = overall if many else float(worst["share"][0])
    return [
        Finding(
            code="HOST_COPIES",
            title=f"Copies between host and device take {percent(shown)} of {where}",
            detail=(
                f"The limit is {percent(HOST_COPY_SHARE)} of a step. Overall it is {percent(overall)}, of which {percent(bare)} is covered "
                "by nothing."
            ),
            action="Copy from pinned memory with non_blocking=True on its own stream, prefetch batches, and keep tensors on the device.",
            source=OWN_DESIGN,
            severity="warning" if many else "info",
            subject=Subject(ranks=ranks, steps=steps),
            evidence=[
                {"rank": row["rank"], "step": row.get("step"), "host_copy_ms": row["host_copy_ns"] / NS_PER_MS, "share": row["share"]}
                for row in worst.head(8).iter_rows(named=True)
            ],
            time_lost_ms=int(pooled["exposed_host_copy_ns"].sum()) / pooled.height / NS_PER_MS,
            cause="host",
        )
    ]
