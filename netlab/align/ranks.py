"""Which rank, window and host each trace file belongs to."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath

import polars as pl

from netlab.align.options import AlignOptions
from netlab.errors import RunError
from netlab.issues import Issue
from netlab.shelf import Shelf
from netlab.units import format_numbers

__all__ = ["Assembly", "assemble_ranks"]

_RANK_IN_NAME = re.compile(r"rank[-_ ]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Assembly:
    """Files put in their places."""

    #: file, path, rank, window, truncated, damaged, device_event_count; sorted by file.
    files: pl.DataFrame
    world_size: int | None
    ranks: list[int]
    missing_ranks: list[int]
    #: Host of every rank for which it is known, seen or not.
    hosts: dict[int, str]
    issues: list[Issue]


@dataclass(frozen=True)
class _Extent:
    start_ns: int
    end_ns: int

    def meets(self, other: _Extent) -> bool:
        return self.start_ns <= other.end_ns and other.start_ns <= self.end_ns


def assemble_ranks(raw: Mapping[str, pl.DataFrame], tall: Mapping[str, Shelf], options: AlignOptions) -> Assembly:
    """Give every trace file its rank and window. Raw tables are those of :func:`netlab.align.align`.

    The rank is the user's override, else what the content says, else the number in the file name, else the next free one; the last two are
    an issue. Files of one rank that do not overlap in time and agree on world and groups are windows of one run.

    Raises
    ------
    RunError
        Beginning with ``DUPLICATE_RANK`` or ``SEVERAL_RUNS`` and naming the files, when they cannot be one run.
    """
    rows = raw["trace_files"].sort("file").to_dicts()
    issues: list[Issue] = []
    rank_of = _ranks(rows, options, issues)
    world_size = _world_size(rows, rank_of, tall, options)
    extents = _extents(raw, tall)
    files_of: dict[int, list[dict[str, object]]] = defaultdict(list)
    for row in rows:
        files_of[rank_of[_int(row["file"])]].append(row)
    _refuse_duplicates(files_of, extents, raw["process_groups"])
    window_of = _windows(files_of, extents)
    ranks = sorted(files_of)
    missing = sorted(set(range(world_size)) - set(ranks)) if world_size else []
    if missing:
        which = format_numbers(missing)
        text = f"{len(missing)} of {world_size} ranks have no trace: {which}. Record all ranks to tell waiting from transfer."
        issues.append(Issue(code="MISSING_RANK", message=text))
    files = pl.DataFrame(
        {
            "file": [row["file"] for row in rows],
            "path": [row["path"] for row in rows],
            "rank": [rank_of[_int(row["file"])] for row in rows],
            "window": [window_of[_int(row["file"])] for row in rows],
            "truncated": [not row["complete"] if row["truncated"] is None else row["truncated"] for row in rows],
            "damaged": [not row["complete"] for row in rows],
            "device_event_count": [row["device_event_count"] for row in rows],
        },
        schema={
            "file": pl.Int32,
            "path": pl.String,
            "rank": pl.Int32,
            "window": pl.Int32,
            "truncated": pl.Boolean,
            "damaged": pl.Boolean,
            "device_event_count": pl.Int64,
        },
    )
    return Assembly(files, world_size, ranks, missing, _hosts(files_of, world_size, options), issues)


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _ranks(rows: Sequence[Mapping[str, object]], options: AlignOptions, issues: list[Issue]) -> dict[int, int]:
    found: dict[int, int] = {}
    for row in rows:
        path = str(row["path"])
        stated = options.rank_overrides.get(path, row["rank"])
        if stated is not None and _int(stated) >= 0:
            found[_int(row["file"])] = _int(stated)
    taken = set(found.values())
    for row in rows:
        if _int(row["file"]) in found:
            continue
        path = str(row["path"])
        match = _RANK_IN_NAME.search(PurePath(path).name)
        if match is not None:
            rank, origin = int(match[1]), "the file name"
        else:
            rank, origin = next(number for number in range(len(rows)) if number not in taken), "the order of files"
        found[_int(row["file"])] = rank
        taken.add(rank)
        text = f'The rank is not stated in the file; rank {rank} is assumed from {origin}. Set [files] "{path}" = {{ rank = N }} if wrong.'
        issues.append(Issue(code="RANK_ASSUMED", message=text, source=path))
    return found


def _world_size(
    rows: Sequence[Mapping[str, object]], rank_of: Mapping[int, int], tall: Mapping[str, Shelf], options: AlignOptions
) -> int | None:
    """The declared world, else what the files state, else the size of the default process group in the collectives' metadata."""
    if options.world_size is not None:
        return options.world_size
    stated = [(_int(row["world_size"] or 0), _int(row["file"]), str(row["path"])) for row in rows]
    stated = [entry for entry in stated if entry[0] > 0]
    if len({size for size, _, _ in stated}) > 1:
        said = "; ".join(f"{path} says {size}" for size, _, path in sorted({(size, 0, path) for size, _, path in stated})[:6])
        code = "DUPLICATE_RANK" if len({rank_of[file] for _, file, _ in stated}) == 1 else "SEVERAL_RUNS"
        raise RunError(f"{code}: the files state different world sizes ({said}); give the files of one run at a time.")
    if stated:
        return stated[0][0]
    default = pl.col("group_description") == "default_pg"
    parts = (part for name in ("event_metadata", "comm_calls") for part in tall[name].stretches("group_description", "group_size"))
    found = pl.Series([part.filter(default)["group_size"].max() for part in parts], dtype=pl.Int32).max()
    return _int(found) if found is not None else None


