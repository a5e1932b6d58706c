"""Logs, dumps and counters: their derived tables, and where they meet the ranks of the timeline."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from netlab.align.counters import align_counters
from netlab.align.device_names import one_name_per_device
from netlab.align.ports import build_ports
from netlab.attribute.counter_coverage import counter_coverage
from netlab.attribute.flight_arrivals import flight_arrivals
from netlab.attribute.host_traffic import host_traffic
from netlab.attribute.link_intervals import link_intervals
from netlab.attribute.link_queues import link_queues
from netlab.attribute.link_traffic import link_traffic
from netlab.attribute.links import links
from netlab.attribute.nccl import hangs, log_world_size, nccl_issues, rank_hosts, rank_places
from netlab.attribute.nccl_files import join_files, with_global_ranks
from netlab.attribute.nccl_groups import call_communicators, group_links, pair_links
from netlab.attribute.nccl_repeats import without_repeats
from netlab.config import Config
from netlab.intervals import union
from netlab.issues import Issue
from netlab.run import RunFacts
from netlab.schema import TABLES
from netlab.schema.timeline import RANKS

__all__ = ["add_links", "add_nccl", "facts_without_traces", "hosts_of_ranks", "with_nics"]

Frames = dict[str, pl.DataFrame]


def _table(frames: Mapping[str, pl.DataFrame], name: str) -> pl.DataFrame:
    return frames.get(name, TABLES[name].empty())


def hosts_of_ranks(frames: Mapping[str, pl.DataFrame]) -> dict[int, str]:
    """Rank to host as ranks.csv and NCCL logs say it; a person's word wins."""
    listed = _table(frames, "rank_map").select("rank", "host").drop_nulls()
    return {**rank_hosts(_table(frames, "communicators")), **dict(listed.iter_rows())}


def add_nccl(frames: Frames) -> list[Issue]:
    """Add what logs and dumps tell of ranks, groups and pairs, and ``hangs``; what two files tell alike stands once."""
    frames |= without_repeats(frames)
    joined, apart = join_files(frames)
    frames |= joined
    communicators, flight = _table(frames, "communicators"), _table(frames, "flight")
    if communicators.is_empty() and flight.is_empty() and _table(frames, "nccl_events").is_empty():
        return []
    if "connections" in frames:
        frames["connections"] = with_global_ranks(frames["connections"], communicators)
    frames["rank_places"] = rank_places(communicators, _table(frames, "connections"))
    frames["flight_arrivals"] = flight_arrivals(flight)
    frames["hangs"] = hangs(flight, _table(frames, "nccl_events"), communicators)
    _join_groups(frames, communicators)
    return [*apart, *nccl_issues(communicators, flight, frames.get("ranks"), frames.get("groups"), _traced_size(frames))]


def _join_groups(frames: Frames, communicators: pl.DataFrame) -> None:
    """Layer and transport of groups and pairs, and the communicator of each collective."""
    if communicators.is_empty():
        return
    connections, ranks = _table(frames, "connections"), _table(frames, "ranks")
    calls = call_communicators(communicators, _table(frames, "logged_operations"), _table(frames, "collectives"))
    frames["call_communicators"] = calls
    frames["group_links"] = group_links(
        communicators,
        connections,
        ranks,
        groups=_table(frames, "groups"),
        calls=calls,
        predictions=_table(frames, "tuning_predictions"),
    )
    frames["pair_links"] = pair_links(communicators, connections, ranks, _table(frames, "p2p"))


def _traced_size(frames: Mapping[str, pl.DataFrame]) -> int | None:
    """Ranks of the run as its traces state it."""
    size = _table(frames, "trace_files")["world_size"].max()
    return size if isinstance(size, int) else None


