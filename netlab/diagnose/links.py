"""All findings about links: health, congestion, load."""

from __future__ import annotations

import msgspec

from netlab.config import Limits
from netlab.diagnose.link_accusations import with_localisation
from netlab.diagnose.link_classes import class_findings, watermark_findings
from netlab.diagnose.link_congestion import ecn_findings, incast_findings, pause_findings, storm_findings, wait_findings
from netlab.diagnose.link_course import anomaly_findings, traffic_findings
from netlab.diagnose.link_facts import link_facts
from netlab.diagnose.link_health import error_findings, flap_findings, loss_findings
from netlab.diagnose.link_levels import gauge_findings, snapshot_findings
from netlab.diagnose.link_load import headroom_findings, imbalance_findings, oversubscription_findings, utilisation_findings
from netlab.diagnose.localise import Localisation, localise
from netlab.findings import Finding
from netlab.run import Run

__all__ = ["link_findings"]


def link_findings(run: Run, limits: Limits | None = None, localisation: Localisation | None = None) -> list[Finding]:
    """Findings of a run's tables ``links``, ``link_intervals``, ``ports`` and ``counters``; none where nothing was counted.

    Parameters
    ----------
    run
        A run with those tables.
    limits
        ``[limits]``: band of the mean utilisation and limit of its peak.
    localisation
        Result of ``localise`` for the run, if it is there already; else it is made here.

    Returns
    -------
    Findings in a fixed order. Only what ``localise`` says lets one of them name a time lost or the cause fabric.
    """
    bands = limits or Limits()
    facts = link_facts(run)
    levels = [*gauge_findings(facts, run), *snapshot_findings(run), *watermark_findings(run)]
    if not facts.links:
        return levels
    found = [
        *_one_for_each_port([*error_findings(facts), *levels]),
        *flap_findings(facts),
        *loss_findings(facts, run),
        *pause_findings(facts),
        *storm_findings(facts, run),
        *ecn_findings(facts),
        *wait_findings(facts),
        *incast_findings(facts),
        *class_findings(facts, run),
        *traffic_findings(run),
        *anomaly_findings(run),
        *oversubscription_findings(facts, bands),
        *imbalance_findings(facts, bands, run=run),
        *utilisation_findings(facts, bands),
        *headroom_findings(facts, bands),
    ]
    return with_localisation(found, localisation or localise(run))


def _one_for_each_port(findings: list[Finding]) -> list[Finding]:
    """Findings about the errors of one port joined into the first: counts and rates are two views of one fault."""
    joined: list[Finding] = []
    at: dict[str, int] = {}
    for finding in findings:
        ports = finding.subject.ports
        if finding.code == "LINK_ERRORS" and finding.severity != "info" and len(ports) == 1:
            if ports[0] in at:
                held = joined[at[ports[0]]]
                more = {"detail": f"{held.detail} {finding.detail}", "evidence": [*held.evidence, *finding.evidence]}
                joined[at[ports[0]]] = msgspec.structs.replace(held, **more)
                continue
            at[ports[0]] = len(joined)
        joined.append(finding)
    return joined
