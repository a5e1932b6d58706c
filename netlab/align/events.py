"""Device events of all files as classified activities on their files' own clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.align.classify import classify_names
from netlab.align.options import AlignOptions
from netlab.issues import Issue
from netlab.units import NS_PER_S, NS_PER_US

__all__ = ["EVENT_METADATA", "KEPT", "METADATA", "communication_events", "device_activities", "in_order", "names_as_text", "with_metadata"]

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

#: No kernel that a profiler still records runs this long past everything else in its file (broken device clocks give years).
_LEAST_IMPOSSIBLE_NS = NS_PER_S


def device_activities(raw: Mapping[str, pl.DataFrame], files: pl.DataFrame, options: AlignOptions, issues: list[Issue]) -> pl.DataFrame:
    """Classify device events, join the host call that launched each, clip impossible durations.

    Returns
    -------
    One row per device event: file, rank, window, event, category, device, stream, kind, copy (between two devices), name, start_ns, end_ns,
    clipped (its end is not its own), correlation, external_id, launch_start_ns, launch_end_ns, launch_thread, launch_external_id, bytes
    and grid. Collective metadata stays behind: most events have none (:func:`communication_events` fetches it).
    """
    names = classify_names(sorted(raw["device_events"]["name"].unique().to_list()), options.classify)
    communicating = names.filter("communication")["name"]
    communicates = (pl.col("category") == "kernel") & (_is_one_of("name", communicating) | pl.col("collective").is_not_null())
    events = (
        raw["device_events"]
        .filter(pl.col("file").is_in(files["file"].implode()))
        # Thousands of kernels share a long name; as text each of them would hold it.
        .with_columns(pl.col("name").cast(pl.Categorical))
        .select(*KEPT, communicates=communicates)
    )
    events = _with_launches(_clip(events, raw, files, issues), raw["launches"])
    _tell_early_starts(events, files, issues)
    between_devices = (pl.col("category") == "memcpy") & (
        _is_one_of("name", _matching(events["name"], r"(?i)ptop|p2p|peer")) | pl.col("launched_by_peer_call").fill_null(value=False)
    )
    # No join: it would copy every column.
    placed = [pl.col("file").replace_strict(files["file"], files[name], return_dtype=pl.Int32).alias(name) for name in ("rank", "window")]
    events = events.with_columns(*placed, copy=between_devices)
    kind = (
        pl.when(pl.col("communicates") | pl.col("copy"))
        .then(pl.lit("communication"))
        .when(pl.col("category") == "kernel")
        .then(pl.lit("compute"))
        .otherwise(pl.lit("memory"))
    )
    return events.with_columns(kind=kind).drop("communicates", "launched_by_peer_call")


def with_metadata(device_events: _Frame) -> _Frame:
    """The few events that carry collective metadata: ``file``, ``event`` and the metadata, so that the wide table can be let go."""
    return device_events.select("file", "event", *METADATA).filter(pl.any_horizontal(pl.col(METADATA).is_not_null()))


def communication_events(events: pl.DataFrame, metadata: pl.DataFrame, options: AlignOptions) -> pl.DataFrame:
    """Communication activities (copies left out) with their metadata and ``kernel_op``, what their kernel's name says."""
    found = events.filter((pl.col("kind") == "communication") & ~pl.col("copy")).with_columns(pl.col("name").cast(pl.String))
    keys = ["file", "event"]
    found = found.join(metadata.select(*keys, *METADATA), on=keys, how="left", maintain_order="left")
    names = classify_names(found["name"].unique().sort().to_list(), options.classify)
    return found.join(names.select("name", "kernel_op"), on="name", how="left", maintain_order="left")


