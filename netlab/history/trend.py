"""A run against its own past: is the newest report worse, and since when."""

from __future__ import annotations

from dataclasses import dataclass
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
#: At most one folder of stable histories in a hundred accuses any: all runs and both measures share the level (Holm).
LEVEL, MEASURES = 0.01, ("iteration_ms", "network_share")
#: Smallest worsening worth a word: 2 % of the step, or 1 point of share.
_WORDS = {"iteration_ms": "step time", "network_share": "network share"}
SMALLEST = {"iteration_ms": 0.02, "network_share": 0.01}


class RunTrend(msgspec.Struct, frozen=True, kw_only=True):
    """The past of one run. ``regression`` names the measures in which the newest report is worse; null where the past is too short."""

    name: str
    cluster: str | None = None
    reports: int
    newest: str
    status: str
    network_share: float | None
    usual_network_share: float | None
    iteration_ms: float | None
    usual_iteration_ms: float | None
    regression: list[str] | None
    p_values: dict[str, float] = {}
    #: By measure: creation time of the first of the latest reports that are all worse than those before.
    since: dict[str, str] = {}
    #: Creation time of the first report of a slow phase, where there is one.
    slower_since: str | None = None
    note: str = ""

    @property
    def label(self) -> str:
        """The name with its cluster, where one is declared."""
        return f"{self.name} on {self.cluster}" if self.cluster else self.name


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
    def clusters(self) -> list[str]:
        """Clusters that any run names."""
        return sorted({run.cluster for run in self.runs if run.cluster})

    @property
    def regressions(self) -> list[RunTrend]:
        """Runs whose newest report is worse than their past."""
        return [run for run in self.runs if run.regression]

    def json(self) -> str:
        """The document as JSON text, ending in a line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"


@dataclass(frozen=True)
class _Test:
    """The newest value of one measure against the past that counts."""

    p_value: float
    beyond: bool
    usual: float
    #: First of the latest reports that were each worse than those before them.
    since: str | None


def history(table: pl.DataFrame, folder: str, issues: list[Issue] | None = None) -> History:
    """Judge every run's newest report against its past.

    The newest value is compared with the prediction for one further value of the past ones (Student, n - 1 degrees of freedom); only worse
    counts, and only from 2 % of the step or one point of share on. The level of 1 % holds over both measures and all runs of the folder
    together (Holm, Scandinavian Journal of Statistics 6, 1979). The past holds reports of the same run, cluster and number of ranks; fewer
    than 5 of them judge nothing. Reports that were themselves worse, and followed by another such one, are no past of later ones: else the
    second bad night would look usual.

    Parameters
    ----------
    table
        ``HISTORY``.
    folder
        Shown in the document.
    """
    pasts = [(str(name), cluster, rows) for (name, cluster), rows in table.group_by(["name", "cluster"], maintain_order=True)]
    tests = {(at, measure): test for at, (_, _, rows) in enumerate(pasts) for measure in MEASURES if (test := _test(_alike(rows), measure))}
    worse_ones = {key for key in _holm({key: test.p_value for key, test in tests.items()}) if tests[key].beyond}
    runs = [
        _trend(name, cluster, rows, {m: tests[at, m] for m in MEASURES if (at, m) in tests}, [m for m in MEASURES if (at, m) in worse_ones])
        for at, (name, cluster, rows) in enumerate(pasts)
    ]
    worse = [run for run in runs if run.regression]
    flagged = [run for run in runs if run.status == "flagged"]
    status = "flagged" if flagged else "warn" if worse else "pass"
    if worse:
        what = " and ".join(_WORDS[measure] for measure in worse[0].regression or [])
        headline = f"{len(worse)} of {len(runs)} runs got worse: {worse[0].label} in {what}."
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


def _alike(rows: pl.DataFrame) -> pl.DataFrame:
    """Reports of as many ranks as the newest has."""
    return rows.filter(pl.col("ranks") == rows["ranks"][-1])


def _trend(name: str, cluster: str | None, rows: pl.DataFrame, tests: dict[str, _Test], worse: list[str]) -> RunTrend:
    newest, alike = rows.row(-1, named=True), _alike(rows)
    past = alike.head(alike.height - 1)
    medians = {measure: past[measure].drop_nulls().median() for measure in MEASURES}
    usual: dict[str, Any] = {measure: tests[measure].usual if measure in tests else medians[measure] for measure in MEASURES}
    regression = worse if tests else None
    since = {measure: str(tests[measure].since or newest["created_at"]) for measure in worse}
    return RunTrend(
        name=name,
        cluster=cluster,
        reports=rows.height,
        newest=newest["created_at"],
        status=newest["status"],
        network_share=newest["network_share"],
        usual_network_share=usual["network_share"],
        iteration_ms=newest["iteration_ms"],
        usual_iteration_ms=usual["iteration_ms"],
        regression=regression,
        p_values={measure: test.p_value for measure, test in tests.items()},
        since=since,
        slower_since=since.get("iteration_ms") or _slower_since(alike),
        note=_note(regression, usual, newest, past.height),
    )


def _test(rows: pl.DataFrame, measure: str) -> _Test | None:
    """The newest value against the earlier ones, without those that were worse than what came before, twice in a row or just now.

    A single one that did not last is part of the past again: chance makes such ones, and leaving them out would narrow what is usual.
    """
    values, made = rows[measure].to_list(), rows["created_at"].to_list()
    kept: list[float] = []
    worse: list[tuple[float, str]] = []
    for value, at in zip(values[:-1], made[:-1], strict=True):
        if value is None:
            continue
        if _beyond(kept, value, measure) and (_worse_by_chance(kept, value) or 0.0) < LEVEL / len(MEASURES):
            worse.append((value, at))
            continue
        if len(worse) == 1:
            kept.append(worse[0][0])
        worse = []
        kept.append(value)
    newest = values[-1]
    p_value = None if newest is None else _worse_by_chance(kept, newest)
    if p_value is None:
        return None
    return _Test(p_value, _beyond(kept, newest, measure), float(np.median(kept)), worse[0][1] if worse else None)


def _beyond(past: list[float], value: float, measure: str) -> bool:
    """Whether a value is worse by what is worth a word, where the past is long enough to say so."""
    if len(past) < FEWEST_PAST:
        return False
    mean = float(np.mean(past))
    return value - mean > SMALLEST[measure] * (mean if measure == "iteration_ms" else 1.0)


def _worse_by_chance(past: list[float], value: float) -> float | None:
    """Probability that a further value of the same past is as bad or worse; None where the past is too short."""
    if len(past) < FEWEST_PAST:
        return None
    both = outlier_p_value(np.array(past), value)
    if both is None:
        return None
    return both / 2 if value > float(np.mean(past)) else 1 - both / 2


def _holm(p_values: dict[tuple[int, str], float]) -> set[tuple[int, str]]:
    """Hypotheses that fall at the level that all of them share."""
    fallen: set[tuple[int, str]] = set()
    for key, p_value in sorted(p_values.items(), key=lambda item: (item[1], item[0])):
        if p_value >= LEVEL / (len(p_values) - len(fallen)):
            break
        fallen.add(key)
    return fallen


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
