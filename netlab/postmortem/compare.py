"""A slow run against a good one: what changed, by how much, where, since when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl

from netlab.findings import Finding, Subject
from netlab.postmortem.aligned import collectives_beside, ranks_beside, steps_beside
from netlab.postmortem.changes import LINK_CODES, Change, changes
from netlab.postmortem.ledger import ledger
from netlab.postmortem.phase import Phase, slow_phase
from netlab.postmortem.scope import comparable
from netlab.postmortem.series import LAYERS, PARTS, Difference, difference, layer_means, part_means
from netlab.run import Run
from netlab.units import format_ms
from netlab.verdict.model import FindingRow, Verdict
from netlab.verdict.rows import Compare, Delta

__all__ = ["Side", "compare", "comparison_tables"]

_SOURCE = "netlab docs/methods.md, Comparison"
#: A rank is among the slow ones if its part grew by at least this share of the largest growth.
_AMONG_SLOW = 0.5
#: Transfer as a whole (hidden and exposed) grew if it is up by this; else exposed transfer grew because less is hidden.
_MORE_TRANSFER = 1.15


@dataclass(frozen=True)
class Side:
    """One of the two: a run with its analysis tables, and its verdict."""

    run: Run
    verdict: Verdict


def compare(base: Side, slow: Side) -> Verdict:
    """The slow run's verdict with ``compare``, and findings that name first what changed.

    Ranks and steps need not agree: times are means per (rank, step), places are compared rank by rank where both have the rank. Without
    a step on both sides, or with a change inside the noise, nothing is blamed.
    """
    found = difference(base.run, slow.run)
    if found is None:
        return _nothing_to_compare(base, slow)
    if not found.significant or found.step_ms <= 0:
        return _no_slower(base, slow, found)
    part = max(PARTS, key=lambda name: found.delta_ms[name])
    cause, ranks = _cause(base, slow, part)
    explained = [change for change in changes(base.run, slow.run) if cause in change.explains]
    phase = slow_phase(base.run, slow.run)
    first = _first_finding(slow, found, part, cause, ranks, explained, phase)
    new = [row for row in slow.verdict.findings if row.code in LINK_CODES and row.code not in {old.code for old in base.verdict.findings}]
    lead = new if cause == "fabric" and new and not explained else []
    rest = [row for row in slow.verdict.findings if row not in lead]
    row = Compare(
        base=base.verdict.run.name,
        cause=cause,
        subject=msgspec.to_builtins(lead[0].subject if lead else first.subject),
        significant=True,
        delta_ms=Delta(**found.delta_ms),
        since_step=None if phase is None else phase.first,
        ranks=ranks,
        share_of_delta=max(0.0, min(1.0, found.delta_ms[part] / found.step_ms)),
    )
    named = (lead[0].title if lead else first.title).rstrip(".")
    when = f" {phase.words}{_began(slow.verdict)}" if phase is not None and phase.words else ""
    headline = f"{_slower(found)} than {base.verdict.run.name}{when}: {named}."
    findings = [*lead, FindingRow.of(first), *rest]
    return msgspec.structs.replace(slow.verdict, compare=row, headline=headline, findings=_numbered(findings))


def comparison_tables(base: Side, slow: Side, verdict: Verdict) -> dict[str, pl.DataFrame]:
    """The tables of a comparison (``netlab.schema.comparison``), for the slow run.

    Parameters
    ----------
    base, slow
        The two sides.
    verdict
        Result of ``compare``.
    """
    cause = verdict.compare.cause if verdict.compare is not None else "unknown"
    return {
        "compared_steps": steps_beside(base.run, slow.run),
        "compared_ranks": ranks_beside(base.run, slow.run),
        "compared_collectives": collectives_beside(base.run, slow.run),
        "compared_changes": ledger(base.run, base.verdict, slow.run, slow.verdict, changes(base.run, slow.run), cause),
        "compared_scope": comparable(base.run, base.verdict, slow.run, slow.verdict),
    }


def _nothing_to_compare(base: Side, slow: Side) -> Verdict:
    row = Compare(base=base.verdict.run.name, cause="unknown", subject={}, significant=False, delta_ms=Delta())
    headline = f"Cannot compare with {base.verdict.run.name}: both runs need steps with device activity. {slow.verdict.headline}"
    return msgspec.structs.replace(slow.verdict, compare=row, headline=headline)


def _no_slower(base: Side, slow: Side, found: Difference) -> Verdict:
    row = Compare(
        base=base.verdict.run.name, cause="none", subject={}, significant=found.significant, delta_ms=Delta(**found.delta_ms), ranks=[]
    )
    doubt = "too few steps to know the variation" if found.p_value is None else f"p = {found.p_value:.2g}"
    says = f"{format_ms(-found.step_ms)} faster" if found.significant else f"No difference beyond noise ({doubt})"
    headline = f"{says} against {base.verdict.run.name}: {format_ms(found.run_ms)} a step, base {format_ms(found.base_ms)}."
    return msgspec.structs.replace(slow.verdict, compare=row, headline=headline)


def _cause(base: Side, slow: Side, part: str) -> tuple[str, list[int]]:
    """What made the part grow, and on which ranks."""
    growth = _growth(base.run, slow.run)
    own = growth.select("rank", own=pl.col("compute") + pl.col("idle"))
    if part == "exposed_wait":
        verdict = slow.verdict.cause
        if verdict in ("fabric", "intra_node", "schedule"):
            return verdict, _most(growth, "exposed_transfer")
        return "straggler", _most(own, "own")
    if part == "exposed_transfer":
        if not _moves_longer(growth):
            return "schedule", []
        old, new = (layer_means(side.run) for side in (base, slow))
        layers = {name: new[name] - old[name] for name in LAYERS}
        layer = max(layers, key=lambda name: layers[name])
        if any("schedule" in change.explains for change in changes(base.run, slow.run)):
            return "schedule", []
        return {"inter_node": "fabric", "intra_node": "intra_node"}.get(layer, "unknown"), _most(growth, "exposed_transfer")
    if part == "compute":
        ranks = _most(growth, "compute")
        return ("straggler", ranks) if 0 < len(ranks) <= growth.height // 2 else ("compute", [])
    return "host", _most(growth, part)


def _growth(base: Run, run: Run) -> pl.DataFrame:
    """Growth of each part by rank; ranks that only one run has are compared with the other's mean."""
    old, new = part_means(base), part_means(run)
    names = [name for name in old.columns if name != "rank"]
    means = old.select(pl.col(names).mean()).row(0, named=True)
    joined = new.join(old, on="rank", how="left", suffix="_base")
    grown = [(pl.col(name) - pl.col(f"{name}_base").fill_null(means[name])).alias(name) for name in names]
    before = (
        pl.col("exposed_transfer_base").fill_null(means["exposed_transfer"])
        + pl.col("hidden_transfer_base").fill_null(means["hidden_transfer"])
    ).alias("moved_base")
    return joined.select("rank", *grown, before)


