"""Device events of all files as classified activities on their files' own clocks."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.align.classify import classify_names
from netlab.align.options import AlignOptions
from netlab.issues import Issue
from netlab.shelf import Shelf
from netlab.units import NS_PER_S, NS_PER_US

__all__ = ["EVENT_METADATA", "KEPT", "METADATA", "communication_events", "device_activities", "names_as_text", "with_metadata"]

Int64s = NDArray[np.int64]
_Frame = TypeVar("_Frame", pl.DataFrame, pl.LazyFrame)

#: Collective metadata as the raw tables carry it.
METADATA = (
    "collective",
    "in_elements",
    "out_elements",
    "dtype",
    "group_size",
    "group_name",
    "group_description",
    "group_ranks",
    "seq",
    "comms_id",
    "src_rank",
    "dst_rank",
    "in_split",
    "out_split",
)

#: Name of the raw table that :func:`with_metadata` makes.
EVENT_METADATA = "event_metadata"

#: What alignment reads of every device event, beside whether it carries metadata at all.
KEPT = (
    "file",
    "event",
    "category",
    "name",
    "device",
    "stream",
    "start_ns",
    "end_ns",
    "correlation",
    "external_id",
    "bytes",
    "grid",
)

#: What matching reads of a communication activity beside its metadata.
_OF_COMMUNICATION = (
    "row",
    "file",
    "event",
    "rank",
    "window",
    "name",
    "start_ns",
    "end_ns",
    "external_id",
    "launch_start_ns",
    "launch_thread",
    "launch_external_id",
    "launch_step",
)

#: No kernel that a profiler still records runs this long past everything else in its file (broken device clocks give years).
_LEAST_IMPOSSIBLE_NS = NS_PER_S


def device_activities(
    events: Shelf, launches: Shelf, annotations: pl.DataFrame, files: pl.DataFrame, options: AlignOptions, issues: list[Issue]
) -> None:
    """Classify device events, join the host call that launched each, clip impossible durations.

    Leaves in ``events``, of each device event: file, rank, window, event, category, device, stream, kind, copy (between two devices), name,
    start_ns, end_ns, clipped (its end is not its own), correlation, external_id, launch_start_ns, launch_end_ns, launch_thread,
    launch_external_id, bytes and grid. Collective metadata stays behind: most events have none (:func:`communication_events` fetches it).
    """
    # Thousands of kernels share a long name; as text each of them would hold it.
    events.extend(("name", "category"), lambda part: part.select(pl.col("name", "category").cast(pl.Categorical)))
    different = events.distinct("name")
    names = classify_names(sorted(different.to_list()), options.classify)
    communicating = names.filter("communication")["name"]
    _clip(events, launches, annotations, files, issues)
    _join_launches(events, launches)
    _tell_early_starts(events, files, issues)
    peer_copies = _matching(different, r"(?i)ptop|p2p|peer")
    communicates = (pl.col("category") == "kernel") & (_is_one_of("name", communicating) | pl.col("collective").is_not_null())
    copies = (pl.col("category") == "memcpy") & (_is_one_of("name", peer_copies) | pl.col("peer_call"))
    kind = (
        pl.when(communicates | copies)
        .then(pl.lit("communication"))
        .when(pl.col("category") == "kernel")
        .then(pl.lit("compute"))
        .otherwise(pl.lit("memory"))
        .cast(pl.Categorical)
    )
    # No join: it would copy every column.
    placed = [pl.col("file").replace_strict(files["file"], files[name], return_dtype=pl.Int32).alias(name) for name in ("rank", "window")]
    used = ("file", "name", "category", "collective", "peer_call")
    events.extend(used, lambda part: part.select(*placed, copy=copies, kind=kind))
    events.drop("collective", "peer_call")


def with_metadata(device_events: _Frame) -> _Frame:
    """The few events that carry collective metadata: ``file``, ``event`` and the metadata, so that the wide table can be let go."""
    return device_events.select("file", "event", *METADATA).filter(pl.any_horizontal(pl.col(METADATA).is_not_null()))


def communication_events(events: Shelf, metadata: pl.DataFrame, options: AlignOptions) -> pl.DataFrame:
    """Communication activities (copies left out) with their metadata and ``kernel_op``, what their kernel's name says."""
    chosen = (pl.col("kind") == "communication") & ~pl.col("copy")
    found = pl.concat([part.filter(chosen).select(_OF_COMMUNICATION) for part in events.stretches(*_OF_COMMUNICATION, "kind", "copy")])
    names = classify_names(found["name"].unique().cast(pl.String).sort().to_list(), options.classify)
    kinds = names.select(pl.col("name").cast(pl.Categorical), "kernel_op")
    # The narrow join first: each copies all columns.
    found = found.with_columns(pl.col("name").cast(pl.Categorical)).join(kinds, on="name", how="left", maintain_order="left").drop("name")
    keys = ["file", "event"]
    return found.join(metadata.select(*keys, *METADATA), on=keys, how="left", maintain_order="left")


