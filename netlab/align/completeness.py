"""Which steps count: completeness, selection, and the steps that every rank has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.align.options import AlignOptions
from netlab.align.steps import launch_spans, span_of
from netlab.issues import Issue
from netlab.run import ExcludedStep
from netlab.shelf import Shelf
from netlab.units import format_numbers

__all__ = ["judge_steps", "pooled_steps"]

#: A step whose share of launches with a device event is below this fraction of the best step's has lost its device events.
_LEAST_KEPT = 0.5

_LANE = ["rank", "window"]
_KEY = [*_LANE, "step"]


def judge_steps(
    steps: pl.DataFrame, events: Shelf, launches: Shelf, files: pl.DataFrame, options: AlignOptions, issues: list[Issue]
) -> pl.DataFrame:
    """Add ``complete`` and the reason to the borders of :func:`netlab.align.steps.step_borders`.

    A step is incomplete if it has no time (absorbed), its mark has no end, it is the last of a truncated file, its launches have no device
    event while those of other steps have, no device activity touches it, or the user did not select it.
    """
    kept = _kept_launches(steps, events, launches, files)
    steps = steps.join(kept, on=_KEY, how="left", maintain_order="left")
    steps = steps.join(_touched(steps, events), on=_KEY, how="left", maintain_order="left")
    steps = steps.join(files.select("file", "path", "truncated", "damaged"), on="file", how="left", maintain_order="left")
    best = pl.col("kept").max()
    lost = pl.col("kept") < _LEAST_KEPT * best
    # Where bytes of the file are gone, each lost event counts; the step that kept most shows what a whole one is.
    whole = pl.when(pl.len().over("file") > 1).then(pl.col("kept").max().over("file")).otherwise(1.0)
    spoiled = pl.col("damaged") & (pl.col("kept") < whole)
    last = pl.col("step") == pl.col("step").last().over("rank", "window")
    selected = pl.lit(value=True)
    if options.steps is not None:
        selected = selected & pl.col("step").is_between(options.steps.start, options.steps.stop - 1)
    if options.ranks is not None:
        selected = selected & pl.col("rank").is_in(sorted(options.ranks))
    why = (
        pl.when(pl.col("reason") == "absorbed")
        .then("reason")
        .when(pl.col("mark_end_ns").is_null())
        .then(pl.lit("its mark has no end"))
        .when(pl.col("truncated") & last)
        .then(pl.lit("last step of a truncated file"))
        .when(spoiled)
        .then(pl.lit("damage of the file cost it device events"))
        .when(lost)
        .then(pl.lit("its launches have no device events"))
        .when(pl.col("touched").is_null())
        .then(pl.lit("no device events"))
        .when(~selected)
        .then(pl.lit("not selected"))
    )
    steps = steps.with_columns(why=why)
    _tell_lost_events(steps, issues)
    return steps.with_columns(complete=pl.col("why").is_null(), reason=pl.coalesce("why", "reason")).drop(
        "why", "kept", "touched", "truncated", "damaged"
    )


def _kept_launches(steps: pl.DataFrame, events: Shelf, launches: Shelf, files: pl.DataFrame) -> pl.DataFrame:
    """Share of each step's launches that have a device event; null where the step launches nothing."""
    names = launches.distinct("name").to_frame().filter(pl.col("name").cast(pl.String).str.contains(r"(?i)launch|memcpy|memset"))["name"]
    spans = launch_spans(steps)
    known = _correlations(events)
    nothing = np.empty(0, np.int64)
    counts = []
    for part in launches.stretches("file", "name", "start_ns", "correlation"):
        calls = part.filter(pl.col("name").is_in(names.implode())).join(files.select("file", *_LANE), on="file")
        calls = calls.with_columns(span_of(calls, spans, "start_ns").alias("step")).filter(pl.col("step").is_not_null())
        for (file,), of_file in calls.group_by("file"):
            seen = _is_among(of_file["correlation"].to_numpy(), known.get(file, nothing))
            lane = of_file.select(_KEY).with_columns(seen=pl.Series(seen))
            counts.append(lane.group_by(_KEY).agg(launched=pl.len(), seen=pl.col("seen").sum()))
    if not counts:
        return steps.select(*_KEY, kept=pl.lit(None, pl.Float64)).clear()
    return pl.concat(counts).group_by(_KEY).agg(kept=pl.col("seen").sum() / pl.col("launched").sum())


