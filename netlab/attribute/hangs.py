"""Collectives that hang, from flight-recorder dumps and from the watchdog's lines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import polars as pl

from netlab.schema.nccl_structure import HANGS

__all__ = ["hangs"]

#: A rank beyond this is a torn number.
_LARGEST_JOB = 10_000_000

Row = tuple[str, int, str, list[int], list[int], int | None, str, str | None]


def hangs(flight: pl.DataFrame, events: pl.DataFrame, communicators: pl.DataFrame | None = None) -> pl.DataFrame:
    """Collectives that some ranks are inside of.

    Per group, the first collective that is not complete on every rank that entered it; what was queued behind it is a consequence.
    A rank is missing only if its own dump shows that it did not enter (or, from watchdog lines, if the group's size is known and most of it
    reported): a rank of which nothing is known is not accused.

    Parameters
    ----------
    flight, events
        Tables of the run.
    communicators
        Gives the size of the world for watchdog lines.

    Returns
    -------
    ``HANGS``. ``last_completed_seq`` is the last collective of the group below ``seq`` that every rank with a dump completed.
    """
    rows = _from_flight(flight)
    seen = {(row[1], row[2]) for row in rows}
    rows += [row for row in _from_watchdog(events, communicators) if (row[1], row[2]) not in seen]
    return HANGS.validate(HANGS.conform(pl.DataFrame(rows, schema=dict(HANGS.schema), orient="row")))


@dataclass
class _Entry:
    op: str
    done: bool


@dataclass
class _Group:
    members: set[int] = field(default_factory=set)
    #: seq -> rank -> entry
    entries: dict[int, dict[int, _Entry]] = field(default_factory=lambda: defaultdict(dict))
    enqueued: dict[int, int] = field(default_factory=dict)


def _from_flight(flight: pl.DataFrame) -> list[Row]:
    groups: dict[tuple[str, str | None, bool], _Group] = defaultdict(_Group)
    names = ["rank", "group", "group_name", "seq", "op", "state", "retired", "is_p2p"]
    known = flight.filter(pl.col("rank").is_not_null() & pl.col("seq").is_not_null()).select(names)
    # Gloo never leaves the state "scheduled": there, and only there, a retired entry is a completed one.
    finishing = set(known.filter(pl.col("state") == "completed").select("rank", "group").iter_rows())
    listed = set(known["rank"].to_list())
    for rank, group, name, seq, op, state, retired, is_p2p in known.iter_rows():
        entry = groups[group or "", name, bool(is_p2p)]
        entry.members |= _members(group)
        done = state == "completed" or (retired is True and state == "scheduled" and (rank, group) not in finishing)
        before = entry.entries[seq].get(rank)
        entry.entries[seq][rank] = _Entry(op, done or (before is not None and before.done))
        entry.enqueued[rank] = max(entry.enqueued.get(rank, seq), seq)
    rows = []
    for (label, name, is_p2p), group_data in groups.items():
        row = _first_pending(label, name, group_data, is_p2p, listed)
        if row is not None:
            rows.append(row)
    return rows


def _members(group: str | None) -> set[int]:
    parts = (group or "").split(",")
    return {int(part) for part in parts} if len(parts) > 1 and all(part.isdigit() for part in parts) else set()


def _first_pending(label: str, name: str | None, group: _Group, is_p2p: bool, listed: set[int]) -> Row | None:
    for seq in sorted(group.entries):
        at = group.entries[seq]
        waiting = sorted(rank for rank, entry in at.items() if not entry.done)
        # Where another member has finished, the collective took place and was only seen in flight.
        if not waiting or (len(waiting) < len(at) and not is_p2p):
            continue
        members = group.members or set(group.enqueued)
        with_dump = members & listed if group.members else members
        missing = [] if is_p2p else sorted(rank for rank in with_dump if rank not in at and group.enqueued.get(rank, -1) < seq)
        ops = Counter(entry.op for rank, entry in at.items() if rank in waiting)
        complete = [s for s, ranks in group.entries.items() if s < seq and all(entry.done for entry in ranks.values())]
        text = label if group.members else ",".join(map(str, sorted(members))) if len(members) > 1 else label
        return text, seq, ops.most_common(1)[0][0], waiting, missing, max(complete, default=None), "flight", name
    return None


def _pairs(value: str | None) -> dict[str, str]:
    return dict(part.split("=", 1) for part in (value or "").split() if "=" in part)


def _from_watchdog(events: pl.DataFrame, communicators: pl.DataFrame | None) -> list[Row]:
    lines = events.filter(pl.col("code").is_in(["watchdog_timeout", "watchdog_status"])).select("code", "rank", "value")
    if lines.is_empty():
        return []
    parsed = [(code, rank, _pairs(value)) for code, rank, value in lines.iter_rows()]
    world = None
    if communicators is not None and not communicators.is_empty():
        world = communicators["nranks"].max()
    known = {rank for _, rank, _ in parsed if rank is not None}
    timeouts: dict[tuple[int, str], list[tuple[int, dict[str, str]]]] = defaultdict(list)
    for code, rank, pairs in parsed:
        number = rank if rank is not None else _int(pairs.get("rank"))
        if code == "watchdog_timeout" and number is not None and _int(pairs.get("seq")) is not None:
            timeouts[int(pairs["seq"]), pairs.get("op", "unknown")].append((number, pairs))
    rows = []
    for (seq, op), reports in sorted(timeouts.items()):
        waiting = {rank for rank, _ in reports}
        statuses = [(rank, pairs) for code, rank, pairs in parsed if code == "watchdog_status" and rank is not None]
        of_group = [pairs for rank, pairs in statuses if rank in waiting and pairs.get("seq") == str(seq)]
        name = next((p.get("description") or p.get("guid") or p.get("pg") for p in of_group if p), None)
        # A number without a GUID is local to its process: equal numbers may be different groups, but for the default one.
        identity = next(((p.get("pg"), p.get("guid")) for p in of_group if p.get("guid") or p.get("pg") == "0"), None)
        behind = {
            rank for rank, p in statuses
            if identity is not None and (p.get("pg"), p.get("guid")) == identity and (_int(p.get("enqueued")) or 0) < seq
        }  # fmt: skip
        default = name in (None, "default_pg", "0")
        size = _size(reports) or (int(world) if default and isinstance(world, int) else None)
        everyone = known | (set(range(size)) if size is not None and default else set())
        if size is None and default and max(waiting) < _LARGEST_JOB:
            size, everyone = max(waiting) + 1, set(range(max(waiting) + 1))
        missing = behind - waiting
        if size is not None and len(everyone) == size and 2 * len(waiting) > size:
            missing |= everyone - waiting
        completed = [value for p in of_group if (value := _int(p.get("completed"))) is not None and value >= 0]
        label = ",".join(map(str, sorted(waiting | missing))) if size == len(waiting | missing) else name or "unknown"
        rows.append((label, seq, op, sorted(waiting), sorted(missing), min(completed, default=None), "watchdog", name))
    return rows


def _int(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _size(reports: Iterable[tuple[int, dict[str, str]]]) -> int | None:
    """Members of the group, where input and output of the operation differ by it."""
    for _, pairs in reports:
        larger = sorted((_int(pairs.get("numel_in")) or 0, _int(pairs.get("numel_out")) or 0))
        if pairs.get("op") in ("all_gather", "reduce_scatter") and larger[0] > 0 and larger[1] % larger[0] == 0 and larger[1] > larger[0]:
            return larger[1] // larger[0]
    return None
