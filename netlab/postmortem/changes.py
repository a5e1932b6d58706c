"""What is different between two runs beside their times: library, transport, settings, collectives, placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from netlab.run import Run
from netlab.units import format_bytes, plural

__all__ = ["LINK_CODES", "Change", "changes", "collective_profile"]

#: Findings about links.
LINK_CODES = ("LINK_ERRORS", "PACKET_LOSS", "LINK_FLAP", "PFC_PAUSE", "OVERSUBSCRIBED", "ECN_MARKING", "INCAST", "IB_ERROR")

#: Variables that name files or processes and differ between any two runs.
_OWN_NAMES = r"NCCL_DEBUG|NCCL_.*(?:FILE|DUMP)|NCCL_COMM_ID|MASTER_|RANK$|PORT$"
#: How much more collectives, or smaller ones, a step has before that counts as a different schedule.
_MANY_MORE = 1.5
_FABRIC, _TRANSFER = ("fabric",), ("fabric", "intra_node", "unknown")


@dataclass(frozen=True)
class Change:
    """One difference. ``explains`` are the verdict's causes that it can explain; ``weight`` orders them, most telling first."""

    code: str
    title: str
    explains: tuple[str, ...]
    weight: int
    evidence: dict[str, Any]
    action: str
    hosts: tuple[str, ...] = ()
    #: Both sides in words.
    base: str = ""
    run: str = ""


def changes(base: Run, run: Run) -> list[Change]:
    """All differences that both runs' inputs can show, the most telling first."""
    rules: tuple[Callable[[Run, Run], Change | None], ...] = (_transport, _version, _settings, _collectives, _placement)
    return sorted((found for rule in rules if (found := rule(base, run)) is not None), key=lambda change: change.weight)


def _networks(run: Run) -> dict[str, int]:
    edges = run.frame("connections").filter((pl.col("transport") == "NET") & pl.col("network").is_not_null())
    return dict(edges.group_by("network").len().sort("len", descending=True).iter_rows())


def _counted(networks: dict[str, int]) -> str:
    return ", ".join(f"{plural(count, 'connection')} over {name}" for name, count in networks.items())


def _transport(base: Run, run: Run) -> Change | None:
    old, new = _networks(base), _networks(run)
    gained = [name for name in new if name not in old]
    if not old or not gained:
        return None
    edges = run.frame("connections").filter(pl.col("network").is_in(gained))
    hosts = tuple(sorted(edges["host"].drop_nulls().unique().to_list()))
    return Change(
        "TRANSPORT_CHANGED", f"Hosts talk over {', '.join(gained)} now; the base used {', '.join(old)}", _FABRIC, 0,
        {"base_connections": old, "run_connections": new}, "See why NCCL chose another network: ibstat, NCCL_IB_HCA, the plugin.", hosts,
        _counted(old), _counted(new),
    )  # fmt: skip


def _versions(run: Run) -> list[str]:
    logged = run.frame("communicators")["nccl_version"].drop_nulls().unique().sort().to_list()
    traced = run.frame("trace_files")["nccl_version"].drop_nulls().unique().sort().to_list()
    return logged or traced


def _version(base: Run, run: Run) -> Change | None:
    old, new = _versions(base), _versions(run)
    if not old or not new or old == new:
        return None
    return Change(
        "NCCL_VERSION_CHANGED", f"NCCL is {', '.join(new)}; the base had {', '.join(old)}", _TRANSFER, 1,
        {"base": old, "run": new}, "Run with the base's NCCL version again, or nccl-tests with both.",
        base=", ".join(old), run=", ".join(new),
    )  # fmt: skip


