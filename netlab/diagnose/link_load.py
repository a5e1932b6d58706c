"""Findings about load: utilisation against its bands, headroom, oversubscription, uneven uplinks and rails."""

from __future__ import annotations

import math
from typing import Any

from netlab.config import Limits
from netlab.diagnose.link_facts import LinkFacts
from netlab.diagnose.link_spread import spread_evidence
from netlab.diagnose.link_thresholds import LINK_THRESHOLDS, LinkThresholds
from netlab.findings import Finding, Subject
from netlab.run import Run

__all__ = ["headroom_findings", "imbalance", "imbalance_findings", "oversubscription_findings", "utilisation_findings"]

#: Limits are decimal numbers; a mean of exactly 80 % must not fail for a rounded last bit.
_TINY = 1e-12
#: Every order of links is a search through all intervals.
_MOST_SPREADS = 20
#: Below this share of the window a figure says what it is of.
_KNOWN = 0.9
_BANDS = "[limits] link_mean and link_peak of netlab.toml; the defaults 60-80 % mean and below 95 % peak are a rule of thumb"


def _name(row: dict[str, Any]) -> str:
    return f"{row['device']}/{row['port']}"


def _mean(row: dict[str, Any]) -> float | None:
    """Mean over communication time where it is known, else over the window."""
    value = row["utilization_comm"] if row["utilization_comm"] is not None else row["utilization_mean"]
    return None if value is None else float(value)


def _stretch(row: dict[str, Any]) -> str:
    """Of which time ``_mean`` is: figures of other stretches stand beside it in a report and differ."""
    if row["utilization_comm"] is not None:
        return "while the job communicates"
    return "over the traced steps" if row["window"] == "run" else "over all samples"


def _whole(row: dict[str, Any]) -> str:
    """The mean of the whole window beside that of communication time."""
    if row["utilization_comm"] is None or row["utilization_mean"] is None:
        return ""
    over = "all of the traced steps" if row["window"] == "run" else "all samples"
    return f" (over {over} {100 * row['utilization_mean']:.3g} % at {_name(row)})"


def _evidence(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "port": _name(row),
        "direction": row["direction"],
        "utilization_mean": row["utilization_mean"],
        "utilization_comm": row["utilization_comm"],
        "utilization_peak": row["utilization_peak"],
        "resolution_ms": row["resolution_ms"],
        "coverage": row["coverage"],
    }


def _harmed(row: dict[str, Any]) -> bool:
    """Whether the port also drops, pauses or marks."""
    return any((row[name] or 0) > 0 for name in ("loss_ratio", "pause_ratio", "pause_ratio_max", "ecn_ratio"))


