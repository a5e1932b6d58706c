"""Borders of the steps of each rank: where one step's work ends and the next one's begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.issues import Issue
from netlab.shelf import Shelf
from netlab.units import NS_PER_MS, NS_PER_S

__all__ = ["clip_marks", "launch_spans", "span_of", "step_borders", "step_marks"]

#: A first kernel that starts this long after its launch returned was queued behind work from before the capture.
_QUEUED_NS = NS_PER_MS

#: No step goes on this long after everything else in its file has begun.
_IMPOSSIBLE_TAIL_NS = 3600 * NS_PER_S

_LANE = ["rank", "window"]


def clip_marks(raw: Mapping[str, pl.DataFrame], tall: Mapping[str, Shelf], files: pl.DataFrame, issues: list[Issue]) -> pl.DataFrame:
    """The annotations; a step mark that outlasts its file by hours ends with the next mark, or where the last event begins."""
    annotations = raw["annotations"].with_row_index("row")
    marks = annotations.filter(pl.col("name").str.starts_with("ProfilerStep#") & pl.col("file").is_in(files["file"].implode()))
    if not (marks["end_ns"] - marks["start_ns"] >= _IMPOSSIBLE_TAIL_NS).any():
        return raw["annotations"]
    begun = [raw[name].select("file", "start_ns") for name in ("host_ops", "annotations")]
    begun += [part for name in ("device_events", "launches") for part in tall[name].stretches("file", "start_ns")]
    marks = marks.join(pl.concat(begun).group_by("file").agg(last_ns=pl.col("start_ns").max()), on="file")
    marks = marks.sort("file", "start_ns", "row").with_columns(next_ns=pl.col("start_ns").shift(-1).over("file"))
    clipped = marks.filter(pl.col("end_ns") > pl.col("last_ns") + _IMPOSSIBLE_TAIL_NS)
    for path, name, length in clipped.join(files, on="file").select("path", "name", pl.col("end_ns") - pl.col("start_ns")).rows():
        text = f"The mark {name} lasts {length / NS_PER_S:.0f} s, hours longer than anything else in its file; it was clipped."
        issues.append(Issue(code="IMPOSSIBLE_DURATION", message=text, source=path))
    ends = clipped.select("row", clipped_ns=pl.max_horizontal("start_ns", pl.coalesce("next_ns", "last_ns")))
    annotations = annotations.join(ends, on="row", how="left", maintain_order="left")
    return annotations.with_columns(end_ns=pl.coalesce("clipped_ns", "end_ns")).drop("row", "clipped_ns")


def step_marks(annotations: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """The host's ProfilerStep marks.

    Returns
    -------
    rank, window, file, step, mark_start_ns, mark_end_ns (null where the mark has no end), next_ns (start of the next mark),
    follows (the mark before it has the number before its own). One row per (rank, window, step): the first mark of a number wins.
    """
    number = pl.col("name").str.extract(r"^ProfilerStep#(\d+)").cast(pl.Int32, strict=False)
    marks = (
        annotations.with_columns(step=number)
        .filter(pl.col("step").is_not_null())
        .join(files.select("file", "rank", "window"), on="file")
        .sort("rank", "window", "start_ns", "end_ns", nulls_last=True)
        .unique(["rank", "window", "step"], keep="first", maintain_order=True)
    )
    return marks.select(
        "rank",
        "window",
        "file",
        "step",
        mark_start_ns="start_ns",
        mark_end_ns="end_ns",
        next_ns=pl.col("start_ns").shift(-1).over(_LANE),
        follows=(pl.col("step").shift(1).over(_LANE) + 1 == pl.col("step")).fill_null(value=False),
    )


def launch_spans(marks: pl.DataFrame) -> pl.DataFrame:
    """The marks as spans for :func:`span_of`: a launch inside a mark belongs to its step."""
    return marks.select(*_LANE, "step", opens_ns="mark_start_ns", closes_ns=pl.coalesce("mark_end_ns", "next_ns"))


def span_of(events: pl.DataFrame, spans: pl.DataFrame, at: str) -> pl.Series:
    """The ``step`` of the span of the same rank and window that holds an instant; a span without an end holds all that follows.

    Spans are rows of rank, window, step, opens_ns and closes_ns; events of rank, window and the instant.

    Looks instants up in arrays: a join would sort and copy the events.
    """
    steps = np.full(events.height, -1, np.int64)
    if spans.height and events.height:
        spans = spans.sort(*_LANE, "opens_ns")
        lane_of_span, lane = _lanes(spans, events)
        instants = events[at].fill_null(0).to_numpy()
        # Places among all openings stand for instants, so that lane and instant fit into one number whatever a damaged file says.
        openings = np.unique(spans["opens_ns"].to_numpy())
        width = len(openings) + 1
        place = np.searchsorted(openings, instants, side="right")
        span_keys = lane_of_span * width + np.searchsorted(openings, spans["opens_ns"].to_numpy()) + 1
        found = np.searchsorted(span_keys, lane * width + place, side="right") - 1
        end = spans["closes_ns"].fill_null(np.iinfo(np.int64).max).to_numpy()
        inside = (found >= 0) & (lane >= 0) & (lane_of_span[found] == lane) & (instants < end[found])
        inside &= events[at].is_not_null().to_numpy()
        steps[inside] = spans["step"].fill_null(-1).to_numpy()[found[inside]]
    return pl.Series("step", steps).replace(-1, None).cast(pl.Int32)


def _lanes(spans: pl.DataFrame, events: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of the rank and window of each span and of each event; -1 for an event of a lane without spans."""
    windows = 1 + max(int(frame["window"].to_numpy().max()) for frame in (spans, events))
    of_span, of_event = (frame["rank"].to_numpy().astype(np.int64) * windows + frame["window"].to_numpy() for frame in (spans, events))
    known, number = np.unique(of_span, return_inverse=True)
    place = np.minimum(np.searchsorted(known, of_event), len(known) - 1)
    return number, np.where(known[place] == of_event, place, -1)


