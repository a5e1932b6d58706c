"""Findings about links that damage or lose packets: errors, flaps, loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from netlab.diagnose.link_facts import LinkFacts, name_of
from netlab.diagnose.link_rhythm import loss_rhythm
from netlab.diagnose.link_thresholds import LINK_THRESHOLDS, LinkThresholds
from netlab.findings import Finding, Subject
from netlab.run import Run

__all__ = ["error_findings", "flap_findings", "loss_findings"]

_NDR_GBPS = 400.0
_SHORT_S, _LONG_S = 12 * 60, 125 * 60
_LONG_BER = 1e-15
#: Fewer polls have no course.
_FEWEST_POLLS = 20
_MOST_COURSES = 20
#: Fewer like links are no comparison.
_FEWEST_LIKE = 3
#: Any of these is damage that error correction did not hide.
_ANY = ("fec_uncorrected", "link_recovery", "local_link_integrity_errors", "local_physical_errors")
_SIDE_EFFECTS = ("remote_physical_errors", "switch_relay_errors", "vl15_dropped")


def _ports(facts: LinkFacts) -> list[tuple[str, str]]:
    return sorted({(row["device"], row["port"]) for row in facts.links})


def error_findings(facts: LinkFacts, limits: LinkThresholds = LINK_THRESHOLDS) -> list[Finding]:
    """LINK_ERRORS: one finding per port whose own error counters grew beyond their limits.

    Errors that a port only passes on (remote physical errors, relay errors) accuse no port; they stand as evidence where others do.
    """
    found = []
    for device, port in _ports(facts):
        evidence = _symbol_errors(facts, device, port, limits) + _packet_errors(facts, device, port, limits)
        for metric in _ANY:
            total = facts.total(device, port, metric)
            if total:
                evidence.append({"metric": metric, "count": round(total), "limit": 0})
        if not evidence:
            continue
        sources = [limits.symbol_errors.source, limits.pre_fec_ber.source, limits.error_ratio.source]
        for metric in _SIDE_EFFECTS:
            total = facts.total(device, port, metric)
            if total:
                evidence.append({"metric": metric, "count": round(total), "note": "made elsewhere, no accusation of this port"})
        tail = facts.fec_tail(device, port)
        if tail is not None:
            evidence.append(
                {"metric": "fec_tail_bin", "count": tail, "note": "symbol errors of the worst codeword; RS(544,514) repairs up to 15"}
            )
        peer = facts.peer(device, port)
        where = (
            f"the cable and transceivers between {device}/{port} and {name_of(peer)}"
            if peer
            else f"cable and transceiver of {device}/{port}"
        )
        worst = ", ".join(f"{row['count']:,} {row['metric'].replace('_', ' ')}" for row in evidence if "note" not in row)
        found.append(
            Finding(
                code="LINK_ERRORS",
                title=f"{device}/{port} has errors: {worst}",
                detail=(f"In {facts.window_s:.3g} s the port counted {worst}. Damaged packets are repeated or lost."),
                subject=Subject(ports=[f"{device}/{port}"]),
                evidence=evidence,
                action=f"Clean or replace {where}; check that the error counters stay still afterwards.",
                source="; ".join(sources),
            )
        )
    return found


def _symbol_errors(facts: LinkFacts, device: str, port: str, limits: LinkThresholds) -> list[dict[str, Any]]:
    """Symbol errors after correction beyond the budget of the link's rate and the window (never less than 12 minutes' worth)."""
    rows = list(facts.of(device, port, "symbol_errors"))
    if not rows:
        return []
    count, seconds = sum(row.total for row in rows), max(row.known_ns for row in rows) / 1e9
    speed = facts.ports.get((device, port), {}).get("speed_gbps") or _NDR_GBPS
    if seconds <= _LONG_S:
        budget = limits.symbol_errors.value * speed / _NDR_GBPS * max(seconds, _SHORT_S) / _SHORT_S
    else:
        budget = _LONG_BER * speed * 1e9 * seconds
    return [{"metric": "symbol_errors", "count": round(count), "limit": round(budget, 2), "seconds": seconds}] if count > budget else []


def _packet_errors(facts: LinkFacts, device: str, port: str, limits: LinkThresholds) -> list[dict[str, Any]]:
    found = []
    for direction in ("rx", "tx"):
        errors = facts.total(device, port, "errors", direction=direction)
        checksum = facts.total(device, port, "fcs_errors", direction=direction)
        packets = facts.total(device, port, "packets", direction=direction)
        metric, count = ("fcs_errors", checksum) if checksum and checksum >= (errors or 0) else ("errors", errors)
        if count and (packets is None or count > limits.error_ratio.value * (packets + count)):
            row = {"metric": metric, "direction": direction, "count": round(count), "limit_ratio": limits.error_ratio.value}
            if packets:
                row["ratio"] = count / (packets + count)
            found.append(row)
    return found


def flap_findings(facts: LinkFacts) -> list[Finding]:
    """LINK_FLAP: one finding per cable whose ends count a link that went down (or a carrier that changed), or were seen to go down."""
    found, done = [], set()
    for device, port in sorted({*_ports(facts), *facts.seen_down}):
        if (device, port) in done:
            continue
        ends = [(device, port)]
        peer = facts.peer(device, port)
        if peer is not None:
            ends.append(peer)
        counts = {end: (facts.total(*end, "link_downed"), facts.total(*end, "carrier_changes")) for end in ends}
        hit = [end for end, (downs, changes) in counts.items() if downs or changes or end in facts.seen_down]
        if not hit:
            continue
        done.update(ends)
        evidence: list[dict[str, Any]] = [
            {"port": name_of(end), "link_downed": downs and round(downs), "carrier_changes": changes and round(changes)}
            | ({"seen_down": facts.seen_down[end][0]} if end in facts.seen_down else {})
            for end, (downs, changes) in counts.items()
        ]
        silent = [name_of(end) for end in ends if end not in hit and any(value is not None for value in counts[end])]
        doubt = f" {silent[0]} at the other end counted none: perhaps only a device restarted." if silent else ""
        names = " and ".join(name_of(end) for end in hit)
        times = max(int(max(counts[end][0] or 0, (counts[end][1] or 0) / 2, facts.seen_down.get(end, (0,))[0], 1)) for end in hit)
        gone = any(facts.seen_down.get(end, (0, False))[1] for end in hit)
        course = (
            "the link was lost, and is down at the last sample."
            if gone
            else "the link was lost and came back; traffic on it stopped meanwhile and was sent again."
        )
        if all(count is None for pair in counts.values() for count in pair):
            course += " Its state was polled, its downs are not counted: shorter ones cannot be seen."
        found.append(
            Finding(
                code="LINK_FLAP",
                title=f"The link at {names} went down {times} time{'s' if times > 1 else ''}",
                detail=f"In {facts.window_s:.3g} s {course}{doubt}",
                severity="info" if silent else "warning",
                subject=Subject(ports=[name_of(end) for end in hit]),
                evidence=evidence,
                action="Reseat or replace the cable and its transceivers; look for the port in the switch's log at that time.",
                source="UFM PDR plugin: link down counted on both ends in the window",
            )
        )
    return found


def loss_findings(facts: LinkFacts, run: Run, limits: LinkThresholds = LINK_THRESHOLDS) -> list[Finding]:
    """PACKET_LOSS: ports that lose more than 1e-4 of the packets of a direction, strictly above; steady or in bursts."""
    found = []
    keys = ("loss_ratio", "device", "port", "direction")
    lossy = [tuple(row[name] for name in keys) for row in facts.links if row["loss_ratio"]]
    # Every course is a search through all intervals; a few of the worst tell enough.
    worst = set(sorted(lossy, reverse=True)[:_MOST_COURSES])
    for row in facts.links:
        device, port, direction = row["device"], row["port"], row["direction"]
        ratio = row["loss_ratio"]
        discards = facts.total(device, port, "discards", direction=direction) or 0.0
        errors = next((n for m in ("errors", "fcs_errors") if (n := facts.total(device, port, m, direction=direction)) is not None), 0.0)
        if ratio is None or ratio <= limits.loss_ratio.value * (1 + 1e-12):
            continue
        counts = {"discards": round(discards), "errors": round(errors), "loss_ratio": ratio}
        evidence = [{"port": f"{device}/{port}", "direction": direction, **counts}]
        course, words = _course(run, device, port, direction) if (ratio, device, port, direction) in worst else ([], "")
        evidence += course
        alone, more = _alone(facts, row)
        evidence += alone
        words += more
        what = "drops" if discards >= errors else "receives damaged" if direction == "rx" else "loses"
        found.append(
            Finding(
                code="PACKET_LOSS",
                title=f"{device}/{port} {what} {100 * ratio:.3g} % of its {direction} packets",
                detail=(
                    f"{round(discards):,} packets were discarded and {round(errors):,} had errors in {facts.window_s:.3g} "
                    f"s: a loss ratio of {ratio:.3g}, "
                    f"limit {limits.loss_ratio.value:g}. A lost packet makes a go-back-N transport send everything after it again."
                    f"{words}"
                ),
                subject=Subject(ports=[f"{device}/{port}"]),
                evidence=evidence,
                action=(
                    "Find out which queue drops (show queue counters) and whether PFC and ECN are set for the class of the "
                    "training traffic."
                )
                if discards >= errors
                else f"Clean or replace cable and transceiver of {device}/{port}.",
                source=limits.loss_ratio.source,
            )
        )
    return found


def _alone(facts: LinkFacts, row: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Whether one link loses and its like do not (a fault of the link), or many lose alike (the load, or a setting)."""
    like = [
        other["loss_ratio"]
        for other in facts.links
        if other["loss_ratio"] is not None
        and (other["role"], other["direction"], other["speed_gbps"]) == (row["role"], row["direction"], row["speed_gbps"])
        and (other["device"], other["port"]) != (row["device"], row["port"])
    ]
    if len(like) < _FEWEST_LIKE:
        return [], ""
    lossy = sum(ratio > row["loss_ratio"] / 10 for ratio in like)
    evidence = {"like_links": len(like), "like_links_that_lose": lossy, "systematic": "one link" if not lossy else None}
    words = (
        f" None of {len(like)} like links loses a tenth as much: it is this link."
        if not lossy
        else f" {lossy} of {len(like)} like links lose alike: look at load and settings before the cable."
    )
    return [evidence], words