def _poll(rows: list[dict[str, Any]]) -> str:
    lengths = sorted(row["resolution_ms"] / 1000 for row in rows if row["resolution_ms"] is not None)
    if not lengths:
        return "polls of unknown length"
    low, high = (f"{length:.2g}" if length < 10 else f"{length:.0f}" for length in (lengths[0], lengths[-1]))
    return f"polls of {low} s" if low == high else f"polls of {low} to {high} s"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def utilisation_findings(facts: LinkFacts, limits: Limits) -> list[Finding]:
    """LINK_UTILIZATION: ports whose mean is above the band, and ports whose peak is not below its limit; one finding each.

    Where traces are there, full links without drops, pause or marks are information only: high use is an effect of work, not a fault.
    """
    high = limits.link_mean[1]
    above = [row for row in facts.links if (mean := _mean(row)) is not None and mean > high + _TINY]
    full = [row for row in facts.links if row["utilization_peak"] is not None and row["utilization_peak"] >= limits.link_peak - _TINY]
    found = []
    if above:
        worst = max(above, key=lambda row: (_mean(row) or 0, _name(row)))
        names = sorted({_name(row) for row in above})
        found.append(
            Finding(
                code="LINK_UTILIZATION",
                title=(
                    f"Mean utilisation of {_listed(names)} is above {100 * high:g} % {_stretch(worst)} "
                    f"({100 * (_mean(worst) or 0):.3g} % at {_name(worst)})"
                ),
                detail=(
                    f"Time-weighted means {_stretch(worst)}{_whole(worst)}, band "
                    f"{100 * limits.link_mean[0]:g} to {100 * high:g} %. Utilisation is an effect of the traffic, never by "
                    "itself the cause of a slow step."
                ),
                severity=_severity(facts, above),
                subject=Subject(ports=names),
                evidence=[_evidence(row) for row in above],
                action="Check whether these links also drop, mark or pause; if they do, spread the traffic or add capacity there.",
                source=_BANDS,
            )
        )
    if full:
        worst = max(full, key=lambda row: (row["utilization_peak"], _name(row)))
        names = sorted({_name(row) for row in full})
        found.append(
            Finding(
                code="LINK_UTILIZATION",
                title=(
                    f"Peak utilisation of {_listed(names)} is not below {100 * limits.link_peak:g} % "
                    f"({100 * worst['utilization_peak']:.4g} % at {_name(worst)})"
                ),
                detail=(
                    f"The highest single interval of {_poll(full)}; shorter bursts are higher still and cannot be seen. A "
                    "peak is an effect of the traffic, never by itself the cause of a slow step."
                ),
                severity=_severity(facts, full),
                subject=Subject(ports=names),
                evidence=[_evidence(row) for row in full],
                action=(
                    "Poll faster to see how long it lasts; look at drops, ECN marks, pause and queue watermarks, which count every burst."
                ),
                source=_BANDS,
            )
        )
    return found


def _severity(facts: LinkFacts, rows: list[dict[str, Any]]) -> str:
    return "warning" if not facts.has_steps or any(_harmed(row) for row in rows) else "info"


def headroom_findings(facts: LinkFacts, limits: Limits) -> list[Finding]:
    """HEADROOM: links below the band, without drops, pause or marks: a faster one would not help."""
    low = [
        row
        for row in facts.links
        if (mean := _mean(row)) is not None
        and mean < limits.link_mean[0] - _TINY
        and row["utilization_peak"] is not None
        and row["utilization_peak"] < limits.link_peak - _TINY
    ]
    # A port has room only if both of its directions do.
    quiet = {(row["device"], row["port"], row["direction"]) for row in low if not _harmed(row)}
    busy = {(row["device"], row["port"]) for row in facts.links if _harmed(row)} | {
        (row["device"], row["port"])
        for row in facts.links
        if _mean(row) is not None and (row["device"], row["port"], row["direction"]) not in quiet
    }
    low = [row for row in low if (row["device"], row["port"]) not in busy]
    if not low:
        return []
    names = sorted({_name(row) for row in low})
    highest = max(low, key=lambda row: (_mean(row) or 0, _name(row)))
    least = min((row["coverage"] for row in low if row["coverage"] is not None), default=1.0)
    partly = f" Of some, growth is known for {100 * least:.0f} % of the time only." if least < _KNOWN else ""
    return [
        Finding(
            code="HEADROOM",
            title=(
                f"{_listed(names)} {'has' if len(names) == 1 else 'have'} headroom: used {100 * (_mean(highest) or 0):.3g} % "
                f"in the mean at most {_stretch(highest)}"
            ),
            detail=(
                f"Below {100 * limits.link_mean[0]:g} % in the mean and {100 * limits.link_peak:g} % at the peak of "
                f"{_poll(low)}, without drops, pause or marks. Bursts shorter than a poll cannot be seen.{partly}"
            ),
            severity="info",
            subject=Subject(ports=names),
            evidence=[_evidence(row) for row in sorted(low, key=lambda row: -(_mean(row) or 0))[:20]],
            action="A faster link would not help here; look for latency, message sizes and waiting instead.",
            source=_BANDS,
        )
    ]


