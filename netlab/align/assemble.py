"""The order of the align stage: raw trace tables in, one aligned run out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from netlab.align.absences import tell_absent_members
from netlab.align.clocks import Clocks, correct, measure_clocks
from netlab.align.completeness import judge_steps, pooled_steps
from netlab.align.doubts import tell_doubts
from netlab.align.events import EVENT_METADATA, METADATA, communication_events, device_activities, names_as_text, with_metadata
from netlab.align.groups import group_table, parallelism, resolve_groups
from netlab.align.host_work import host_activities, is_gloo_run
from netlab.align.matching import MATCHED_BY, match_collectives
from netlab.align.metadata import batched_messages, describe_communication, fill_from_calls
from netlab.align.options import AlignOptions
from netlab.align.ranks import Assembly, assemble_ranks
from netlab.align.split import message_rows, number_in_time, split_instances
from netlab.align.steps import clip_marks, launch_spans, span_of, step_borders, step_marks
from netlab.errors import ConfigError, RunError
from netlab.issues import Issue
from netlab.run import RunFacts
from netlab.schema.timeline import ACTIVITIES, CLOCKS, COLLECTIVES, GROUPS, P2P, RANKS, STEPS
from netlab.schema.traces import COMM_CALLS, DEVICE_EVENTS, LAUNCHES, RAW_TABLES, TRACE_FILES
from netlab.shelf import Shelf, TallFrame
from netlab.units import format_numbers

__all__ = ["Aligned", "align"]

_ACTIVITY_INSTANTS = ("start_ns", "end_ns", "launch_start_ns", "launch_end_ns")
_STEP_INSTANTS = ("start_ns", "end_ns", "mark_start_ns", "mark_end_ns")
#: Columns of events that nobody reads once collectives are matched and split.
_SCAFFOLD = ("file", "event", "category", "external_id", "launch_external_id", "launch_step", "clipped")
#: What an instance's members take over from their activities.
_MEMBER = ("rank", "window", "step", "start_ns", "end_ns")
_SPAN = ("rank", "window", "step", pl.col("start_ns").alias("opens_ns"), pl.col("end_ns").alias("closes_ns"))
_TRANSFER_INSTANTS = ("transfer_start_ns", "transfer_start_low_ns", "transfer_start_high_ns")


@dataclass(frozen=True)
class Aligned:
    """All timeline tables, ``trace_files`` with settled ranks, the facts of the run, and what was doubtful."""

    #: All but the tall ones, which may be too large for memory.
    frames: dict[str, pl.DataFrame]
    activities: TallFrame
    launches: TallFrame
    facts: RunFacts
    issues: list[Issue]


def align(raw: Mapping[str, pl.DataFrame], tall: dict[str, Shelf], options: AlignOptions | None = None) -> Aligned:
    """Put the traces of a run on one clock and tell waiting from transfer.

    Parameters
    ----------
    raw
        Raw trace tables by name (``netlab.schema.traces``), with their ``file`` column; absent tables count as empty.
    tall
        Those that may be too large for memory: ``device_events`` (used up; only the columns `netlab.align.events.KEPT` and ``collective``
        need to be there), ``event_metadata`` (`netlab.align.events.with_metadata`), ``launches`` and ``comm_calls``, sorted by their keys.
    options
        What the user declares; by default only the content speaks.

    Returns
    -------
    Every table of ``netlab.schema.timeline``, ``launches``, the run's facts, and issues.

    Raises
    ------
    RunError
        If there is no trace file, or the files cannot be one run (``DUPLICATE_RANK``, ``SEVERAL_RUNS``).
    ConfigError
        If the selected ranks or steps are none of those that were recorded.

    Examples
    --------
    >>> align({}, {})
    Traceback (most recent call last):
    ...
    netlab.errors.RunError: No trace file could be read; give profiler traces of at least one rank.
    """
    options = options or AlignOptions()
    raw = {table.name: raw.get(table.name, table.empty()) for table in RAW_TABLES}
    tall = {table.name: tall.get(table.name) or Shelf.of([raw[table.name]]) for table in (DEVICE_EVENTS, LAUNCHES, COMM_CALLS)} | tall
    if EVENT_METADATA not in tall:
        tall[EVENT_METADATA] = Shelf.of([with_metadata(raw[DEVICE_EVENTS.name])])
    if raw["trace_files"].is_empty():
        raise RunError("No trace file could be read; give profiler traces of at least one rank.")
    assembly = assemble_ranks(raw, tall, options)
    if options.ranks is not None and not options.ranks & set(assembly.ranks):
        raise ConfigError(f"--ranks is {format_numbers(options.ranks)}, but the traces are of ranks {format_numbers(assembly.ranks)}.")
    issues = list(assembly.issues)
    raw["annotations"] = clip_marks(raw, tall, assembly.files, issues)
    events, launches = tall[DEVICE_EVENTS.name], tall[LAUNCHES.name]
    gloo = is_gloo_run(events, raw["annotations"])
    if gloo:
        events = Shelf.of([host_activities(raw, assembly.files)])
        tall[EVENT_METADATA] = Shelf.of([events.frame("file", "event", *METADATA)])
    else:
        device_activities(events, launches, raw["annotations"], assembly.files, options, issues)
    events.drop(*METADATA)
    marks = step_marks(raw["annotations"], assembly.files)
    spans = launch_spans(marks)
    events.extend(("rank", "window", "launch_start_ns"), lambda part: part.select(launch_step=span_of(part, spans, "launch_start_ns")))
    # Within a rank a clock's correction keeps this order, so that a row's number stays the activity's.
    events.sort(["rank", "start_ns", "end_ns", "stream", "file", "event"])
    events.put(pl.int_range(events.height, dtype=pl.UInt32, eager=True).alias("row"))
    if options.steps is not None and marks.height and not marks["step"].is_between(options.steps.start, options.steps.stop - 1).any():
        raise ConfigError(f"--steps holds none of the steps {format_numbers(marks['step'].unique().to_list())} of the traces.")
    steps = judge_steps(step_borders(marks, events), events, launches, assembly.files, options, issues)
    tell_doubts(events, assembly.files, steps, issues, gloo=gloo)
    communication = communication_events(events, tall[EVENT_METADATA].frame(), options)
    calls = tall[COMM_CALLS.name].frame()
    communication = describe_communication(fill_from_calls(communication, calls))
    parts = batched_messages(communication, calls)
    del calls
    communication, members_of = resolve_groups(communication, raw["process_groups"], assembly.world_size, assembly.ranks, issues)
    said = communication.select("row", "group_name", "group_description", "seq", "dtype", message_bytes="bytes")
    communication = communication.select(MATCHED_BY)
    matched = match_collectives(communication, parts, members_of, assembly.world_size, issues)
    del communication
    ends = pl.concat([matched, events.rows(matched["row"], "rank", "end_ns", "clipped")], how="horizontal").filter(~pl.col("clipped"))
    clocks = measure_clocks(ends, assembly.ranks, assembly.hosts, issues)
    del ends
    steps = correct(steps, clocks, _STEP_INSTANTS)
    events.extend(("rank", *_ACTIVITY_INSTANTS), lambda part: correct(part, clocks, _ACTIVITY_INSTANTS).drop("rank"))
    whole = steps.filter(pl.col("end_ns") > pl.col("start_ns")).select(_SPAN)
    events.extend(("rank", "window", "start_ns"), lambda part: part.select(step=span_of(part, whole, "start_ns")))
    split = _split(matched, events, said, clocks, group_table(members_of, assembly.hosts), options)
    del matched
    tell_absent_members(split, _extents(events), members_of, assembly.ranks, issues)
    pooled, excluded = pooled_steps(steps, assembly.ranks, issues)
    frames = {
        "ranks": _ranks_table(events, raw["trace_files"], assembly),
        "groups": _groups_table(split, members_of, assembly.world_size),
        "clocks": CLOCKS.conform(clocks.table),
        "steps": STEPS.conform(steps),
        "collectives": COLLECTIVES.conform(split.with_columns(members="size")),
        "p2p": P2P.conform(message_rows(split)),
    }
    tables = {table.name: table for table in (RANKS, GROUPS, CLOCKS, STEPS, COLLECTIVES, P2P)}
    frames = {name: tables[name].validate(frame) for name, frame in frames.items()}
    frames["trace_files"] = _settled_files(raw["trace_files"], assembly)
    known = _known(said, split)
    del said, split
    # Without steps there is nothing to mark as not selected: the other ranks' timelines are left out.
    left_out = steps.is_empty() and options.ranks is not None
    events.drop(*_SCAFFOLD)
    activities = _activities_table(events, known, sorted(options.ranks or ()) if left_out else None)
    facts = RunFacts(
        name=options.run_name,
        world_size=assembly.world_size,
        ranks=assembly.ranks,
        missing_ranks=assembly.missing_ranks,
        hosts=_hosts_of(assembly),
        steps=pooled,
        excluded_steps=excluded,
        window="capture" if steps.is_empty() else "step",
        backend="cpu" if gloo else "device",
        clock_aligned=clocks.aligned,
        sync_recorded=raw["sync_events"]["wait_on_record_correlation"].drop_nulls().len() > 0,
    )
    return Aligned(frames, activities, launches.table(LAUNCHES), facts, sorted(set(issues)))


def _extents(events: Shelf) -> pl.DataFrame:
    """First start and last end of each rank and window."""
    lane = ("rank", "window")
    ends = (pl.col("start_ns").min(), pl.col("end_ns").max())
    return pl.concat([part.group_by(*lane).agg(ends) for part in events.stretches(*lane, "start_ns", "end_ns")]).group_by(*lane).agg(ends)


def _split(
    matched: pl.DataFrame,
    events: Shelf,
    said: pl.DataFrame,
    clocks: Clocks,
    groups: pl.DataFrame,
    options: AlignOptions,
) -> pl.DataFrame:
    matched = matched.rename({"message_bytes": "bytes"})
    kernels = events.rows(matched["row"], *_MEMBER)
    places = groups.drop("gid")[matched["gid"]]
    domains = clocks.table.select("rank", domain=pl.col("domain").rank("dense"), domain_error_ns="error_ns")
    members = pl.concat([matched, kernels, places], how="horizontal").join(said.drop("message_bytes"), on="row", maintain_order="left")
    members = members.join(domains, on="rank", maintain_order="left").with_columns(activity=pl.col("row").cast(pl.Int64))
    return split_instances(number_in_time(members), options)


def _known(said: pl.DataFrame, split: pl.DataFrame) -> pl.DataFrame:
    """What is known of the communication of activities, by ``row``."""
    columns = ("instance", "group", "layer", "split", *_TRANSFER_INSTANTS)
    matched = _one_row_each(split.select("activity", "op", *columns)).with_columns(row=pl.col("activity").cast(pl.UInt32))
    return said.drop("group_description").join(matched.drop("activity"), on="row", how="left")


def _activities_table(events: Shelf, known: pl.DataFrame, ranks: Sequence[int] | None) -> TallFrame:
    """Activities with what is known about their communication; of some ranks only, where given."""
    copy = pl.col("copy")
    own_bytes = pl.when((pl.col("kind") == "communication") & ~copy).then("message_bytes").otherwise("bytes")

    def complete(part: pl.DataFrame) -> pl.DataFrame:
        # Joined beside the events and not with them: that would copy every column.
        rows = part.select("row")
        near = known.filter(pl.col("row").is_between(pl.lit(rows["row"].min()), pl.lit(rows["row"].max())))
        beside = rows.join(near, on="row", how="left", maintain_order="left").drop("row")
        part = pl.concat([part.with_columns(names_as_text(part["name"])), beside], how="horizontal")
        part = part.with_columns(activity=pl.col("row"), bytes=own_bytes)
        if part["copy"].any():
            # A copy between two devices does not wait: all of it is transfer.
            part = part.with_columns(
                *(pl.when(copy).then("start_ns").otherwise(name).alias(name) for name in _TRANSFER_INSTANTS),
                op=pl.when(copy).then(pl.lit("send")).otherwise("op"),
                layer=pl.when(copy).then(pl.lit("intra_node")).otherwise("layer"),
                split=pl.when(copy).then(pl.lit("measured")).otherwise("split"),
            )
        return part if ranks is None else part.filter(pl.col("rank").is_in(ranks))

    # The correction of drifting clocks may put two instants of a rank on one.
    events.sort(["rank", "start_ns", "end_ns", "stream", "row"])
    return events.table(ACTIVITIES, complete)


def _one_row_each(matched: pl.DataFrame) -> pl.DataFrame:
    """A kernel that runs several messages is done when the last of its peers has come, and may transfer once the first has."""
    if matched["activity"].n_unique() == matched.height:
        return matched
    poorest = pl.col("split").replace_strict({"measured": 0, "bounded": 1, "unknown": 2}).max()
    return (
        matched.group_by("activity", maintain_order=True)
        .agg(
            pl.col("instance", "group", "op").first(),
            pl.col("layer").sort().first(),
            pl.col("transfer_start_ns", "transfer_start_low_ns").max(),
            pl.col("transfer_start_high_ns").min(),
            split=poorest,
            known=pl.col("transfer_start_ns").is_not_null().all(),
        )
        .with_columns(
            split=pl.col("split").replace_strict({0: "measured", 1: "bounded", 2: "unknown"}, return_dtype=pl.String),
            transfer_start_ns=pl.when("known").then("transfer_start_ns"),
        )
        .drop("known")
    )


def _ranks_table(events: Shelf, trace_files: pl.DataFrame, assembly: Assembly) -> pl.DataFrame:
    counts = pl.concat([part.drop_nulls("device").group_by("rank", "device").len() for part in events.stretches("rank", "device")])
    devices = counts.group_by("rank", "device").agg(pl.col("len").sum()).sort("rank", "len", "device", descending=[False, True, False])
    device = devices.unique("rank", keep="first", maintain_order=True).select("rank", "device")
    names = (
        trace_files.join(assembly.files.select("file", of_rank="rank"), on="file")
        .group_by(rank="of_rank")
        .agg(pl.col("gpu_name").drop_nulls().first())
    )
    local = {rank: place for members in _whole_hosts(assembly).values() for place, rank in enumerate(members)}
    rows = pl.DataFrame(
        {
            "rank": assembly.ranks,
            "host": [assembly.hosts.get(rank) for rank in assembly.ranks],
            "local_rank": [local.get(rank) for rank in assembly.ranks],
        },
        schema={"rank": pl.Int32, "host": pl.String, "local_rank": pl.Int32},
    )
    return RANKS.conform(rows.join(device, on="rank", how="left").join(names, on="rank", how="left"))


def _settled_files(trace_files: pl.DataFrame, assembly: Assembly) -> pl.DataFrame:
    """The trace files with the rank and window that they were given, whatever their content says."""
    settled = assembly.files.select("file", settled="rank", window="window")
    placed = trace_files.drop("window").join(settled, on="file", how="left").with_columns(rank=pl.col("settled"))
    return TRACE_FILES.validate(TRACE_FILES.conform(placed))


def _hosts_of(assembly: Assembly) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for rank in assembly.ranks:
        if rank in assembly.hosts:
            found.setdefault(assembly.hosts[rank], []).append(rank)
    return dict(sorted(found.items()))


def _whole_hosts(assembly: Assembly) -> dict[str, list[int]]:
    """Hosts whose ranks are all known, so that a place among them is a local rank."""
    if assembly.missing_ranks and any(rank not in assembly.hosts for rank in assembly.missing_ranks):
        return {}
    found: dict[str, list[int]] = {}
    for rank, host in sorted(assembly.hosts.items()):
        found.setdefault(host, []).append(rank)
    return found


def _groups_table(split: pl.DataFrame, members_of: Mapping[int, tuple[tuple[int, ...], int]], world_size: int | None) -> pl.DataFrame:
    found = (
        split.group_by("group", pl.col("group_name").fill_null("").alias("name"))
        .agg(
            pl.col("gid", "layer").first(),
            pl.col("size").max(),
            pl.col("group_description").drop_nulls().sort().first(),
            pl.col("op").unique().sort(),
        )
        .sort("group", "name")
    )
    rows = []
    for row in found.iter_rows(named=True):
        members = list(members_of[row["gid"]][0])
        kind, reason = parallelism(members, row["group_description"], row["op"], world_size, row["layer"])
        rows.append((row["group"], row["name"], row["group_description"], row["size"], members, row["layer"], kind, reason))
    return GROUPS.conform(pl.DataFrame(rows, schema=dict(GROUPS.schema), orient="row"))
