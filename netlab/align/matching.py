"""Collective matching: which kernels of different ranks are one collective.

By (members, group name, sequence number) where the trace numbers collectives; else by communicator id; else by sequence alignment.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from netlab.align.classify import SEND_RECV
from netlab.align.messages import match_messages
from netlab.align.sequences import align_lane
from netlab.issues import Issue

__all__ = ["SYNCHRONISING", "match_collectives"]

#: No member of these can end before the last one has arrived.
SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "barrier")

#: Ranks whose shorter sequence finds fewer partners than this do not run one sequence.
_LEAST_ALIGNED = 0.5
_SHOWN = 5


def match_collectives(events: pl.DataFrame, world_size: int | None, ranks: list[int], issues: list[Issue]) -> pl.DataFrame:
    """Match communication activities to instances.

    Parameters
    ----------
    events
        Communication activities (copies left out) with row, rank, window, op, dtype, bytes, members, size, group_name, seq,
        comms_id, src_rank, dst_rank, launch_step, launch_start_ns, start_ns, end_ns.
    world_size, ranks
        Ranks of the world, and those that have a trace.

    Returns
    -------
    row, instance (in no order yet), group (text), members (count), certain (all members are known), op, src, dst (point-to-point
    only), loose (bytes move as soon as a pair has met), group_name, seq. One row per activity.
    """
    bare = pl.col("members").is_null()
    # A SendRecv kernel without any metadata belongs to an all-to-all: nothing else uses that kernel on a whole group.
    unclear = pl.when(pl.col("op") != SEND_RECV).then("op").when(bare & pl.col("collective").is_null()).then(pl.lit("all_to_all"))
    events = events.with_columns(
        op=unclear.otherwise(pl.lit("unknown")),
        grouped=(pl.col("op") == SEND_RECV),
        order_ns=pl.coalesce("launch_start_ns", "start_ns"),
    ).sort("rank", "window", "order_ns", "start_ns", "row")
    events, messages = match_messages(events, ranks, world_size, issues)
    lanes = _lanes(events, world_size, ranks)
    numbered = lanes.filter(pl.col("seq").is_not_null() & ~pl.col("assumed"))
    rest = lanes.join(numbered.select("row"), on="row", how="anti")
    named = rest.filter(pl.col("comms_id").is_not_null())
    rest = rest.filter(pl.col("comms_id").is_null())
    found = [_by_number(numbered, issues), _by_name(named, issues), _by_sequence(rest, world_size, issues)]
    base, parts = 0, []
    for part in [*found, messages]:
        if part.height:
            parts.append(part.with_columns(instance=pl.col("instance") + base))
            base += int(part["instance"].max()) + 1  # type: ignore[arg-type]
    if not parts:
        return messages
    return pl.concat([part.select(messages.columns) for part in parts])


def _lanes(events: pl.DataFrame, world_size: int | None, ranks: list[int]) -> pl.DataFrame:
    """Add the group's text and size; activities without a group are of all ranks."""
    world = list(range(world_size)) if world_size else ranks
    text = pl.col("members").cast(pl.List(pl.String)).list.join(",")
    distinct = events.select("members").unique().with_columns(group=text)
    events = events.join(distinct, on="members", how="left", nulls_equal=True, maintain_order="left")
    assumed = pl.col("members").is_null()
    return events.with_columns(
        assumed=assumed,
        group=pl.when(assumed).then(pl.lit(",".join(map(str, world)))).otherwise("group"),
        count=pl.when(assumed)
        .then(pl.lit(len(world)))
        .otherwise(pl.max_horizontal("size", pl.col("members").list.len().cast(pl.Int32)))
        .cast(pl.Int32),
        certain=pl.when(assumed)
        .then(pl.lit(world_size is not None))
        .otherwise(pl.col("members").list.len() >= pl.col("size").fill_null(0)),
        lane_name=pl.col("group_name").fill_null(""),
    )


def _finish(events: pl.DataFrame) -> pl.DataFrame:
    rooted = ~pl.col("op").is_in(SYNCHRONISING)
    return events.select(
        "row",
        pl.col("instance").cast(pl.Int64),
        "group",
        members=pl.col("count"),
        certain=pl.col("certain"),
        op=pl.col("op"),
        src=pl.lit(None, pl.Int32),
        dst=pl.lit(None, pl.Int32),
        loose=rooted | pl.col("grouped"),
        group_name=pl.col("group_name"),
        seq=pl.col("seq"),
    )


