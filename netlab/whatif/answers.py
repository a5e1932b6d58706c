"""What-if answers as ``netlab.whatif/1``: typed structs, their JSON, and the ``scenarios`` table."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import polars as pl

from netlab.config import nearest
from netlab.errors import ScenarioError
from netlab.schema.analysis import SCENARIOS
from netlab.whatif.scenario_files import parse_scenarios
from netlab.whatif.scenarios import Scenario

__all__ = ["Answer", "Baseline", "WhatIf"]


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The unchanged run: measured, and replayed from its own graph. ``dependencies`` is recorded or inferred."""

    measured_ms: float | None
    measured_median_ms: float | None = None
    replayed_ms: float | None
    replay_error: float | None
    dependencies: str
    #: Mean step if no gap that nothing explains were kept: how much of the step the graph accounts for.
    explained_share: float | None = None
    steps: int = 0
    window: str = "step"
    network_share: float | None = None
    threshold: float | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one scenario, or why there is none."""

    name: str
    changes: list[dict[str, Any]]
    predicted_ms: float | None = None
    #: Median over steps of the ranks' mean: the typical step, less moved by hiccups than the mean.
    predicted_median_ms: float | None = None
    interval80_ms: tuple[float, float] | None = None
    interval95_ms: tuple[float, float] | None = None
    speedup: float | None = None
    network_share: float | None = None
    comm_share: float | None = None
    flagged: bool | None = None
    bound_best_ms: float | None = None
    confidence: str = "bound-only"
    assumptions: list[str] = []
    inputs_used: list[str] = []
    inputs_missing: list[str] = []
    refused: str | None = None
    saved_gpu_hours_per_day: float | None = None
    saved_cost_per_day: float | None = None
    #: What the change may cost more per GPU-hour before it stops paying.
    break_even_price_per_gpu_hour: float | None = None


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document."""

    schema: str = "netlab.whatif/1"
    baseline: Baseline
    scenarios: list[Answer]

    def to_dict(self) -> dict[str, Any]:
        """The document as plain values."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document

    def question(self, name: str) -> Scenario:
        """The scenario that was answered under a name.

        Raises
        ------
        ScenarioError
            If there is none of that name; names the nearest.
        """
        asked = {answer.name: answer.changes for answer in self.scenarios}
        if name not in asked:
            raise ScenarioError(f"There is no scenario {name!r} here; {nearest(name, asked)}")
        return parse_scenarios({"scenario": [{"name": name, "change": asked[name]}]})[0]

    def json(self, **more: msgspec.Struct | None) -> str:
        """The document as JSON text, ending in a line feed; ``more`` are further parts by name, left out where None."""
        parts = {name: part for name, part in more.items() if part is not None}
        return msgspec.json.format(msgspec.json.encode({**self.to_dict(), **parts}), indent=1).decode() + "\n"

    def frame(self) -> pl.DataFrame:
        """The ``scenarios`` table, in the order of the questions."""
        rows = [
            {
                "name": answer.name,
                "changes": json.dumps(answer.changes),
                "predicted_ms": answer.predicted_ms,
                "low95_ms": answer.interval95_ms[0] if answer.interval95_ms else None,
                "high95_ms": answer.interval95_ms[1] if answer.interval95_ms else None,
                "low80_ms": answer.interval80_ms[0] if answer.interval80_ms else None,
                "high80_ms": answer.interval80_ms[1] if answer.interval80_ms else None,
                "speedup": answer.speedup,
                "network_share": answer.network_share,
                "comm_share": answer.comm_share,
                "bound_best_ms": answer.bound_best_ms,
                "confidence": answer.confidence,
                "refused": answer.refused,
            }
            for answer in self.scenarios
        ]
        return SCENARIOS.validate(SCENARIOS.conform(pl.DataFrame(rows, schema=dict(SCENARIOS.schema))))

    def table(self, *fields: str) -> pl.DataFrame:
        """Chosen fields of every answer, one row each, lists as text; for reading in a notebook.

        >>> answer = Answer(name="x", changes=[], assumptions=["a", "b"])
        >>> base = Baseline(measured_ms=None, replayed_ms=None, replay_error=None, dependencies="inferred")
        >>> WhatIf(baseline=base, scenarios=[answer]).table("assumptions").row(0)
        ('x', 'a; b')
        """
        rows = [{"name": answer.name, **{field: _readable(getattr(answer, field)) for field in fields}} for answer in self.scenarios]
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)

    def __repr__(self) -> str:
        refused = sum(answer.refused is not None for answer in self.scenarios)
        return f"<WhatIf: {len(self.scenarios)} scenarios, {refused} refused>"


def _readable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return "; ".join(f"{item:.4g}" if isinstance(item, float) else str(item) for item in value)
    return value
