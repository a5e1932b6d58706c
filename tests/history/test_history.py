"""Verdicts into one table; a worse newest report is found, a stable past accuses nobody."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest

from netlab.errors import RunError
from netlab.history import collect, history
from netlab.history.trend import FEWEST_PAST
from netlab.schema.history import HISTORY
from netlab.verdict.model import ClockSummary, RunSummary, Verdict
from netlab.verdict.rows import Breakdown


def table(times_ms: list[float], shares: list[float], name: str = "job", cluster: str | None = None) -> pl.DataFrame:
    rows = {
        "path": [f"{n:03d}/verdict.json" for n in range(len(times_ms))],
        "created_at": [f"2026-01-{n + 1:02d}T00:00:00+00:00" for n in range(len(times_ms))],
        "iteration_ms": times_ms,
        "network_share": shares,
    }
    fixed = {
        "name": name,
        "cluster": cluster,
        "status": "pass",
        "cause": "none",
        "headline": "h",
        "threshold": 0.25,
        "ranks": 8,
        "steps": 5,
    }
    return HISTORY.conform(pl.DataFrame(rows), critical=0, warnings=0, netlab_version="0", **fixed)


def test_a_slower_newest_report_is_a_regression() -> None:
    found = history(table([100, 101, 99, 100, 102, 99, 120], [0.1, 0.11, 0.1, 0.09, 0.1, 0.1, 0.1]), "x")
    assert found.runs[0].regression == ["iteration_ms"]
    assert found.status == "warn"
    assert "job" in found.headline


def test_a_faster_report_is_none() -> None:
    assert history(table([100, 101, 99, 100, 102, 99, 80], [0.1] * 7), "x").runs[0].regression == []


def test_a_short_past_judges_nothing_and_says_so() -> None:
    (run,) = history(table([100] * FEWEST_PAST, [0.1] * FEWEST_PAST), "x").runs
    assert run.regression is None
    assert f"{FEWEST_PAST} are needed" in run.note


def test_a_stable_past_is_accused_in_at_most_one_of_a_hundred() -> None:
    generator = np.random.default_rng(1)
    accused = 0
    for _ in range(600):
        times, shares = generator.normal(100, 5, 12), generator.normal(0.1, 0.03, 12)
        accused += bool(history(table(times.tolist(), shares.tolist()), "x").runs[0].regression)
    # 600 histories at 1 %: 6 expected, 14 at the 99.8th percentile.
    assert accused <= 14


def test_a_folder_of_stable_runs_accuses_any_in_at_most_one_of_a_hundred() -> None:
    generator = np.random.default_rng(2)
    accused = 0
    for _ in range(60):
        runs = [table(generator.normal(100, 5, 8).tolist(), generator.normal(0.1, 0.03, 8).tolist(), name=f"{n:02d}") for n in range(20)]
        accused += bool(history(pl.concat(runs), "x").regressions)
    # 60 folders at 1 %: 0.6 expected, 4 at the 99.9th percentile; judged run by run it would be 11.
    assert accused <= 4


def test_a_run_that_stays_worse_is_reported_every_night() -> None:
    times, shares = [100, 101, 99, 100, 102, 99, 120, 121, 119, 120], [0.1] * 10
    for nights in range(7, 11):
        run = history(table(times[:nights], shares[:nights]), "x").runs[0]
        assert run.regression == ["iteration_ms"]
        assert run.slower_since == "2026-01-07T00:00:00+00:00"
        assert run.usual_iteration_ms == 100


def test_one_bad_report_that_did_not_last_is_part_of_the_past() -> None:
    run = history(table([100, 101, 99, 100, 102, 99, 120, 100, 101], [0.1] * 9), "x").runs[0]
    assert run.regression == []
    assert run.p_values["iteration_ms"] > 0.2


def test_a_run_on_another_cluster_is_another_run() -> None:
    here, there = (table([ms, ms + 1, ms - 1, ms, ms + 2, ms - 1, ms], [0.1] * 7, cluster=name) for name, ms in (("a", 100), ("b", 140)))
    found = history(pl.concat([here, there]).sort("name", "created_at"), "x")
    assert [(run.cluster, run.reports, run.regression) for run in found.runs] == [("a", 7, []), ("b", 7, [])]
    assert found.clusters == ["a", "b"]


def test_reports_of_other_ranks_are_no_slow_phase() -> None:
    frame = table([100, 101, 99, 100, 102, 99, 130, 131, 129, 130, 132, 131], [0.1] * 12)
    grown = frame.with_columns(ranks=pl.when(pl.col("iteration_ms") > 120).then(16).otherwise(8).cast(pl.Int64))
    (run,) = history(grown, "x").runs
    assert (run.regression, run.slower_since) == ([], None)


def test_a_slow_phase_has_its_first_report() -> None:
    times = [100, 101, 99, 100, 102, 99, 130, 131, 129, 130, 132, 131]
    assert history(table(times, [0.1] * 12), "x").runs[0].slower_since == "2026-01-07T00:00:00+00:00"


def _verdict(name: str, at: str) -> Verdict:
    summary = RunSummary(
        name=name,
        world_size=2,
        ranks=[0, 1],
        missing_ranks=[],
        hosts={},
        steps=[1],
        excluded_steps=[],
        window="step",
        backend="device",
        sources=[],
    )
    return Verdict(
        netlab_version="0", created_at=at, run=summary, clock=ClockSummary(aligned=True, offsets_ms={}, max_error_ms=None), threshold=0.25,
        status="pass", flagged=False, cause="none", headline="fine.", split="measured", basis="transfer",
        totals=Breakdown(iteration_ms=5.0),
    )  # fmt: skip


def test_damaged_and_foreign_documents_are_listed_and_drafts_left_out(tmp_path: Path) -> None:
    for folder, text in {
        "b": _verdict("job", "2026-01-02T00:00:00+00:00").json(),
        "a": _verdict("job", "2026-01-01T00:00:00+00:00").json(),
        "cut": '{"schema": "netlab.check/1", "netl',
        "other": '{"a": 1}',
        ".draft": _verdict("job", "2026-01-03T00:00:00+00:00").json(),
    }.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "verdict.json").write_text(text)
    frame, issues = collect(tmp_path)
    assert frame["path"].to_list() == ["a/verdict.json", "b/verdict.json"]
    assert [(issue.code, issue.source) for issue in issues] == [
        ("NOT_A_VERDICT", "cut/verdict.json"),
        ("NOT_A_VERDICT", "other/verdict.json"),
    ]
    assert msgspec.json.decode(history(frame, "x", issues).json())["schema"] == "netlab.history/1"


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no readable verdict\.json"):
        collect(tmp_path)
