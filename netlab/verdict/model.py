"""The verdict: the ``netlab.check/1`` document as typed structs, and its JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from netlab.findings import Finding, Subject
from netlab.issues import Issue
from netlab.run import ExcludedStep
from netlab.units import format_ms
from netlab.verdict.rows import (
    Breakdown,
    CollectiveRow,
    Compare,
    GroupRow,
    HangRow,
    InstanceRow,
    LinkRow,
    P2PRow,
    RankRow,
    RankStepRow,
    SourceRow,
    StepRow,
    StragglerRow,
)

__all__ = ["ClockSummary", "FindingRow", "RunSummary", "Verdict", "verdict_schema_json"]


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What was analysed."""

    name: str
    cluster: str | None = None
    world_size: int | None
    ranks: list[int]
    missing_ranks: list[int]
    hosts: dict[str, list[int]]
    steps: list[int]
    excluded_steps: list[ExcludedStep]
    window: str
    backend: str
    sources: list[SourceRow]

    @property
    def label(self) -> str:
        """The name with its cluster, where one is declared."""
        return f"{self.name} on {self.cluster}" if self.cluster else self.name


class ClockSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Clock domains and how well they were aligned."""

    aligned: bool
    offsets_ms: dict[str, float | None]
    max_error_ms: float | None


class FindingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A finding as the document shows it."""

    code: str
    id: str
    severity: str
    title: str
    detail: str
    subject: Subject
    evidence: list[dict[str, Any]]
    action: str
    source: str
    time_lost_ms: float | None

    @classmethod
    def of(cls, finding: Finding) -> FindingRow:
        """The document's row of a finding."""
        return cls(**{name: getattr(finding, name) for name in cls.__struct_fields__})

    def _repr_html_(self) -> str:
        from netlab.verdict.card import finding_html

        return finding_html(self)

    def __repr__(self) -> str:
        cost = "" if self.time_lost_ms is None else f", up to {format_ms(self.time_lost_ms)} a step"
        return f"<{self.id} {self.severity}: {self.title}{cost}. Do next: {self.action}>"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document. ``status`` is pass, warn, flagged or inconclusive; it is flagged exactly when ``flagged`` is true."""

    schema: str = "netlab.check/1"
    netlab_version: str
    created_at: str
    run: RunSummary
    clock: ClockSummary
    threshold: float
    status: str
    flagged: bool
    cause: str
    headline: str
    split: str | None
    basis: str | None
    totals: Breakdown
    by_rank: list[RankRow] = []
    by_step: list[StepRow] = []
    by_rank_step: list[RankStepRow] = []
    span: list[RankRow] = []
    by_group: list[GroupRow] = []
    collectives: list[CollectiveRow] = []
    instances: list[InstanceRow] = []
    p2p: list[P2PRow] = []
    stragglers: list[StragglerRow] = []
    hangs: list[HangRow] = []
    links: list[LinkRow] = []
    findings: list[FindingRow] = []
    issues: list[Issue] = []
    what_if: list[dict[str, Any]] = []
    compare: Compare | None = None

    def to_dict(self) -> dict[str, Any]:
        """The document as plain values; ``compare`` only where there is one."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        if self.compare is None:
            del document["compare"]
        return document

    def json(self) -> str:
        """The document as JSON text, ending in a line feed."""
        return msgspec.json.format(msgspec.json.encode(self.to_dict()), indent=1).decode() + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Verdict:
        """Read a stored verdict.json."""
        return msgspec.json.decode(text, type=cls)

    def _repr_html_(self) -> str:
        from netlab.verdict.card import card_html

        return card_html(self)

    def __repr__(self) -> str:
        return f"<Verdict {self.status}: {self.headline}>"


def verdict_schema_json() -> str:
    """JSON Schema of the document, as text ending in a line feed."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(Verdict)), indent=1).decode() + "\n"