def _dense(events: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Number the distinct combinations of some columns as ``instance``."""
    distinct = events.select(keys).unique().with_row_index("instance")
    return events.join(distinct, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _by_number(events: pl.DataFrame, issues: list[Issue]) -> pl.DataFrame:
    lane = ["group", "lane_name", "window"]
    # PyTorch numbers collectives and point-to-point work apart, so one number may stand for one of each.
    events = events.with_columns(peer=pl.col("op").is_in(["send", "recv"]) | (pl.col("op") == "unknown") & pl.col("grouped"))
    key = [*lane, "peer", "seq"]
    events = events.with_columns(repeat=pl.int_range(pl.len()).over(["rank", *key]))
    _tell_repeats(events, issues)
    _tell_gaps(events, [*lane, "peer"], issues)
    return _finish(_dense(events, [*key, "repeat"]))


def _tell_repeats(events: pl.DataFrame, issues: list[Issue]) -> None:
    repeats = events.filter(pl.col("repeat") > 0)
    found = repeats.group_by("rank", "group", "lane_name").agg(pl.col("seq").unique().sort()).sort("rank", "group", "lane_name")
    for rank, group, name, numbers in found.iter_rows():
        text = (
            f"Rank {rank} has {_some(numbers)} of group {name!r} (ranks {_short(group)}) more than once; "
            "repeats are matched in order of launch."
        )
        issues.append(Issue(code="DUPLICATE_SEQ", message=text))


def _tell_gaps(events: pl.DataFrame, lane: list[str], issues: list[Issue]) -> None:
    """Numbers that a rank skips between two of its own, or that it lacks although it was recording while the others ran them."""
    ordered = events.select(*lane, "rank", "seq").unique().sort(*lane, "rank", "seq")
    ordered = ordered.with_columns(before=pl.col("seq").shift(1).over([*lane, "rank"]))
    gaps = ordered.filter(pl.col("seq") > pl.col("before") + 1)
    found = gaps.group_by("rank", "group", "lane_name", maintain_order=True).agg(
        first=pl.col("before") + 1, last=pl.col("seq") - 1, missing=(pl.col("seq") - pl.col("before") - 1).sum()
    )
    for rank, group, name, first, last, missing in found.sort("rank", "group", "lane_name").iter_rows():
        spans = [f"{low}" if low == high else f"{low}-{high}" for low, high in zip(first, last, strict=True)]
        shown = ", ".join(spans[:_SHOWN]) + (", ..." if len(spans) > _SHOWN else "")
        text = (
            f"Rank {rank} lacks {missing} collective(s) of group {name!r} (ranks {_short(group)}): Seq {shown}. "
            "They were lost or ran unprofiled; matching by number is not affected."
        )
        issues.append(Issue(code="SEQ_GAP", message=text))


def _by_name(events: pl.DataFrame, issues: list[Issue]) -> pl.DataFrame:
    """Match by communicator id: as a collective's own id where no rank has it twice, else as the name of a sequence."""
    if events.is_empty():
        return _finish(events.with_columns(instance=pl.lit(0)))
    most = events.group_by("comms_id", "window").agg(most=pl.len().over("rank").max())
    events = events.join(most, on=["comms_id", "window"], maintain_order="left")
    single = _dense(events.filter(pl.col("most") == 1), ["comms_id", "window"])
    several = events.filter(pl.col("most") > 1)
    if several.is_empty():
        return _finish(single)
    aligned = _aligned(several, ["comms_id", "window"], issues)
    shift = int(single["instance"].max() or 0) + 1  # type: ignore[arg-type]
    return _finish(pl.concat([single, aligned.with_columns(pl.col("instance") + shift)], how="diagonal_relaxed"))


def _by_sequence(events: pl.DataFrame, world_size: int | None, issues: list[Issue]) -> pl.DataFrame:
    if events.is_empty():
        return _finish(events.with_columns(instance=pl.lit(0)))
    lane = ["group", "lane_name", "assumed", "window"]
    events = _aligned(events, lane, issues)
    assumed = events.filter("assumed")
    if assumed.height:
        _tell_assumed(assumed, world_size, issues)
    return _finish(events)


def _tell_assumed(events: pl.DataFrame, world_size: int | None, issues: list[Issue]) -> None:
    group = events["group"][0]
    if events.filter("aligned").height:
        text = (
            f"{events.height} communication kernels carry no group; their group is taken to be all ranks "
            f"({_short(group)}), because the ranks' "
            f"sequences of operations {'agree' if events['rank'].n_unique() > 1 else 'cannot contradict it'}."
        )
        issues.append(Issue(code="GROUP_ASSUMED", message=text, severity="info"))
    if events.filter(~pl.col("aligned")).height:
        text = (
            "Communication kernels carry no group, and the ranks' sequences of operations do not agree: they could not "
            "be matched, so waiting "
            "cannot be told from transfer. Record with a PyTorch that writes collective metadata (2.1 or later)."
        )
        issues.append(Issue(code="NO_GROUP_METADATA", message=text))


def _aligned(events: pl.DataFrame, lane: list[str], issues: list[Issue]) -> pl.DataFrame:
    """Sequence alignment inside each lane; adds ``instance`` and ``aligned``. Input sorted by rank and launch order."""
    events = _by_common_steps(events, lane)
    lane = [*lane, "part"]
    events = _dense(events, lane).rename({"instance": "lane"})
    events = _dense(events, ["op", "dtype", "bytes"]).rename({"instance": "key"})
    events = events.with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64).over("lane", "rank"))
    marks = events.with_columns(mark=_marks(events)).group_by("lane", "rank").agg(pl.col("mark").sum(), length=pl.len())
    uniform = marks.group_by("lane").agg(uniform=(pl.col("mark").n_unique() == 1) & (pl.col("length").n_unique() == 1))
    events = events.join(uniform, on="lane", maintain_order="left")
    same = _dense(events.filter("uniform"), ["lane", "place"]).with_columns(aligned=pl.lit(value=True))
    differing = events.filter(~pl.col("uniform"))
    if differing.is_empty():
        return same
    base = same.height and int(same["instance"].max()) + 1  # type: ignore[arg-type]
    parts = [same]
    for part in differing.partition_by("lane", maintain_order=True):
        instance = align_lane(part["rank"].to_numpy(), part["key"].to_numpy().astype(np.int64), part["end_ns"].to_numpy())
        part = part.with_columns(pl.Series("instance", instance)).with_columns(aligned=pl.lit(value=True))
        if _sequences_disagree(part):
            part = part.with_columns(instance=pl.int_range(pl.len(), dtype=pl.Int64), aligned=pl.lit(value=False))
        else:
            _tell_lost(part, issues)
        parts.append(part.with_columns(pl.col("instance") + base))
        base += part.height
    return pl.concat(parts, how="diagonal_relaxed")


