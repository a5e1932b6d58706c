"""Bytes counted at hosts against bytes that their collectives and messages ask for."""

from __future__ import annotations

import polars as pl

from netlab.schema.traffic import HOST_TRAFFIC

__all__ = ["expected_factors", "host_traffic"]

#: Ethernet with check sum, IPv4, UDP, transport header and check sum of a RoCEv2 packet; those of InfiniBand are nearly as long.
_HEADER_BYTES = 62
#: What a NIC counts when the transport sends again.
_RESENT = ("retransmits", "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "implied_nak_seq_err")


def expected_factors(op: str, members: int, hosts: int) -> tuple[float, float]:
    """Bytes that each host of a group sends into the network, over the message size: at least, and at most.

    At most: a ring through all ranks leaves each host once per channel, so a host sends what a rank does (2(N-1)/N for all-reduce). At
    least: ranks of a host share first and only hosts talk (2(H-1)/H). In-network reduction (SHARP) sends half of that for an all-reduce.

    >>> expected_factors("all_reduce", 16, 2), expected_factors("all_gather", 4, 4), expected_factors("all_reduce", 8, 1)
    ((1.0, 1.875), (0.75, 0.75), (0.0, 0.0))
    """
    if hosts < 2:
        return 0.0, 0.0
    turns = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}.get(op)
    if turns is not None:
        return turns * (hosts - 1) / hosts, turns * (members - 1) / members
    return (0.0, 1.0) if op in ("broadcast", "reduce", "gather", "scatter") else (0.0, 0.0)


def host_traffic(
    collectives: pl.DataFrame,
    p2p: pl.DataFrame,
    ranks: pl.DataFrame,
    intervals: pl.DataFrame,
    ports: pl.DataFrame,
    window: tuple[int, int],
) -> pl.DataFrame:
    """Counted and expected bytes of each host that has both.

    Parameters
    ----------
    collectives, p2p, ranks
        ``COLLECTIVES``, ``P2P`` and ``RANKS`` of the run.
    intervals, ports
        ``LINK_INTERVALS`` and ``PORTS``: bytes sent by NICs; where a host's NICs are not counted, those that switch ports received from it.
    window
        Nanoseconds of the run; messages that start in it count, and intervals by their share inside.

    Returns
    -------
    ``HOST_TRAFFIC``; empty where nothing was counted or no message crosses hosts.
    """
    hosts = {rank: host for rank, host in ranks.select("rank", "host").iter_rows() if host is not None}
    if len(set(hosts.values())) < 2 or intervals.is_empty():
        return HOST_TRAFFIC.empty()
    low, high, unknown = _expected(collectives, p2p, hosts, window)
    counted = _counted(intervals, ports, window)
    seen = set(collectives["rank"].unique().to_list()) | set(p2p["src"].unique().to_list())
    rows = []
    for (host,), part in counted.group_by("host", maintain_order=True):
        name = str(host)
        if name not in high:
            continue
        mine = {rank for rank, owner in hosts.items() if owner == name}
        rows.append(
            {
                "host": name,
                "counted_bytes": round(part["bytes"].sum()),
                "counted_by": part["counted_by"][0],
                "ports": part.height,
                "coverage": part["coverage"].min(),
                "header_bytes": None if part["packets"].null_count() else round(part["packets"].sum() * _HEADER_BYTES),
                "expected_low_bytes": round(low[name]),
                "expected_high_bytes": round(high[name]),
                "complete": mine <= seen and not unknown,
                "retransmits": None if part["resent"].is_null().all() else round(part["resent"].sum()),
            }
        )
    return HOST_TRAFFIC.validate(HOST_TRAFFIC.conform(pl.DataFrame(rows, schema=dict(HOST_TRAFFIC.schema))))


