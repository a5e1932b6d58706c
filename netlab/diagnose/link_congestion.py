"""Findings about congestion: pause and who is to blame for it, storms, ECN marks, incast."""

from __future__ import annotations

from typing import Any

import polars as pl

from netlab.diagnose.link_facts import LinkFacts, name_of
from netlab.diagnose.link_thresholds import LINK_THRESHOLDS, LinkThresholds
from netlab.findings import Finding, Subject
from netlab.run import Run

__all__ = ["ecn_findings", "incast_findings", "pause_findings", "storm_findings", "wait_findings"]

Port = tuple[str, str]
_SURE_SHARE = 0.1


class _Paused:
    """Ports by what their pause counters say: ``rx`` were stopped by the far end, ``tx`` stop the far end."""

    def __init__(self, facts: LinkFacts, limit: float) -> None:
        self.rx: dict[Port, tuple[float, bool]] = {}
        self.tx: dict[Port, tuple[float, bool]] = {}
        for row in facts.links:
            exact, bound = row["pause_ratio"], row["pause_ratio_max"]
            share = exact if exact is not None else bound
            if share is not None and share >= limit and row["direction"] in ("rx", "tx"):
                getattr(self, row["direction"])[row["device"], row["port"]] = (share, exact is not None)


def pause_findings(facts: LinkFacts, limits: LinkThresholds = LINK_THRESHOLDS) -> list[Finding]:
    """PFC_PAUSE: one finding per root of pausing.

    A received pause frame means that the far end stopped this port; a sent one, that this port's own buffers were full. So the walk goes
    from a port with received pause to the device behind its cable, and on from there as long as that one is itself stopped; a host at
    the end is a slow receiver, a switch the place of congestion.
    """
    paused = _Paused(facts, limits.pause_ratio.value)
    roots: dict[tuple[str, str], set[tuple[str, Port]]] = {}
    for port in paused.rx:
        for root in _roots(facts, paused, port, set()):
            roots.setdefault(root, set()).add(("rx", port))
    for port in paused.tx:
        device = port[0]
        host = facts.host_behind(*port)
        if device == host:
            roots.setdefault(("host", host), set()).add(("tx", port))
        elif not any(other[0] == device for other in paused.rx):
            roots.setdefault(("switch", device), set()).add(("tx", port))
    return [_pause_finding(facts, paused, kind, name, sorted(evidence), limits) for (kind, name), evidence in sorted(roots.items())]


def _roots(facts: LinkFacts, paused: _Paused, port: Port, seen: set[Port]) -> set[tuple[str, str]]:
    """(host or switch or beyond, name) of the devices at which pausing that reaches a port begins."""
    seen.add(port)
    host, own = facts.host_behind(*port), port[0]
    row = facts.ports.get(port, {})
    peer = facts.peer(*port)
    if host is not None and host != own:
        return {("host", host)}
    if peer is None and own == host and row.get("leaf") is not None:
        # No cable, but the scheduler's tree says which switch the host hangs on.
        peer = (str(row["leaf"]), "")
    if peer is None:
        # An hca's other end is the fabric; a host port's is a host whose name nobody gave.
        return {("beyond host port" if row.get("role") in ("host", "down") else "beyond", name_of(port))}
    if peer[0] in facts.fabric.hosts:
        return {("host", peer[0])}
    onward = [other for other in paused.rx if other[0] == peer[0] and other not in seen and other != peer]
    found: set[tuple[str, str]] = set()
    for other in onward:
        found |= _roots(facts, paused, other, seen)
    return found or {("switch", peer[0])}