def oversubscription_findings(facts: LinkFacts, limits: Limits) -> list[Finding]:
    """OVERSUBSCRIBED: all uplinks of a switch are full in one direction while none of its host ports is."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in facts.links:
        if row["role"] == "up" and row["utilization_mean"] is not None:
            groups.setdefault((row["device"], row["direction"]), []).append(row)
    full: dict[str, list[dict[str, Any]]] = {}
    for (device, direction), uplinks in sorted(groups.items()):
        below = _below(facts, device, direction)
        if all(_full(row, limits) for row in uplinks) and below and not any(_full(row, limits) for row in below):
            full.setdefault(device, []).extend(uplinks)
    found = []
    for device, uplinks in full.items():
        below = _below(facts, device, uplinks[0]["direction"])
        names = sorted({_name(row) for row in uplinks})
        speeds = {_name(row): row["speed_gbps"] or 0.0 for row in uplinks}
        up, down = sum(speeds.values()), sum(row["speed_gbps"] or 0.0 for row in below)
        ways = " and ".join(sorted({row["direction"] for row in uplinks}))
        ratio = f" The host ports below have {down:g} Gbit/s, the uplinks {up:g}: {down / up:.3g} to 1." if up and down else ""
        found.append(
            Finding(
                code="OVERSUBSCRIBED",
                title=f"All {len(names)} uplinks of {device} are full while its host ports are not",
                detail=(
                    f"{ways} of {_listed(names)}: {100 * min(_mean(row) or 0 for row in uplinks):.3g} % or more in the mean "
                    f"{_stretch(uplinks[0])}.{ratio}"
                ),
                subject=Subject(ports=names),
                evidence=[_evidence(row) for row in [*uplinks, *below]],
                action="Place ranks that talk most under one leaf (rank order, rail-aligned groups), or add uplinks.",
                source=_BANDS,
            )
        )
    return found


def _below(facts: LinkFacts, device: str, direction: str) -> list[dict[str, Any]]:
    """A switch's host ports in the direction in which they carry what its uplinks carry in theirs; in any, where that is not counted."""
    rows = [
        row for row in facts.links if row["device"] == device and row["role"] in ("host", "down") and row["utilization_mean"] is not None
    ]
    way = {"tx": "rx", "rx": "tx"}.get(direction)
    return [row for row in rows if row["direction"] == way] or rows


def _full(row: dict[str, Any], limits: Limits) -> bool:
    """Whether a link is above the band of the mean or not below the limit of the peak."""
    return (_mean(row) or 0) > limits.link_mean[1] + _TINY or (row["utilization_peak"] or 0) >= limits.link_peak - _TINY


def imbalance(loads: list[float]) -> dict[str, float]:
    """Measures of how evenly links that could share a load do: max/mean, Jain's index, effective and idle share of links.

    >>> imbalance([1.0, 1.0, 2.0, 0.0])
    {'max_over_mean': 2.0, 'jain': 0.667, 'effective_share': 0.707, 'idle_share': 0.25}
    """
    total, count = sum(loads), len(loads)
    shares = [load / total for load in loads if load > 0]
    entropy = -sum(share * math.log(share) for share in shares)
    return {
        "max_over_mean": round(max(loads) * count / total, 3),
        "jain": round(total**2 / (count * sum(load**2 for load in loads)), 3),
        "effective_share": round(math.exp(entropy) / count, 3),
        "idle_share": round(sum(load == 0 for load in loads) / count, 3),
    }


