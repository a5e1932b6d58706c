"""Collective matching: which kernels of different ranks are one collective.

By (members, group name, sequence number) where the trace numbers collectives; else by communicator id; else by sequence alignment.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from netlab.align.classify import SEND_RECV, SYNCHRONISING
from netlab.align.lanes import align_lanes, number_rows
from netlab.align.messages import match_messages
from netlab.issues import Issue
from netlab.units import format_numbers

__all__ = ["MATCHED_BY", "match_collectives"]

#: Columns of communication activities that matching reads.
MATCHED_BY = (
    "row",
    "file",
    "event",
    "rank",
    "window",
    "op",
    "kernel_op",
    "dtype",
    "bytes",
    "gid",
    "group_name",
    "seq",
    "comms_id",
    "src_rank",
    "dst_rank",
    "collective",
    "launch_step",
    "launch_start_ns",
    "start_ns",
    "end_ns",
)

_SHOWN = 5
_LANE = ["gid", "name_id", "window"]

#: What matching says about an activity.
_RESULT = {
    "row": pl.UInt32,
    "instance": pl.Int64,
    "gid": pl.Int32,
    "op": pl.String,
    "src": pl.Int32,
    "dst": pl.Int32,
    "loose": pl.Boolean,
    "message_bytes": pl.Int64,
}


def match_collectives(
    events: pl.DataFrame,
    parts: pl.DataFrame,
    members_of: dict[int, tuple[tuple[int, ...], int]],
    world_size: int | None,
    issues: list[Issue],
) -> pl.DataFrame:
    """Match communication activities to instances.

    Parameters
    ----------
    events
        Communication activities (copies left out) with the columns :data:`MATCHED_BY`.
    parts
        Single messages of kernels that run several.
    members_of
        Members and size by gid; pairs that exchange messages are added.
    world_size
        Ranks of the world, if stated.

    Returns
    -------
    One row per activity: row, instance (numbered in no order yet), gid, op, src and dst (messages only), loose (bytes move as soon as
    a pair has met: all but synchronising collectives and single messages).
    """
    bare = pl.col("gid").is_null() & pl.col("collective").is_null()
    # A SendRecv kernel without any metadata belongs to an all-to-all: nothing else uses that kernel on a whole group.
    op = pl.when(pl.col("op") != SEND_RECV).then("op").when(bare).then(pl.lit("all_to_all")).otherwise(pl.lit("unknown"))
    names = events["group_name"].fill_null("").unique(maintain_order=True)
    name_ids = pl.DataFrame({"group_name": names, "name_id": np.arange(len(names), dtype=np.int32)})
    events = (
        events.with_columns(
            pl.col("group_name").fill_null(""),
            op=op,
            exchange=pl.col("op") == SEND_RECV,
            assumed=pl.col("gid").is_null(),
            gid=pl.col("gid").fill_null(0),
            order_ns=pl.coalesce("launch_start_ns", "start_ns"),
        )
        .join(name_ids, on="group_name", maintain_order="left")
        .sort("rank", "window", "order_ns", "start_ns", "row")
    )
    found = []
    rest, messages = match_messages(events, parts, members_of, world_size, issues)
    groups = _GroupText(members_of, names.to_list())
    numbered = rest.filter(pl.col("seq").is_not_null() & ~pl.col("assumed"))
    rest = rest.filter(pl.col("seq").is_null() | pl.col("assumed"))
    named = rest.filter(pl.col("comms_id").is_not_null())
    rest = rest.filter(pl.col("comms_id").is_null())
    if numbered.height:
        found.append(_by_number(numbered, groups, issues))
    if named.height:
        found.append(_by_name(named, groups, issues))
    if rest.height:
        found.append(_by_sequence(rest, groups, issues))
    finished = [_finish(part) for part in found]
    if messages.height:
        finished.append(messages)
    return _concat(finished)


class _GroupText:
    """How issues name a lane."""

    def __init__(self, members_of: Mapping[int, tuple[tuple[int, ...], int]], names: list[str]) -> None:
        self._members, self._names = members_of, names

    def of(self, gid: int, name_id: int) -> str:
        members = [str(member) for member in self._members[gid][0]]
        text = ",".join(members) if len(members) <= 8 else f"{members[0]},{members[1]},...,{members[-1]}"
        return f"group {self._names[name_id]!r} (ranks {text})" if self._names[name_id] else f"the group of ranks {text}"


def _finish(part: pl.DataFrame) -> pl.DataFrame:
    loose = ~pl.col("op").is_in(SYNCHRONISING) | pl.col("exchange")
    absent = pl.lit(None, pl.Int32)
    size = pl.col("bytes").alias("message_bytes")
    return part.select("row", pl.col("instance").cast(pl.Int64), "gid", "op", size, src=absent, dst=absent, loose=loose).select(*_RESULT)


def _concat(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Put parts together, each with instance numbers of its own."""
    if not parts:
        return pl.DataFrame(schema=_RESULT)
    shifted, base = [], 0
    for part in parts:
        shifted.append(part.with_columns(pl.col("instance") + base))
        base += int(part["instance"].to_numpy().max()) + 1
    return pl.concat(shifted).cast(_RESULT)  # type: ignore[arg-type]