def _moves_longer(growth: pl.DataFrame) -> bool:
    """Whether transfer as a whole grew, or only what is left uncovered of it."""
    before = float(growth["moved_base"].sum())
    after = before + float(growth["exposed_transfer"].sum()) + float(growth["hidden_transfer"].sum())
    return after > _MORE_TRANSFER * before


def _most(growth: pl.DataFrame, part: str) -> list[int]:
    largest = growth[part].max()
    if not isinstance(largest, float) or largest <= 0:
        return []
    return growth.filter(pl.col(part) >= _AMONG_SLOW * largest)["rank"].sort().to_list()


_TITLES = {
    "straggler": ("RANK_SLOWER", "Rank {ranks} holds the others up, which it did not in the base", "this rank's kernels, clocks and input"),
    "fabric": ("TRANSFER_SLOWER", "Transfer between hosts takes longer", "links, transport and placement"),
    "intra_node": ("TRANSFER_SLOWER", "Transfer inside hosts takes longer", "NVLink or PCIe state and NCCL settings"),
    "schedule": ("OVERLAP_LOST", "Less communication is hidden behind compute", "bucket sizes, prefetch and streams"),
    "compute": ("COMPUTE_SLOWER", "Compute takes longer on all ranks", "code, batch, clocks and compilation"),
    "host": ("HOST_SLOWER", "The GPUs wait longer for their hosts", "data loading, copies and launches"),
    "unknown": (
        "TRANSFER_SLOWER",
        "Communication takes longer, and the inputs do not tell on which links, or whether ranks wait",
        "links, transport and late ranks (record all ranks and their hosts)",
    ),
}


def _first_finding(
    slow: Side, found: Difference, part: str, cause: str, ranks: list[int], explained: list[Change], phase: Phase | None
) -> Finding:
    code, title, what = _TITLES[cause]
    action = " ".join([f"Compare {what} with the base.", *_where_to_look(slow.verdict, cause)])
    title = title.format(ranks=", ".join(map(str, ranks)))
    hosts: tuple[str, ...] = ()
    evidence: list[dict[str, Any]] = [{"part": name, "delta_ms": round(value, 6)} for name, value in found.delta_ms.items()]
    if explained:
        best = explained[0]
        code, title, action, hosts = best.code, best.title, best.action, best.hosts
        evidence += [{"change": change.code, **change.evidence} for change in explained]
    when = f", {phase.words}" if phase is not None and phase.words else ""
    detail = (
        f"A step takes {format_ms(found.run_ms)}{when}, the base {format_ms(found.base_ms)}. "
        f"Most of the change is {part.replace('_', ' ')} ({format_ms(found.delta_ms[part])})."
    )
    everywhere = len(ranks) == len(slow.run.facts.ranks)
    subject = Subject(ranks=[] if everywhere else ranks, hosts=list(hosts), steps=[] if phase is None or phase.whole else [phase.first])
    return Finding(
        code=code, title=title, detail=detail, action=action, source=_SOURCE, subject=subject, evidence=evidence,
        time_lost_ms=found.step_ms, cause=cause,
    )  # fmt: skip


def _began(verdict: Verdict) -> str:
    """What began on a link when the slow run became slow."""
    rows = (row for finding in verdict.findings if finding.code == "CHANGE_POINT" for row in finding.evidence)
    began = next((row["began"] for row in rows if "began" in row), None)
    return "" if began is None else f", when {began}"


def _where_to_look(verdict: Verdict, cause: str) -> list[str]:
    """What the slow run by itself says to do about its transfer, where that is what grew."""
    return [row.action for row in verdict.findings if row.code == "NETWORK_SHARE"][:1] if cause in ("fabric", "intra_node") else []


def _slower(found: Difference) -> str:
    return f"{100 * found.step_ms / found.base_ms:.0f} % slower ({format_ms(found.run_ms)} a step, base {format_ms(found.base_ms)})"


def _numbered(findings: list[FindingRow]) -> list[FindingRow]:
    seen: dict[str, int] = {}
    result = []
    for finding in findings:
        seen[finding.code] = seen.get(finding.code, 0) + 1
        result.append(msgspec.structs.replace(finding, id=f"{finding.code}-{seen[finding.code]}"))
    return result
