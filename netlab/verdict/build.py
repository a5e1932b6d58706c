"""From the tables of an analysed run to the verdict document. It assembles and converts; every figure comes from the rooms below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import polars as pl

from netlab import __version__
from netlab.attribute import Attribution
from netlab.findings import Finding
from netlab.issues import Issue
from netlab.run import Run, RunFacts
from netlab.units import ms_from_ns
from netlab.verdict.model import ClockSummary, FindingRow, RunSummary, Verdict
from netlab.verdict.rows import Breakdown, RankRow, RankStepRow, SourceRow, StepRow

__all__ = ["Judgement", "build_verdict"]

Rows = Sequence[Mapping[str, Any]]
_Row = TypeVar("_Row")


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What diagnosis concluded, and the rows that the document shows beside the breakdown."""

    status: str
    cause: str
    headline: str
    findings: Sequence[Finding] = ()
    hangs: Rows = ()
    links: Rows = ()


def build_verdict(run: Run, figures: Attribution, judgement: Judgement) -> Verdict:
    """Put the document together.

    Parameters
    ----------
    run
        The run, for its facts, sources, clocks and issues.
    figures
        Its attribution.
    judgement
        Result of diagnosis, and the rows of hangs and links.
    """
    totals = msgspec.convert(figures.totals, Breakdown)
    return Verdict(
        netlab_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        run=_summary(run),
        clock=_clock(run),
        threshold=float(figures.threshold),
        status=judgement.status,
        flagged=totals.flagged,
        cause=judgement.cause,
        headline=judgement.headline,
        split=totals.split,
        basis=totals.basis,
        totals=totals,
        by_rank=_rows(figures.by_rank, RankRow),
        by_step=_rows(figures.by_step, StepRow),
        by_rank_step=_rows(figures.by_rank_step, RankStepRow),
        span=_rows(figures.span, RankRow),
        findings=[FindingRow.of(finding) for finding in judgement.findings],
        issues=_issues(run.frame("issues")),
        by_group=_converted("by_group", _with_group_links(figures.group_rows(), run)),
        collectives=_converted("collectives", figures.collective_rows()),
        instances=_converted("instances", figures.instance_rows()),
        p2p=_converted("p2p", _with_pair_links(figures.p2p_rows(), run)),
        stragglers=_converted("stragglers", figures.straggler_rows()),
        hangs=_converted("hangs", judgement.hangs),
        links=_converted("links", judgement.links),
    )


def _with_group_links(rows: Rows, run: Run) -> Rows:
    """Groups with what NCCL logs tell about the links of their members; of several communicators the one with most connections."""
    links = run.frame("group_links").filter(pl.col("comm_id").is_not_null()).sort("connections", descending=True, maintain_order=True)
    found = links.group_by("group", maintain_order=True).agg(
        pl.col("transport", "network", "nics").first(), pl.col("comm_id").sort().alias("comm_ids")
    )
    known = {row.pop("group"): row for row in found.iter_rows(named=True)}
    return [{**row, **known.get(",".join(map(str, row["group"])), {})} for row in rows]


def _with_pair_links(rows: Rows, run: Run) -> Rows:
    """Messages with layer and transport of their pair of ranks."""
    hosts = dict(run.frame("ranks").select("rank", "host").iter_rows())
    pairs = run.frame("pair_links").select("src", "dst", "transport", "network")
    known = {(src, dst): {"transport": transport, "network": network} for src, dst, transport, network in pairs.iter_rows()}

    def layer(src: int, dst: int) -> str | None:
        a, b = hosts.get(src), hosts.get(dst)
        return None if a is None or b is None else "intra_node" if a == b else "inter_node"

    return [{**row, "layer": layer(row["src"], row["dst"]), **known.get((row["src"], row["dst"]), {})} for row in rows]


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
        cluster=run.manifest.config.run.cluster,
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
    worst_ns = max(errors.to_list(), default=None)
    return ClockSummary(aligned=run.facts.clock_aligned, offsets_ms=offsets, max_error_ms=ms_from_ns(worst_ns))
