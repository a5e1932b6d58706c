"""Process groups: who their members are, where their bytes travel, what kind of parallelism they serve."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import polars as pl

from netlab.issues import Issue

__all__ = ["group_layer", "group_table", "group_text", "parallelism", "resolve_groups"]

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


def resolve_groups(
    events: pl.DataFrame,
    process_groups: pl.DataFrame,
    world_size: int | None,
    ranks: Sequence[int],
    issues: list[Issue],
) -> tuple[pl.DataFrame, dict[int, tuple[tuple[int, ...], int]]]:
    """Find the members of every communication activity's group.

    The stated rank list is used where it is whole; where the profiler cut it (after 30 ranks) or left it out, distributedInfo.pg_config of
    the file, then of other files whose group has that name and holds the stated ranks; then all ranks, if the size says so.

    Returns
    -------
    ``events`` with ``gid`` (null where there is no group metadata at all), and for every gid its members and its size, which is larger than
    the list where some members stay unknown. gid 0 is all ranks.
    """
    labelled = pl.any_horizontal(pl.col("group_ranks", "group_name").is_not_null())
    # A size below one is damage, and says nothing.
    events = events.with_columns(group_size=pl.when(pl.col("group_size") > 0).then("group_size"))
    cases = events.filter(labelled).select(*_KEY, "rank").unique(_KEY, maintain_order=True).sort(_KEY)
    configured = _configured(process_groups)
    world = tuple(range(world_size)) if world_size else tuple(ranks)
    known: dict[tuple[tuple[int, ...], int], int] = {(world, world_size or len(world) + 1): 0}
    resolved: list[tuple[tuple[int, ...], int] | None] = []
    short: dict[tuple[object, ...], set[int]] = {}
    nameless: set[tuple[str, int]] = set()
    for case in cases.iter_rows(named=True):
        stated = _numbers(case["group_ranks"])
        members = _resolve(case, stated, configured, world_size)
        if members is None and stated:
            short.setdefault(_cut_key(case), set(stated)).add(case["rank"])
        resolved.append(None if members is None else (members, len(members)))
    for place, case in enumerate(cases.iter_rows(named=True)):
        # Ranks that share a cut list are members of one group: all of them get the union of what is known.
        if resolved[place] is None and (found := short.get(_cut_key(case))) is not None:
            resolved[place] = (tuple(sorted(found)), max(case["group_size"] or 0, len(found)))
        elif resolved[place] is None and case["group_size"] not in (None, len(world)):
            # Names are reused, so a name and a size alone do not tell which ranks are in the group.
            resolved[place] = ((case["rank"],), case["group_size"])
            nameless.add((str(case["group_name"]), case["group_size"]))
    for group, members_count in sorted(nameless):
        text = (
            f"The trace does not say which ranks are in process group {group!r} ({members_count} members); its operations were not matched."
        )
        issues.append(Issue(code="NO_GROUP_METADATA", message=text))
    for name, _, size in sorted(short, key=str):
        text = (
            f"The ranks of process group {name!r} ({size} members) are cut short in the trace, and distributedInfo.pg_config does not list "
            "them; the members that were seen stand for it."
        )
        issues.append(Issue(code="NO_GROUP_METADATA", message=text))
    gids = [None if entry is None else known.setdefault(entry, len(known)) for entry in resolved]
    table = cases.select(_KEY).with_columns(pl.Series("gid", gids, dtype=pl.Int32))
    events = events.join(table, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
    return events.with_columns(gid=pl.when(labelled).then("gid")), {gid: entry for entry, gid in known.items()}


def group_table(members_of: Mapping[int, tuple[tuple[int, ...], int]], hosts: Mapping[int, str]) -> pl.DataFrame:
    """One row per group number: gid, group (text), size, certain, layer, per_node (members in its fullest host)."""
    rows = []
    for gid, (members, size) in sorted(members_of.items()):
        places = Counter(hosts.get(member) for member in members)
        rows.append((gid, group_text(members), size, len(members) == size, group_layer(members, hosts), max(places.values(), default=1)))
    schema = {"gid": pl.Int32, "group": pl.String, "size": pl.Int32, "certain": pl.Boolean, "layer": pl.String, "per_node": pl.Int32}
    return pl.DataFrame(rows, schema=schema, orient="row")


@lru_cache(maxsize=4096)
def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(sorted({int(number) for number in re.findall(r"\d+", text or "")}))


def _cut_key(case: Mapping[str, object]) -> tuple[object, ...]:
    return case["group_name"], case["group_ranks"], case["group_size"]


def _configured(process_groups: pl.DataFrame) -> dict[tuple[int | None, str], list[tuple[int, ...]]]:
    """(file, name) to member lists; file None gathers those of all files."""
    found: dict[tuple[int | None, str], list[tuple[int, ...]]] = {}
    rows = process_groups.filter(pl.col("ranks").list.len() > 0).sort("file", "name").select("file", "name", "ranks")
    for file, name, ranks in rows.iter_rows():
        members = tuple(sorted(ranks))
        for key in ((file, name), (None, name)):
            kept = found.setdefault(key, [])
            if members not in kept:
                kept.append(members)
    return found


def _resolve(
    case: Mapping[str, object],
    stated: tuple[int, ...],
    configured: Mapping[tuple[int | None, str], list[tuple[int, ...]]],
    world_size: int | None,
) -> tuple[int, ...] | None:
    rank, size, name, file, text = (case[key] for key in ("rank", "group_size", "group_name", "file", "group_ranks"))
    assert isinstance(file, int)
    if stated and "..." not in str(text):
        return stated
    for key in ((file, str(name)), (None, str(name))):
        fitting = [ranks for ranks in configured.get(key, []) if rank in ranks and set(stated) <= set(ranks) and size in (None, len(ranks))]
        if len(fitting) == 1:
            return fitting[0]
    if world_size is not None and size == world_size:
        return tuple(range(world_size))
    return None


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