def _pause_finding(
    facts: LinkFacts, paused: _Paused, kind: str, name: str, evidence: list[tuple[str, Port]], limits: LinkThresholds
) -> Finding:
    rows: list[dict[str, Any]] = []
    for direction, port in evidence:
        share, exact = getattr(paused, direction)[port]
        rows.append({"port": name_of(port), "direction": direction, "pause_ratio" if exact else "pause_ratio_at_most": share})
    worst, exact = max(getattr(paused, direction)[port] for direction, port in evidence)
    much = f"{'' if exact else 'at most '}{100 * worst:.3g} % of the time"
    ports = [name_of(port) for _, port in evidence]
    if kind == "host":
        title = f"Host {name} cannot take its traffic and pauses the network ({much})"
        detail = (
            f"Pause frames come from {name}: a slow receiver (PCIe, memory, or a CPU that does not empty its buffers), "
            "not a congested fabric. "
            "Everything that waits behind its port is slowed, too."
        )
        subject = Subject(hosts=[name], ports=[port for port in ports if port.startswith(f"{name}/")])
        action = (
            f"On {name}: check PCIe width and speed (lspci -vv), outbound_pci_stalled_* and rx_discards_phy of ethtool -S, NUMA placement."
        )
        cause = "host"
    elif kind == "beyond host port":
        title = f"The host behind {name} pauses the network ({much})"
        detail = (
            f"{name} faces a host and receives pause frames: the host is a slow receiver, the fabric is not congested "
            "there. Which host it is, "
            "nobody said; give links.csv or an LLDP table."
        )
        subject, cause = Subject(ports=ports), "host"
        action = f"Find the host at {name} (show lldp table) and check its PCIe and memory."
    else:
        place = f"switch {name}" if kind == "switch" else f"the device beyond {name}"
        title = f"Congested fabric: {place} pauses its neighbours ({much})"
        detail = (
            f"The walk along received pause frames ends at {place}, which is not stopped by anyone itself: its buffers fill because more "
            "traffic comes in than its outgoing links carry."
        )
        # The place of congestion, where it counts what it pauses; else those that it stops.
        own = [name_of(port) for port in sorted(paused.tx) if port[0] == name]
        subject, cause = Subject(ports=own or ports), "none"
        action = (
            "Look at utilisation, ECN marks and queue watermarks of that device's outgoing ports; spread flows or slow the senders (DCQCN)."
        )
    sure = exact or worst >= _SURE_SHARE
    return Finding(
        code="PFC_PAUSE",
        title=title,
        detail=detail + ("" if exact else " Only pause frames are counted, not their duration: the share of time is an upper bound."),
        severity="warning" if sure else "info",
        subject=subject,
        evidence=rows,
        action=action,
        source=limits.pause_ratio.source,
        cause=cause,
    )


def storm_findings(facts: LinkFacts, run: Run, limits: LinkThresholds = LINK_THRESHOLDS) -> list[Finding]:
    """PFC_STORM_OPEN: a watchdog counted more storms begun than ended, a NIC reports storm errors, or the last poll was all pause."""
    evidence: dict[Port, list[dict[str, Any]]] = {}
    for port, (detected, restored) in sorted(_watchdog(run).items()):
        if detected > restored:
            evidence.setdefault(port, []).append({"port": name_of(port), "storms_detected": detected, "storms_restored": restored})
    for port, growths in sorted(facts.growth.items()):
        for row in growths:
            if row.metric == "pause_storm_errors" and row.total > 0:
                storms = {"port": name_of(port), "pause_storm_errors": round(row.total)}
                evidence.setdefault(port, []).append(storms)
            if row.metric == "pause_us" and row.last_share >= limits.storm_share.value:
                found = {
                    "port": name_of(port),
                    "queue": row.queue,
                    "direction": row.direction,
                    "last_poll_paused": min(1.0, row.last_share),
                }
                evidence.setdefault(port, []).append(found)
    return [
        Finding(
            code="PFC_STORM_OPEN",
            title=f"A pause storm at {name_of(port)} has begun and not ended",
            detail=(
                "The port is paused without a break at the end of the capture; what waits behind it is stopped, or dropped by the watchdog."
            ),
            subject=Subject(ports=[name_of(port)]),
            evidence=rows,
            action=f"Find who sends the pause frames to {name_of(port)} and isolate it; check the watchdog (show pfcwd stats).",
            source=limits.storm_share.source + "; mlx5 counters.rst: tx_pause_storm_error_events",
        )
        for port, rows in sorted(evidence.items())
    ]


def _watchdog(run: Run) -> dict[Port, tuple[int, int]]:
    """Last values of the watchdog's counters, summed over the queues of a port."""
    names = ("pfc_storms_detected", "pfc_storms_restored")
    counters = run.frame("counters")
    rows = counters.filter(pl.col("metric").is_in(names) & pl.col("value").is_not_null())
    last = rows.sort("ts_ns", nulls_last=False).group_by("device", "port", "queue", "metric").agg(pl.col("value").last())
    sums = (
        last.group_by("device", "port", "metric")
        .agg(pl.col("value").sum())
        .with_columns(pl.col("device", "port", "metric").cast(pl.String))
    )
    found: dict[Port, tuple[int, int]] = {}
    for device, port, metric, value in sums.iter_rows():
        detected, restored = found.get((device, port), (0, 0))
        found[device, port] = (int(value), restored) if metric == names[0] else (detected, int(value))
    return found


