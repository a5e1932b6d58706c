"""Findings about queues and traffic classes: how full they were, and whether traffic runs in the class it should."""

from __future__ import annotations

from collections import Counter
from typing import Any

from netlab.diagnose.link_facts import LinkFacts, name_of
from netlab.diagnose.link_thresholds import LINK_THRESHOLDS, LinkThresholds
from netlab.findings import Finding, Subject
from netlab.run import Run

__all__ = ["class_findings", "watermark_findings"]

Port = tuple[str, str]
_FEWEST_PORTS = 4
#: Less than this of a port's bytes is control traffic, wherever it runs.
_MOST, _SOME = 0.5, 0.05
_ALL_PRIORITIES = 8


def watermark_findings(run: Run, limits: LinkThresholds = LINK_THRESHOLDS) -> list[Finding]:
    """QUEUE_WATERMARK: per device, queues that held more than 100 us of their link's bandwidth; a warning above 200 us.

    A watermark is the highest level since it was cleared. Only one that moved between samples was reached in that time.
    """
    full: dict[str, list[dict[str, Any]]] = {}
    for row in run.frame("link_queues").iter_rows(named=True):
        if row["watermark_us"] is not None and row["watermark_us"] > limits.queue_us.value:
            full.setdefault(row["device"], []).append(row)
    found = []
    for device, rows in sorted(full.items()):
        rows.sort(key=lambda row: (-row["watermark_us"], row["port"], row["queue"]))
        names = list(dict.fromkeys(f"{device}/{row['port']}" for row in rows))
        worst = rows[0]
        moved = [row for row in rows if row["watermark_moved"]]
        now = (
            "It moved between samples, so it was reached in that time."
            if moved
            else "It stood still: reached at some time since it was cleared, perhaps long ago."
        )
        more = f" and {len(names) - 1} more ports" if len(names) > 1 else ""
        found.append(
            Finding(
                code="QUEUE_WATERMARK",
                title=f"Queue {worst['queue']} of {names[0]}{more} held up to {worst['watermark_us']:.3g} us of the link's bandwidth",
                detail=(
                    f"{worst['watermark_bytes']:,.0f} bytes stood in the queue; more than {limits.queue_us.value:g} to "
                    f"{limits.queue_full_us.value:g} us delays every collective behind them. {now} A watermark sees bursts that no poll of "
                    "byte counters shows."
                ),
                severity="warning" if any(row["watermark_us"] > limits.queue_full_us.value for row in moved) else "info",
                subject=Subject(ports=names),
                evidence=[
                    {
                        "port": f"{device}/{row['port']}",
                        **{name: row[name] for name in ("queue", "direction", "watermark_bytes", "watermark_us", "watermark_moved")},
                    }
                    for row in rows[:20]
                ],
                action=(
                    "See which senders meet there (incast), whether ECN marks before the queue is full (Kmin, Kmax), and "
                    "poll the watermark faster."
                ),
                source=limits.queue_us.source,
            )
        )
    return found


def class_findings(facts: LinkFacts, run: Run, limits: LinkThresholds = LINK_THRESHOLDS) -> list[Finding]:
    """QOS_CLASS: ports whose bytes run in another class than those of their peers, and traffic outside the class that PFC protects."""
    ports: dict[tuple[Port, str], dict[int, float]] = {}
    for row in run.frame("link_queues").iter_rows(named=True):
        if row["share"] is not None and row["traffic_class"] is not None:
            shares = ports.setdefault(((row["device"], row["port"]), row["direction"]), {})
            shares[row["traffic_class"]] = shares.get(row["traffic_class"], 0.0) + row["share"]
    return [*_outliers(facts, run, ports, limits), *_unprotected(facts, run, ports)]


