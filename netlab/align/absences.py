"""Members that a numbered collective lacks although they were recording: kernels lost before or after a rank's other ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from netlab.issues import Issue

__all__ = ["tell_absent_members"]

_LANE = ["gid", "group_name", "window"]


def tell_absent_members(
    split: pl.DataFrame,
    extents: pl.DataFrame,
    members_of: Mapping[int, tuple[tuple[int, ...], int]],
    ranks: Sequence[int],
    issues: list[Issue],
) -> None:
    """Record ranks that lack collectives outside the range of their own numbers while their trace was running.

    Numbers missing inside that range are found from the rank's own sequence; a rank that had not started or had stopped recording lacks
    nothing.

    Parameters
    ----------
    split
        Result of :func:`netlab.align.split.split_instances`.
    extents
        First start and last end of each rank's activities on the corrected clock: rank, window, start_ns, end_ns.
    members_of, ranks
        Members and size by gid; ranks that have a trace.
    """
    numbered = split.filter(pl.col("seq").is_not_null() & pl.col("src").is_null())
    if numbered.is_empty():
        return
    captured = set(ranks)
    present = pl.DataFrame(
        [(gid, member) for gid, (members, _) in members_of.items() for member in members if member in captured],
        schema={"gid": pl.Int32, "rank": pl.Int32},
        orient="row",
    )
    expected = present.group_by("gid").agg(expected=pl.len())
    short = numbered.join(expected, on="gid", maintain_order="left").filter(pl.col("seen") < pl.col("expected"))
    if short.is_empty():
        return
    instances = short.group_by("instance").agg(pl.col(*_LANE, "seq", "arrival_ns").first())
    absent = instances.join(present, on="gid").join(numbered.select("instance", "rank"), on=["instance", "rank"], how="anti")
    own = numbered.group_by(*_LANE, "rank").agg(first_seq=pl.col("seq").min(), last_seq=pl.col("seq").max())
    recording = extents.rename({"start_ns": "opened_ns", "end_ns": "closed_ns"})
    absent = absent.join(own, on=[*_LANE, "rank"], how="left", nulls_equal=True).join(recording, on=["rank", "window"])
    outside = pl.col("first_seq").is_null() | ~pl.col("seq").is_between("first_seq", "last_seq")
    absent = absent.filter(outside & (pl.col("arrival_ns") > pl.col("opened_ns")) & (pl.col("arrival_ns") < pl.col("closed_ns")))
    found = absent.group_by("rank", "gid", "group_name").agg(pl.col("seq").unique().sort()).sort("rank", "gid", "group_name")
    for rank, gid, name, numbers in found.iter_rows():
        members = ",".join(map(str, members_of[gid][0][:8])) + (",..." if len(members_of[gid][0]) > 8 else "")
        shown = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
        text = (
            f"Rank {rank} was recording, but lacks {len(numbers)} operation(s) of group {name or ''!r} (ranks {members}): Seq {shown}. "
            "Transfer of these is bounded by the members that were seen."
        )
        issues.append(Issue(code="SEQ_GAP", message=text))
