"""Findings about levels that hold without an interval: error rates and temperatures of the moment, and single readings of totals.

One reading of a total says that something happened since the counters were cleared: not when, not how fast, not whether it goes on.
A bit error rate or a temperature is a level of the moment and can be judged at once.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from netlab.diagnose.link_facts import LinkFacts, name_of
from netlab.diagnose.link_thresholds import LINK_THRESHOLDS, LinkThresholds
from netlab.findings import Finding, Subject
from netlab.run import Run

__all__ = ["ber_evidence", "gauge_findings", "snapshot_findings"]

Port = tuple[str, str]
_BERS = ("pre_fec_ber", "post_fec_ber", "symbol_ber")
#: Totals worth telling, and how many are no news: rdma-core etc/error_thresholds.
_TOTALS = {
    "symbol_errors": 10,
    "link_recovery": 10,
    "link_downed": 10,
    "errors": 10,
    "fcs_errors": 10,
    "fec_uncorrected": 0,
    "local_link_integrity_errors": 10,
    "local_physical_errors": 10,
    "remote_physical_errors": 100,
    "switch_relay_errors": 100,
    "discards": 100,
    "xmit_wait": 1_000,
    "out_of_buffer": 100,
    "local_ack_timeout_err": 0,
    "retransmits": 100,
}
_DAMAGE = frozenset(tuple(_TOTALS)[:8])
_SINGLE_SOURCE = "rdma-core etc/error_thresholds (10 errors, 100 discards, 1000 ticks)"
_MOST_ROWS = 50
_MANY = 5


def ber_evidence(facts: LinkFacts, port: Port) -> list[dict[str, Any]]:
    """The bit error rate before correction that corrected and received bits of the window give, with its 95 % Poisson interval."""
    corrected, received = facts.total(*port, "corrected_bits"), facts.total(*port, "received_bits")
    if corrected is None or not received:
        return []
    # Zero errors in N bits: below 3/N with 95 % (rule of three); else the normal interval of a count.
    low, high = (0.0, 3.0) if corrected == 0 else (max(0.0, corrected - 1.96 * corrected**0.5), corrected + 1.96 * corrected**0.5)
    return [
        {
            "metric": "pre_fec_ber",
            "value": corrected / received,
            "interval95": [low / received, high / received],
            "bits": round(received),
            "from": "corrected and received bits of the window",
        }
    ]


def gauge_findings(facts: LinkFacts, run: Run, limits: LinkThresholds = LINK_THRESHOLDS) -> list[Finding]:
    """LINK_ERRORS from bit error rates, MODULE_TEMPERATURE from transceivers; the latest reading counts."""
    levels = _latest(run)
    found: list[Finding] = []
    ports = sorted({*levels, *((row["device"], row["port"]) for row in facts.links)})
    hot: list[tuple[Port, dict[str, Any]]] = []
    thin: dict[Port, list[dict[str, Any]]] = {}
    rated = 0
    for port in ports:
        evidence: list[dict[str, Any]] = []
        read = levels.get(port, {})
        rows = (
            *({"metric": name, "value": read[name][0], "from": "reported by the device"} for name in _BERS if name in read),
            *ber_evidence(facts, port),
        )
        rated += bool(rows)
        for row in rows:
            limit = limits.pre_fec_ber.value if row["metric"] == "pre_fec_ber" else limits.post_fec_ber.value
            if row["value"] > limit and not (row["metric"] == "pre_fec_ber" and read.get("pre_fec_ber", (0, 0, False))[2]):
                evidence.append({**row, "limit": limit})
        if any(row["metric"] != "pre_fec_ber" for row in evidence):
            found.append(_ber_finding(facts, port, evidence, limits))
        elif evidence:
            thin[port] = evidence
        temperature = read.get("temperature_c")
        if temperature is not None and (
            temperature[0] > limits.temperature_c.value or temperature[0] - temperature[1] > limits.temperature_rise_c.value
        ):
            hot.append((port, {"port": name_of(port), "temperature_c": temperature[0], "first_c": temperature[1]}))
    found += _before_correction(facts, thin, rated, limits)
    if hot:
        found.append(_hot_finding(hot, limits))
    return found


def _before_correction(facts: LinkFacts, thin: dict[Port, list[dict[str, Any]]], rated: int, limits: LinkThresholds) -> list[Finding]:
    """Ports above the limit before correction only: a warning each, but one note for all where most ports are so (PAM4 lives with it)."""
    if len(thin) < _MANY or 2 * len(thin) <= rated:
        return [_ber_finding(facts, port, evidence, limits) for port, evidence in thin.items()]
    worst, rows = max(thin.items(), key=lambda item: (item[1][0]["value"], item[0]))
    return [
        Finding(
            code="LINK_ERRORS",
            title=f"{len(thin)} of {rated} ports are above {limits.pre_fec_ber.value:g} before correction, {name_of(worst)} most",
            detail=(
                f"Up to {rows[0]['value']:.2g}. Most ports are alike, so this is how these links run (four-level signalling relies on its "
                "correction); none has errors after it. Watch the ports far above the others."
            ),
            severity="info",
            subject=Subject(ports=[name_of(port) for port in thin]),
            evidence=[{"port": name_of(port), **evidence[0]} for port, evidence in thin.items()][:_MOST_ROWS],
            action="Compare these rates with the vendor's limit for the modules, and over weeks: a rate that rises is a module that ages.",
            source=limits.pre_fec_ber.source,
        )
    ]


def _latest(run: Run) -> dict[Port, dict[str, tuple[float, float, bool]]]:
    """By port and metric: the latest reading, the first one, and whether it is InfiniBand's raw rate (which has no such limit)."""
    wanted = run.lazy("counters").filter(
        pl.col("metric").is_in((*_BERS, "temperature_c"))
        & pl.col("value").is_not_null()
        & (pl.col("port") != "")
        # System sides of a PHY go by queues of their own; the cable is the line side.
        & pl.col("queue").is_null()
    )
    rows = (
        wanted.sort("ts_ns", nulls_last=False)
        .group_by("device", "port", "metric", maintain_order=True)
        .agg(pl.col("value").last(), pl.col("value").first().alias("first"), pl.col("raw_name").last())
        .with_columns(pl.col("device", "port", "metric", "raw_name").cast(pl.String))
        .collect()
    )
    levels: dict[Port, dict[str, tuple[float, float, bool]]] = {}
    for device, port, metric, value, first, raw_name in rows.iter_rows():
        levels.setdefault((device, port), {})[metric] = (value, first, "raw_ber" in raw_name.lower())
    return levels


