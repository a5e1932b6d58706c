"""Findings about the amount and the course of traffic: bytes against collectives, anomalies in time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl

from netlab.diagnose.link_thresholds import LINK_THRESHOLDS, LinkThresholds
from netlab.findings import Finding, Subject
from netlab.run import Run
from netlab.units import format_ms

__all__ = ["anomaly_findings", "traffic_findings"]

_FEWEST_BYTES, _LEAST_COVERAGE = 10_000_000, 0.95
#: Headers where packets are not counted: 62 of 1,024 bytes, the smallest usual RoCE message unit.
_MOST_HEADERS = 62 / 1_024
_MOST_ROWS = 20


def traffic_findings(run: Run, limits: LinkThresholds = LINK_THRESHOLDS) -> list[Finding]:
    """TRAFFIC_MISMATCH: hosts that sent more than their collectives explain, and hosts that seem to have sent less."""
    more, less = [], []
    for row in run.frame("host_traffic").iter_rows(named=True):
        headers = row["header_bytes"] if row["header_bytes"] is not None else _MOST_HEADERS * row["counted_bytes"]
        margin = limits.traffic_excess.value
        if row["expected_high_bytes"] < _FEWEST_BYTES:
            continue
        ratio = {"counted_over_expected": row["counted_bytes"] / row["expected_high_bytes"]}
        if row["complete"] and row["counted_bytes"] - headers > (1 + margin) * row["expected_high_bytes"]:
            more.append({**row, **ratio})
        elif row["counted_bytes"] < (1 - margin) * row["expected_low_bytes"]:
            less.append({**row, **ratio})
    return [*_more(more, limits), *_less(less, limits)]


def _names(rows: list[dict[str, Any]]) -> str:
    hosts = [row["host"] for row in rows]
    return ", ".join(hosts[:4]) + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else "")


def _more(rows: list[dict[str, Any]], limits: LinkThresholds) -> list[Finding]:
    if not rows:
        return []
    worst = max(rows, key=lambda row: row["counted_over_expected"])
    resent = any(row["retransmits"] for row in rows)
    told = [row["retransmits"] for row in rows if row["retransmits"] is not None]
    why = (
        "Retransmissions were counted there, so messages were sent again."
        if resent
        else "No retransmission was counted there: another job, storage or a checkpoint shares these ports."
        if told
        else "Either messages were sent again, or another job or storage shares these ports; rdma statistic would tell."
    )
    return [
        Finding(
            code="TRAFFIC_MISMATCH",
            title=f"{_names(rows)} sent up to {worst['counted_over_expected']:.3g} times the bytes that the traced collectives need",
            detail=(
                f"{worst['host']}: {worst['counted_bytes'] / 1e9:.4g} GB counted, at most "
                f"{worst['expected_high_bytes'] / 1e9:.4g} GB expected "
                f"(rings through all ranks) and headers. {why}"
            ),
            severity="warning" if resent else "info",
            subject=Subject(hosts=[row["host"] for row in rows]),
            evidence=rows[:_MOST_ROWS],
            action="Look at retransmit counters and at what else runs on these hosts and networks (storage, checkpoints, neighbours).",
            source=limits.traffic_excess.source,
        )
    ]


def _less(rows: list[dict[str, Any]], limits: LinkThresholds) -> list[Finding]:
    if not rows:
        return []
    worst = min(rows, key=lambda row: row["counted_bytes"] / max(row["expected_low_bytes"], 1))
    share = worst["counted_bytes"] / worst["expected_low_bytes"]
    blind = [row for row in rows if row["coverage"] < _LEAST_COVERAGE]
    why = (
        f"Samples are missing: the rate is known for {100 * worst['coverage']:.3g} % of the window only."
        if blind
        else "Not all ports of these hosts are counted, the traffic took another path (NVLink between hosts), or the network reduces "
        "(SHARP halves an all-reduce)."
    )
    return [
        Finding(
            code="TRAFFIC_MISMATCH",
            title=f"{_names(rows)}: the counters hold only {100 * share:.3g} % of the bytes that the traced collectives need at least",
            detail=(
                f"{worst['host']}: {worst['counted_bytes'] / 1e9:.4g} GB counted on {worst['ports']} ports, at least "
                f"{worst['expected_low_bytes'] / 1e9:.4g} GB expected. {why} Figures about these links are too low."
            ),
            severity="info",
            subject=Subject(hosts=[row["host"] for row in rows]),
            evidence=rows[:_MOST_ROWS],
            action="Check that every network port of these hosts is polled, at one rate, over the whole run.",
            source=limits.traffic_excess.source,
        )
    ]


def anomaly_findings(run: Run) -> list[Finding]:
    """TRAFFIC_ANOMALY: links whose rate left its course by far, one finding; what many links do at once is the job's own doing."""
    table = run.frame("link_traffic")
    odd = table.filter(pl.col("anomalies") > 0)
    if odd.is_empty():
        return []
    # Half of the links within one poll: a checkpoint, an evaluation, the end of the job.
    poll_ns = float(odd["poll_ms"].max() or 0.0) * 1e6  # type: ignore[arg-type]
    rows = []
    for row in odd.sort("anomalies", "device", "port", "direction", descending=[True, False, False, False]).iter_rows(named=True):
        together = odd.filter((pl.col("anomaly_ns") - row["anomaly_ns"]).abs() <= 2 * poll_ns).height
        if together <= max(2, table.height // 2):
            rows.append({**row, "links_with_it": together})
    if not rows:
        return []
    worst = rows[0]
    ports = list(dict.fromkeys(f"{row['device']}/{row['port']}" for row in rows))
    at = datetime.fromtimestamp(worst["anomaly_ns"] / 1e9, UTC).strftime("%H:%M:%S")
    ratio = {None: "nothing was usual", 0.0: "no traffic"}.get(
        worst["anomaly_ratio"]
    ) or f"{worst['anomaly_ratio']:.3g} times the usual rate"
    more = f" and {len(ports) - 1} more ports" if len(ports) > 1 else ""
    return [
        Finding(
            code="TRAFFIC_ANOMALY",
            title=f"The traffic of {ports[0]}{more} left its course ({ratio} at {at} UTC)",
            detail=(
                f"{worst['anomalies']} of {worst['polls']} polls of {format_ms(worst['poll_ms'])} are far from the "
                "median of those around them, and "
                "most other links do not show it. What is shorter than a poll cannot be seen. An effect of the traffic, no cause by itself."
            ),
            severity="info",
            subject=Subject(ports=ports),
            evidence=[
                {
                    "port": f"{row['device']}/{row['port']}",
                    **{name: row[name] for name in ("direction", "anomalies", "anomaly_ns", "anomaly_ratio", "links_with_it")},
                }
                for row in rows[:_MOST_ROWS]
            ],
            action="Look at what the job and its neighbours did at that time (checkpoint, failover, restart), and at the port's log.",
            source="Robust distance of 8 deviations and half of the mean from the running median: netlab's own rule",
        )
    ]
