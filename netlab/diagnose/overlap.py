"""Findings about communication that compute could cover, and about phases of slow steps."""

from __future__ import annotations

import polars as pl

from netlab.diagnose.limits import OPEN_TRANSFER_SHARE, OVERLAP_LOW, OWN_DESIGN
from netlab.diagnose.shares import percent
from netlab.diagnose.timeline import Timeline, layer_cause, pooled_exposed
from netlab.findings import Finding, Subject
from netlab.units import NS_PER_MS, format_ms, format_numbers, format_percent

__all__ = ["change_point", "no_overlap"]

#: Collectives of these kinds stand between two computations that need each other; nothing can be moved over them without another split.
_ON_THE_PATH = ("TP", "CP", "EP", "PP")

_PARTS = ("compute", "exposed_transfer", "exposed_wait", "exposed_memory", "idle")


def no_overlap(timeline: Timeline) -> list[Finding]:
    """NO_OVERLAP: gradients and parameters travel in the open although there is compute that could cover them."""
    pooled = timeline.pooled
    if not pooled.height or timeline.totals["exposed_transfer_ms"] is None:
        return []
    on_path = timeline.groups.filter(pl.col("parallelism").is_in(_ON_THE_PATH))["group"].unique().to_list()
    movable = timeline.instances.filter(~pl.col("group").is_in(on_path) & ~pl.col("op").is_in(["barrier", "send", "recv"]))
    members = pooled_exposed(timeline).join(movable.select("instance", "group"), on="instance").drop_nulls("exposed_transfer_ns")
    transfer, exposed = int(members["transfer_ns"].sum()), int(members["exposed_transfer_ns"].sum())
    whole = int(pooled["step_ns"].sum())
    # At most as much can be hidden as there is compute that hides nothing yet.
    free = int(pooled["compute_ns"].sum()) - int(pooled["hidden_comm_ns"].sum())
    gain = min(exposed, free)
    if not transfer or (transfer - exposed) > OVERLAP_LOW * transfer or gain < OPEN_TRANSFER_SHARE * whole:
        return []
    groups = (
        members.group_by("group").agg(pl.col("exposed_transfer_ns").sum()).sort("exposed_transfer_ns", "group", descending=[True, False])
    )
    same = _on_compute_stream(timeline)
    # A single collective a step may need all of the step's compute; of several in a row the first could have started earlier.
    several = members.height >= 2 * pooled.height
    reason = " Communication runs on the stream of compute, where it cannot overlap." if same else ""
    named = timeline.groups.filter(pl.col("description").is_not_null() & ~pl.col("description").is_in(["default_pg", "undefined"]))
    if groups["group"].is_in(named["group"].implode()).not_().any():
        reason += (
            " The trace does not say what a group with such transfer is for: where activations travel in it (tensor or context parallel), "
            "they stand on the critical path and this does not apply; group_desc of new_group tells."
        )
    return [
        Finding(
            code="NO_OVERLAP",
            title=f"Communication is not hidden: {percent(exposed / whole)} of the step is transfer in the open, "
            f"{percent(1 - exposed / transfer)} of all transfer is covered",
            detail=(
                f"Of {_mean(transfer, pooled)} transfer per step {_mean(transfer - exposed, pooled)} runs under compute; below "
                f"{format_percent(OVERLAP_LOW)} counts as none. Compute that covers nothing yet lasts "
                f"{_mean(free, pooled)}.{reason} Groups on the critical path (TP, CP, EP, PP) are not counted."
            ),
            action="Start collectives per bucket during backward (DDP buckets, FSDP prefetch), on their own stream, without synchronising.",
            source=OWN_DESIGN,
            severity="warning" if several else "info",
            subject=Subject(groups=groups["group"].to_list()),
            evidence=[{"group": row[0], "exposed_transfer_ms": row[1] / NS_PER_MS} for row in groups.head(8).iter_rows()],
            time_lost_ms=gain / pooled.height / NS_PER_MS,
            cause="schedule",
        )
    ]


def _mean(total_ns: int, pooled: pl.DataFrame) -> str:
    return format_ms(total_ns / pooled.height / NS_PER_MS)


def _on_compute_stream(timeline: Timeline) -> bool:
    streams = timeline.activities.filter(pl.col("stream").is_not_null())
    compute = streams.filter(pl.col("kind") == "compute").select("rank", "stream").unique()
    communication = streams.filter(pl.col("kind") == "communication").select("rank", "stream").unique()
    return bool(communication.height) and communication.join(compute, on=["rank", "stream"], how="anti").height == 0


def change_point(timeline: Timeline) -> list[Finding]:
    """CHANGE_POINT: from one step on steps are slower, and what grew."""
    if not timeline.change_points.height:
        return []
    row = timeline.change_points.row(0, named=True)
    inside = (pl.col("window") == row["window"]) & pl.col("step").is_between(row["first_step"], row["last_step"])
    parts = [f"{name}_ns" for name in _PARTS]
    slow, usual = timeline.pooled.filter(inside), timeline.pooled.filter(~inside)
    grown = {name: float(slow[name].mean() or 0) - float(usual[name].mean() or 0) for name in parts}  # type: ignore[arg-type]
    part = max(grown, key=lambda name: grown[name])
    steps = sorted(slow["step"].unique().to_list())
    more = row["changed_ns"] - row["usual_ns"]
    word = part.removesuffix("_ns").replace("_", " ")
    layer = max(("inter_node", "intra_node"), key=lambda name: int(slow[f"exposed_transfer_{name}_ns"].sum()))
    until = "" if row["open"] else f" until step {row['last_step']}"
    count = timeline.pooled.select("window", "step").unique().height
    return [
        Finding(
            code="CHANGE_POINT",
            title=f"Steps are slower from step {row['first_step']} on{until}: {format_ms(row['changed_ns'] / NS_PER_MS)} "
            f"instead of {format_ms(row['usual_ns'] / NS_PER_MS)}, mostly {word}",
            detail=(
                f"Medians of the mean step time over ranks. By chance such a stretch shows up with probability {row['p_value']:.3f} "
                f"(permutation test; the limit is 0.01). Of the parts of the step {word} grew most."
            ),
            action=f"Look for what happened at step {row['first_step']}: counters, logs, a neighbour job, a checkpoint, a throttled GPU.",
            source="Levin and Kline, The CUSUM test of homogeneity, Statistics in Medicine 4 (1985); " + OWN_DESIGN,
            subject=Subject(steps=steps),
            evidence=[
                {"steps": format_numbers(steps), **{name.replace("_ns", "_delta_ms"): value / NS_PER_MS for name, value in grown.items()}}
            ],
            time_lost_ms=more * len(steps) / max(count, 1) / NS_PER_MS,
            cause=layer_cause(layer) if part == "exposed_transfer_ns" and slow[f"exposed_transfer_{layer}_ns"].sum() else "none",
        )
    ]