def _settings(base: Run, run: Run) -> Change | None:
    def values(side: Run) -> dict[str, str]:
        events = side.frame("nccl_events").filter((pl.col("code") == "env") & ~pl.col("key").fill_null("").str.contains(_OWN_NAMES))
        return dict(events.select("key", "value").drop_nulls().unique().sort("key", "value").iter_rows())

    if base.frame("nccl_events").is_empty() or run.frame("nccl_events").is_empty():
        return None
    old, new = values(base), values(run)
    differ = {key: {"base": old.get(key), "run": new.get(key)} for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)}
    if not differ:
        return None
    shown = ", ".join(f"{key}={pair['run'] if pair['run'] is not None else 'unset'}" for key, pair in list(differ.items())[:3])
    return Change(
        "NCCL_SETTINGS_CHANGED",
        f"NCCL settings differ: {shown}",
        _TRANSFER,
        2,
        differ,
        "Set the variables as in the base and measure again.",
        base=_assigned(differ, "base"),
        run=_assigned(differ, "run"),
    )


def _assigned(differ: dict[str, dict[str, str | None]], side: str) -> str:
    return ", ".join(f"{key}={values[side]}" if values[side] is not None else f"{key} unset" for key, values in differ.items())


def collective_profile(run: Run) -> dict[str, float] | None:
    """Instances and bytes of a step and rank, and the mean message; None without sizes."""
    frame = run.frame("collectives").filter(pl.col("step").is_not_null())
    places = frame.select("rank", "window", "step").unique().height
    if not places or frame["bytes"].null_count() == frame.height:
        return None
    size = float(frame["bytes"].fill_null(0).sum())
    return {"per_step": frame.height / places, "bytes_per_step": size / places, "mean_bytes": size / frame.height}


def _collectives(base: Run, run: Run) -> Change | None:
    old, new = collective_profile(base), collective_profile(run)
    if old is None or new is None:
        return None
    evidence: dict[str, Any] = {"base": old, "run": new}
    if new["per_step"] > _MANY_MORE * old["per_step"] and new["mean_bytes"] < old["mean_bytes"]:
        had = f"{old['per_step']:.0f} of {old['mean_bytes'] / 1e6:.3g} MB"
        title = f"{plural(round(new['per_step']), 'collective')} a step of {new['mean_bytes'] / 1e6:.3g} MB; the base had {had}"
        return Change(
            "BUCKETS_CHANGED",
            title,
            ("schedule",),
            0,
            evidence,
            "Restore the bucket size (bucket_cap_mb, FSDP wrapping); small messages pay latency.",
            base=_profile(old),
            run=_profile(new),
        )
    if new["bytes_per_step"] > _MANY_MORE * old["bytes_per_step"]:
        title = f"A step moves {new['bytes_per_step'] / 1e6:.3g} MB a rank; the base moved {old['bytes_per_step'] / 1e6:.3g} MB"
        return Change(
            "TRAFFIC_CHANGED", title, _TRANSFER, 1, evidence, "Look for another dtype, layout or accumulation.",
            base=_profile(old), run=_profile(new),
        )  # fmt: skip
    return None


def _profile(profile: dict[str, float]) -> str:
    return f"{plural(round(profile['per_step']), 'collective')} a step, {format_bytes(round(profile['bytes_per_step']))}"


def _placement(base: Run, run: Run) -> Change | None:
    old, new = base.facts.hosts, run.facts.hosts
    sizes = [sorted(map(len, side.values())) for side in (old, new)]
    if not old or not new or sizes[0] == sizes[1]:
        return None
    there, here = _hosts(old), _hosts(new)
    return Change(
        "PLACEMENT_CHANGED", f"Ranks lie on {here}; in the base on {there}", _FABRIC, 3,
        {"base": old, "run": new}, "Ask the scheduler for the base's placement.",
        base=there, run=here,
    )  # fmt: skip


def _hosts(hosts: dict[str, list[int]]) -> str:
    sizes = Counter(map(len, hosts.values()))
    return ", ".join(f"{plural(count, 'host')} of {plural(size, 'rank')}" for size, count in sorted(sizes.items(), reverse=True))