def _marks(events: pl.DataFrame) -> pl.Series:
    """A number per kernel whose sum tells equal sequences apart from others, without comparing them pair by pair."""
    key, place = (events[name].to_numpy().astype(np.uint64) + np.uint64(1) for name in ("key", "place"))
    # Odd constants of splitmix64 (Steele, Lea, Flood 2014); products wrap on purpose.
    mixed = (key * np.uint64(0x9E3779B97F4A7C15)) ^ (key << np.uint64(7))
    product = mixed * ((place * np.uint64(0xBF58476D1CE4E5B9)) | np.uint64(1))
    # Shortened so that the sums of long sequences stay inside 64 bits.
    return pl.Series("mark", (product >> np.uint64(24)).astype(np.int64))


def _by_common_steps(events: pl.DataFrame, lane: list[str]) -> pl.DataFrame:
    """Where ranks recorded different steps, operations are compared step by step; elsewhere as one sequence."""
    steps = events.group_by(*lane, "rank").agg(steps=pl.col("launch_step").drop_nulls().unique().sort())
    differ = steps.group_by(lane).agg(differ=pl.col("steps").n_unique() > 1)
    events = events.join(differ, on=lane, maintain_order="left", nulls_equal=True)
    return events.with_columns(part=pl.when("differ").then("launch_step")).drop("differ")


def _sequences_disagree(part: pl.DataFrame) -> bool:
    if part["rank"].n_unique() == 1:
        return False
    shared = part.select("rank", shared=pl.len().over("instance") > 1).group_by("rank").agg(pl.col("shared").mean())
    return float(shared["shared"].max()) < _LEAST_ALIGNED  # type: ignore[arg-type]


def _tell_lost(part: pl.DataFrame, issues: list[Issue]) -> None:
    """Name the ranks that lack an operation the others ran while they were recording."""
    seen = part.group_by("instance").agg(pl.col("rank"), op=pl.col("op").first())
    everyone = sorted(part["rank"].unique().to_list())
    group, name = part["group"][0], part["lane_name"][0]
    for rank in everyone:
        lost = seen.filter(~pl.col("rank").list.contains(rank))
        if lost.is_empty():
            continue
        ops = ", ".join(sorted(set(lost["op"].to_list())))
        text = (
            f"Rank {rank} lacks {lost.height} operation(s) ({ops}) that other ranks of group {name!r} (ranks {_short(group)}) ran; "
            "the rest was matched by sequence alignment, nothing was shifted."
        )
        issues.append(Issue(code="SEQ_GAP", message=text))


def _some(numbers: list[int]) -> str:
    return "Seq " + ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")


def _short(group: str) -> str:
    members = group.split(",")
    return group if len(members) <= 8 else f"{members[0]},{members[1]},...,{members[-1]}"