def in_order(events: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The events sorted, column after column: a sort of the whole frame holds all of it twice. The given frame is emptied."""
    order = events.select(pl.arg_sort_by(*by, nulls_last=False)).to_series()
    if (order.diff().drop_nulls() > 0).all():
        return events
    return pl.DataFrame([events.drop_in_place(name).gather(order) for name in events.columns])


def _clip(events: pl.DataFrame, raw: Mapping[str, pl.DataFrame], files: pl.DataFrame, issues: list[Issue]) -> pl.DataFrame:
    """End events that outlast the whole capture at the next start on their stream, at the latest with the capture."""
    length = pl.col("end_ns") - pl.col("start_ns")
    suspects = events.filter(length >= _LEAST_IMPOSSIBLE_NS)
    if suspects.is_empty():
        return events.with_columns(clipped=pl.lit(value=False))
    marks = raw["annotations"].filter(pl.col("name").str.starts_with("ProfilerStep#"))
    instants = pl.concat(
        [
            events.select("file", at="start_ns"),
            events.filter(length < _LEAST_IMPOSSIBLE_NS).select("file", at="end_ns"),
            raw["launches"].select("file", at="start_ns"),
            raw["launches"].filter(length < _LEAST_IMPOSSIBLE_NS).select("file", at="end_ns"),
            marks.select("file", at="start_ns"),
            marks.select("file", at="end_ns").drop_nulls(),
        ]
    )
    capture = instants.group_by("file").agg(first=pl.col("at").min(), last=pl.col("at").max())
    lane = ["file", "device", "stream"]
    events = events.join(capture, on="file", how="left").sort("start_ns", "end_ns", "event")
    events = events.with_columns(
        impossible=(length >= _LEAST_IMPOSSIBLE_NS) & (length > pl.col("last") - pl.col("first")),
        next_ns=pl.col("start_ns").shift(-1).over(lane),
    )
    limit = pl.min_horizontal("last", "next_ns")
    found = events.filter("impossible").group_by("file").agg(pl.len(), name=pl.col("name").first(), longest=length.max()).sort("file")
    for file, count, name, longest in found.iter_rows():
        text = f"{count} device event(s) last longer than the whole capture (up to {longest / NS_PER_S:.0f} s; first {name!r}); clipped."
        issues.append(Issue(code="IMPOSSIBLE_DURATION", message=text, source=_path(files, file)))
    return events.with_columns(
        end_ns=pl.when("impossible").then(pl.max_horizontal("start_ns", limit)).otherwise("end_ns"),
        clipped=pl.col("impossible"),
    ).drop("first", "last", "impossible", "next_ns")


def _with_launches(events: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Join the host call of each event by file and correlation id.

    Looked up in sorted arrays: a hash join of as many launches as a long trace has takes ten times their size.
    """
    calls = launches.filter(pl.col("correlation") != 0).select(
        "file",
        "correlation",
        launch_start_ns="start_ns",
        launch_end_ns="end_ns",
        launch_thread="thread",
        launch_external_id="external_id",
        launched_by_peer_call=_is_one_of("name", _matching(launches["name"], "(?i)peer")),
    )
    starts, ids, of_call = (calls[name].to_numpy() for name in ("launch_start_ns", "correlation", "file"))
    order = np.lexsort((starts, ids, of_call))
    starts, ids, of_call = starts[order], ids[order], of_call[order]
    place = np.full(events.height, -1, np.int64)
    # Files follow one another among the events: a slice each, whatever their number.
    by_file = np.flatnonzero(events["correlation"].is_not_null().to_numpy())
    of_event = events["file"].to_numpy()[by_file]
    if (of_event[1:] < of_event[:-1]).any():
        again = np.argsort(of_event, kind="stable")
        by_file, of_event = by_file[again], of_event[again]
    wanted, begin = events["correlation"].fill_null(0).to_numpy(), events["start_ns"].to_numpy()
    for file in np.unique(of_event):
        first, last = np.searchsorted(of_call, (file, file + 1))
        rows = by_file[slice(*np.searchsorted(of_event, (file, file + 1)))]
        if first < last:
            found = _launch_places(ids[first:last], starts[first:last], wanted[rows], begin[rows])
            place[rows] = np.where(found >= 0, order[first:last][found], -1)
    index = pl.Series(place).replace(-1, None)
    launched = calls.drop("file", "correlation").select(pl.all().gather(index))
    return pl.concat([events, launched], how="horizontal")


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
    return pl.col(column).is_in(names.cast(pl.Categorical).implode()) if len(names) else pl.lit(value=False)


def _launch_places(ids: Int64s, starts: Int64s, wanted: Int64s, start_ns: Int64s) -> Int64s:
    """Place of each event's call among those of its file, by id and time; -1 for none.

    Of calls that share an id (reused, wrapped) the last before the event, else the first.
    """
    first = np.searchsorted(ids, wanted)
    found = (first < len(ids)) & (ids[np.minimum(first, len(ids) - 1)] == wanted)
    if len(ids) > 1 and (ids[1:] == ids[:-1]).any():
        # Merged in order of (id, time), calls first, an event comes right after the last call that may be its own.
        is_event = np.repeat((False, True), (len(ids), len(wanted)))
        merged = np.lexsort((is_event, np.concatenate((starts, start_ns)), np.concatenate((ids, wanted))))
        before = np.cumsum(~is_event[merged]) - 1
        last = np.empty(len(wanted), np.int64)
        last[merged[is_event[merged]] - len(ids)] = before[is_event[merged]]
        first = np.maximum(first, last)
    return np.where(found, np.minimum(first, len(ids) - 1), -1)


def _tell_early_starts(events: pl.DataFrame, files: pl.DataFrame, issues: list[Issue]) -> None:
    early = events.filter(pl.col("start_ns") < pl.col("launch_start_ns"))
    found = early.group_by("file").agg(pl.len(), most=(pl.col("launch_start_ns") - pl.col("start_ns")).max()).sort("file")
    for file, count, most in found.iter_rows():
        text = f"{count} kernel(s) start up to {most / NS_PER_US:,.1f} us before the host call that launched them; device times are kept."
        issues.append(Issue(code="LAUNCH_AFTER_START", message=text, severity="info", source=_path(files, file)))


def _path(files: pl.DataFrame, file: int) -> str:
    return str(files.filter(pl.col("file") == file)["path"].item())