def _extents(raw: Mapping[str, pl.DataFrame], tall: Mapping[str, Shelf]) -> dict[int, _Extent]:
    """First and last instant of each file. Starts only: an impossible duration must not make files overlap."""
    marks = raw["annotations"].filter(pl.col("name").str.starts_with("ProfilerStep#")).select("file", at="end_ns").drop_nulls()
    spans = [_span(marks), _span(raw["annotations"].select("file", at="start_ns"))]
    for name in ("device_events", "launches"):
        spans += [_span(part.select("file", at="start_ns")) for part in tall[name].stretches("file", "start_ns")]
    whole = pl.concat(spans).group_by("file").agg(pl.col("start").min(), pl.col("end").max())
    return {file: _Extent(start, end) for file, start, end in whole.iter_rows()}


def _span(instants: pl.DataFrame) -> pl.DataFrame:
    return instants.group_by("file").agg(start=pl.col("at").min(), end=pl.col("at").max())


def _refuse_duplicates(files_of: Mapping[int, list[dict[str, object]]], extents: Mapping[int, _Extent], groups: pl.DataFrame) -> None:
    clashes: dict[int, tuple[str, str]] = {}
    for rank, rows in files_of.items():
        if len(rows) == 1:
            continue
        seen = [row for row in rows if _int(row["file"]) in extents]
        ordered = sorted(seen, key=lambda row: (extents[_int(row["file"])].start_ns, _int(row["file"])))
        for one, other in pairwise(ordered):
            overlap = extents[_int(one["file"])].meets(extents[_int(other["file"])])
            if overlap or _groups_differ(groups, _int(one["file"]), _int(other["file"])):
                clashes[rank] = (str(one["path"]), str(other["path"]))
                break
    if not clashes:
        return
    if len(clashes) > 1 and len(clashes) == len(files_of):
        names = "; ".join(f"rank {rank}: {one} and {other}" for rank, (one, other) in sorted(clashes.items()))
        raise RunError(
            f"SEVERAL_RUNS: every rank has two files that cannot be one recording ({names}); give the files of one run at a time."
        )
    rank, (first, second) = min(clashes.items())
    raise RunError(
        f"DUPLICATE_RANK: {first} and {second} both claim rank {rank} and overlap in time or disagree on groups; "
        f'remove one, or set [files] "{second}" = {{ rank = N }} in netlab.toml.'
    )


def _groups_differ(groups: pl.DataFrame, one: int, other: int) -> bool:
    sides = [groups.filter((pl.col("file") == file) & pl.col("ranks").is_not_null()).select("name", "ranks") for file in (one, other)]
    both = sides[0].join(sides[1], on="name", suffix="_other")
    return both.height > 0 and not both.select((pl.col("ranks") == pl.col("ranks_other")).all()).item()


def _windows(files_of: Mapping[int, list[dict[str, object]]], extents: Mapping[int, _Extent]) -> dict[int, int]:
    """Profiler cycles: stretches of time that files of several ranks share; by order in each rank where clocks are too far off for that."""

    def opened(file: int) -> tuple[int, int]:
        return (extents[file].start_ns if file in extents else 0, file)

    ordered = [sorted((_int(row["file"]) for row in rows), key=opened) for rows in files_of.values()]
    by_order = {file: number for files in ordered for number, file in enumerate(files)}
    if max(by_order.values(), default=0) == 0:
        return by_order
    by_time: dict[int, int] = {}
    number, reach = -1, 0
    for file in sorted(by_order, key=opened):
        extent = extents.get(file, _Extent(0, 0))
        if number < 0 or extent.start_ns > reach:
            number += 1
        reach = max(reach, extent.end_ns)
        by_time[file] = number
    apart = all(len({by_time[file] for file in files}) == len(files) for files in ordered)
    shared = len(by_time) > len(set(by_time.values()))
    return by_time if apart and shared else by_order


def _hosts(files_of: Mapping[int, list[dict[str, object]]], world_size: int | None, options: AlignOptions) -> dict[int, str]:
    hosts: dict[int, str] = {}
    for rank, rows in files_of.items():
        named = next((str(row["host"]) for row in rows if row["host"]), options.rank_hosts.get(rank))
        if named is not None:
            hosts[rank] = named
    for rank, host in options.rank_hosts.items():
        hosts.setdefault(rank, host)
    if not options.gpus_per_node:
        return hosts
    named_nodes = {rank // options.gpus_per_node: host for rank, host in sorted(hosts.items(), reverse=True)}
    for rank in range(max(world_size or 0, max(files_of, default=-1) + 1)):
        node = rank // options.gpus_per_node
        hosts.setdefault(rank, named_nodes.get(node, f"node{node}"))
    return hosts
