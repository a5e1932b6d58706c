"""All findings that the timeline gives."""

from __future__ import annotations

from netlab.diagnose import bandwidth, host, lateness, overlap, shares
from netlab.diagnose.timeline import Timeline, pooled_waits
from netlab.findings import Finding, ranked

__all__ = ["diagnose"]

_RULES = (
    shares.network_share,
    host.host_bound,
    host.host_copies,
    overlap.no_overlap,
    overlap.change_point,
    bandwidth.low_bandwidth,
    bandwidth.small_messages,
    bandwidth.above_line_rate,
    bandwidth.unmatched_messages,
)
#: Rules about waiting share the table of waits and their causes.
_RULES_OF_WAITS = (shares.mostly_waiting, lateness.stragglers, lateness.slow_transfer_elsewhere, lateness.pipeline_bubble)


def diagnose(timeline: Timeline) -> list[Finding]:
    """Findings about the timeline of a run, ranked by the time they cost.

    Parameters
    ----------
    timeline
        Result of `netlab.attribute.attribution`.
    """
    waits = pooled_waits(timeline)
    found = [finding for rule in _RULES for finding in rule(timeline)]
    return ranked([*found, *(finding for rule in _RULES_OF_WAITS for finding in rule(timeline, waits))])