def step_borders(marks: pl.DataFrame, events: Shelf) -> pl.DataFrame:
    """Borders by the rule of docs/methods.md.

    The border between step n and n+1 is the later of (a) the start of the mark of n+1 and (b) the earlier of {end of the last
    kernel launched in n, start of the first compute kernel launched in n+1}. Copies never move a border.

    Parameters
    ----------
    marks
        As :func:`step_marks` gives them.
    events
        Device activities with ``launch_step``; reads rank, window, kind, copy, start_ns, end_ns, launch_start_ns, launch_end_ns.

    Returns
    -------
    ``marks`` with start_ns, end_ns and reason (``start_from_device``, ``absorbed`` or null).
    """
    work = pl.concat([_work_of(kernels) for kernels in _kernels(events)])
    work = work.group_by(*_LANE, "step").agg(
        pl.col("last_end_ns").max(),
        pl.col("queued_ns").sort_by("first_compute_ns", nulls_last=True, maintain_order=True).first(),
        pl.col("first_kernel_ns", "first_compute_ns").min(),
    )
    steps = marks.join(work, on=[*_LANE, "step"], how="left", maintain_order="left")
    steps = steps.join(_work_before(steps, events), on=[*_LANE, "step"], how="left", maintain_order="left")
    before = pl.when("follows").then(pl.col("last_end_ns").shift(1).over(_LANE)).otherwise("before_end_ns")
    queued = ~pl.col("follows") & pl.col("before_end_ns").is_null() & (pl.col("queued_ns") > _QUEUED_NS)
    by_device = pl.min_horizontal(before, "first_compute_ns")
    # Without work before it, a first step starts with its mark: its own first kernel alone moves nothing.
    start = (
        pl.when(queued)
        .then(pl.max_horizontal("mark_start_ns", "first_compute_ns"))
        .when(~pl.col("follows") & pl.col("before_end_ns").is_null())
        .then("mark_start_ns")
    )
    steps = steps.with_columns(
        from_device=queued.fill_null(value=False), start_ns=start.otherwise(pl.max_horizontal("mark_start_ns", by_device))
    )
    steps = steps.with_columns(start_ns=pl.col("start_ns").cum_max().over(_LANE))
    own_end = pl.max_horizontal(pl.coalesce("mark_end_ns", "mark_start_ns"), "last_end_ns", "start_ns")
    next_start, next_follows = pl.col("start_ns").shift(-1).over(_LANE), pl.col("follows").shift(-1).over(_LANE)
    steps = steps.with_columns(end_ns=pl.when(next_follows).then(next_start).otherwise(pl.min_horizontal(own_end, next_start)))
    absorbed = pl.col("end_ns") <= pl.col("start_ns")
    return steps.with_columns(
        reason=pl.when(absorbed).then(pl.lit("absorbed")).when("from_device").then(pl.lit("start_from_device")),
    ).drop("from_device", "first_kernel_ns", "first_compute_ns", "queued_ns", "before_end_ns")


def _kernels(events: Shelf) -> Iterator[pl.DataFrame]:
    """What borders are made of: kernels without copies and fills."""
    instants = ("start_ns", "end_ns", "launch_start_ns", "launch_end_ns")
    used = (*_LANE, "launch_step", *instants, "kind", "copy")
    for part in events.stretches(*used):
        kernels = part.lazy().filter((pl.col("kind") != "memory") & ~pl.col("copy"))
        yield kernels.select(*_LANE, "launch_step", *instants, computes=pl.col("kind") == "compute").collect()


def _work_of(kernels: pl.DataFrame) -> pl.DataFrame:
    """First and last work of each step, and how long its first compute kernel was queued."""
    computes = pl.col("computes")
    inside = kernels.filter(pl.col("launch_step").is_not_null()).group_by(*_LANE, step="launch_step")
    return inside.agg(
        last_end_ns=pl.col("end_ns").max(),
        first_kernel_ns=pl.col("start_ns").min(),
        first_compute_ns=pl.col("start_ns").filter(computes).min(),
        queued_ns=(pl.col("start_ns") - pl.col("launch_end_ns")).filter(computes).sort_by(pl.col("start_ns").filter(computes)).first(),
    )


def _work_before(steps: pl.DataFrame, events: Shelf) -> pl.DataFrame:
    """End of the last kernel that belongs before each first step: launched before its mark, or started unlaunched before its kernels."""
    first = steps.filter(~pl.col("follows")).select(*_LANE, "step", "mark_start_ns", "first_kernel_ns")
    launched = pl.col("launch_start_ns") < pl.col("mark_start_ns")
    unlaunched = pl.col("launch_start_ns").is_null() & (pl.col("start_ns") < pl.col("first_kernel_ns"))
    found = [
        kernels.join(first, on=_LANE).filter(launched | unlaunched).group_by(*_LANE, "step").agg(before_end_ns=pl.col("end_ns").max())
        for kernels in _kernels(events)
    ]
    return pl.concat(found).group_by(*_LANE, "step").agg(pl.col("before_end_ns").max())
