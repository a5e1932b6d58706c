"""What NCCL's logs and dumps say about ranks: where each runs, how groups are connected, and which collective hangs."""

from __future__ import annotations

import re
from itertools import islice

import polars as pl

from netlab.attribute.hangs import hangs
from netlab.attribute.nccl_contradictions import contradictions
from netlab.issues import Issue
from netlab.schema.nccl_structure import RANK_PLACES

__all__ = ["hangs", "listed_nics", "log_world_size", "logged_gbps", "nccl_issues", "rank_hosts", "rank_places"]


def log_world_size(communicators: pl.DataFrame, flight: pl.DataFrame | None = None) -> int | None:
    """Ranks of the job as logs and dumps tell it: the largest communicator, or the largest group of a dump. None if neither says.

    >>> log_world_size(pl.DataFrame({"nranks": [2, 8]}))
    8
    """
    sizes = [value for value in communicators["nranks"].to_list() if value] if "nranks" in communicators.columns else []
    if flight is not None and not flight.is_empty():
        listed = [group for group in flight["group"].drop_nulls().unique().to_list() if "," in group and _is_list(group)]
        sizes += [len(group.split(",")) for group in listed]
        ranks = flight["rank"].drop_nulls()
        sizes += [int(ranks.max()) + 1] if len(ranks) and not listed else []  # type: ignore[arg-type]
    return max(sizes, default=None)


def _is_list(group: str) -> bool:
    return all(part.isdigit() for part in group.split(","))


def rank_hosts(communicators: pl.DataFrame) -> dict[int, str]:
    """Global rank to host, from logs.

    >>> rank_hosts(pl.DataFrame({"global_rank": [1, 0], "host": ["nodeb", "nodea"]}))
    {0: 'nodea', 1: 'nodeb'}
    """
    known = communicators.select("global_rank", "host").drop_nulls().unique().sort("global_rank", "host")
    return dict(zip(known["global_rank"].to_list(), known["host"].to_list(), strict=True))


def rank_places(communicators: pl.DataFrame, connections: pl.DataFrame) -> pl.DataFrame:
    """Where each rank runs and which NIC carries most of its connections.

    Parameters
    ----------
    communicators, connections
        Tables of the run. A rank whose host is not told is left out, never guessed.

    Returns
    -------
    ``RANK_PLACES``. ``local_rank`` is the one that NCCL prints, else the place among the ranks of the host by CUDA device.
    """
    known = communicators.filter(pl.col("global_rank").is_not_null())
    if known.is_empty():
        return RANK_PLACES.empty()
    one = known.sort("nranks", "complete", descending=True, nulls_last=True).group_by("global_rank", maintain_order=True).agg(
        *(pl.col(name).drop_nulls().first() for name in ("host", "local_rank", "cuda_device", "bus_id", "nccl_version"))
    )  # fmt: skip
    order = one.sort("host", "cuda_device", "global_rank").with_columns(place=pl.int_range(pl.len()).over("host"))
    full = pl.col("local_rank").is_not_null().all().over("host")
    order = order.with_columns(local_rank=pl.when(full).then("local_rank").otherwise(pl.when(pl.col("host").is_not_null()).then("place")))
    nics = _nics(connections)
    shaped = order.rename({"global_rank": "rank"}).join(nics, on="rank", how="left")
    return RANK_PLACES.validate(RANK_PLACES.conform(shaped))


def _nics(connections: pl.DataFrame) -> pl.DataFrame:
    """Most used NIC and network of each global rank; the owner of an edge is the side that printed it."""
    owner = pl.when(pl.col("side") == "receive").then("dst_global").otherwise("src_global")
    uses = connections.filter(pl.col("transport") == "NET").with_columns(rank=owner).drop_nulls(["rank", "nic"])
    if uses.is_empty():
        return pl.DataFrame(schema={"rank": pl.Int64, "nic": pl.String, "network": pl.String})
    counted = uses.group_by("rank", "nic", "network").len().sort(["rank", "len", "nic"], descending=[False, True, False])
    return counted.unique("rank", keep="first", maintain_order=True).select("rank", "nic", "network")


