"""The join of timeline and logs: how groups and pairs of ranks are connected, and which communicator carried a collective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import polars as pl

from netlab.attribute.bandwidth import bus_factor
from netlab.schema.nccl_structure import CALL_COMMUNICATORS, GROUP_LINKS, PAIR_LINKS

__all__ = ["call_communicators", "communicator_groups", "group_links", "hosts_by_rank", "pair_links"]

#: Transports from fast to slow; the slowest decides.
_SLOWNESS = {"P2P": 0, "NVLS": 0, "SHM": 1, "COLLNET": 2, "NET": 3}
_PAIRWISE = ("send", "recv", "unknown")


def hosts_by_rank(communicators: pl.DataFrame, ranks: pl.DataFrame) -> dict[int, str]:
    """Host of each global rank: as the timeline has it, else as logs tell."""
    logged = communicators.select(pl.col("global_rank").cast(pl.Int64).alias("rank"), "host").drop_nulls()
    known = pl.concat([logged, ranks.select(pl.col("rank").cast(pl.Int64), "host").drop_nulls()])
    return dict(known.iter_rows())


def communicator_groups(communicators: pl.DataFrame) -> dict[str, list[int]]:
    """Communicator to its members' global ranks, where all are known.

    In a communicator whose own ranks are global ones, members that no log shows are known too.

    >>> frame = pl.DataFrame({"comm_id": ["a", "b"], "rank": [1, 0], "nranks": [4, 2], "global_rank": [1, 6], "pointer": ["0x1", "0x2"]})
    >>> communicator_groups(frame)
    {'a': [0, 1, 2, 3]}
    """
    known = communicators.filter(pl.col("comm_id").is_not_null() & pl.col("rank").is_not_null() & pl.col("nranks").is_not_null())
    same = (pl.col("rank") == pl.col("global_rank")).fill_null(value=False)
    largest = known["nranks"].max()
    found = known.group_by("comm_id", maintain_order=True).agg(
        pl.col("nranks").max(), pl.col("global_rank").drop_nulls().unique().sort(), same.all().alias("is_world")
    )
    groups: dict[str, list[int]] = {}
    for comm_id, nranks, members, is_world in found.iter_rows():
        if len(members) == nranks:
            groups[comm_id] = members
        elif is_world and nranks == largest:
            groups[comm_id] = list(range(nranks))
    return groups


def _text(members: list[int]) -> str:
    return ",".join(map(str, members))


def _edges(connections: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Connections by communicator or pair: slowest transport, most used network, NICs by side."""
    slow = pl.col("transport").replace_strict(_SLOWNESS, default=4, return_dtype=pl.Int8)
    net, nic = pl.col("transport").is_in(["NET", "COLLNET"]), pl.col("nic")
    return connections.group_by(by).agg(
        transport=pl.col("transport").drop_nulls().sort_by(slow.filter(pl.col("transport").is_not_null()), "transport").last(),
        network=pl.col("network").drop_nulls().mode().sort().first(),
        nics=nic.drop_nulls().unique().sort(),
        src_nics=nic.filter(pl.col("side") == "send").drop_nulls().unique().sort(),
        dst_nics=nic.filter(pl.col("side") == "receive").drop_nulls().unique().sort(),
        channels=pl.col("channel").n_unique().cast(pl.Int64),
        connections=pl.len().cast(pl.Int64),
        gdr_share=pl.col("gdr").filter(net).mean(),
    )


def _predicted(predictions: pl.DataFrame, groups: Mapping[str, list[int]]) -> dict[str, float]:
    """Communicator to the best bus bandwidth that NCCL itself predicts for it."""
    best: dict[str, float] = {}
    rows = predictions.filter(pl.col("comm_id").is_not_null()).group_by("comm_id", "op").agg(pl.col("bandwidth_gb_per_s").max())
    for comm_id, op, rate in rows.iter_rows():
        factor = bus_factor(op, len(groups.get(comm_id, ())))
        if factor is not None and rate:
            best[comm_id] = max(best.get(comm_id, 0.0), rate * factor)
    return best