def _ber_finding(facts: LinkFacts, port: Port, evidence: list[dict[str, Any]], limits: LinkThresholds) -> Finding:
    worst = evidence[0]
    after = any(row["metric"] != "pre_fec_ber" for row in evidence)
    peer = facts.peer(*port)
    between = f"the cable between {name_of(port)} and {name_of(peer)}" if peer else f"cable and transceiver of {name_of(port)}"
    told = ", ".join(f"{row['metric'].replace('_', ' ')} {row['value']:.2g} (limit {row['limit']:g})" for row in evidence)
    return Finding(
        code="LINK_ERRORS",
        title=f"{name_of(port)} has a bit error rate of {worst['value']:.2g}",
        detail=(
            f"{told}. "
            + (
                "Errors get through the correction: packets are damaged."
                if after
                else "Correction still repairs these errors; the margin is thin."
            )
            + " A rate is a level and can be judged without an interval; below 1e-15 it takes hours of traffic to measure one."
        ),
        subject=Subject(ports=[name_of(port)]),
        evidence=evidence,
        action=f"Clean or reseat {between}; read the rate again after an hour.",
        source=f"{limits.pre_fec_ber.source}; {limits.post_fec_ber.source}",
    )


def _hot_finding(hot: list[tuple[Port, dict[str, Any]]], limits: LinkThresholds) -> Finding:
    port, row = max(hot, key=lambda pair: pair[1]["temperature_c"])
    names = [name_of(other) for other, _ in hot]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return Finding(
        code="MODULE_TEMPERATURE",
        title=f"The transceiver of {name_of(port)}{more} is hot: {row['temperature_c']:g} C",
        detail=(
            f"Limit {limits.temperature_c.value:g} C, or {limits.temperature_rise_c.value:g} C above the first reading. Hot "
            "modules lose margin and fail early."
        ),
        severity="info",
        subject=Subject(ports=names),
        evidence=[row for _, row in hot[:_MOST_ROWS]],
        action="Check airflow, fan trays and blanking panels at these ports.",
        source=limits.temperature_c.source,
    )