def ecn_findings(facts: LinkFacts, limits: LinkThresholds = LINK_THRESHOLDS) -> list[Finding]:
    """ECN_MARKING: per device, the ports that mark (or NICs that receive) more than 1 % of packets with congestion experienced."""
    marked: dict[str, list[dict[str, Any]]] = {}
    for row in facts.links:
        if row["ecn_ratio"] is not None and row["ecn_ratio"] > limits.ecn_ratio.value:
            marked.setdefault(row["device"], []).append(row)
    found = []
    for device, rows in sorted(marked.items()):
        names = sorted({f"{device}/{row['port']}" for row in rows})
        listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        worst = max(row["ecn_ratio"] for row in rows)
        host = facts.host_behind(device, rows[0]["port"]) == device
        where = "on the way to" if host else "in the queues of"
        found.append(
            Finding(
                code="ECN_MARKING",
                title=f"{100 * worst:.3g} % of packets are marked for congestion {where} {listed}",
                detail=(
                    f"ECN marks make the senders slow down. A ratio of up to {worst:.3g} in {facts.window_s:.3g} s, limit "
                    f"{limits.ecn_ratio.value:g}: queues {where} {listed} stand above their marking threshold for much of the time."
                ),
                subject=Subject(ports=names),
                evidence=[
                    {
                        "port": f"{device}/{row['port']}",
                        "direction": row["direction"],
                        "ecn_ratio": row["ecn_ratio"],
                        "utilization_mean": row["utilization_mean"],
                    }
                    for row in rows
                ],
                action="See which senders meet there (incast) and whether its load is spread; then check Kmin and Kmax of the queue.",
                source=limits.ecn_ratio.source,
            )
        )
    return found


def wait_findings(facts: LinkFacts, limits: LinkThresholds = LINK_THRESHOLDS) -> list[Finding]:
    """XMIT_WAIT: per device, InfiniBand ports that had data and no credits for more than 10 % of the time."""
    waiting: dict[str, list[dict[str, Any]]] = {}
    for row in facts.links:
        if row["wait_ratio"] is not None and row["wait_ratio"] > limits.wait_ratio.value:
            waiting.setdefault(row["device"], []).append(row)
    found = []
    for device, rows in sorted(waiting.items()):
        names = sorted({f"{device}/{row['port']}" for row in rows})
        listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        worst = max(row["wait_ratio"] for row in rows)
        found.append(
            Finding(
                code="XMIT_WAIT",
                title=f"{listed} had data and no credits for up to {100 * worst:.3g} % of the time",
                detail=(
                    f"XmitWait grew by {100 * worst:.3g} % of the time in {facts.window_s:.3g} s (64 bit times a tick): what lies "
                    "beyond these ports takes less than they could send. A sign of congestion there, no fault of these ports."
                ),
                severity="info",
                subject=Subject(ports=names),
                evidence=[
                    {"port": f"{device}/{row['port']}", "wait_ratio": row["wait_ratio"], "utilization_mean": row["utilization_mean"]}
                    for row in rows
                ],
                action="Follow the cables of these ports to where traffic meets: a slow host, or a full uplink; compare with like ports.",
                source=limits.wait_ratio.source,
            )
        )
    return found


def incast_findings(facts: LinkFacts) -> list[Finding]:
    """INCAST: one host port nearly full outward with a sign of a full queue, while several others of its switch send less than half."""
    found = []
    rows = {(row["device"], row["port"], row["direction"]): row for row in facts.links}
    for (device, port, direction), row in sorted(rows.items()):
        if direction != "tx" or row["role"] not in ("host", "down") or (row["utilization_peak"] or 0) < 0.9:
            continue
        signs = {
            "discards": facts.total(device, port, "discards", direction="tx"),
            "wred_drops": facts.total(device, port, "wred_drops", direction="tx"),
            "ecn_marked": facts.total(device, port, "ecn_marked", direction="tx"),
        }
        shown = {name: round(value) for name, value in signs.items() if value}
        others = [
            other
            for (name, own, way), other in rows.items()
            if name == device and own != port and way == "tx" and other["role"] in ("host", "down")
        ]
        senders = [
            name_of((name, own))
            for (name, own, way), other in sorted(rows.items())
            if name == device and own != port and way == "rx" and (other["utilization_peak"] or 0) > 0.05
        ]
        if not shown or len(senders) < 3 or not others or any((other["utilization_peak"] or 0) >= 0.5 for other in others):
            continue
        name = f"{device}/{port}"
        found.append(
            Finding(
                code="INCAST",
                title=f"Incast at {name}: {len(senders)} ports send to it at once",
                detail=(
                    f"{name} is used up to {100 * row['utilization_peak']:.3g} % (mean of "
                    f"{(row['resolution_ms'] or 0) / 1000:g} s polls) and its queue overflows, "
                    "while the switch's other host ports are less than half full: many senders meet at one receiver."
                ),
                subject=Subject(ports=[name]),
                evidence=[{"port": name, "utilization_peak": row["utilization_peak"], **shown}, {"senders": senders}],
                action="Check for rooted operations (gather, reduce, checkpoint) to the host behind the port; stagger or tree them.",
                source="Definition: one full host port with drops or marks while its neighbours are not",
            )
        )
    return found