def _expected(
    collectives: pl.DataFrame, p2p: pl.DataFrame, hosts: dict[int, str], window: tuple[int, int]
) -> tuple[dict[str, float], dict[str, float], bool]:
    """Bytes each host sends at least and at most, and whether some message could not be placed."""
    low: dict[str, float] = dict.fromkeys(hosts.values(), 0.0)
    high = dict(low)
    unknown = False
    inside = pl.col("start_ns").is_between(*window)
    pairs = set(p2p["instance"].to_list())
    chosen = collectives.filter(inside & ~pl.col("instance").is_in(list(pairs)))
    whole = chosen.group_by("instance").agg(pl.col("group").first(), pl.col("op").first(), pl.col("bytes").max())
    sums = whole.group_by("group", "op").agg(pl.col("bytes").sum(), pl.col("bytes").is_null().any().alias("lacking"))
    for group, op, size, lacking in sums.sort("group", "op").iter_rows():
        members = [int(part) for part in group.split(",") if part.isdigit()]
        places = [hosts.get(rank) for rank in members]
        if lacking or not members or None in places or op in ("unknown", "send", "recv"):
            unknown |= op != "barrier"
            continue
        if op == "all_to_all":
            continue
        least, most = expected_factors(op, len(members), len(set(places)))
        for host in {place for place in places if place is not None}:
            low[host] += least * size
            high[host] += most * size
    _add_exchanges(chosen, hosts, low, high)
    sent = p2p.filter(inside).group_by("src", "dst").agg(pl.col("bytes").sum(), pl.col("bytes").is_null().any().alias("lacking"))
    for src, dst, size, lacking in sent.iter_rows():
        source, target = hosts.get(src), hosts.get(dst)
        unknown |= lacking or source is None or target is None
        if source is not None and target is not None and source != target:
            low[source] += size
            high[source] += size
    return low, {host: size for host, size in high.items() if size > 0}, unknown


def _add_exchanges(chosen: pl.DataFrame, hosts: dict[int, str], low: dict[str, float], high: dict[str, float]) -> None:
    """All-to-all: every member sends an equal part of its message to each other one; those on its own host do not cross the network."""
    sums = chosen.filter(pl.col("op") == "all_to_all").group_by("group", "rank").agg(pl.col("bytes").sum()).sort("group", "rank")
    for group, rank, size in sums.iter_rows():
        places = [hosts.get(int(part)) for part in group.split(",") if part.isdigit()]
        own = hosts.get(rank)
        if own is not None and places and None not in places:
            share = size * sum(place != own for place in places) / len(places)
            low[own] += share
            high[own] += share


def _counted(intervals: pl.DataFrame, ports: pl.DataFrame, window: tuple[int, int]) -> pl.DataFrame:
    """Bytes of each host's ports in the window: sent by its NICs, or received from it by switch ports where no NIC is counted."""
    metrics = ("bytes", "packets", *_RESENT)
    inside = pl.min_horizontal("t1_ns", pl.lit(window[1])) - pl.max_horizontal("t0_ns", pl.lit(window[0]))
    share = pl.col("inside_ns") / (pl.col("t1_ns") - pl.col("t0_ns"))
    rows = (
        intervals.filter(pl.col("metric").is_in(metrics) & pl.col("queue").is_null())
        .with_columns(inside.alias("inside_ns"))
        .filter((pl.col("inside_ns") > 0) & pl.col("delta").is_not_null())
        .group_by("device", "port", "direction", "metric")
        .agg((pl.col("delta") * share).sum().alias("part"), pl.col("inside_ns").sum().alias("known_ns"))
        .with_columns(pl.col("device", "port", "direction", "metric").cast(pl.String))
    )
    placed = rows.join(
        ports.filter(pl.col("host").is_not_null() & pl.col("role").is_in(("hca", "host"))).select("device", "port", "role", "host"),
        on=["device", "port"],
    )
    way = pl.when(pl.col("role") == "hca").then(pl.lit("tx")).otherwise(pl.lit("rx"))
    bytes_ = placed.filter((pl.col("metric") == "bytes") & (pl.col("direction") == way))
    own = bytes_.filter(pl.col("role") == "hca")
    chosen = pl.concat([own, bytes_.filter(pl.col("role") == "host").join(own, on="host", how="anti")])
    packets = placed.filter((pl.col("metric") == "packets") & (pl.col("direction") == way)).select(
        "device", "port", pl.col("part").alias("packets")
    )
    resent = placed.filter(pl.col("metric").is_in(_RESENT)).group_by("device", "port").agg(pl.col("part").sum().alias("resent"))
    table = chosen.join(packets, on=["device", "port"], how="left").join(resent, on=["device", "port"], how="left")
    return table.select(
        "host",
        "device",
        "port",
        pl.col("part").alias("bytes"),
        "packets",
        "resent",
        pl.when(pl.col("role") == "hca").then(pl.lit("nic")).otherwise(pl.lit("switch")).alias("counted_by"),
        (pl.col("known_ns") / (window[1] - window[0])).clip(0, 1).alias("coverage"),
    ).sort("host", "device", "port")