def _outliers(facts: LinkFacts, run: Run, ports: dict[tuple[Port, str], dict[int, float]], limits: LinkThresholds) -> list[Finding]:
    groups: dict[tuple[object, str], dict[Port, dict[int, float]]] = {}
    for (port, direction), shares in ports.items():
        groups.setdefault((facts.ports.get(port, {}).get("role"), direction), {})[port] = shares
    wanted = _set_by_nccl(run)
    odd: dict[Port, dict[str, Any]] = {}
    for (_, direction), members in sorted(groups.items(), key=str):
        main = {port: max(sorted(shares), key=lambda name: shares[name]) for port, shares in members.items()}
        usual, count = Counter(main.values()).most_common(1)[0]
        if len(main) < _FEWEST_PORTS or count < limits.class_agreement.value * len(main):
            continue
        for port, own in sorted(main.items()):
            if own != usual and members[port].get(usual, 0.0) < _MOST:
                row = {"port": name_of(port), "direction": direction, "class": own, "share": members[port][own], "class_of_peers": usual}
                odd.setdefault(port, row | ({"class_by_NCCL_IB_TC": wanted} if wanted is not None else {}))
    if not odd:
        return []
    names = [name_of(port) for port in odd]
    first = next(iter(odd.values()))
    more = f" and {len(names) - 1} more ports" if len(names) > 1 else ""
    return [
        Finding(
            code="QOS_CLASS",
            title=f"{names[0]}{more}: traffic runs in class {first['class']}, that of like ports in class {first['class_of_peers']}",
            detail=(
                f"{100 * first['share']:.3g} % of the {first['direction']} bytes of {names[0]} are in class "
                f"{first['class']}. Markings (DSCP, PCP, "
                "service level) are set per host or lost on the way; buffers, PFC and ECN of the other class do not work for this traffic."
            ),
            subject=Subject(ports=names),
            evidence=list(odd.values()),
            action="Compare NCCL_IB_TC or NCCL_IB_SL, the NIC's trust mode (mlnx_qos) and the switch's DSCP map with a port that is right.",
            source=limits.class_agreement.source,
        )
    ]


def _unprotected(facts: LinkFacts, run: Run, ports: dict[tuple[Port, str], dict[int, float]]) -> list[Finding]:
    """Ports whose bytes mostly run outside the priorities for which pause is counted."""
    paused: dict[Port, set[int]] = {}
    moving: dict[Port, set[int]] = {}
    lossy: dict[tuple[Port, str, int], int] = {}
    for row in run.frame("link_queues").iter_rows(named=True):
        port, number = (row["device"], row["port"]), row["traffic_class"]
        if number is not None and (row["pause_ratio"] is not None or row["pause_frames"] is not None):
            paused.setdefault(port, set()).add(number)
            if row["pause_ratio"] or row["pause_frames"]:
                moving.setdefault(port, set()).add(number)
        if number is not None and row["discards"]:
            lossy[port, row["direction"], number] = row["discards"]
    evidence = []
    for (port, direction), shares in sorted(ports.items()):
        # mlx5 counts pause only for priorities with PFC; a switch counts it for all, then those that move show which.
        protected = moving.get(port) or (paused[port] if port in paused and len(paused[port]) < _ALL_PRIORITIES else set())
        outside = {number: share for number, share in shares.items() if number not in protected and share > _SOME}
        if protected and sum(outside.values()) > _MOST:
            drops = sum(lossy.get((port, direction, number), 0) for number in outside)
            row = {"port": name_of(port), "direction": direction, "outside_share": sum(outside.values()), "classes": sorted(outside)}
            evidence.append(row | {"protected": sorted(protected), "discards_outside": drops})
    if not evidence:
        return []
    names = list(dict.fromkeys(row["port"] for row in evidence))
    first = evidence[0]
    more = f" and {len(names) - 1} more ports" if len(names) > 1 else ""
    harmed = any(row["discards_outside"] for row in evidence)
    return [
        Finding(
            code="QOS_CLASS",
            title=(
                f"{100 * first['outside_share']:.3g} % of the bytes of {names[0]}{more} run outside the lossless class "
                f"{_words(first['protected'])}"
            ),
            detail=(
                f"Pause is counted for class {_words(first['protected'])}, but most bytes are in class {_words(first['classes'])}, "
                + ("which also drops packets: " if harmed else "which nothing protects from drops: ")
                + "training traffic should be in the class that has PFC and ECN, other traffic outside it."
            ),
            severity="warning" if harmed else "info",
            subject=Subject(ports=names),
            evidence=evidence,
            action=(
                "Set NCCL_IB_TC (traffic class = 4 x DSCP) to the DSCP of the lossless class, or map the DSCP in use to it "
                "on NICs and switches."
            ),
            source="Definition: bytes by class against the priorities for which pause is counted",
        )
    ]


def _words(numbers: list[int]) -> str:
    return " and ".join(map(str, numbers))


def _set_by_nccl(run: Run) -> int | None:
    """The priority that NCCL_IB_TC asks for by the default map (traffic class / 4 = DSCP, DSCP / 8 = priority), if all ranks agree."""
    events = run.frame("nccl_events")
    if events.is_empty():
        return None
    values = {str(value) for key, value in events.select("key", "value").iter_rows() if key == "NCCL_IB_TC"}
    return int(next(iter(values))) // 32 if len(values) == 1 and next(iter(values)).isdigit() else None