def _by_number(events: pl.DataFrame, groups: _GroupText, issues: list[Issue]) -> pl.DataFrame:
    # PyTorch numbers collectives and point-to-point work apart, so one number may stand for one of each.
    peer = pl.col("op").is_in(["send", "recv"]) | ((pl.col("op") == "unknown") & pl.col("exchange"))
    events = events.with_columns(peer=peer)
    key = [*_LANE, "peer", "seq"]
    _tell_gaps(events, groups, issues)
    if events.select("rank", *key).n_unique() == events.height:
        return number_rows(events, key)
    events = events.with_columns(repeat=pl.int_range(pl.len()).over(["rank", *key]))
    repeats = events.filter(pl.col("repeat") > 0).group_by("rank", "gid", "name_id").agg(pl.col("seq").unique().sort())
    for rank, gid, name, numbers in repeats.sort("rank", "gid", "name_id").iter_rows():
        shown = ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")
        text = f"Rank {rank} has Seq {shown} of {groups.of(gid, name)} more than once; repeats are matched in order of launch."
        issues.append(Issue(code="DUPLICATE_SEQ", message=text))
    return number_rows(events, [*key, "repeat"])


def _tell_gaps(events: pl.DataFrame, groups: _GroupText, issues: list[Issue]) -> None:
    """Numbers that a rank skips between two of its own."""
    lane = ["rank", *_LANE, "peer"]
    spans = events.group_by(lane).agg(numbers=pl.col("seq").n_unique(), reach=pl.col("seq").max() - pl.col("seq").min() + 1)
    gapped = spans.filter(pl.col("numbers") < pl.col("reach")).select(lane)
    if gapped.is_empty():
        return
    ordered = events.join(gapped, on=lane).select(*lane, "seq").unique().sort(*lane, "seq")
    ordered = ordered.with_columns(before=pl.col("seq").shift(1).over(lane)).filter(pl.col("seq") > pl.col("before") + 1)
    gap = pl.when(pl.col("before") + 2 == pl.col("seq")).then(pl.format("{}", pl.col("before") + 1))
    gaps = ordered.with_columns(gap=gap.otherwise(pl.format("{}-{}", pl.col("before") + 1, pl.col("seq") - 1)))
    by_rank = gaps.group_by("rank", "gid", "name_id", maintain_order=True).agg(
        shown=pl.col("gap").head(_SHOWN).str.join(", "), more=pl.len() > _SHOWN, missing=(pl.col("seq") - pl.col("before") - 1).sum()
    )
    # Ranks that lack the same numbers stand in one sentence; a gap of all is PyTorch's numbering, not a loss.
    members = events.group_by("gid", "name_id").agg(members=pl.col("rank").n_unique())
    found = by_rank.group_by("gid", "name_id", "shown", "more", "missing").agg(pl.col("rank").sort()).join(members, on=["gid", "name_id"])
    for gid, name, shown, more, missing, ranks, count in found.sort("gid", "name_id", "shown").iter_rows():
        everyone = count == len(ranks) > 1
        who = "No rank has" if everyone else f"Rank {ranks[0]} lacks" if len(ranks) == 1 else f"Ranks {format_numbers(ranks)} lack"
        text = (
            f"{who} {missing} operation(s) of {groups.of(gid, name)}: Seq {shown}{', ...' if more else ''}. They were lost or "
            "ran unprofiled; matching by number is not affected."
        )
        issues.append(Issue(code="SEQ_GAP", message=text, severity="info" if everyone else "warning"))


def _by_name(events: pl.DataFrame, groups: _GroupText, issues: list[Issue]) -> pl.DataFrame:
    """Match by communicator id: as a collective's own id where no rank has it twice, else as the name of a sequence."""
    key = ["comms_id", "window"]
    repeated = events.group_by("rank", *key).len().filter(pl.col("len") > 1).select(key).unique()
    single = number_rows(events.join(repeated, on=key, how="anti", maintain_order="left"), key)
    several = events.join(repeated, on=key, how="semi", maintain_order="left")
    if several.is_empty():
        return single
    aligned = _aligned(several, key, groups, issues)
    if single.is_empty():
        return aligned
    base = int(single["instance"].to_numpy().max()) + 1
    return pl.concat([single, aligned.select(single.columns).with_columns(pl.col("instance") + base)], how="vertical_relaxed")


def _by_sequence(events: pl.DataFrame, groups: _GroupText, issues: list[Issue]) -> pl.DataFrame:
    events = _aligned(events, [*_LANE, "assumed"], groups, issues)
    assumed = events.filter("assumed")
    matched, unmatched = assumed.filter("agrees"), assumed.filter(~pl.col("agrees"))
    if matched.height:
        why = "agree" if matched["rank"].n_unique() > 1 else "cannot contradict it (one rank)"
        text = (
            f"{matched.height} communication kernels carry no group; they are taken to belong to all ranks, because "
            f"the sequences of operations {why}."
        )
        issues.append(Issue(code="GROUP_ASSUMED", message=text, severity="info"))
    if unmatched.height:
        text = (
            f"{unmatched.height} communication kernels carry no group, and the ranks' sequences of operations do not "
            "agree: they could not be "
            "matched, so waiting cannot be told from transfer. Record with a PyTorch that writes collective metadata (2.1 or later)."
        )
        issues.append(Issue(code="NO_GROUP_METADATA", message=text))
    return events


def _aligned(events: pl.DataFrame, lane: list[str], groups: _GroupText, issues: list[Issue]) -> pl.DataFrame:
    events, losses = align_lanes(events, lane)
    together: dict[tuple[int, int, int, str], list[int]] = {}
    for gid, name, rank, count, ops in losses:
        together.setdefault((gid, name, count, ops), []).append(rank)
    for (gid, name, count, ops), ranks in sorted(together.items()):
        who = f"Rank {ranks[0]} lacks" if len(ranks) == 1 else f"Ranks {format_numbers(ranks)} lack"
        text = (
            f"{who} {count} operation(s) ({ops}) that other ranks of {groups.of(gid, name)} ran; the rest was "
            "matched by sequence "
            "alignment, nothing was shifted."
        )
        issues.append(Issue(code="SEQ_GAP", message=text))
    return events