def _clip(events: Shelf, launches: Shelf, annotations: pl.DataFrame, files: pl.DataFrame, issues: list[Issue]) -> None:
    """End events that outlast the whole capture at the next start on their stream, at the latest with the capture."""
    length = pl.col("end_ns") - pl.col("start_ns")
    if not any(part.select((length >= _LEAST_IMPOSSIBLE_NS).any()).item() for part in events.stretches("start_ns", "end_ns")):
        events.extend(("file",), lambda part: part.select(clipped=pl.col("file").is_null()))
        return
    marks = annotations.filter(pl.col("name").str.starts_with("ProfilerStep#"))
    calls = launches.frame("file", "start_ns", "end_ns")
    lane = ["file", "device", "stream"]
    frame = events.frame(*lane, "event", "name", "start_ns", "end_ns").with_row_index("place")
    instants = pl.concat(
        [
            frame.select("file", at="start_ns"),
            frame.filter(length < _LEAST_IMPOSSIBLE_NS).select("file", at="end_ns"),
            calls.select("file", at="start_ns"),
            calls.filter(length < _LEAST_IMPOSSIBLE_NS).select("file", at="end_ns"),
            marks.select("file", at="start_ns"),
            marks.select("file", at="end_ns").drop_nulls(),
        ]
    )
    capture = instants.group_by("file").agg(first=pl.col("at").min(), last=pl.col("at").max())
    frame = frame.join(capture, on="file", how="left").sort("start_ns", "end_ns", "event")
    frame = frame.with_columns(
        impossible=(length >= _LEAST_IMPOSSIBLE_NS) & (length > pl.col("last") - pl.col("first")),
        next_ns=pl.col("start_ns").shift(-1).over(lane),
    )
    limit = pl.min_horizontal("last", "next_ns")
    found = frame.filter("impossible").group_by("file").agg(pl.len(), name=pl.col("name").first(), longest=length.max()).sort("file")
    for file, count, name, longest in found.iter_rows():
        text = f"{count} device event(s) last longer than the whole capture (up to {longest / NS_PER_S:.0f} s; first {name!r}); clipped."
        issues.append(Issue(code="IMPOSSIBLE_DURATION", message=text, source=_path(files, file)))
    frame = frame.sort("place").select(
        clipped="impossible", end_ns=pl.when("impossible").then(pl.max_horizontal("start_ns", limit)).otherwise("end_ns")
    )
    for column in frame.get_columns():
        events.put(column)


#: What an event takes over from its launch.
_OF_LAUNCH = {"start_ns": "launch_start_ns", "end_ns": "launch_end_ns", "thread": "launch_thread", "external_id": "launch_external_id"}


