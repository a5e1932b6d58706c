"""The rule about who comes last, by the durations of dumps and the inspector."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

import polars as pl

from netlab.diagnose.nccl_evidence import Evidence, Row, finding, hosts_of
from netlab.findings import Finding

__all__ = ["late_ranks"]


def late_ranks(evidence: Evidence) -> Iterator[Finding]:
    """A rank whose operations are short while those of the others are long: they wait for it. Only without a timeline, which tells more."""
    if evidence.has_timeline:
        return
    flight = evidence.flight.filter((pl.col("timing") == "device") & ~pl.col("is_p2p").fill_null(False))
    flight = flight.with_columns(size=pl.col("group").str.split(",").list.len().cast(pl.Int64))
    inspected = evidence.profiler.filter(
        (pl.col("kind") == pl.col("op"))
        & ~pl.col("op").is_in(["send", "recv", "unknown"])
        & pl.col("rank").is_not_null()
        & pl.col("seq").is_not_null()
    )
    inspected = inspected.with_columns(size=pl.col("nranks"), group_name=pl.lit(None, pl.String))
    for frame, name, tool in ((flight, "group", "flight recorder"), (inspected, "comm_id", "NCCL Inspector")):
        found = _late(frame, name)
        if found is None:
            continue
        rank, last, count, caused_ms, groups, rows = found
        yield finding(
            "STRAGGLER",
            f"Rank {rank} arrives last in {last} of {count} collectives; the others wait {caused_ms:.1f} ms for it in all.",
            detail=(
                f"By the {tool}'s durations: in a collective the last one to arrive has the shortest time, and the rest of the "
                "others' time is waiting. "
                "What held it up (its compute, host or input) these records do not tell."
            ),
            action="Record a trace of that rank and one other (netlab.capture) and compare; check its clocks, temperature and data loader.",
            source="definition of wait and transfer, docs/methods.md",
            evidence=rows,
            ranks=[rank],
            groups=groups,
            hosts=hosts_of(evidence, [rank]),
            cause="straggler",
        )


def _plain(shared: pl.DataFrame, clear: pl.DataFrame, group: str, rank: int) -> bool:
    """With few collectives: one rank is late in all of them, by more than three times the spread of the others."""
    if set(clear["rank"]) != {rank}:
        return False
    rest = (
        shared.filter(pl.col("rank") != rank)
        .group_by(group, "group_name", "seq")
        .agg(least=pl.col("duration_ns").min(), most=pl.col("duration_ns").max())
    )
    both = clear.join(rest, on=[group, "group_name", "seq"], nulls_equal=True)
    return bool(both.select(((pl.col("least") - pl.col("low")) > 3 * (pl.col("most") - pl.col("least"))).all()).item())


def _late(frame: pl.DataFrame, group: str) -> tuple[int, int, int, float, list[str], list[Row]] | None:
    """The rank that is last clearly more often than chance explains, or None."""
    shared = frame.filter(pl.col("duration_ns").is_not_null()).unique([group, "group_name", "seq", "rank"], maintain_order=True)
    if shared.is_empty():
        return None
    per = shared.group_by(group, "group_name", "seq").agg(
        members=pl.len(),
        size=pl.col("size").max(),
        rank=pl.col("rank").sort_by("duration_ns").first(),
        low=pl.col("duration_ns").min(),
        rest=pl.col("duration_ns").sum(),
    )
    # Who came last is known only if every member was seen.
    per = per.filter((pl.col("members") > 1) & (pl.col("members") == pl.col("size")))
    per = per.with_columns(caused=pl.col("rest") - pl.col("members") * pl.col("low"))
    # Below a tenth of the operation (and 50 us) a difference is launch jitter, not waiting.
    clear = per.filter(
        (pl.col("caused") / (pl.col("members") - 1) > 0.1 * pl.col("low")) & (pl.col("caused") / (pl.col("members") - 1) > 50_000)
    )
    if clear.is_empty():
        return None
    blamed = (
        clear.group_by("rank")
        .agg(last=pl.len(), caused=pl.col("caused").sum(), groups=pl.col(group).unique())
        .sort("caused", descending=True)
    )
    top = blamed.row(0, named=True)
    trials, ranks = clear.height, shared["rank"].n_unique()
    chance = sum(comb(trials, k) * (1 / ranks) ** k * (1 - 1 / ranks) ** (trials - k) for k in range(top["last"], trials + 1)) * ranks
    if (chance > 1e-3) if trials >= 5 else not _plain(shared, clear, group, top["rank"]):
        return None
    groups = sorted(str(name) for name in top["groups"] if name is not None)
    worst = clear.filter(pl.col("rank") == top["rank"]).sort("caused", descending=True).head(1)
    shown = shared.join(worst.select(group, "group_name", "seq"), on=[group, "group_name", "seq"], how="semi", nulls_equal=True).sort(
        "rank"
    )
    rows = [
        {
            "host": None,
            "source": r["source"],
            "line": None,
            "message": f"rank {r['rank']}: {r['op']} {r['seq']} took {r['duration_ns'] / 1e6:.3f} ms",
        }
        for r in shown.iter_rows(named=True)
    ]
    return int(top["rank"]), int(top["last"]), per.height, top["caused"] / 1e6, groups, rows