def _is_among(values: NDArray[np.int64], ordered: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(values), bool)
    return np.asarray(ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values)


def _correlations(events: Shelf) -> dict[object, NDArray[np.int64]]:
    """Correlation ids of the device events of each file, sorted."""
    found: dict[object, list[NDArray[np.int64]]] = {}
    for part in events.stretches("file", "correlation"):
        for (file,), of_file in part.drop_nulls().group_by("file"):
            found.setdefault(file, []).append(of_file["correlation"].to_numpy())
    return {file: np.sort(np.concatenate(ids)) for file, ids in found.items()}


def _touched(steps: pl.DataFrame, events: Shelf) -> pl.DataFrame:
    """Steps in which a device activity runs for at least an instant."""
    bounds = steps.select(*_KEY, "start_ns", before_ns=pl.col("end_ns") - 1).sort("before_ns")
    found = []
    for part in events.stretches(*_LANE, "start_ns", "end_ns"):
        spans = part.filter(pl.col("end_ns") > pl.col("start_ns")).sort("start_ns")
        # The running maximum of ends answers "does anything that started before this step's end reach into it?".
        reach = spans.select(*_LANE, "start_ns", reach_ns=pl.col("end_ns").cum_max().over(_LANE))
        near = bounds.join_asof(reach, left_on="before_ns", right_on="start_ns", by=_LANE, coalesce=False, check_sortedness=False)
        found.append(near.filter(pl.col("reach_ns") > pl.col("start_ns")).select(_KEY))
    return pl.concat(found).unique().with_columns(touched=pl.lit(value=True))


def _tell_lost_events(steps: pl.DataFrame, issues: list[Issue]) -> None:
    # A file without any device event has an issue of its own (NO_DEVICE_EVENTS).
    some = (pl.col("touched").is_not_null() | pl.col("kept").fill_null(0).gt(0)).any().over("file")
    lost = steps.filter(some & pl.col("why").str.contains("no device events").fill_null(value=False))
    for path, numbers, total in (
        lost.join(steps.group_by("path").agg(total=pl.len()), on="path")
        .group_by("path", maintain_order=True)
        .agg(pl.col("step"), pl.col("total").first())
        .iter_rows()
    ):
        which = format_numbers(numbers)
        text = (
            f"{len(numbers)} of {total} steps are without device events (steps {which}): the profiler lost them or had not "
            f"started. They are kept out of the figures, which cover {total - len(numbers)} of {total} steps."
        )
        issues.append(Issue(code="STEP_WITHOUT_DEVICE_EVENTS", message=text, source=path))


def pooled_steps(steps: pl.DataFrame, ranks: Sequence[int], issues: list[Issue]) -> tuple[list[int], list[ExcludedStep]]:
    """Steps that totals pool, and all (rank, step) that they do not.

    Pooled are the complete steps of every rank that has any; if they have none in common, all complete ones.
    """
    _tell_different_steps(steps, issues)
    whole = steps.filter("complete")
    having = whole["rank"].n_unique()
    common = whole.group_by("window", "step").agg(ranks=pl.col("rank").n_unique()).filter(pl.col("ranks") == having)
    pooled = common if common.height else whole.select("window", "step").unique()
    outside = whole.join(pooled, on=["window", "step"], how="anti").with_columns(reason=pl.lit("not seen on every rank"))
    rows = pl.concat([steps.filter(~pl.col("complete")), outside], how="diagonal").sort("rank", "window", "step")
    excluded = [
        ExcludedStep(step=step, rank=rank, reason=reason) for step, rank, reason in rows.select("step", "rank", "reason").iter_rows()
    ]
    return sorted(pooled["step"].unique().to_list()), excluded


def _tell_different_steps(steps: pl.DataFrame, issues: list[Issue]) -> None:
    sets = steps.sort("rank", "window", "step").group_by("rank", maintain_order=True).agg(pl.col("step").unique().sort())
    if sets["step"].n_unique() <= 1:
        return
    groups = sets.group_by("step", maintain_order=True).agg(pl.col("rank")).head(4)
    said = "; ".join(f"rank {format_numbers(ranks)}: steps {format_numbers(numbers)}" for numbers, ranks in groups.iter_rows())
    text = f"Ranks do not have the same steps ({said}); totals pool the steps that every rank has, if there are any."
    issues.append(Issue(code="RANK_STEPS_DIFFER", message=text))
