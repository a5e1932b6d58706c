"""Two runs side by side: step beside step, rank beside rank, collective beside collective."""

from __future__ import annotations

import polars as pl

from netlab.postmortem.series import PARTS, compared_rows, part_means
from netlab.run import Run
from netlab.schema.comparison import COMPARED_COLLECTIVES, COMPARED_RANKS, COMPARED_STEPS
from netlab.units import NS_PER_MS

__all__ = ["collectives_beside", "numbered_alike", "ranks_beside", "steps_beside"]

#: Steps stand beside each other by number if at least this share of the shorter run's numbers is in both.
_MOSTLY = 0.5
_SHOWN = ("step", *PARTS)
#: A step by its number; captured several times, by which time it is. Windows count from each run's own first file.
_PLACE = ["repeat", "step"]


def numbered_alike(base: Run, run: Run) -> bool:
    """Whether step n of one run stands beside step n of the other, rather than first beside first."""
    old, new = (set(_steps(side).select(_PLACE).iter_rows()) for side in (base, run))
    return bool(old) and bool(new) and len(old & new) >= _MOSTLY * min(len(old), len(new))


def _steps(run: Run) -> pl.DataFrame:
    """Mean step and parts over ranks, in the order of time: ``repeat, step`` and a column in ns for each."""
    rows = compared_rows(run)
    if "step" not in rows.columns:
        return pl.DataFrame(schema={"repeat": pl.Int64, "step": pl.Int32, **dict.fromkeys(_SHOWN[1:], pl.Float64), "step_ns": pl.Float64})
    means = [pl.col("step_ns").mean(), *(pl.col(f"{part}_ns").mean().alias(part) for part in PARTS)]
    series = rows.group_by("window", "step").agg(means).sort("window", "step")
    return series.with_columns(repeat=pl.int_range(pl.len(), dtype=pl.Int64).over("step"))


def steps_beside(base: Run, run: Run) -> pl.DataFrame:
    """``COMPARED_STEPS`` of two runs; empty where one has no steps."""
    old, new = _steps(base), _steps(run)
    if not old.height or not new.height:
        return COMPARED_STEPS.empty()
    if numbered_alike(base, run):
        keys = pl.concat([old.select(_PLACE), new.select(_PLACE)]).unique().sort(_PLACE)
        placed = keys.with_row_index("position")
        old, new = (side.join(placed, on=_PLACE) for side in (old, new))
    else:
        old, new = (side.with_row_index("position") for side in (old, new))
    sides = [_long(side, name) for side, name in ((old, "base"), (new, "run"))]
    joined = sides[0].join(sides[1], on=["position", "part"], how="full", coalesce=True)
    return COMPARED_STEPS.conform(joined)


def _long(side: pl.DataFrame, name: str) -> pl.DataFrame:
    wide = side.select("position", pl.col("step").alias(f"{name}_step"), pl.col("step_ns").alias("step"), *PARTS)
    return wide.unpivot(_SHOWN, index=["position", f"{name}_step"], variable_name="part", value_name=f"{name}_ns")


def ranks_beside(base: Run, run: Run) -> pl.DataFrame:
    """``COMPARED_RANKS``: every rank that either run has."""
    sides = []
    for side, name in ((base, "base"), (run, "run")):
        means = part_means(side).select("rank", pl.col(*_SHOWN) * NS_PER_MS)
        sides.append(means.unpivot(_SHOWN, index="rank", variable_name="part", value_name=f"{name}_ns"))
    return COMPARED_RANKS.conform(sides[0].join(sides[1], on=["rank", "part"], how="full", coalesce=True))


def collectives_beside(base: Run, run: Run) -> pl.DataFrame:
    """``COMPARED_COLLECTIVES``: by group where both runs have the same groups, else by layer."""
    sides = [_instances(side) for side in (base, run)]
    groups = [set(side["group"]) for side in sides]
    by_group = pl.col("group") if groups[0] == groups[1] else pl.col("layer")
    means = []
    for side, side_run, name in zip(sides, (base, run), ("base", "run"), strict=True):
        scoped = side.with_columns(by_group.alias("scope"))
        # Of all (step, group) of a scope: what comes in each stands at every place of its row, what comes once in a while in a few.
        whole = scoped.group_by("scope").agg(pl.col("group").n_unique()).select("scope", whole=pl.col("group") * _count_of_steps(side_run))
        values = [pl.col(value).mean().alias(f"{name}_{value}") for value in ("bytes", "transfer_ns", "wait_ns")]
        found = scoped.group_by("op", "scope", "place").agg(pl.len().alias("there"), *values).join(whole, on="scope")
        means.append(found.with_columns((pl.col("there") / pl.col("whole")).alias(f"{name}_share")).drop("there", "whole"))
    return COMPARED_COLLECTIVES.conform(means[0].join(means[1], on=["op", "scope", "place"], how="full", coalesce=True))


def _count_of_steps(run: Run) -> int:
    rows = compared_rows(run)
    return max(1, rows.select("window", "step").n_unique()) if "step" in rows.columns else 1


def _instances(run: Run) -> pl.DataFrame:
    """One row per instance of the compared steps, with its place in its step."""
    rows = compared_rows(run)
    frame = run.frame("collectives").filter(pl.col("step").is_not_null())
    if "step" in rows.columns:
        frame = frame.join(rows.select("window", "step").unique(), on=["window", "step"], how="semi")
    once = frame.group_by("instance").agg(
        pl.col("op", "group", "layer", "window").first(),
        pl.col("step").min(),
        pl.col("start_ns").min(),
        pl.col("bytes").max(),
        pl.col("transfer_ns", "wait_ns").mean(),
    )
    # Members may start an instance in different steps: it belongs to the earliest.
    place = pl.col("start_ns").rank("ordinal").over("window", "step", "group", "op") - 1
    return once.sort("instance").with_columns(place.cast(pl.Int32).alias("place"))
