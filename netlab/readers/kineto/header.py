"""What a trace says about itself: rank, world, host, device, process groups, base time. Nothing else of its metadata is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from netlab.schema.traces import PROCESS_GROUPS

__all__ = ["base_time_ns", "header_facts", "process_groups"]

#: Instants before 1971 are no epoch times: they are relative to a base time.
RELATIVE_BELOW_NS = 365 * 86_400 * 10**9


def _value(header: Mapping[str, bytes], key: str) -> Any:
    try:
        return json.loads(header[key].decode("utf-8", "replace"), strict=False) if key in header else None
    except (ValueError, RecursionError):
        return None


def _distributed(header: Mapping[str, bytes]) -> dict[str, Any]:
    value = _value(header, "distributedInfo")
    if isinstance(value, str):
        value = _value({"distributedInfo": value.encode("utf-8", "replace")}, "distributedInfo")
    return value if isinstance(value, dict) else {}


def _whole(value: object, limit: int = 2**31) -> int | None:
    """A count or number that may have been written as text; None for anything else."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < limit:
        return None
    return value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def base_time_ns(header: Mapping[str, bytes]) -> int | None:
    """``baseTimeNanoseconds``, or None where the header does not have it.

    >>> base_time_ns({"baseTimeNanoseconds": b"1711964646000000000"})
    1711964646000000000
    """
    return _whole(_value(header, "baseTimeNanoseconds"), 2**62)


def header_facts(header: Mapping[str, bytes]) -> dict[str, object]:
    """The columns of ``trace_files`` that the header states; null where it does not."""
    distributed = _distributed(header)
    devices = _value(header, "deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices and isinstance(devices[0], dict) else {}
    return {
        "rank": _whole(distributed.get("rank")),
        "world_size": _whole(distributed.get("world_size")) or None,
        "host": _text(_value(header, "host_name")) or _text(_value(header, "hostname")),
        "backend": _text(distributed.get("backend")),
        "nccl_version": _text(distributed.get("nccl_version")),
        "gpu_name": _text(first.get("name")),
        "base_time_ns": base_time_ns(header) or 0,
    }


def process_groups(header: Mapping[str, bytes]) -> pl.DataFrame:
    """``process_groups`` of ``distributedInfo.pg_config`` in any of its forms: a list, a mapping by name, or either as text."""
    config = _distributed(header).get("pg_config")
    if isinstance(config, str):
        config = _value({"pg_config": config.encode("utf-8", "replace")}, "pg_config")
    if isinstance(config, dict):
        config = [{"pg_name": name, **entry} for name, entry in config.items() if isinstance(entry, dict)]
    entries = [entry for entry in config if isinstance(entry, dict)] if isinstance(config, list) else []
    rows = [row for entry in entries if (row := _group(entry)) is not None]
    schema = {name: dtype for name, dtype in PROCESS_GROUPS.schema.items() if name != "file"}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _group(entry: Mapping[str, Any]) -> dict[str, object] | None:
    name = next((entry[key] for key in ("pg_name", "name", "pg_id", "uid") if entry.get(key) is not None), None)
    if name is None:
        return None
    ranks = entry.get("ranks")
    if isinstance(ranks, str):
        ranks = _value({"ranks": ranks.encode("utf-8", "replace")}, "ranks")
    if isinstance(ranks, dict):
        # Global rank to rank in the group, as torch keeps it.
        ranks = list(ranks)
    members = [_whole(rank) for rank in ranks] if isinstance(ranks, list) else []
    backend = entry.get("backend_config", entry.get("backend"))
    sizes = (_whole(entry.get(key)) for key in ("pg_size", "group_size", "size"))
    return {
        "name": str(name),
        "description": _text(entry.get("pg_desc", entry.get("desc"))),
        "backend": _text(backend),
        "size": next((size for size in sizes if size), None),
        "ranks": members if members and None not in members else None,
    }