def _course(run: Run, device: str, port: str, direction: str) -> tuple[list[dict[str, Any]], str]:
    """How the losses lie in time: evenly in all polls (a property of the link), in few of them (bursts), or neither; and whether they keep
    to an hour of the day or a phase of the step, which random loss does not.
    """
    wanted = (
        (pl.col("device") == device)
        & (pl.col("port") == port)
        & (pl.col("direction") == direction)
        & pl.col("metric").is_in(("discards", "errors", "fcs_errors"))
        & pl.col("delta").is_not_null()
    )
    polls = (
        run.lazy("link_intervals")
        .filter(wanted)
        .group_by("t0_ns")
        .agg(pl.col("t1_ns").max(), pl.col("delta").sum())
        .sort("t0_ns")
        .collect()
    )
    growth = polls["delta"].sort(descending=True)
    total = int(growth.sum())
    if len(growth) < _FEWEST_POLLS or not total:
        return [], ""
    lossy, tenth = int((growth > 0).sum()), max(1, len(growth) // 10)
    share = int(growth.head(tenth).sum()) / total
    course = "in bursts" if share >= 0.5 else "steady" if lossy >= 0.9 * len(growth) else "scattered"
    row = {"polls": len(growth), "polls_with_loss": lossy, "share_of_worst_tenth": round(share, 3), "course": course}
    words = f" The loss is {course}: {lossy} of {len(growth)} polls have some, the worst tenth of them {100 * share:.0f} %."
    steps = run.frame("steps").filter("complete")
    step_ns = (steps["end_ns"] - steps["start_ns"]).median()
    turn = "step"
    if step_ns is None:
        # Without traces the traffic's own period is the step, or the nearest thing to it.
        traffic = run.frame("link_traffic").filter((pl.col("device") == device) & (pl.col("port") == port)).drop_nulls("period_ms")
        period = traffic["period_ms"].median()
        step_ns, turn = (float(period) * 1e6, "traffic's period") if isinstance(period, (int, float)) else (None, turn)
    middle = ((polls["t0_ns"] + polls["t1_ns"]) // 2).to_numpy()
    rhythm = loss_rhythm(
        middle,
        polls["delta"].to_numpy().astype(np.float64),
        float((polls["t1_ns"] - polls["t0_ns"]).median()),  # type: ignore[arg-type]
        float(step_ns) if isinstance(step_ns, (int, float)) else None,
    )
    for found in rhythm:
        when = f"the hour from {found['hour_utc']}:00 UTC" if "hour_utc" in found else f"{100 * found['phase']:.0f} % of the {turn}"
        words += f" It is systematic: {100 * found['share']:.0f} % of it comes at {when} (p = {found['p_value']:.2g})."
    return [row, *rhythm], words
