"""From the tables of an analysed run to the verdict document. It assembles and converts; every figure comes from the rooms below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, TypeVar

import msgspec
import polars as pl

from netlab import __version__
from netlab.attribute import pool, pooled_rows
from netlab.findings import Finding
from netlab.issues import Issue
from netlab.run import Run, RunFacts
from netlab.units import ms_from_ns
from netlab.verdict.model import ClockSummary, FindingRow, RunSummary, Verdict
from netlab.verdict.rows import Breakdown, RankRow, RankStepRow, SourceRow, StepRow

__all__ = ["Judgement", "build_verdict", "totals_of"]

Rows = Sequence[Mapping[str, Any]]
_Row = TypeVar("_Row")


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What diagnosis concluded, and the rows that the document shows beside the breakdown."""

    status: str
    cause: str
    headline: str
    findings: Sequence[Finding] = ()
    by_group: Rows = ()
    collectives: Rows = ()
    instances: Rows = ()
    p2p: Rows = ()
    stragglers: Rows = ()
    hangs: Rows = ()
    links: Rows = ()


def totals_of(run: Run, threshold: Fraction) -> Breakdown:
    """Pooled figures of a run: over its common steps, or over the capture where it has no steps."""
    if run.facts.window == "step":
        frame = pool(pooled_rows(run.frame("breakdown")), [], threshold)
    else:
        frame = pool(run.frame("spans"), [], threshold, iteration=False)
    return msgspec.convert(frame.row(0, named=True), Breakdown)


def build_verdict(run: Run, threshold: Fraction, judgement: Judgement) -> Verdict:
    """Put the document together.

    Parameters
    ----------
    run
        An analysed run: its tables include ``breakdown`` and ``spans``.
    threshold
        Limit of the network share.
    judgement
        Result of diagnosis and the rows of collectives, stragglers and links.
    """
    breakdown, spans = run.frame("breakdown"), run.frame("spans")
    totals = totals_of(run, threshold)
    by_step_window = run.facts.window == "step"
    per_rank = pool(breakdown, ["rank", "device"], threshold) if by_step_window else pool(spans, ["rank", "device"], threshold, iteration=False)
    return Verdict(
        netlab_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        run=_summary(run),
        clock=_clock(run),
        threshold=float(threshold),
        status=judgement.status,
        flagged=totals.flagged,
        cause=judgement.cause,
        headline=judgement.headline,
        split=totals.split,
        basis=totals.basis,
        totals=totals,
        by_rank=_rows(per_rank, RankRow),
        by_step=_rows(pool(breakdown, ["window", "step"], threshold), StepRow) if by_step_window else [],
        by_rank_step=_rows(pool(breakdown, ["rank", "window", "step", "device"], threshold), RankStepRow) if by_step_window else [],
        span=_rows(pool(spans, ["rank", "device"], threshold), RankRow),
        findings=[FindingRow.of(finding) for finding in judgement.findings],
        issues=_issues(run.frame("issues")),
        **{name: _converted(name, getattr(judgement, name)) for name in _ROW_LISTS},
    )


_ROW_LISTS = ("by_group", "collectives", "instances", "p2p", "stragglers", "hangs", "links")


def _converted(name: str, rows: Rows) -> Any:
    kind = next(field.type for field in msgspec.structs.fields(Verdict) if field.name == name)
    return msgspec.convert(list(rows), kind)


def _rows(frame: pl.DataFrame, kind: type[_Row]) -> list[_Row]:
    return msgspec.convert(frame.to_dicts(), list[kind])  # type: ignore[valid-type]


def _issues(frame: pl.DataFrame) -> list[Issue]:
    return msgspec.convert(frame.to_dicts(), list[Issue])


def _summary(run: Run) -> RunSummary:
    facts: RunFacts = run.facts
    sources: Iterable[dict[str, Any]] = run.frame("sources").iter_rows(named=True)
    names = SourceRow.__struct_fields__
    return RunSummary(
        name=facts.name,
        world_size=facts.world_size,
        ranks=facts.ranks,
        missing_ranks=facts.missing_ranks,
        hosts=facts.hosts,
        steps=facts.steps,
        excluded_steps=facts.excluded_steps,
        window=facts.window,
        backend=facts.backend,
        sources=[SourceRow(**{name: row[name] for name in names}) for row in sources],
    )


def _clock(run: Run) -> ClockSummary:
    clocks = run.frame("clocks")
    offsets = {row["domain"]: ms_from_ns(row["offset_ns"]) for row in clocks.iter_rows(named=True)}
    errors = clocks["error_ns"].drop_nulls()
    worst = errors.max()
    return ClockSummary(aligned=run.facts.clock_aligned, offsets_ms=offsets, max_error_ms=ms_from_ns(worst) if isinstance(worst, int) else None)