_NIC = re.compile(r"\[\d+\]=?(?:\{[^}]*\}|([A-Za-z][\w.-]*):\d+/(\w+))")


def listed_nics(events: pl.DataFrame) -> pl.DataFrame:
    """RDMA NICs that the processes of each host found: ``host, nic, link``; merged ones stand for their parts.

    >>> listed = {"code": ["nics"], "key": ["IB"], "host": ["nodea"], "value": ["[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE"]}
    >>> listed_nics(pl.DataFrame(listed)).rows()
    [('nodea', 'mlx5_0', 'IB'), ('nodea', 'mlx5_1', 'RoCE')]
    """
    lines = events.filter((pl.col("code") == "nics") & (pl.col("key") == "IB") & pl.col("host").is_not_null())
    lines = lines.select("host", "value").unique(maintain_order=True)
    links = {(host, name): link for host, value in lines.iter_rows() for name, link in _NIC.findall(value or "") if name}
    merged = events.filter((pl.col("code") == "virtual_nic") & pl.col("host").is_not_null()).select("host", "value").unique()
    for host, name in merged.sort("host", "value").iter_rows():
        parts = (name or "").split("+")
        links[host, name] = next((links[host, part] for part in parts if (host, part) in links), "IB")
        for part in parts if len(parts) > 1 else ():
            links.pop((host, part), None)
    rows = [(host, name, link) for (host, name), link in links.items()]
    schema = {"host": pl.String, "nic": pl.String, "link": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row").sort("host", "nic")


def logged_gbps(connections: pl.DataFrame, nodes: pl.DataFrame, paths: pl.DataFrame) -> dict[str, float]:
    """One-direction rate per GPU of each layer as NCCL's own topology gives it, in Gbit/s; a layer that it does not tell is absent.

    Between hosts: the speeds of the NICs that a host uses, shared by the GPUs that send over them; the least of all hosts. Inside a host:
    the NVLink bandwidth of the slowest pair of GPUs. Speeds are those of GRAPH lines or of a topology dump (``net`` elements).

    >>> from netlab.schema.nccl import CONNECTIONS
    >>> from netlab.schema.nccl_structure import TOPOLOGY_NODES, TOPOLOGY_PATHS
    >>> logged_gbps(CONNECTIONS.empty(), TOPOLOGY_NODES.empty(), TOPOLOGY_PATHS.empty())
    {}
    """
    rates = {}
    speeds = nodes.filter(pl.col("kind") == "net")["speed_gbps"].drop_nulls()
    sends = connections.filter((pl.col("transport") == "NET") & (pl.col("side") == "send") & pl.col("nic").is_not_null())
    if len(speeds) and sends.height:
        used = sends.group_by("host").agg(nics=pl.col("nic").n_unique(), gpus=pl.struct("comm_id", "src_rank").n_unique())
        least = (used["nics"] / used["gpus"]).min()
        rates["inter_node"] = float(speeds.min()) * min(float(least), 1.0)  # type: ignore[arg-type]
    linked = paths.filter((pl.col("path") == "NVL") & (pl.col("to_kind") == "gpu"))["bandwidth_gb_per_s"].drop_nulls()
    if len(linked):
        rates["intra_node"] = float(linked.min()) * 8  # type: ignore[arg-type]
    return rates


def nccl_issues(
    communicators: pl.DataFrame,
    flight: pl.DataFrame,
    ranks: pl.DataFrame | None = None,
    groups: pl.DataFrame | None = None,
    world_size: int | None = None,
) -> list[Issue]:
    """What is missing or contradictory between logs, dumps and the timeline.

    ``INIT_INCOMPLETE`` for a communicator that a rank began and did not finish, ``NO_LOG_FOR_RANK`` for members that no log shows,
    ``RANK_DISAGREES`` where traces, logs and dumps contradict each other about ranks, see `contradictions`.
    """
    issues = []
    begun = communicators.filter(
        ~pl.col("complete") & ~pl.col("ended").fill_null(False) & pl.col("rank").is_not_null() & pl.col("nranks").is_not_null()
    )
    of_communicator = begun.filter(pl.col("pointer").is_not_null()).partition_by("comm_id", maintain_order=True)
    for rows in of_communicator:
        row = rows.row(0, named=True)
        who = f"rank {row['rank']} of {row['nranks']} (process {row['pid']} on {row['host']})"
        if rows.height > 1:
            who = f"{rows.height} of {row['nranks']} ranks (the first: {who})"
        message = (
            f"{row['source']}: communicator {row['comm_id']} was begun by {who}, but no Init COMPLETE follows; "
            "it hung or failed there, or the log ends early."
        )
        issues.append(Issue(code="INIT_INCOMPLETE", source=row["source"], line=row["line"], message=message))
    issues += _absent(communicators) + _absent_dumps(flight)
    return issues + contradictions(communicators, flight, ranks, groups, world_size)


def _absent(communicators: pl.DataFrame) -> list[Issue]:
    """Members of the largest communicator that no log shows."""
    known = communicators.filter(pl.col("comm_id").is_not_null() & pl.col("rank").is_not_null() & pl.col("pointer").is_not_null())
    if known.is_empty():
        return []
    largest = known.filter(pl.col("nranks") == pl.col("nranks").max())
    size, seen = int(largest["nranks"][0] or 0), set(largest["rank"].to_list())
    missing = size - len(seen & set(range(min(size, max(seen) + 1))))
    if missing <= 0:
        return []
    first = list(islice((rank for rank in range(size) if rank not in seen), 20))
    text = ", ".join(map(str, first)) + (" ..." if missing > 20 else "")
    message = f"No NCCL log shows {missing} of {size} ranks ({text}); what is said about hosts and NICs concerns the others only."
    return [Issue(code="NO_LOG_FOR_RANK", severity="info", message=message)]


def _absent_dumps(flight: pl.DataFrame) -> list[Issue]:
    if flight.is_empty():
        return []
    seen = set(flight["rank"].drop_nulls().to_list())
    issues = _contradicting_dumps(flight)
    members = {
        int(rank) for group in flight["group"].unique().to_list() if group and _is_list(group) and "," in group for rank in group.split(",")
    }
    missing = sorted(members - seen)
    if not missing or not seen:
        return issues
    text = ", ".join(map(str, missing[:20])) + (" ..." if len(missing) > 20 else "")
    message = (
        f"No flight-recorder dump of rank{'s' if len(missing) > 1 else ''} {text} was read; whether they joined a collective is not known."
    )
    return [*issues, Issue(code="NO_LOG_FOR_RANK", severity="info", message=message)]


def _contradicting_dumps(flight: pl.DataFrame) -> list[Issue]:
    """Dumps of one rank that put the same call at different times are not of one run: an error, since nothing tells which one counts."""
    calls = flight.filter(pl.col("rank").is_not_null() & pl.col("created_ns").is_not_null())
    key = ["rank", "group", "group_name", "seq", "is_p2p"]
    # After a reset of the recorder one dump may hold a number twice, but two dumps of a run then share the instants.
    told = calls.group_by(*key, "created_ns").agg(files=pl.col("source").n_unique())
    odd = told.group_by(key).agg(shared=pl.col("files").max() > 1)
    several = calls.group_by(key).agg(files=pl.col("source").n_unique()).filter(pl.col("files") > 1)
    apart = calls.join(odd.filter(~pl.col("shared")), on=key, how="semi", nulls_equal=True)
    apart = apart.join(several, on=key, how="semi", nulls_equal=True)
    ranks = apart.group_by("rank").agg(pl.col("source").unique().sort()).sort("rank")
    return [
        Issue(
            code="DUPLICATE_RANK",
            severity="error",
            source=sources[0],
            message=f"Dumps of rank {rank} are not of one run ({', '.join(sources[:4])}); give one of them only.",
        )
        for rank, sources in ranks.iter_rows()
        if len(sources) > 1
    ]