def imbalance_findings(
    facts: LinkFacts, limits: Limits, thresholds: LinkThresholds = LINK_THRESHOLDS, run: Run | None = None
) -> list[Finding]:
    """ECMP_IMBALANCE over the uplinks of one switch with one speed, RAIL_IMBALANCE over the rails of the job's NICs.

    The subject are the overloaded ports. It is a warning only where the fullest is beyond the band; uneven but light load harms nobody.
    """
    found: list[Finding] = []
    groups: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for row in facts.links:
        if row["role"] == "up" and row["bytes"] is not None and row["speed_gbps"]:
            groups.setdefault((row["device"], row["direction"], row["speed_gbps"]), []).append(row)
    for (device, direction, _), rows in sorted(groups.items()):
        loads = [float(row["bytes"]) for row in rows]
        if len(rows) < 2 or not sum(loads):
            continue
        measures = imbalance(loads)
        if measures["max_over_mean"] < thresholds.imbalance.value:
            continue
        mean = sum(loads) / len(loads)
        hot = [row for row in rows if row["bytes"] > 1.25 * mean]
        names = sorted(_name(row) for row in hot)
        busy = any(
            (row["utilization_mean"] or 0) > limits.link_mean[1] or (row["utilization_peak"] or 0) >= limits.link_peak or _harmed(row)
            for row in hot
        )
        spread, why = ({}, "") if run is None or len(found) >= _MOST_SPREADS else spread_evidence(run, rows, measures["max_over_mean"])
        found.append(
            Finding(
                code="ECMP_IMBALANCE",
                title=(
                    f"Uplinks of {device} are loaded unevenly: {_listed(names)} {'carries' if len(names) == 1 else 'carry'} "
                    f"{measures['max_over_mean']:g} times the mean"
                ),
                detail=(
                    f"{direction} bytes of {len(rows)} equal uplinks: max/mean {measures['max_over_mean']:g}, Jain "
                    f"{measures['jain']:g}, effective links {100 * measures['effective_share']:.3g} %, idle "
                    f"{100 * measures['idle_share']:.3g} %. Few large flows hash badly; the fullest link sets the pace once "
                    f"it is full.{why}"
                ),
                severity="warning" if busy else "info",
                subject=Subject(ports=names),
                evidence=[
                    {**measures, **spread},
                    *({"port": _name(row), "bytes": row["bytes"], "utilization_mean": row["utilization_mean"]} for row in rows),
                ],
                action=(
                    "Spread flows: more QPs per connection (NCCL_IB_QPS_PER_CONNECTION with NCCL_IB_SPLIT_DATA_ON_QPS), "
                    "adaptive routing, or hashing that sees the QP."
                ),
                source=thresholds.imbalance.source,
            )
        )
    return found + _rails(facts, limits, thresholds)


def _rails(facts: LinkFacts, limits: Limits, thresholds: LinkThresholds) -> list[Finding]:
    rails: dict[str, list[dict[str, Any]]] = {}
    for row in facts.links:
        if row["rail"] is not None and row["role"] in ("hca", "host") and row["bytes"] is not None:
            rails.setdefault(row["rail"], []).append(row)
    # Count each cable once: NICs where they are counted, else the switch ports they hang on.
    has_nics = any(row["role"] == "hca" for rows in rails.values() for row in rows)
    chosen = {rail: [row for row in rows if (row["role"] == "hca") == has_nics] for rail, rows in rails.items()}
    # By port, so that a rail does not seem idle because fewer of its ports are counted.
    loads = {rail: sum(float(row["bytes"]) for row in rows) / len(rows) for rail, rows in sorted(chosen.items()) if rows}
    if len(loads) < 2 or not sum(loads.values()):
        return []
    measures = imbalance(list(loads.values()))
    if measures["max_over_mean"] < thresholds.rail_imbalance.value:
        return []
    mean = sum(loads.values()) / len(loads)
    hot = [rail for rail, load in loads.items() if load > 1.1 * mean]
    rows = [row for rail in hot for row in chosen[rail]]
    busy = any((row["utilization_mean"] or 0) > limits.link_mean[1] or (row["utilization_peak"] or 0) >= limits.link_peak for row in rows)
    return [
        Finding(
            code="RAIL_IMBALANCE",
            title=f"Rail {_listed(hot)} carries {measures['max_over_mean']:g} times the mean of all rails",
            detail=(
                f"Bytes by rail and port: {', '.join(f'{rail} {load / 1e9:.3g} GB' for rail, load in loads.items())}. Rails of one job "
                "should carry the same; the fullest sets the pace."
            ),
            severity="warning" if busy else "info",
            subject=Subject(ports=sorted({_name(row) for row in rows})),
            evidence=[measures, *({"rail": rail, "bytes": round(load)} for rail, load in loads.items())],
            action="Check NCCL_IB_HCA and the order of GPUs and NICs: every rank should use the NIC of its own rail.",
            source=thresholds.rail_imbalance.source,
        )
    ]
