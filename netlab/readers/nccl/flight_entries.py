"""Entries of a flight-recorder dump to rows of ``flight``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from netlab.readers.nccl.names import op_name
from netlab.units import dtype_bytes

__all__ = ["entry_row", "group_members"]


def group_members(dump: Mapping[Any, Any]) -> dict[str, list[int]]:
    """Group name to sorted members, where the dump has them. Schema 1.2 has a bare list by number; Gloo has none (``[]``)."""
    config = dump.get("pg_config")
    members: dict[str, list[int]] = {}
    for name, value in config.items() if isinstance(config, Mapping) else ():
        ranks = value.get("ranks") if isinstance(value, Mapping) else value
        if isinstance(ranks, str):
            ranks = [int(rank) for rank in re.findall(r"\d+", ranks)]
        if isinstance(ranks, list) and ranks and all(isinstance(rank, int) and not isinstance(rank, bool) for rank in ranks):
            members[str(name)] = sorted(ranks)
    return members


def entry_row(
    entry: Mapping[str, Any], dump: Mapping[Any, Any], members: Mapping[str, list[int]], rank: int | None, source: str
) -> dict[str, Any] | None:
    """One row, or None for an entry without a name or a sequence number."""
    profiling_name = entry.get("profiling_name")
    is_p2p = entry.get("is_p2p") is True
    seq = _number(entry.get("p2p_seq_id" if is_p2p else "collective_seq_id"))
    seq = seq if seq is not None else _number(entry.get("seq_id"))
    if not isinstance(profiling_name, str) or seq is None:
        return None
    name, description = _group(entry.get("process_group"))
    pg_id = entry.get("pg_id")
    ranks = members.get(name) or members.get(str(pg_id)) if name not in members else members[name]
    status = _status(dump, pg_id)
    started, completed = _instant(entry.get("time_discovered_started_ns")), _instant(entry.get("time_discovered_completed_ns"))
    duration, timing = _duration(entry.get("duration_ms"), started, completed)
    dtypes = [*_texts(entry.get("input_dtypes")), *_texts(entry.get("output_dtypes"))]
    return {
        "rank": rank,
        "group": ",".join(map(str, ranks)) if ranks else f"{name or pg_id}:{description or ''}",
        "group_name": name or description,
        "seq": seq,
        "op": op_name(profiling_name),
        "state": str(entry.get("state") or "unknown"),
        "retired": entry.get("retired") if isinstance(entry.get("retired"), bool) else None,
        "bytes": _bytes(entry),
        "dtype": dtypes[0] if dtypes else None,
        "created_ns": _instant(entry.get("time_created_ns")),
        "started_ns": started,
        "completed_ns": completed,
        "duration_ns": duration,
        "timing": timing,
        "record": _number(entry.get("record_id")),
        "is_p2p": is_p2p,
        "peer": _peer(profiling_name, ranks),
        "group_description": description,
        "timeout_ms": _number(entry.get("timeout_ms")),
        "last_enqueued": status.get("last_enqueued_collective"),
        "last_completed": status.get("last_completed_collective"),
        "frame": _frame(entry.get("frames")),
        "nccl_version": str(dump.get("nccl_version") or dump.get("comm_lib_version") or "") or None,
        "source": source,
    }


_ENDS = re.compile(r"(?:send|recv) \d{1,7}(?:->|<-)(\d{1,7})$")


def _peer(profiling_name: str, members: list[int] | None) -> int | None:
    """The second rank of ``send 0->1`` or ``recv 1<-0``: a rank in the group."""
    found = _ENDS.search(profiling_name)
    if found is None:
        return None
    number = int(found[1])
    return number if not members else members[number] if number < len(members) else None


def _number(value: object) -> int | None:
    """An integer, also one written as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value) else None


def _instant(value: object) -> int | None:
    """An instant; 0 is how JSON dumps write that there is none."""
    number = _number(value)
    return number if number else None


def _duration(milliseconds: object, started: int | None, completed: int | None) -> tuple[int | None, str | None]:
    if isinstance(milliseconds, (int, float)) and not isinstance(milliseconds, bool) and math.isfinite(milliseconds) and milliseconds >= 0:
        return round(milliseconds * 1e6), "device"
    if started is not None and completed is not None and completed >= started:
        return completed - started, "watchdog"
    return None, None


def _group(value: object) -> tuple[str, str | None]:
    if isinstance(value, (list, tuple)) and value:
        return str(value[0]), str(value[1]) if len(value) > 1 else None
    return (value, value) if isinstance(value, str) else ("", None)


def _status(dump: Mapping[Any, Any], pg_id: object) -> dict[str, int | None]:
    table = dump.get("pg_status")
    status = table.get(str(pg_id), table.get(pg_id)) if isinstance(table, Mapping) else None
    return {str(key): _number(value) for key, value in status.items()} if isinstance(status, Mapping) else {}


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else []


def _bytes(entry: Mapping[str, Any]) -> int | None:
    """The larger of input and output; null where a size or a type is not known."""
    sizes = []
    for side in ("input", "output"):
        shapes, dtypes = entry.get(f"{side}_sizes"), _texts(entry.get(f"{side}_dtypes"))
        if not isinstance(shapes, (list, tuple)) or not shapes or len(dtypes) < len(shapes):
            continue
        total = 0
        for shape, dtype in zip(shapes, dtypes, strict=False):
            size = dtype_bytes(dtype)
            if size is None or not isinstance(shape, (list, tuple)) or not all(isinstance(n, int) for n in shape):
                return None
            total += math.prod(shape) * size
        sizes.append(total)
    return max(sizes) if sizes and max(sizes) < 2**63 else None


def _frame(frames: object) -> str | None:
    if not isinstance(frames, list) or not frames or not isinstance(frames[0], Mapping):
        return None
    frame = frames[0]
    return f"{frame.get('name')} ({str(frame.get('filename')).rpartition('/')[2]}:{frame.get('line')})"
