"""Where traces, logs and dumps cannot be of one run: hosts, devices, sizes and groups of ranks that contradict each other."""

from __future__ import annotations

from collections import defaultdict

import polars as pl

from netlab.attribute.nccl_groups import communicator_groups
from netlab.issues import Issue

__all__ = ["contradictions"]

_SHOWN = 6


def contradictions(
    communicators: pl.DataFrame,
    flight: pl.DataFrame,
    ranks: pl.DataFrame | None = None,
    groups: pl.DataFrame | None = None,
    world_size: int | None = None,
) -> list[Issue]:
    """``RANK_DISAGREES`` for each thing about which two kinds of input contradict each other.

    Parameters
    ----------
    communicators, flight
        Tables of logs and dumps.
    ranks, groups
        Tables of the timeline, where there are traces.
    world_size
        Ranks of the run as the traces state it.

    Returns
    -------
    Issues. A log that shows less than the trace (a subset of ranks, no sub-groups) contradicts nothing.
    """
    issues: list[Issue] = []
    if ranks is not None and not ranks.is_empty() and not communicators.is_empty():
        issues += _places(communicators, ranks)
    issues += _sizes(communicators, flight, world_size)
    if groups is not None and not groups.is_empty():
        issues += _groups(communicators, groups)
    return issues


def _issue(message: str) -> Issue:
    return Issue(code="RANK_DISAGREES", message=message)


def _places(communicators: pl.DataFrame, ranks: pl.DataFrame) -> list[Issue]:
    """Hosts and devices of ranks."""
    logged = communicators.filter(pl.col("global_rank").is_not_null()).group_by("global_rank").agg(
        pl.col("host").drop_nulls().first(), pl.col("cuda_device").drop_nulls().unique()
    )  # fmt: skip
    joined = logged.join(
        ranks.select(pl.col("rank").cast(pl.Int64), traced="host", device="device"), left_on="global_rank", right_on="rank"
    )
    issues, moved = [], []
    for rank, host, devices, traced, device in joined.sort("global_rank").iter_rows():
        if host and traced and traced.split(".")[0] != host:
            issues.append(_issue(f"Rank {rank} ran on {traced} by its trace, on {host} by its NCCL log; are both of one run?"))
        elif device is not None and devices and device not in devices:
            moved.append(f"rank {rank} on device {device} by its trace, on {devices[0]} by its log")
    if moved:
        more = f" (and {len(moved) - _SHOWN} more)" if len(moved) > _SHOWN else ""
        issues.append(_issue(f"Traces and NCCL logs disagree about devices: {'; '.join(moved[:_SHOWN])}{more}; are both of one run?"))
    return issues


def _sizes(communicators: pl.DataFrame, flight: pl.DataFrame, world_size: int | None) -> list[Issue]:
    """How many ranks the run has. Only what says more than the whole of another input contradicts it."""
    told: dict[str, int] = {}
    largest = communicators["nranks"].max() if "nranks" in communicators.columns else None
    if isinstance(largest, int):
        told["NCCL logs"] = largest
    listed = [group for group in flight["group"].drop_nulls().unique().to_list() if "," in group and group.replace(",", "").isdigit()]
    if listed:
        told["flight-recorder dumps"] = max(len(group.split(",")) for group in listed)
    whole = _whole(communicators)
    if world_size is not None:
        told["traces"] = world_size
    issues = []
    for name, size in told.items():
        for other, least in told.items():
            # A log of sub-groups only, or a dump without the default group, may show fewer ranks than there are.
            if size > least and (other == "traces" or (other == "NCCL logs" and whole)):
                issues.append(_issue(f"{name} show {size} ranks, {other} {least}; are both of one run?"))
    return issues


def _whole(communicators: pl.DataFrame) -> bool:
    """Whether every member of the largest communicator was seen, and nobody else: then it is the world of its log."""
    known = communicators.filter(pl.col("rank").is_not_null() & pl.col("nranks").is_not_null())
    if known.is_empty():
        return False
    largest = known.filter(pl.col("nranks") == pl.col("nranks").max())
    processes = known.select("host", "pid").unique().height
    return bool(largest["rank"].n_unique() == largest["nranks"][0] == processes)


def _groups(communicators: pl.DataFrame, groups: pl.DataFrame) -> list[Issue]:
    """Groups of one size of which trace and log have not one in common, although the log shows all their ranks."""
    logged = set(communicators["global_rank"].drop_nulls().to_list())
    of_trace, of_log = defaultdict(set), defaultdict(set)
    for (members,) in groups.select("members").iter_rows():
        if len(members) > 2 and set(members) <= logged:
            of_trace[len(members)].add(tuple(sorted(members)))
    for members in communicator_groups(communicators).values():
        of_log[len(members)].add(tuple(members))
    odd = []
    for size, traced in sorted(of_trace.items()):
        if (
            of_log[size]
            and not traced & of_log[size]
            and {r for group in traced for r in group} & {r for group in of_log[size] for r in group}
        ):
            odd.append(f"{_text(min(traced))} by the trace, {_text(min(of_log[size]))} by the log")
    if not odd:
        return []
    return [_issue(f"Traces and NCCL logs disagree about groups of ranks: {'; '.join(odd[:_SHOWN])}; are both of one run?")]


def _text(members: tuple[int, ...]) -> str:
    return ",".join(map(str, members))
