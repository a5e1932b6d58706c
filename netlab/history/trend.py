"""A run against its own past: is the newest report worse, and since when is it slower."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import polars as pl

from netlab import __version__
from netlab.attribute import change_points
from netlab.chance import outlier_p_value
from netlab.issues import Issue
from netlab.units import NS_PER_MS, format_ms, format_percent

__all__ = ["History", "RunTrend", "history"]

#: Reports that a run needs in its past before the newest can be judged.
FEWEST_PAST = 5
#: At most one stable history in a hundred is accused: the level is shared between the two measures (Bonferroni).
LEVEL, MEASURES = 0.01, ("iteration_ms", "network_share")
#: Smallest worsening worth a word: 2 % of the step, or 1 point of share.
_WORDS = {"iteration_ms": "step time", "network_share": "network share"}
SMALLEST = {"iteration_ms": 0.02, "network_share": 0.01}


class RunTrend(msgspec.Struct, frozen=True, kw_only=True):
    """The past of one run. ``regression`` names the measures in which the newest report is worse; null where the past is too short."""

    name: str
    reports: int
    newest: str
    status: str
    network_share: float | None
    usual_network_share: float | None
    iteration_ms: float | None
    usual_iteration_ms: float | None
    regression: list[str] | None
    p_values: dict[str, float] = {}
    #: Creation time of the first report of a slow phase, where there is one.
    slower_since: str | None = None
    note: str = ""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The document ``netlab.history/1``."""

    schema: str = "netlab.history/1"
    netlab_version: str
    folder: str
    status: str
    headline: str
    runs: list[RunTrend]
    reports: list[dict[str, Any]]
    issues: list[Issue] = []

    @property
    def regressions(self) -> list[RunTrend]:
        """Runs whose newest report is worse than their past."""
        return [run for run in self.runs if run.regression]

    def json(self) -> str:
        """The document as JSON text, ending in a line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"


def history(table: pl.DataFrame, folder: str, issues: list[Issue] | None = None) -> History:
    """Judge every run's newest report against its past.

    The newest value is compared with the prediction for one further value of the past ones (Student, n - 1 degrees of freedom); only worse
    counts, at 1 % over both measures together, and only from 2 % of the step or one point of share on. The past holds reports of the same
    number of ranks; fewer than 5 of them judge nothing.

    Parameters
    ----------
    table
        ``HISTORY``.
    folder
        Shown in the document.
    """
    runs = [_trend(str(name), rows) for (name,), rows in table.group_by(["name"], maintain_order=True)]
    worse = [run for run in runs if run.regression]
    flagged = [run for run in runs if run.status == "flagged"]
    status = "flagged" if flagged else "warn" if worse else "pass"
    if worse:
        what = " and ".join(_WORDS[measure] for measure in worse[0].regression or [])
        headline = f"{len(worse)} of {len(runs)} runs got worse: {worse[0].name} in {what}."
    else:
        judged = sum(run.regression is not None for run in runs)
        headline = f"No run is worse than its own past ({judged} of {len(runs)} have {FEWEST_PAST} earlier reports or more)."
    return History(
        netlab_version=__version__,
        folder=folder,
        status=status,
        headline=headline,
        runs=runs,
        reports=table.to_dicts(),
        issues=sorted(issues or []),
    )


def _trend(name: str, rows: pl.DataFrame) -> RunTrend:
    newest = rows.row(-1, named=True)
    past = rows.head(rows.height - 1).filter(pl.col("ranks") == newest["ranks"])
    usual = {measure: past[measure].drop_nulls().median() for measure in MEASURES}
    judged = {measure: _worse(past[measure].drop_nulls().to_numpy(), newest[measure], measure) for measure in MEASURES}
    known = {measure: result for measure, result in judged.items() if result is not None}
    regression = [measure for measure, (_, worse) in known.items() if worse] if known else None
    return RunTrend(
        name=name,
        reports=rows.height,
        newest=newest["created_at"],
        status=newest["status"],
        network_share=newest["network_share"],
        usual_network_share=usual["network_share"],  # type: ignore[arg-type]
        iteration_ms=newest["iteration_ms"],
        usual_iteration_ms=usual["iteration_ms"],  # type: ignore[arg-type]
        regression=regression,
        p_values={measure: p for measure, (p, _) in known.items()},
        slower_since=_slower_since(rows),
        note=_note(regression, usual, newest, past.height),
    )


def _worse(past: np.ndarray[Any, np.dtype[np.float64]], value: float | None, measure: str) -> tuple[float, bool] | None:
    if value is None or len(past) < FEWEST_PAST:
        return None
    p_value = outlier_p_value(past, value)
    if p_value is None:
        return None
    mean = float(past.mean())
    smallest = SMALLEST[measure] * (mean if measure == "iteration_ms" else 1.0)
    # One side only: a two-sided p-value at twice the level.
    return p_value, value - mean > smallest and p_value < 2 * LEVEL / len(MEASURES)


def _slower_since(rows: pl.DataFrame) -> str | None:
    """Start of a slow phase that lasts to the newest report, by the change-point test over step times."""
    known = rows.filter(pl.col("iteration_ms").is_not_null()).with_row_index("step")
    if known.height < 2 * FEWEST_PAST:
        return None
    series = known.select(window=pl.lit(0, pl.Int32), step=pl.col("step").cast(pl.Int32), step_ns=pl.col("iteration_ms") * NS_PER_MS)
    found = change_points(series)
    if found.is_empty() or not found["open"][0]:
        return None
    return str(known["created_at"][int(found["first_step"][0])])


def _note(regression: list[str] | None, usual: dict[str, Any], newest: dict[str, Any], past: int) -> str:
    if regression is None:
        return f"{past} earlier reports of as many ranks; {FEWEST_PAST} are needed to judge"
    if not regression:
        return "as usual"
    parts = []
    if "iteration_ms" in regression:
        parts.append(f"step {format_ms(newest['iteration_ms'])}, usually {format_ms(usual['iteration_ms'])}")
    if "network_share" in regression:
        parts.append(f"network share {format_percent(newest['network_share'])}, usually {format_percent(usual['network_share'])}")
    return "worse: " + "; ".join(parts)
