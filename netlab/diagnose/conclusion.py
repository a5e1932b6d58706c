"""Status, cause and headline of a run, from its shares and its findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from netlab.diagnose.findings import diagnose
from netlab.diagnose.host import unqueued_share
from netlab.diagnose.limits import IDLE_SHARE
from netlab.diagnose.onsets import Onset, told_with
from netlab.diagnose.shares import blamed_ranks, comm_above, culprit_group, limit_text, main_layer, main_waits, percent, wait_cause
from netlab.diagnose.timeline import Timeline, layer_cause, name_group, name_ranks, pooled_waits
from netlab.findings import Finding, localised_port, ranked
from netlab.run import RunFacts

__all__ = ["Conclusion", "conclude", "judge"]

_WEIGHTY = ("critical", "warning")
_LAYERS = {"fabric": " on the fabric between hosts", "intra_node": " inside hosts"}


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """``status`` is pass, warn, flagged or inconclusive; ``cause`` none, fabric, intra_node, straggler, schedule, host or unknown."""

    status: str
    flagged: bool
    cause: str
    headline: str
    findings: list[Finding] = []


def judge(timeline: Timeline, facts: RunFacts, more: Iterable[Finding] = (), onset: Onset | None = None) -> Conclusion:
    """Findings of a timeline and of other evidence, ranked, and what the run comes to.

    Parameters
    ----------
    timeline
        Result of `netlab.attribute.attribution`.
    facts
        Of the run.
    more
        Findings from logs, dumps and counters.
    onset
        What began on links when steps became slow for good.
    """
    findings = ranked([*(told_with(finding, onset) for finding in diagnose(timeline)), *more])
    return msgspec.structs.replace(conclude(timeline, findings, facts), findings=findings)


def conclude(timeline: Timeline | None, findings: Sequence[Finding], facts: RunFacts) -> Conclusion:
    """What the run comes to.

    Parameters
    ----------
    timeline
        None where no trace gave a share (logs, dumps or counters alone).
    findings
        All findings of the run, ranked.
    facts
        For the ranks that are missing.
    """
    weighty = [finding for finding in findings if finding.severity in _WEIGHTY]
    if timeline is None or timeline.totals["network_share"] is None:
        status = "warn" if weighty else "inconclusive"
        cause = _own_cause(weighty) or "unknown"
        head = f"{weighty[0].title.rstrip('.')}; no trace gives a share of the network" if weighty else _untimed(facts)
        return Conclusion(status=status, flagged=False, cause=cause, headline=_sentence(head))
    flagged = bool(timeline.totals["flagged"])
    status = "flagged" if flagged else "warn" if weighty or comm_above(timeline) else "pass"
    cause = _cause(timeline, weighty, status)
    head = _headline(timeline, weighty, facts, status, cause) + _guilty_link(weighty, cause)
    return Conclusion(status=status, flagged=flagged, cause=cause, headline=_sentence(head))


def _untimed(facts: RunFacts) -> str:
    """The headline where nothing of weight was found and no share is known."""
    if facts.traced:
        return "No share can be given: no trace has device activity in a step"
    return "No share can be given, since that takes a trace; nothing of weight was found in what was read"


def _cause(timeline: Timeline, weighty: Sequence[Finding], status: str) -> str:
    """The first rule of docs/methods.md, section Cause, that holds."""
    if timeline.totals["flagged"]:
        return layer_cause(main_layer(timeline)) if timeline.totals["flag_certain"] else "unknown"
    if _waits(timeline):
        return wait_cause(pooled_waits(timeline))
    idle = unqueued_share(timeline)
    if idle is not None and idle > IDLE_SHARE:
        return "host"
    return _own_cause(weighty) or ("none" if status == "pass" else "unknown")


def _own_cause(weighty: Sequence[Finding]) -> str | None:
    """The cause that the first finding of weight has, one that names a part of the system before one that does not."""
    named = (finding.cause for finding in weighty if finding.cause not in ("none", "unknown"))
    return next(named, weighty[0].cause if weighty else None)


def _waits(timeline: Timeline) -> bool:
    pooled = timeline.pooled
    return comm_above(timeline) and int(pooled["exposed_wait_ns"].sum()) > int(pooled["exposed_transfer_ns"].sum())


def _headline(timeline: Timeline, weighty: Sequence[Finding], facts: RunFacts, status: str, cause: str) -> str:
    totals = timeline.totals
    limit = limit_text(timeline.threshold)
    network, comm = percent(totals["network_share"]), percent(totals["comm_share"])
    if status == "flagged" and totals["basis"] == "communication":
        return f"Communication share {network} is above {limit}, and at most all of it is network: {_untold(facts)}"
    if status == "flagged":
        sure = "" if totals["flag_certain"] else f", but it may be as low as {percent(totals['network_share_low'])}{_because(facts)}"
        return f"Network share {network} is above {limit}: data moves{_LAYERS.get(cause, '')} while no compute runs{sure}"
    if _waits(timeline):
        word = "only" if totals["split"] == "measured" else "at most"
        return f"{_waiting(timeline, cause)}: {comm} of the step is exposed communication, but {word} {network} is transfer"
    share = f"network share {network} is not above {limit}"
    if totals["basis"] == "communication":
        share = f"communication share {network} is not above {limit}, {_untold(facts)}"
    if cause == "host" and (idle := unqueued_share(timeline)) is not None and idle > IDLE_SHARE:
        return f"The GPUs wait for their hosts {percent(idle)} of the step; {share}"
    shown = next((finding for finding in weighty if finding.cause == cause and not finding.symptom), None)
    if shown is None and comm_above(timeline):
        return f"Exposed communication takes {comm} of the step, partly waiting; {share}"
    if shown is not None or weighty:
        title, code = (shown or weighty[0]).title, (shown or weighty[0]).code
        return title if code == "NETWORK_SHARE" else f"{title}; {share}"
    return f"{share[0].upper()}{share[1:]}, and nothing of weight was found"


def _guilty_link(weighty: Sequence[Finding], cause: str) -> str:
    """What the headline adds where the fabric is the cause and one of its links was localised."""
    ports = (localised_port(finding.evidence) for finding in weighty)
    port = next((port for port in ports if port is not None), None)
    return f"; the slow steps follow {port}" if port is not None and cause == "fabric" else ""


def _waiting(timeline: Timeline, cause: str) -> str:
    main = main_waits(pooled_waits(timeline), cause)
    if cause == "schedule":
        return "Mostly waiting for the pipeline schedule"
    if cause in _LAYERS and (culprit := culprit_group(main)) is not None:
        return f"Mostly waiting for {name_group(culprit)}, which slow transfer{_LAYERS[cause]} holds up"
    ranks = blamed_ranks(main)
    return f"Mostly waiting for {name_ranks(ranks)}" if ranks else "Mostly waiting"


def _untold(facts: RunFacts) -> str:
    reason = _because(facts) or ", because its collectives could not be matched over ranks"
    return f"waiting cannot be told from transfer{reason}"


def _because(facts: RunFacts) -> str:
    missing = facts.missing_ranks
    if not missing:
        return ""
    if len(missing) > 8:
        return f", because {len(missing)} of {facts.world_size} ranks are missing"
    return f", because {name_ranks(missing)} {'is' if len(missing) == 1 else 'are'} missing"


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
