"""Who makes a Megatron job slow: what evening out a stage, the slowest ranks, compute or communication alone would win.

The questions, their measures and the limits are those of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI
2025, arXiv 2505.05713): S, the slowdown; M_W and M_S, the shares of the loss that the slowest 3 % of workers and the last stage explain;
the correlation of a micro-batch's forward with its backward time, which tells sequences of unequal length from slow hardware.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from netlab.errors import RunError
from netlab.findings import Finding, Subject
from netlab.issues import Issue
from netlab.units import format_ms, format_numbers, format_percent
from netlab.whatif.megatron import Floats, Job, open_job

__all__ = ["Uneven", "uneven", "uneven_findings"]

_SOURCE = "arXiv 2505.05713 (S >= 1.1; M_W and M_S >= 0.5; correlation >= 0.9)"
#: A job is slowed by stragglers from here on, and a part explains it from here on.
_SLOW, _EXPLAINS, _CORRELATED = 1.1, 0.5, 0.9
#: Micro-batches that vary by less (standard deviation over mean, within a rank) are of one length.
_VARIES = 0.1
#: Workers that are taken together, as a share of all.
_SLOWEST = 0.03
#: Data-parallel ranks whose slowness is replayed one by one: those with the longest operations.
_REPLAYED_RANKS = 32


@dataclass(frozen=True)
class Uneven:
    """``shares`` say what evening out one part alone wins of what evening out all wins; more than 1 where others gain, too.

    ``workers`` are the slowest 3 % as (stage, data-parallel rank), ``correlation`` is null where no rank's micro-batches vary.
    """

    replayed_ms: float
    even_ms: float
    measured_ms: float
    stage: int
    workers: tuple[tuple[int, int], ...]
    shares: dict[str, float]
    correlation: float | None

    @property
    def slowdown(self) -> float:
        """Replayed over even step time."""
        return self.replayed_ms / self.even_ms

    @property
    def lost_ms(self) -> float:
        """What evening out all operations wins."""
        return self.replayed_ms - self.even_ms


def uneven(operations: pl.DataFrame) -> Uneven:
    """Take one job apart.

    Parameters
    ----------
    operations
        ``JOB_OPERATIONS`` rows of one source.

    Raises
    ------
    RunError
        As ``open_job``.
    """
    job = open_job(operations)
    even = job.even()
    before, after = job.step_ms(job.own), job.step_ms(even)
    stages, lanes = np.unique(job.program.stages), np.arange(job.ranks)
    compute = np.array(["compute" in op for op in job.program.ops])
    saved = {int(stage): before - job.step_ms(_taken(job.own, even, job.program.stages == stage, lanes)) for stage in stages}
    workers = _slowest_workers(job, even, stages)
    of_workers = job.own
    for stage, lane in workers:
        of_workers = _taken(of_workers, even, job.program.stages == stage, np.array([lane]))
    parts = {
        "stage": max(saved.values()),
        "workers": before - job.step_ms(of_workers),
        "compute": before - job.step_ms(_taken(job.own, even, compute, lanes)),
        "communication": before - job.step_ms(_taken(job.own, even, ~compute, lanes)),
        "last stage": saved[int(stages[-1])],
    }
    lost = before - after
    return Uneven(
        replayed_ms=before,
        even_ms=after,
        measured_ms=job.measured_ms,
        stage=max(saved, key=lambda stage: saved[stage]),
        workers=workers,
        shares={name: part / lost if lost > 0 else 0.0 for name, part in parts.items()},
        correlation=_correlation(operations),
    )


def _taken(times: Floats, other: Floats, operations: np.ndarray, lanes: np.ndarray) -> Floats:
    """Times, with those of some operations on some ranks from another array."""
    mixed = times.copy()
    places = np.ix_(operations.nonzero()[0], lanes)
    mixed[places] = other[places]
    return mixed


def _slowest_workers(job: Job, even: Floats, stages: np.ndarray) -> tuple[tuple[int, int], ...]:
    """A worker is as slow as the job with only its stage, or only its data-parallel rank, as recorded, whichever is less."""
    every, lanes = np.ones(len(job.program.ops), bool), np.arange(job.ranks)
    excess = np.maximum(job.own - even, 0.0).sum(axis=(0, 2))
    longest = np.sort(np.argsort(-excess, kind="stable")[:_REPLAYED_RANKS])
    by_lane = [job.step_ms(_taken(even, job.own, every, np.array([lane]))) for lane in longest]
    by_stage = [job.step_ms(_taken(even, job.own, job.program.stages == stage, lanes)) for stage in stages]
    slowness = sorted(
        (-min(of_stage, of_lane), int(stage), int(lane))
        for stage, of_stage in zip(stages, by_stage, strict=True)
        for lane, of_lane in zip(longest, by_lane, strict=True)
    )
    return tuple((stage, lane) for _, stage, lane in slowness[: math.ceil(_SLOWEST * len(stages) * job.ranks)])


def _correlation(operations: pl.DataFrame) -> float | None:
    """Of forward with backward compute of the same micro-batch, the median over ranks whose micro-batches vary."""
    worker = ["stage", "dp_rank"]
    kinds = [
        operations.filter(pl.col("op") == f"{way}-compute")
        .group_by(*worker, "step", "model_chunk", "micro_batch")
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias(way))
        for way in ("forward", "backward")
    ]
    pairs = kinds[0].join(kinds[1], on=[*worker, "step", "model_chunk", "micro_batch"], nulls_equal=True)
    spread = pl.col("forward").std() / pl.col("forward").mean()
    each = pairs.group_by(worker).agg(pl.corr("forward", "backward").alias("r"), spread.alias("spread"))
    # A single slow rank has a reason of its own: most ranks have to vary.
    if not each.height or (each["spread"] > _VARIES).fill_null(value=False).mean() < _EXPLAINS:  # type: ignore[operator]
        return None
    middle = each.filter(pl.col("spread") > _VARIES)["r"].drop_nulls().median()
    return middle if isinstance(middle, float) else None


def uneven_findings(operations: pl.DataFrame) -> tuple[list[Finding], list[Issue]]:
    """Findings about the jobs of ``job_operations``, and an issue for each job whose schedule is not known."""
    findings, issues = [], []
    for (source,), rows in operations.group_by("source", maintain_order=True):
        try:
            found = uneven(rows)
        except RunError as error:
            message = f"{error} So nobody can be said to hold the job up."
            issues.append(Issue(code="SCHEDULE_UNKNOWN", severity="warning", source=str(source), message=message))
            continue
        if found.slowdown >= _SLOW:
            findings.append(_finding(found, rows))
    return findings, issues


def _finding(found: Uneven, rows: pl.DataFrame) -> Finding:
    who, ranks, action = _reason(found, rows)
    every = rows["rank"].n_unique()
    share = {name: format_percent(share, 0) for name, share in found.shares.items()}
    even, own, measured = (format_ms(time) for time in (found.even_ms, found.replayed_ms, found.measured_ms))
    return Finding(
        code="UNEVEN_OPERATIONS",
        title=f"{who} a step {found.slowdown:.2f} times longer",
        detail=(
            f"With every operation at the usual time of its kind a step takes {even} instead of {own} (replayed; measured {measured}). "
            f"Of that, evening out compute alone wins {share['compute']}, communication alone {share['communication']}, "
            f"stage {found.stage} alone {share['stage']}, the slowest 3 % of the ranks alone {share['workers']}."
        ),
        action=action,
        source=_SOURCE,
        subject=Subject(ranks=[] if len(ranks) == every else ranks),
        evidence=[
            {"slowdown": round(found.slowdown, 6), "threshold": _SLOW, "correlation": found.correlation, "stage": found.stage},
            *({"evened_out": name, "share_of_loss": round(share, 6)} for name, share in found.shares.items()),
        ],
        time_lost_ms=found.lost_ms,
        cause="straggler" if found.shares["compute"] >= _EXPLAINS else "unknown",
    )


def _reason(found: Uneven, rows: pl.DataFrame) -> tuple[str, list[int], str]:
    """Subject of the sentence, ranks, and what to do: single ranks first, then lengths, then a stage."""
    if found.shares["workers"] >= _EXPLAINS:
        ranks = _ranks(rows, found.workers)
        who = f"Rank {ranks[0]} makes" if len(ranks) == 1 else f"Ranks {format_numbers(ranks)} make"
        return who, ranks, "Compare clocks, host load and input of these ranks with the others; put them elsewhere and measure again."
    if found.correlation is not None and found.correlation >= _CORRELATED:
        action = "Give micro-batches the same cost: pack or sort sequences by the sum of their squared lengths."
        return "Micro-batches of unequal length make", [], action
    if found.shares["stage"] >= _EXPLAINS:
        last = found.stage == rows["stage"].max()
        ranks = _ranks(rows, [(found.stage, lane) for lane in rows["dp_rank"].unique()])
        action = "Give this stage fewer layers" + (": it computes the loss besides." if last else ".")
        return f"The {'last pipeline stage' if last else f'pipeline stage {found.stage}'} makes", ranks, action
    if found.shares["communication"] >= _EXPLAINS:
        return "Communication of unequal length makes", [], "Look at the links: NCCL logs, and counters of the ports of these ranks."
    return "Operations of unequal length make", [], "Look at garbage collection, input and clocks of the ranks whose compute varies most."


def _ranks(rows: pl.DataFrame, workers: list[tuple[int, int]] | tuple[tuple[int, int], ...]) -> list[int]:
    wanted = pl.DataFrame(workers, schema={"stage": rows.schema["stage"], "dp_rank": rows.schema["dp_rank"]}, orient="row")
    return rows.join(wanted, on=["stage", "dp_rank"], how="semi")["rank"].unique().sort().to_list()
