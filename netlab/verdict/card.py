"""The verdict at a glance, as HTML: status, headline, the network's share against its limit, and what stands behind it."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from netlab.findings import localised_port
from netlab.units import format_ms, format_percent

if TYPE_CHECKING:
    from netlab.verdict.model import FindingRow, Verdict
    from netlab.verdict.rows import Breakdown

__all__ = ["CARD_CSS", "STATUS_WORDS", "card_html", "finding_html"]

#: Status to sign and words. Never by colour alone.
STATUS_WORDS: dict[str, tuple[str, str]] = {
    "pass": ("✓", "Pass"),
    "warn": ("!", "Warning"),
    "flagged": ("✕", "Flagged"),
    "inconclusive": ("?", "Inconclusive"),
}

_CAUSES = {
    "none": "none",
    "fabric": "the fabric between hosts",
    "intra_node": "links inside hosts",
    "straggler": "a straggler",
    "schedule": "the schedule",
    "host": "the host",
    "unknown": "cannot be told yet",
}

#: The card's own style. It falls back to JupyterLab's variables in a notebook; the page of a report sets the --nl ones.
CARD_CSS = (files("netlab.verdict") / "card.css").read_text("utf-8").replace("\n", "")


def card_html(verdict: Verdict, *, style: bool = True) -> str:
    """The verdict card. Names that come from inputs are escaped.

    Parameters
    ----------
    verdict
        The verdict to show.
    style
        Bring the card's own style sheet; a page that has it already says no.
    """
    sign, word = STATUS_WORDS.get(verdict.status, ("?", verdict.status))
    totals = verdict.totals
    parts = [
        f"<style>{CARD_CSS}</style>" if style else "",
        f'<section class="nl-card nl-{escape(verdict.status)}" role="region" aria-label="Verdict">',
        f'<span class="nl-badge"><span aria-hidden="true">{sign}</span>{escape(word)}</span>',
        f'<span class="nl-sub">{escape(verdict.run.label)} · {escape(_sample(verdict))}</span>',
        f'<p class="nl-headline">{escape(verdict.headline)}</p>',
        _meter(totals, verdict.threshold),
        f"<dl>{''.join(_facts(verdict))}</dl>",
        _next(verdict),
        "</section>",
    ]
    return "".join(parts)


def _sample(verdict: Verdict) -> str:
    run = verdict.run
    if not run.ranks:
        return "no trace of any rank"
    world = f" of {run.world_size}" if run.world_size and run.world_size != len(run.ranks) else ""
    ranks = f"{len(run.ranks)}{world} rank{'' if len(run.ranks) == 1 and not world else 's'}"
    if verdict.totals.comm_share is None:
        return f"{ranks}, no device activity"
    if run.window == "capture":
        return f"{ranks}, whole capture (no step marks)"
    return f"{ranks}, {len(run.steps)} step{'' if len(run.steps) == 1 else 's'}"


def _meter(totals: Breakdown, threshold: float) -> str:
    share, comm = totals.network_share, totals.comm_share
    if share is None and comm is None:
        return ""
    known = share if share is not None else 0.0
    top = min(1.0, max(0.5, 1.15 * max(known, comm or 0.0, threshold)))

    def at(value: float) -> str:
        return f"{100 * min(value, top) / top:.2f}%"

    def width(low: float, high: float) -> str:
        return f"{100 * max(0.0, min(high, top) - low) / top:.2f}%"

    layers = [f'<div class="nl-fill" style="width:{at(known)}"></div>']
    if comm is not None and comm > known:
        layers.append(f'<div class="nl-fill2" style="left:{at(known)};width:{width(known, comm)}"></div>')
    low, high = totals.network_share_low, totals.network_share_high
    if low is not None and high is not None and high - low > 1e-4:
        layers.append(f'<div class="nl-range" style="left:{at(low)};width:{width(low, high)}" title="certain range"></div>')
    limit = format_percent(threshold, 0 if threshold * 100 % 1 == 0 else 1)
    layers.append(f'<div class="nl-limit" style="left:{at(threshold)}"><span>limit {limit}</span></div>')
    label = f"Network share {format_percent(share)}, limit {format_percent(threshold)}, communication share {format_percent(comm)}"
    scale = f'<div class="nl-scale" aria-hidden="true"><span>0 %</span><span>{100 * top:.0f} % of the step</span></div>'
    return f'<div class="nl-meter" role="img" aria-label="{escape(label)}">{"".join(layers)}</div>{scale}'


def _facts(verdict: Verdict) -> list[str]:
    totals = verdict.totals
    low, high = totals.network_share_low, totals.network_share_high
    band = ""
    if low is not None and high is not None and high - low > 1e-4:
        band = f"between {format_percent(low)} and {format_percent(high)}"
    upper = " (upper bound)" if totals.basis == "communication" and totals.network_share else ""
    if totals.comm_share is None:
        cause = _CAUSES.get(verdict.cause, verdict.cause)
        return [_fact("Network share", "", "not known", "there is no device activity to take it from"), _fact("Main cause", "", cause, "")]
    facts = [
        ("Network share", "#d1495b", format_percent(totals.network_share), f"exposed transfer{upper}" + (f"; {band}" if band else "")),
        (
            "Wait share",
            "#edae49",
            format_percent(totals.wait_share),
            "waiting for late ranks" if totals.wait_share is not None else "not told from transfer",
        ),
        ("Communication share", "", format_percent(totals.comm_share), "both together"),
    ]
    if totals.iteration_ms is not None:
        facts.append(("Step time", "", format_ms(totals.iteration_ms), "mean per rank and step"))
    split = {
        "measured": "wait and transfer measured",
        "bounded": "bounded: ranks are missing",
        "unknown": "wait and transfer not told apart",
    }
    facts.append(("Main cause", "", _CAUSES.get(verdict.cause, verdict.cause), split.get(verdict.split or "", "")))
    return [_fact(*fact) for fact in facts]


def _fact(label: str, colour: str, value: str, note: str) -> str:
    words = "" if value[:1].isdigit() or len(value) < 4 else ' class="nl-words"'
    key = f'<i style="background:{colour}"></i>' if colour else ""
    return f'<div><dt class="nl-key">{key}{label}</dt><dd{words}>{escape(value)}<small>{escape(note)}</small></dd></div>'


def _next(verdict: Verdict) -> str:
    worth = [finding for finding in verdict.findings if finding.severity != "info"]
    if not worth:
        return ""
    # Ranks that a guilty link holds up may lose a little more than the link: the link is what to repair.
    guilty = (finding for finding in worth if verdict.cause == "fabric" and localised_port(finding.evidence))
    first = next(guilty, worth[0])
    lost = f" Up to {format_ms(first.time_lost_ms)} a step." if first.time_lost_ms else ""
    reason = f"because {first.title.rstrip('.')}.{lost}"
    return f'<p class="nl-next"><b>Do next:</b> {escape(first.action)}<br><span class="nl-because">{escape(reason)}</span></p>'


def finding_html(finding: FindingRow) -> str:
    """A finding on its own, for a notebook."""
    lost = f" · up to {format_ms(finding.time_lost_ms)} a step" if finding.time_lost_ms else ""
    return (
        f"<p><b>{escape(finding.severity)}: {escape(finding.title)}</b> <code>{escape(finding.id)}</code>{escape(lost)}<br>"
        f"{escape(finding.detail)}<br><b>Do next:</b> {escape(finding.action)}</p>"
    )