def group_links(
    communicators: pl.DataFrame,
    connections: pl.DataFrame,
    ranks: pl.DataFrame,
    *,
    groups: pl.DataFrame | None = None,
    calls: pl.DataFrame | None = None,
    predictions: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """How every group is connected: those of the timeline, and communicators whose members are known.

    Parameters
    ----------
    communicators, connections, predictions
        Tables of NCCL logs.
    ranks, groups
        Hosts and groups of the timeline.
    calls
        Result of `call_communicators`: names a communicator's process group where several have the same members.

    Returns
    -------
    ``GROUP_LINKS``. A group of the timeline that no log shows has a layer and no transport.
    """
    members_of, hosts = communicator_groups(communicators), hosts_by_rank(communicators, ranks)
    edges = {row["comm_id"]: row for row in _edges(connections.filter(pl.col("comm_id").is_not_null()), ["comm_id"]).iter_rows(named=True)}
    predicted = _predicted(predictions, members_of) if predictions is not None else {}
    traced: dict[str, list[str]] = defaultdict(list)
    if groups is not None:
        for group, name in groups.select("group", "name").iter_rows():
            traced[group].append(name)
    joined: dict[str, tuple[set[str], str]] = {}
    if calls is not None:
        for comm_id, name, basis in calls.select("comm_id", "group_name", "basis").unique().sort("comm_id", "group_name").iter_rows():
            names, _ = joined.setdefault(comm_id, (set(), basis))
            names |= {name} if name else set()
    rows = []
    for comm_id, members in sorted(members_of.items()):
        names, basis = joined.get(comm_id, (set(), None))
        rows.append(_row(_text(members), comm_id, names, basis, members, hosts, edges.get(comm_id), predicted.get(comm_id)))
    seen = {row["group"] for row in rows}
    for group, names_of in sorted(traced.items()):
        if group not in seen and group:
            rows.append(_row(group, None, {n for n in names_of if n}, None, [int(r) for r in group.split(",")], hosts, None, None))
    return GROUP_LINKS.validate(GROUP_LINKS.conform(pl.DataFrame(rows, schema=dict(GROUP_LINKS.schema))))


def _row(
    group: str,
    comm_id: str | None,
    names: set[str],
    basis: str | None,
    members: list[int],
    hosts: Mapping[int, str],
    edges: Mapping[str, object] | None,
    predicted: float | None,
) -> dict[str, object]:
    known = {hosts.get(rank) for rank in members}
    return {
        "group": group,
        "comm_id": comm_id,
        "name": ", ".join(sorted(names)) or None,
        "basis": basis,
        "nranks": len(members),
        "hosts": None if None in known else len(known),
        "layer": None if None in known else "intra_node" if len(known) == 1 else "inter_node",
        "predicted_gb_per_s": predicted,
        **{
            name: edges[name] if edges is not None else default
            for name, default in (
                ("transport", None), ("network", None), ("nics", []), ("channels", None), ("connections", 0), ("gdr_share", None),
            )
        },
    }  # fmt: skip


def pair_links(communicators: pl.DataFrame, connections: pl.DataFrame, ranks: pl.DataFrame, p2p: pl.DataFrame) -> pl.DataFrame:
    """How every pair of ranks is connected: pairs of the logs' connections, and of the timeline's messages.

    Returns
    -------
    ``PAIR_LINKS``. A pair that only messages show has a layer and no transport.
    """
    known = connections.filter(pl.col("src_global").is_not_null() & pl.col("dst_global").is_not_null())
    found = _edges(known, ["src_global", "dst_global"]).rename({"src_global": "src", "dst_global": "dst"}).drop("nics")
    sent = p2p.select(pl.col("src", "dst").cast(pl.Int64)).unique().join(found, on=["src", "dst"], how="anti")
    empty = pl.lit([], dtype=pl.List(pl.String))
    bare = sent.with_columns(
        pl.lit(0, pl.Int64).alias("connections"), pl.lit(0, pl.Int64).alias("channels"), empty.alias("src_nics"), empty.alias("dst_nics")
    )
    hosts = hosts_by_rank(communicators, ranks)
    host_of = pl.DataFrame({"rank": list(hosts), "host": list(hosts.values())}, schema={"rank": pl.Int64, "host": pl.String})
    frame = pl.concat([found, bare], how="diagonal")
    for side in ("src", "dst"):
        frame = frame.join(host_of.rename({"rank": side, "host": f"{side}_host"}), on=side, how="left")
    same = pl.col("src_host") == pl.col("dst_host")
    frame = frame.with_columns(layer=pl.when(same).then(pl.lit("intra_node")).when(~same).then(pl.lit("inter_node")))
    return PAIR_LINKS.validate(PAIR_LINKS.conform(frame))


def call_communicators(communicators: pl.DataFrame, operations: pl.DataFrame, collectives: pl.DataFrame) -> pl.DataFrame:
    """The communicator of each collective of the timeline.

    Members decide where only one communicator has them. Where several do, the order of calls does: the operations and sizes that the
    timeline shows for a process group stand, without a gap, among the COLL lines of one communicator only.

    Parameters
    ----------
    communicators, operations
        ``communicators`` and ``logged_operations`` of NCCL logs.
    collectives
        ``COLLECTIVES``.

    Returns
    -------
    ``CALL_COMMUNICATORS``; a collective without a certain communicator has no row. Messages between two ranks have none either: they may
    be carried by any communicator that holds both.
    """
    candidates: dict[str, list[str]] = defaultdict(list)
    for comm_id, members in communicator_groups(communicators).items():
        candidates[_text(members)].append(comm_id)
    chosen = collectives.filter(pl.col("group").is_in(list(candidates)) & ~pl.col("op").is_in(_PAIRWISE))
    if chosen.is_empty():
        return CALL_COMMUNICATORS.empty()
    logged = _logged_calls(operations, {comm for comms in candidates.values() for comm in comms})
    rows = []
    for (group, name), part in chosen.group_by(["group", "group_name"], maintain_order=True):
        calls = (
            part.group_by("instance")
            .agg(pl.col("start_ns").min(), pl.col("op").first(), pl.col("bytes").max())
            .sort("start_ns", "instance")
        )
        wanted = list(zip(calls["op"].to_list(), calls["bytes"].to_list(), strict=True))
        places = {comm: _places(wanted, logged.get(comm, [])) for comm in candidates[str(group)]}
        fitting = [comm for comm, found in places.items() if found]
        comms = candidates[str(group)]
        comm = comms[0] if len(comms) == 1 else fitting[0] if len(fitting) == 1 else None
        if comm is None:
            continue
        at = places[comm]
        counts = [logged[comm][at[0] + k][2] for k in range(len(wanted))] if len(at) == 1 else [None] * len(wanted)
        basis = "members" if len(comms) == 1 else "calls"
        rows += [(i, group, name, comm, basis, count) for i, count in zip(calls["instance"].to_list(), counts, strict=True)]
    frame = pl.DataFrame(rows, schema=dict(CALL_COMMUNICATORS.schema), orient="row")
    return CALL_COMMUNICATORS.validate(CALL_COMMUNICATORS.conform(frame))


Call = tuple[str, int | None, int]


def _logged_calls(operations: pl.DataFrame, comms: set[str]) -> dict[str, list[Call]]:
    """Operation, bytes and opCount of each communicator's calls, as one of its ranks (the lowest that logs them) made them."""
    own = operations.filter(pl.col("comm_id").is_in(list(comms)) & ~pl.col("op").is_in(_PAIRWISE) & pl.col("rank").is_not_null())
    if own.is_empty():
        return {}
    first = own.filter(pl.col("rank") == pl.col("rank").min().over("comm_id")).sort("comm_id", "source", "line")
    calls: dict[str, list[Call]] = defaultdict(list)
    for comm_id, op, size, seq in first.select("comm_id", "op", "bytes", "seq").iter_rows():
        calls[comm_id].append((op, size, seq))
    return dict(calls)


def _places(wanted: list[tuple[str, int | None]], logged: list[Call], limit: int = 2) -> list[int]:
    """Where the wanted calls stand among the logged ones without a gap; at most ``limit`` places.

    >>> _places([("all_reduce", 8), ("barrier", None)], [("all_gather", 8, 0), ("all_reduce", 8, 1), ("barrier", None, 2)])
    [1]
    """
    count = len(wanted)
    keys = [(op, size) for op, size, _ in logged]
    found: list[int] = []
    at = 0
    while count and len(found) < limit and at <= len(keys) - count:
        if keys[at] == wanted[0] and keys[at : at + count] == wanted:
            found.append(at)
        at += 1
    return found