def snapshot_findings(run: Run) -> list[Finding]:
    """One LINK_ERRORS (damage) and one PACKET_LOSS (discards, waits, retransmissions) for all totals that were read once."""
    logical = run.frame("ports").filter(pl.col("role").is_in(("lag", "vlan", "mgmt"))).select("device", "port")
    none = {name_of((device, port)) for device, port in logical.iter_rows()}
    rows = [row for row in _single_totals(run) if row["port"] not in none]
    found = []
    for code, chosen, what in (
        ("LINK_ERRORS", [row for row in rows if row["metric"] in _DAMAGE], "errors"),
        ("PACKET_LOSS", [row for row in rows if row["metric"] not in _DAMAGE], "losses or waits"),
    ):
        if not chosen:
            continue
        ports = list(dict.fromkeys(row["port"] for row in chosen))
        first = chosen[0]
        more = f" and {len(ports) - 1} more ports have" if len(ports) > 1 else " has"
        found.append(
            Finding(
                code=code,
                title=(
                    f"{ports[0]}{more} counted {what} since they were last cleared ({first['total']:,} {first['metric'].replace('_', ' ')})"
                ),
                detail=(
                    "These counters were read once. The totals say that it happened at some time since the counters "
                    "were cleared; not when, not "
                    "how fast, not whether it goes on or touched this run. A counter at its largest value counted at least that much."
                ),
                severity="info",
                subject=Subject(ports=ports),
                evidence=chosen[:_MOST_ROWS],
                action=(
                    "Read the same counters again after some minutes of traffic (twice, with times): growth tells old damage from present."
                ),
                source=_SINGLE_SOURCE,
            )
        )
    return found


def _single_totals(run: Run) -> list[dict[str, Any]]:
    """Totals above what is no news, of counters with a single instant; the largest multiple of its limit first."""
    series = ["device", "port", "queue", "direction", "metric"]
    packets = ("packets", "unicast_packets")
    rows = (
        run.lazy("counters")
        .filter(
            (pl.col("kind") == "counter")
            & pl.col("metric").is_in((*_TOTALS, *packets))
            & (pl.col("port") != "")
            & pl.col("value").is_not_null()
        )
        .group_by(series)
        .agg(pl.col("ts_ns").n_unique().alias("instants"), pl.col("value").last(), pl.col("width_bits").last(), pl.col("overflow").last())
        .filter(pl.col("instants") < 2)
        .with_columns(pl.col(*series, "overflow").cast(pl.String))
        .collect()
    )
    total = {
        (row["device"], row["port"], row["direction"]): row["value"]
        for row in rows.filter(pl.col("metric").is_in(packets) & pl.col("queue").is_null()).iter_rows(named=True)
    }
    found = []
    for row in rows.filter(~pl.col("metric").is_in(packets)).sort(series).iter_rows(named=True):
        limit = _TOTALS[row["metric"]]
        if row["value"] <= limit:
            continue
        item: dict[str, Any] = {
            "port": name_of((row["device"], row["port"])),
            "metric": row["metric"],
            "total": round(row["value"]),
            "limit": limit,
        }
        if row["queue"] is not None:
            item["queue"] = row["queue"]
        if row["overflow"] == "stick" and row["width_bits"] and row["value"] >= 2 ** row["width_bits"] - 1:
            item["at_least"] = True
        carried = total.get((row["device"], row["port"], row["direction"]))
        if carried and row["metric"] in ("discards", "errors", "fcs_errors"):
            item["share_of_packets"] = row["value"] / (carried + row["value"])
        found.append(item)
    return sorted(found, key=lambda item: (-item["total"] / max(item["limit"], 1), item["port"], item["metric"]))