def with_nics(frames: Frames) -> None:
    """Fill host, device and NIC of ``ranks`` from ranks.csv and NCCL logs; without traces the table is made from them."""
    places = _table(frames, "rank_places").select(pl.col("rank").cast(pl.Int32), "host", "local_rank", "cuda_device", "nic")
    listed = _table(frames, "rank_map").select("rank", "host", "local_rank", "gpu_index", "nic").unique("rank", keep="first")
    if places.is_empty() and listed.is_empty():
        return
    ranks = _table(frames, "ranks")
    if ranks.is_empty():
        ranks = RANKS.conform(pl.concat([places.select("rank"), listed.select("rank")]).unique())
    joined = ranks.join(listed, on="rank", how="left", suffix="_listed").join(places, on="rank", how="left", suffix="_logged")
    filled = joined.with_columns(
        pl.coalesce("host", "host_listed", "host_logged").alias("host"),
        pl.coalesce("local_rank", "local_rank_listed", "local_rank_logged").alias("local_rank"),
        pl.coalesce("device", "gpu_index", "cuda_device").alias("device"),
        pl.coalesce("nic_listed", "nic_logged", "nic").alias("nic"),
    )
    frames["ranks"] = RANKS.validate(RANKS.conform(filled))


def facts_without_traces(frames: Mapping[str, pl.DataFrame], name: str, config: Config) -> RunFacts:
    """What is known of a run that has logs, dumps or counters only."""
    flight = _table(frames, "flight")
    size = config.run.world_size or log_world_size(_table(frames, "communicators"), flight)
    seen = set(_table(frames, "ranks")["rank"].to_list()) | set(flight["rank"].drop_nulls().to_list())
    hosts: dict[str, list[int]] = {}
    for rank, host in _table(frames, "ranks").select("rank", "host").drop_nulls().iter_rows():
        hosts.setdefault(host, []).append(rank)
    return RunFacts(name=name, world_size=size, ranks=sorted(seen), hosts=hosts, window="capture", traced=False)


def add_links(frames: Frames, config: Config, activities: pl.LazyFrame) -> list[Issue]:
    """Align counters and add ``ports``, ``link_intervals`` and ``links`` where counters or cables were read."""
    known = ("counters", "port_facts", "cables")
    if all(_table(frames, name).is_empty() for name in known):
        return []
    renamed, joined = one_name_per_device(frames)
    frames |= renamed
    counters, issues = align_counters(_table(frames, "counters"), config.files, frames.get("port_facts"), frames.get("fabric_nodes"))
    frames["counters"] = counters
    frames["ports"], more = build_ports(frames)
    intervals, doubts = link_intervals(counters, frames["ports"])
    frames["link_intervals"] = intervals
    window = _window(frames, activities)
    frames["links"] = links(intervals, frames["ports"], window, _communication(activities))
    frames["link_queues"] = link_queues(counters, intervals, frames["ports"], window)
    frames["link_traffic"] = link_traffic(intervals, frames["links"], _step_ns(frames))
    frames["counter_coverage"] = counter_coverage(counters, intervals, frames["ports"])
    if window is not None:
        frames["host_traffic"] = host_traffic(
            _table(frames, "collectives"), _table(frames, "p2p"), _table(frames, "ranks"), intervals, frames["ports"], window
        )
    return [*joined, *issues, *more, *doubts]


def _window(frames: Mapping[str, pl.DataFrame], activities: pl.LazyFrame) -> tuple[int, int] | None:
    """First step start to last step end; without steps from the first to the last activity."""
    steps = _table(frames, "steps").filter("complete")
    known = steps.lazy() if steps.height else activities
    start, end = known.select(pl.col("start_ns").min(), pl.col("end_ns").max()).collect().row(0)
    return (start, end) if isinstance(start, int) and isinstance(end, int) else None


def _step_ns(frames: Mapping[str, pl.DataFrame]) -> float | None:
    """Median length of complete steps."""
    steps = _table(frames, "steps").filter("complete")
    length = (steps["end_ns"] - steps["start_ns"]).median()
    return float(length) if isinstance(length, (int, float)) else None


def _communication(activities: pl.LazyFrame) -> pl.DataFrame | None:
    """Disjoint stretches in which any rank communicated."""
    chosen = activities.filter(pl.col("kind") == "communication").select("start_ns", "end_ns").collect()
    if chosen.is_empty():
        return None
    start, end = union(chosen["start_ns"].to_numpy(), chosen["end_ns"].to_numpy())
    return pl.DataFrame({"start_ns": start, "end_ns": end})
