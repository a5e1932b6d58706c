"""Findings about links joined with what the localisation says: which of them slowed the job, by how much, how sure."""

from __future__ import annotations

import msgspec

from netlab.diagnose.link_grid import ERROR_CLASS
from netlab.diagnose.localise import LinkVerdict, Localisation
from netlab.findings import Finding, Subject

__all__ = ["with_localisation"]

_BY_METRIC = {
    **dict.fromkeys(ERROR_CLASS, "LINK_ERRORS"),
    **dict.fromkeys(("link_downed", "carrier_changes"), "LINK_FLAP"),
    **dict.fromkeys(("pause_frames", "pause_us"), "PFC_PAUSE"),
    "ecn_marked": "ECN_MARKING",
    **dict.fromkeys(("discards", "wred_drops"), "PACKET_LOSS"),
}
_METHOD = (
    "Counters against exposed communication: regression on peers' leave-one-out mean, block resampling, largest statistic over all links, "
    "metrics and lags (docs/methods.md)"
)


def with_localisation(findings: list[Finding], localisation: Localisation) -> list[Finding]:
    """Add the localisation's words to the findings of its ports, and a finding for a localised port that has none.

    Only a localised link gets a time lost and the cause fabric. An associated one is named with the reasons why it is no more. Error
    findings of other ports are told that their errors do not move with the slow steps, if the test could have seen it.
    """
    best = _best_by_port(localisation)
    result, told = [], set()
    for finding in findings:
        verdict = next((best[port, finding.code] for port in finding.subject.ports if (port, finding.code) in best), None)
        if verdict is not None:
            told.add((f"{verdict.device}/{verdict.port}", finding.code))
            result.append(_joined(finding, verdict))
        elif finding.code in ("LINK_ERRORS", "LINK_FLAP") and localisation.state != "cannot tell":
            text = " Its counters do not move with the slow steps: no evidence that it slowed the job."
            result.append(msgspec.structs.replace(finding, detail=finding.detail + text))
        elif finding.code in ("LINK_ERRORS", "LINK_FLAP"):
            text = f" Whether it slowed the job, nobody can tell: {localisation.reason}."
            result.append(msgspec.structs.replace(finding, detail=finding.detail + text))
        else:
            result.append(finding)
    for (port, code), verdict in sorted(best.items()):
        if verdict.state == "localised" and (port, code) not in told:
            result.append(_joined(_bare(port, code, verdict), verdict))
    return result


def _best_by_port(localisation: Localisation) -> dict[tuple[str, str], LinkVerdict]:
    """The strongest verdict of each port and kind of finding."""
    best: dict[tuple[str, str], LinkVerdict] = {}
    for verdict in localisation.verdicts:
        code = _BY_METRIC.get(verdict.metric)
        key = (f"{verdict.device}/{verdict.port}", code or "")
        held = best.get(key)
        if code and (held is None or (verdict.state == "localised", -verdict.p_value) > (held.state == "localised", -held.p_value)):
            best[key] = verdict
    return best


def _bare(port: str, code: str, verdict: LinkVerdict) -> Finding:
    metric = verdict.metric.replace("_", " ")
    return Finding(
        code=code,
        title=f"{port} counts {metric} whenever steps are slow",
        detail=f"The port's {metric} are below the limits that count alone.",
        subject=Subject(ports=[port]),
        action=f"Clean or replace cable and transceivers of {port}; see whether the slow steps end.",
        source=_METHOD,
    )


def _joined(finding: Finding, verdict: LinkVerdict) -> Finding:
    evidence = {
        "port": f"{verdict.device}/{verdict.port}",
        "metric": verdict.metric,
        "localisation": verdict.state,
        "p_value": round(verdict.p_value, 4),
        "rank_correlation": round(verdict.statistic, 3),
        "slow_cells_with_events": round(verdict.coverage, 3),
        "event_cells_that_are_slow": round(verdict.precision, 3),
        "excess_ms_per_step": [round(value, 3) for value in (verdict.excess_ms, verdict.excess_low_ms, verdict.excess_high_ms)],
    }
    share = f"{100 * verdict.coverage:.0f} % of the slow cells have its events, {100 * verdict.precision:.0f} % of its event cells are slow"
    if verdict.state == "localised":
        words = (
            f" Localised: its {verdict.metric.replace('_', ' ')} come when steps are slow and its peers stay silent (p = "
            f"{verdict.p_value:.2g} over all "
            f"links and counters; {share}). The steps lose {verdict.excess_ms:.3g} ms each ({verdict.excess_low_ms:.3g} "
            f"to {verdict.excess_high_ms:.3g})."
        )
        subject = msgspec.structs.replace(finding.subject, steps=list(verdict.steps))
        return msgspec.structs.replace(
            finding,
            title=f"{finding.title}; {len(verdict.steps)} steps were slow with it",
            detail=finding.detail + words,
            evidence=[*finding.evidence, evidence],
            subject=subject,
            time_lost_ms=verdict.excess_ms,
            cause="fabric",
            source=f"{finding.source}; {_METHOD}",
        )
    words = f" Associated with slow steps (p = {verdict.p_value:.2g}; {share}), not localised: {'; '.join(verdict.reasons)}."
    return msgspec.structs.replace(finding, detail=finding.detail + words, evidence=[*finding.evidence, evidence])