def _join_launches(events: Shelf, launches: Shelf) -> None:
    """Join the host call of each event by file and correlation id; ``peer_call`` says whether that copies between devices.

    Looked up in sorted arrays: a hash join of as many launches as a long trace has takes ten times their size.
    """
    place = np.full(events.height, -1, np.int64)
    # Files follow one another among the events and the calls: a slice each, whatever their number.
    correlation = events.frame("correlation").to_series()
    by_file = np.flatnonzero(correlation.is_not_null().to_numpy())
    wanted = correlation.fill_null(0).to_numpy()
    of_event = events.frame("file").to_series().to_numpy()[by_file]
    if (of_event[1:] < of_event[:-1]).any():
        again = np.argsort(of_event, kind="stable")
        by_file, of_event = by_file[again], of_event[again]
    ids, of_call = launches.frame("correlation").to_series().to_numpy(), launches.frame("file").to_series().to_numpy()
    starts: tuple[Int64s, Int64s] | None = None
    for file in np.unique(of_event):
        first, last = np.searchsorted(of_call, (file, file + 1))
        rows = by_file[slice(*np.searchsorted(of_event, (file, file + 1)))]
        # Calls of a file are in order of time, and stay so among those of one id.
        order = np.argsort(ids[first:last], kind="stable") + first
        order = order[ids[order] != 0]
        if not len(order):
            continue
        sought, theirs = wanted[rows], ids[order]
        found = np.searchsorted(theirs, sought)
        known = theirs[np.minimum(found, len(theirs) - 1)] == sought
        if (theirs[1:] == theirs[:-1]).any():
            starts = starts or (_instants(launches), _instants(events))
            found = np.maximum(found, _last_before(theirs, starts[0][order], sought, starts[1][rows]))
        place[rows] = np.where(known, order[np.minimum(found, len(order) - 1)], -1)
    del correlation, wanted, by_file, of_event, ids, of_call, starts
    index = pl.Series(place).replace(-1, None)
    for column, name in _OF_LAUNCH.items():
        events.put(launches.frame(column).to_series().gather(index).alias(name))
    peers = _matching(launches.distinct("name"), "(?i)peer")
    of_peers = _is_one_of("name", peers).alias("peer_call")
    by_peer = [part.select(pl.col("name").cast(pl.Categorical)).select(of_peers).to_series() for part in launches.stretches("name")]
    events.put(pl.concat(by_peer).gather(index).fill_null(value=False))


def names_as_text(names: pl.Series) -> pl.Series:
    """Categorical names as text of which each is held once; a cast would copy it for every row."""
    if names.dtype != pl.Categorical or names.is_empty():
        return names.cast(pl.String)
    different = names.unique()
    different = different.gather(different.to_physical().arg_sort())
    place = np.searchsorted(different.to_physical().to_numpy(), names.to_physical().to_numpy())
    return different.cast(pl.String).gather(place)


def _matching(names: pl.Series, pattern: str) -> pl.Series:
    """The different names in a column that match a pattern."""
    different = names.unique().cast(pl.String)
    return different.filter(different.str.contains(pattern))


def _is_one_of(column: str, names: pl.Series) -> pl.Expr:
    return pl.col(column).is_in(names.cast(pl.Categorical).implode()) & pl.col(column).is_not_null()


def _instants(shelf: Shelf) -> Int64s:
    return shelf.frame("start_ns").to_series().to_numpy()


def _last_before(ids: Int64s, starts: Int64s, wanted: Int64s, start_ns: Int64s) -> Int64s:
    """Place of the last call before each event, by id and time: of calls that share an id (reused, wrapped) it is the event's own."""
    # Merged in order of (id, time), calls first, an event comes right after the last call that may be its own.
    is_event = np.repeat((False, True), (len(ids), len(wanted)))
    merged = np.lexsort((is_event, np.concatenate((starts, start_ns)), np.concatenate((ids, wanted))))
    before = np.cumsum(~is_event[merged]) - 1
    last = np.empty(len(wanted), np.int64)
    last[merged[is_event[merged]] - len(ids)] = before[is_event[merged]]
    return last


def _tell_early_starts(events: Shelf, files: pl.DataFrame, issues: list[Issue]) -> None:
    before = pl.col("launch_start_ns") - pl.col("start_ns")
    parts = events.stretches("file", "start_ns", "launch_start_ns")
    early = pl.concat([part.filter(before > 0).select("file", before=before) for part in parts])
    found = early.group_by("file").agg(pl.len(), most=pl.col("before").max()).sort("file")
    for file, count, most in found.iter_rows():
        text = f"{count} kernel(s) start up to {most / NS_PER_US:,.1f} us before the host call that launched them; device times are kept."
        issues.append(Issue(code="LAUNCH_AFTER_START", message=text, severity="info", source=_path(files, file)))


def _path(files: pl.DataFrame, file: int) -> str:
    return str(files.filter(pl.col("file") == file)["path"].item())
