"""Process groups: who their members are, where their bytes travel, what kind of parallelism they serve."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import polars as pl

from netlab.issues import Issue

__all__ = ["group_layer", "group_text", "parallelism", "resolve_groups"]

_KEY = ["file", "group_name", "group_ranks", "group_size"]

_BY_DESCRIPTION = (
    (r"expert|(^|[^a-z])ep([^a-z]|$)|moe", "EP"),
    (r"tensor|(^|[^a-z])tp([^a-z]|$)", "TP"),
    (r"pipe|(^|[^a-z])pp([^a-z]|$)|stage", "PP"),
    (r"context|(^|[^a-z])cp([^a-z]|$)|sequence|ulysses", "CP"),
    (r"data|(^|[^a-z])(dp|ddp|fsdp|hsdp|shard|replicate)([^a-z]|$)", "DP"),
)


def group_text(members: Sequence[int]) -> str:
    """Members as the tables write them.

    >>> group_text([3, 1])
    '1,3'
    """
    return ",".join(str(rank) for rank in sorted(members))


def resolve_groups(events: pl.DataFrame, process_groups: pl.DataFrame, world_size: int | None, issues: list[Issue]) -> pl.DataFrame:
    """Find the members of every activity's group.

    The stated rank list is used where it is whole; where the profiler cut it (after 30 ranks) or left it out,
    distributedInfo.pg_config of the
    file, then of other files whose group has that name and holds the stated ranks; then all ranks, if the size says so.

    Returns
    -------
    ``events`` with ``members`` (null where there is no group metadata at all) and ``size`` (number of members; the stated size where some
    members stay unknown).
    """
    keys = events.filter(
        (pl.col("kind") == "communication") & ~pl.col("copy") & pl.any_horizontal(pl.col("members", "group_name").is_not_null())
    )
    cases = keys.select(*_KEY, "rank", "members", "cut").unique(_KEY, maintain_order=True)
    configured = _configured(process_groups)
    resolved: list[list[int] | None] = []
    sizes: list[int | None] = []
    short: dict[str, int] = {}
    for case in cases.iter_rows(named=True):
        members = _resolve(case, configured, world_size)
        stated = case["members"] or []
        partial = members is None and bool(stated)
        if partial:
            short[str(case["group_name"])] = case["group_size"] or 0
        resolved.append(sorted({*stated, case["rank"]}) if partial else members)
        size = len(members) if members is not None else case["group_size"]
        sizes.append(max(size, len(stated) + 1) if partial and size is not None else size)
    for name, size in sorted(short.items()):
        text = (
            f"The ranks of process group {name!r} ({size} members) are cut short in the trace and "
            f"distributedInfo.pg_config does not list them; "
            "the members that were seen stand for it."
        )
        issues.append(Issue(code="NO_GROUP_METADATA", message=text))
    table = cases.select(_KEY).with_columns(
        pl.Series("group_members", resolved, dtype=pl.List(pl.Int32)), pl.Series("size", sizes, dtype=pl.Int32)
    )
    table = _join_partial(table, cases, short)
    return (
        events.drop("members")
        .join(table, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
        .rename({"group_members": "members"})
    )


def _configured(process_groups: pl.DataFrame) -> dict[tuple[int | None, str], list[list[int]]]:
    """(file, name) to member lists; file None gathers those of all files."""
    found: dict[tuple[int | None, str], list[list[int]]] = {}
    rows = process_groups.filter(pl.col("ranks").list.len() > 0).sort("file", "name").select("file", "name", "ranks")
    for file, name, ranks in rows.iter_rows():
        members = sorted(ranks)
        for key in ((file, name), (None, name)):
            kept = found.setdefault(key, [])
            if members not in kept:
                kept.append(members)
    return found


def _resolve(
    case: Mapping[str, object], configured: Mapping[tuple[int | None, str], list[list[int]]], world_size: int | None
) -> list[int] | None:
    members, rank, size, name, file = (case[key] for key in ("members", "rank", "group_size", "group_name", "file"))
    assert isinstance(rank, int)
    assert isinstance(file, int)
    stated = list(members) if isinstance(members, list) else []
    if stated and not case["cut"]:
        return sorted(stated)
    for key in ((file, str(name)), (None, str(name))):
        fitting = [ranks for ranks in configured.get(key, []) if rank in ranks and set(stated) <= set(ranks) and size in (None, len(ranks))]
        if len(fitting) == 1:
            return list(fitting[0])
    if world_size is not None and size == world_size:
        return list(range(world_size))
    return None


def _join_partial(table: pl.DataFrame, cases: pl.DataFrame, short: Mapping[str, int]) -> pl.DataFrame:
    """Ranks that share a cut list are members of one group: give all of them the union of what is known."""
    if not short:
        return table
    partial = pl.col("cut") & (pl.col("group_members").list.len() < pl.col("size"))
    marked = table.with_columns(cases["cut"])
    union = marked.filter(partial).explode("group_members").group_by(_KEY[1:]).agg(union=pl.col("group_members").unique().sort())
    joined = marked.join(union, on=_KEY[1:], how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(group_members=pl.when(partial).then(pl.coalesce("union", "group_members")).otherwise("group_members")).drop(
        "cut", "union"
    )


def group_layer(members: Sequence[int], hosts: Mapping[int, str]) -> str:
    """Where a group's bytes travel: ``intra_node``, ``inter_node``, or ``unplaced`` if hosts are not known well enough.

    >>> group_layer([0, 1], {0: "a", 1: "b"}), group_layer([0, 1], {0: "a"}), group_layer([0, 1], {0: "a", 1: "a"})
    ('inter_node', 'unplaced', 'intra_node')
    """
    known = {hosts[rank] for rank in members if rank in hosts}
    if len(known) > 1:
        return "inter_node"
    if not known or any(rank not in hosts for rank in members):
        return "unplaced"
    return "intra_node"


def parallelism(
    members: Sequence[int], description: str | None, ops: Sequence[str], world_size: int | None, layer: str
) -> tuple[str | None, str | None]:
    """DP, TP, PP, EP or CP, and why; None where nothing tells.

    >>> parallelism([0, 1], "tensor_parallel", ["all_reduce"], 8, "intra_node")
    ('TP', "its description is 'tensor_parallel'")
    """
    text = (description or "").lower()
    if text and text not in ("default_pg", "undefined"):
        for pattern, kind in _BY_DESCRIPTION:
            if re.search(pattern, text):
                return kind, f"its description is {description!r}"
    kinds = set(ops)
    if kinds and kinds <= {"send", "recv"}:
        return "PP", "it only sends and receives between pairs"
    if kinds == {"all_to_all"}:
        return "EP", "it only exchanges all-to-all"
    if world_size and len(members) == world_size and world_size > 1 and "all_reduce" in kinds:
        return "DP", "it reduces over all ranks"
    strides = {later - earlier for earlier, later in pairwise(members)}
    if strides == {1} and layer == "intra_node" and kinds & {"all_reduce", "all_gather", "reduce_scatter"}:
        return "TP", "its members are neighbours in one host"
    if len(strides) == 1 and min(strides) > 1 and kinds & {"all_reduce", "all_gather", "reduce_scatter"}:
        return "DP", f"its members stand {min(strides)} ranks apart"
    return None, None
