"""Where the bytes went: groups by their members, and the traffic between ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from netlab.attribute.arrivals import group_list
from netlab.intervals import cover
from netlab.units import NS_PER_MS

__all__ = ["exposed_members", "group_rows", "rooflines", "traffic"]

#: A transfer counts for what the run itself reached from this multiple of the clock error on.
CLEAR_OF_ERROR = 10


def exposed_members(collectives: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    """How much of each member's transfer and wait no compute of its rank covers.

    Two collectives on two streams at once both count their whole exposed part here; the breakdown counts the instant once.

    Returns
    -------
    ``instance, rank, transfer_ns, wait_ns, exposed_transfer_ns, exposed_wait_ns``, one row per row of ``COLLECTIVES`` in its order; null
    where the split is unknown.
    """
    compute = activities.filter(pl.col("kind") == "compute")
    frame = collectives.select(
        "instance",
        "rank",
        "start_ns",
        "end_ns",
        "transfer_ns",
        "wait_ns",
        begin=pl.col("end_ns") - pl.col("transfer_ns").fill_null(0),
        until=pl.col("start_ns") + pl.col("wait_ns").fill_null(0),
    )
    lane, busy_from, busy_until = (compute[name].to_numpy().astype(np.int64) for name in ("rank", "start_ns", "end_ns"))
    rank, start, end, begin, until = (frame[name].to_numpy().astype(np.int64) for name in ("rank", "start_ns", "end_ns", "begin", "until"))
    transfer = pl.Series("exposed_transfer_ns", end - begin - cover(lane, busy_from, busy_until, rank, begin, end))
    wait = pl.Series("exposed_wait_ns", until - start - cover(lane, busy_from, busy_until, rank, start, until))
    return frame.select("instance", "rank", "transfer_ns", "wait_ns").with_columns(
        exposed_transfer_ns=pl.when(frame["transfer_ns"].is_not_null()).then(transfer),
        exposed_wait_ns=pl.when(frame["wait_ns"].is_not_null()).then(wait),
    )


def rooflines(
    with_rates: pl.DataFrame,
    ranks: pl.DataFrame,
    *,
    declared_gbps: Mapping[str, float],
    logged_gbps: Mapping[str, float] | None = None,
    tests: pl.DataFrame | None = None,
    predicted: Mapping[str, float] | None = None,
) -> pl.DataFrame:
    """The bus bandwidth in one direction that each group's links allow, by the best source there is.

    Parameters
    ----------
    with_rates
        Instances with bandwidths.
    ranks
        ``RANKS``: a ring through a group crosses every host once for each of its members there, over as many NICs.
    declared_gbps, logged_gbps
        One-direction rate per GPU by layer (``intra_node``, ``inter_node``), as configured and as NCCL logs or topology state it.
    tests
        ``link_speed_tests``: the best busbw of an nccl-tests run over as many ranks, on as many hosts where both are known.
    predicted
        Group to the best bus bandwidth that NCCL's own TUNING table gives it.

    Returns
    -------
    ``group, layer, roofline_gb_per_s, origin``, sorted by group; origin is, the best first, tested (what was measured), declared, predicted
    (NCCL's own model of these links), logged (data sheet) or reached. Without any source it is the best that a group of this layer and size
    reached in the run itself; a group without any bandwidth has no row.
    """
    hosts = dict(ranks.select("rank", "host").iter_rows())
    # A transfer of a few clock errors says how good the clocks are, not the link.
    clear = with_rates.filter(pl.col("transfer_ns") >= CLEAR_OF_ERROR * pl.col("error_ns").fill_null(0))
    reached = clear.group_by("layer", "members").agg(pl.col("busbw_gb_per_s").quantile(0.95, "higher"))
    best = {(layer, members): rate for layer, members, rate in reached.iter_rows() if rate}
    tested = _tested(tests)
    rows: list[tuple[str, str, float, str]] = []
    for group, layer, members in with_rates.select("group", "layer", "members").unique().sort("group").iter_rows():
        measured = tested.get((members, _host_count(group, hosts)), tested.get((members, None)))
        if measured is not None:
            rows.append((group, layer, measured, "tested"))
        elif declared_gbps.get(layer):
            rows.append((group, layer, _per_group(group, layer, declared_gbps, hosts), "declared"))
        elif predicted and predicted.get(group):
            rows.append((group, layer, predicted[group], "predicted"))
        elif logged_gbps and logged_gbps.get(layer):
            rows.append((group, layer, _per_group(group, layer, logged_gbps, hosts), "logged"))
        elif (layer, members) in best:
            rows.append((group, layer, best[layer, members], "reached"))
    schema = {"group": pl.String, "layer": pl.String, "roofline_gb_per_s": pl.Float64, "origin": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _tested(tests: pl.DataFrame | None) -> dict[tuple[int, int | None], float]:
    """Ranks and hosts of a speed test to its best bus bandwidth; a test that does not tell its hosts stands under None."""
    if tests is None or tests.is_empty():
        return {}
    best = tests.group_by("ranks", "hosts").agg(pl.col("busbw_gb_per_s").max())
    return {(ranks, hosts): rate for ranks, hosts, rate in best.iter_rows() if ranks and rate}


def _host_count(group: str, hosts: Mapping[int, str | None]) -> int | None:
    known = {hosts.get(rank) for rank in group_list(group)}
    return None if None in known else len(known)


def _per_group(group: str, layer: str, gbps: Mapping[str, float], hosts: Mapping[int, str | None]) -> float:
    rate = gbps[layer] / 8
    if layer != "inter_node":
        return rate
    members = [hosts.get(rank) for rank in group_list(group)]
    if any(host is None for host in members):
        return rate
    lanes = min(members.count(host) for host in set(members))
    inside = gbps.get("intra_node")
    return min(rate * lanes, inside / 8) if inside and lanes > 1 else rate * lanes


def group_rows(
    with_rates: pl.DataFrame,
    exposed: pl.DataFrame,
    groups: pl.DataFrame,
    limits: pl.DataFrame,
) -> list[dict[str, Any]]:
    """Groups by their members as rows of ``netlab.check/1``, the most transfer first.

    Parameters
    ----------
    with_rates
        Instances with bandwidths.
    exposed
        Result of `exposed_members`.
    groups
        ``GROUPS``, for names and kinds; names that share their members share a row.
    limits
        Result of `rooflines`.

    Returns
    -------
    ``transfer_ms`` sums the instances' transfers, ``exposed_transfer_ms`` the mean over its members of what compute does not cover,
    ``wait_ms`` sums over instances and members; all three are null where more than 1 % of the group's time has no known split.
    ``busbw_gb_per_s`` divides the bus bytes by the time of the instances that give a bandwidth.
    """
    per_instance = exposed.group_by("instance").agg(pl.col("exposed_transfer_ns").mean())
    frame = with_rates.join(per_instance, on="instance", how="left")
    unknown = pl.col("split") == "unknown"
    time = pl.col("last_end_ns") - pl.col("first_start_ns")
    sound = pl.col("busbw_gb_per_s").is_not_null()
    added = frame.group_by("group").agg(
        pl.col("layer").first(),
        pl.col("transfer_ns", "wait_ns", "exposed_transfer_ns", "bytes").sum(),
        has_bytes=pl.col("bytes").is_not_null().any(),
        unknown=time.filter(unknown).sum(),
        time=time.sum(),
        bus_bytes=(pl.col("busbw_gb_per_s") * pl.col("transfer_ns")).filter(sound).sum(),
        bus_time=pl.col("transfer_ns").filter(sound).sum(),
    )
    about = groups.group_by("group").agg(
        name=pl.col("name").filter(pl.col("name") != "").unique().sort().str.join(", "),
        description=pl.col("description").drop_nulls().first(),
        parallelism=pl.col("parallelism").drop_nulls().first(),
    )
    limit_of = limits.select("group", "roofline_gb_per_s", "origin")
    rows = added.join(about, on="group", how="left").join(limit_of, on="group", how="left")
    rows = rows.sort("transfer_ns", "group", descending=[True, False])
    result = []
    for row in rows.iter_rows(named=True):
        known = 100 * row["unknown"] <= row["time"]
        busbw = row["bus_bytes"] / row["bus_time"] if row["bus_time"] else None
        limit = row["roofline_gb_per_s"]
        result.append(
            {
                "group": group_list(row["group"]),
                "name": row["name"] or None,
                "description": row["description"],
                "parallelism": row["parallelism"],
                "layer": row["layer"],
                "transfer_ms": row["transfer_ns"] / NS_PER_MS if known else None,
                "wait_ms": row["wait_ns"] / NS_PER_MS if known else None,
                "exposed_transfer_ms": row["exposed_transfer_ns"] / NS_PER_MS if known else None,
                "bytes": row["bytes"] if row["has_bytes"] else None,
                "busbw_gb_per_s": busbw,
                "roofline_gb_per_s": limit,
                "roofline_origin": row["origin"],
                "efficiency": busbw / limit if busbw is not None and limit else None,
            }
        )
    return result


def traffic(found: pl.DataFrame, p2p: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """Bytes that each rank sends to each other, by the algorithm that the operation implies.

    Rooted and reducing collectives are laid on a ring through the group in rank order (what NCCL builds within a host; its order between
    hosts may differ), all_to_all on all pairs, messages on their pair. An all_reduce sends 2 (n-1)/n of its bytes to the next member, an
    all_gather or reduce_scatter (n-1)/n, broadcast and reduce their bytes along a chain of n-1 links.
    Source: nccl-tests doc/PERFORMANCE.md for the amounts.

    Returns
    -------
    ``src, dst, bytes, layer`` with layer intra_node, inter_node or unplaced, sorted by src and dst.
    """
    hosts = dict(ranks.select("rank", "host").iter_rows())
    total: dict[tuple[int, int], float] = {}

    def add(src: int, dst: int, size: float) -> None:
        total[src, dst] = total.get((src, dst), 0.0) + size

    paired = found.filter(~pl.col("instance").is_in(p2p["instance"].implode())) if p2p.height else found
    sums = paired.filter(pl.col("bytes") > 0).group_by("group", "op").agg(pl.col("bytes").sum()).sort("group", "op")
    for group, op, size in sums.iter_rows():
        members = group_list(group)
        n = len(members)
        ring = list(zip(members, members[1:] + members[:1], strict=True)) if n > 1 else []
        if op == "all_to_all":
            for src in members:
                for dst in members:
                    if src != dst:
                        add(src, dst, size / n)
        elif op == "all_reduce":
            for src, dst in ring:
                add(src, dst, size * 2 * (n - 1) / n)
        elif op in ("all_gather", "reduce_scatter"):
            for src, dst in ring:
                add(src, dst, size * (n - 1) / n)
        elif op in ("broadcast", "reduce", "gather", "scatter"):
            for src, dst in ring[:-1]:
                add(src, dst, size)
    for src, dst, size in p2p.filter(pl.col("bytes") > 0).group_by("src", "dst").agg(pl.col("bytes").sum()).iter_rows():
        add(src, dst, size)

    def layer(src: int, dst: int) -> str:
        a, b = hosts.get(src), hosts.get(dst)
        return "unplaced" if a is None or b is None else "intra_node" if a == b else "inter_node"

    rows = [(src, dst, round(size), layer(src, dst)) for (src, dst), size in sorted(total.items())]
    schema = {"src": pl.Int32, "dst": pl.Int32, "bytes": pl.Int64, "layer": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")
