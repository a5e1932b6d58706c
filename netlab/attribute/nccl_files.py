"""Communicators without an id (NCCL before 2.16) that several files tell of: one file per process shows only one member of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import polars as pl

from netlab.issues import Issue
from netlab.schema import TABLES

__all__ = ["join_files", "with_global_ranks"]

_CARRIERS = ("communicators", "connections", "logged_operations", "tuning_predictions", "communicator_edges")
Row = dict[str, Any]


def join_files(frames: Mapping[str, pl.DataFrame]) -> tuple[dict[str, pl.DataFrame], list[Issue]]:
    """Give communicators without an id one identity where it is certain who belongs together.

    The n-th communicator of a size that each process made is the same one if its ranks are there once each. Where ranks come several times,
    hosts tell: communicators whose connections all stay inside a host belong to the processes of that host. Anything else is left as it is
    and said.

    Parameters
    ----------
    frames
        Tables of all logs of a run. A communicator without an id carries its address as ``comm_id``.

    Returns
    -------
    The tables that changed, and an issue per size of communicators that could not be joined.
    """
    communicators = frames.get("communicators")
    if communicators is None or communicators.is_empty():
        return {}, []
    bare = communicators.filter((pl.col("comm_id") == pl.col("pointer")) & pl.col("rank").is_not_null() & (pl.col("nranks") > 1))
    if bare["source"].n_unique() < 2:
        return {}, []
    inside = _stay_inside(frames.get("connections"))
    together: dict[tuple[str, str], str] = {}
    issues = []
    for (nranks, _), rows in sorted(_by_order(bare).items()):
        for members in _whole_sets(rows, nranks, inside):
            leader = min(members, key=lambda row: row["rank"])
            together |= {(row["source"], row["pointer"]): f"{leader['pointer']}@{leader['host']}" for row in members}
        left = [row for row in rows if (row["source"], row["pointer"]) not in together]
        if left:
            message = (
                f"{len(left)} logs tell of communicators of {nranks} ranks without an id (NCCL before 2.16), and it is not certain which "
                "belong together; what is said about them concerns each log alone. One log of the whole job joins them."
            )
            issues.append(Issue(code="COMMUNICATORS_APART", severity="info", source=left[0]["source"], message=message))
    # Two processes may have used one address: then it names nobody.
    shared = bare.filter(pl.col("source").n_unique().over("pointer") > 1)
    for source, pointer, host, pid in shared.select("source", "pointer", "host", "pid").iter_rows():
        together.setdefault((source, pointer), f"{pointer}@{host}:{pid}")
    return _renamed(frames, together), issues


def with_global_ranks(connections: pl.DataFrame, communicators: pl.DataFrame) -> pl.DataFrame:
    """``CONNECTIONS`` with the global ranks of ends whose process speaks in another file."""
    known = communicators.filter(pl.col("global_rank").is_not_null() & pl.col("comm_id").is_not_null() & pl.col("rank").is_not_null())
    known = known.select("comm_id", "rank", "global_rank").unique().filter(pl.len().over("comm_id", "rank") == 1)
    if not connections.select((pl.col("src_global").is_null() | pl.col("dst_global").is_null()).any()).item():
        return connections
    filled = connections
    for side in ("src", "dst"):
        of = known.rename({"rank": f"{side}_rank", "global_rank": "told"})
        filled = filled.join(of, on=["comm_id", f"{side}_rank"], how="left", maintain_order="left")
        filled = filled.with_columns(pl.coalesce(f"{side}_global", "told").alias(f"{side}_global")).drop("told")
    return filled


def _by_order(bare: pl.DataFrame) -> dict[tuple[int, int], list[Row]]:
    """Communicators by size and by how many of that size their process had made before."""
    counted = bare.sort("source", "line").with_columns(number=pl.int_range(pl.len()).over("source", "host", "pid", "nranks"))
    groups: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in counted.select("source", "pointer", "host", "pid", "rank", "nranks", "number").iter_rows(named=True):
        groups[row["nranks"], row["number"]].append(row)
    return groups


def _stay_inside(connections: pl.DataFrame | None) -> set[tuple[str, str]]:
    """File and address of communicators that have connections, none of them over a network."""
    if connections is None or connections.is_empty():
        return set()
    known = connections.filter(pl.col("comm_id").is_not_null()).group_by("source", "comm_id").agg(
        pl.col("transport").is_in(["P2P", "SHM"]).all().alias("inside")
    )  # fmt: skip
    return set(known.filter("inside").select("source", "comm_id").iter_rows())


def _whole_sets(rows: list[Row], nranks: int, inside: set[tuple[str, str]]) -> list[list[Row]]:
    """Sets of rows that can only be one communicator: every rank once."""
    if _is_whole(rows, nranks):
        return [rows]
    by_host: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if (row["source"], row["pointer"]) not in inside or row["host"] is None:
            return []
        by_host[row["host"]].append(row)
    sets = list(by_host.values())
    return sets if all(_is_whole(members, nranks) for members in sets) else []


def _is_whole(rows: list[Row], nranks: int) -> bool:
    processes = {(row["host"], row["pid"]) for row in rows}
    return len(rows) == nranks == len({row["rank"] for row in rows}) == len(processes)


def _renamed(frames: Mapping[str, pl.DataFrame], together: Mapping[tuple[str, str], str]) -> dict[str, pl.DataFrame]:
    if not together:
        return {}
    names = pl.DataFrame(
        [(source, pointer, name) for (source, pointer), name in together.items()],
        schema={"source": pl.String, "comm_id": pl.String, "joined": pl.String},
        orient="row",
    )
    changed = {}
    for table in _CARRIERS:
        frame = frames.get(table)
        if frame is not None and not frame.is_empty():
            named = frame.join(names, on=["source", "comm_id"], how="left", maintain_order="left")
            changed[table] = TABLES[table].conform(named.with_columns(pl.coalesce("joined", "comm_id").alias("comm_id")).drop("joined"))
    return changed
