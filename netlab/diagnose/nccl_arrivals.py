"""A rule about calls of a collective that lie far apart, by flight-recorder dumps."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from netlab.diagnose.nccl_evidence import Evidence, finding
from netlab.findings import Finding

__all__ = ["call_skew"]

#: Calls that are closer than this are launch jitter.
SKEW_NS = 1_000_000


def call_skew(evidence: Evidence) -> Iterator[Finding]:
    """The rank that called a collective long after the others. Only where no durations and no timeline tell who waits for whom."""
    if evidence.has_timeline or (evidence.flight["timing"] == "device").any():
        return
    late = evidence.arrivals.filter(pl.col("excess_ns") >= SKEW_NS)
    if late.is_empty():
        return
    per_rank = late.group_by("rank").agg(calls=pl.len(), most=pl.col("excess_ns").max(), total=pl.col("excess_ns").sum())
    top = per_rank.sort("total", "rank", descending=[True, False]).row(0, named=True)
    worst = late.filter(pl.col("rank") == top["rank"]).sort("excess_ns", "seq", descending=[True, False]).row(0, named=True)
    of = evidence.arrivals.filter(pl.col("rank") == top["rank"]).height
    members = (
        evidence.flight.filter(
            (pl.col("group") == worst["group"])
            & pl.col("group_name").eq_missing(pl.lit(worst["group_name"], pl.String))
            & (pl.col("seq") == worst["seq"])
        )
        .unique("rank")
        .sort("rank")
    )
    yield finding(
        "CALL_SKEW",
        f"Rank {top['rank']} called {worst['op']} {worst['seq']} of group {worst['group']} {worst['excess_ns'] / 1e6:.1f} ms late.",
        detail=(
            f"By the instants of the calls it is more than {SKEW_NS / 1e6:.0f} ms behind the first member in {top['calls']} of {of} "
            "collectives; its least lag was taken off, since that may be the clock of its host. Calls are made on the CPU: how long others "
            "then waited is not recorded."
        ),
        action="Set TORCH_NCCL_ENABLE_TIMING=1 for durations, or record a trace of that rank and one other (netlab.capture).",
        source="PyTorch flight recorder, time_created_ns",
        evidence=members.to_dicts(),
        ranks=[top["rank"]],
        groups=[worst["group"]],
        severity="info",
    )
