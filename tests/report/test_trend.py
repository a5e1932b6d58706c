"""Trend over many reports: the page is made from stored verdicts, and the chart names what moved."""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl
import pytest

from netlab.errors import ConfigError
from netlab.figures import cluster_days, over_time
from netlab.report import Trend, trend_card, trend_clusters, trend_exhibit, trend_runs, write_history, write_page
from netlab.report.panels import Missing
from tests.made_run import made_run


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    verdict = made_run(ranks=2, steps=2, slow_rank=1).verdict
    for name, last in (("steady", 0.1), ("worse <b>", 0.3)):
        for day in range(7):
            share = last if day == 6 else 0.1 + 0.001 * (day % 3)
            totals = msgspec.structs.replace(verdict.totals, network_share=share, wait_share=None)
            run = msgspec.structs.replace(verdict.run, name=name)
            flagged = share > 0.25
            made = msgspec.structs.replace(
                verdict,
                run=run,
                totals=totals,
                flagged=flagged,
                status="flagged" if flagged else "pass",
                created_at=f"2026-11-{20 + day}T03:00:00Z",
            )
            (folder / f"{name[:5]}-{day}").mkdir()
            (folder / f"{name[:5]}-{day}" / "verdict.json").write_text(made.json(), "utf-8")
    return folder


def test_title_names_the_run_that_moved(reports: Path) -> None:
    trend = Trend.load(str(reports))
    title = over_time(trend.table).to_dict()["title"]["text"]
    assert title == "worse <b>: network share 30.0 % in the newest report, 10.1 % usually"
    steady = over_time(trend.table.filter(pl.col("name") == "steady"), "iteration_ms")
    assert steady.to_dict()["title"]["text"] == "The step time is steady in 1 run"


def test_card_and_table_escape_the_names_of_runs(reports: Path) -> None:
    trend = Trend.load(str(reports))
    assert "Flagged" in trend_card(trend).markup
    assert "worse &lt;b&gt;" in trend_runs(trend).markup
    assert "<b>" not in trend_runs(trend).markup


def test_a_phase_that_lasts_is_drawn_and_told(reports: Path) -> None:
    chart = trend_exhibit(Trend.load(str(reports)), "network_share")
    assert not isinstance(chart, Missing)
    assert chart.chart is not None
    told = chart.chart.to_dict()
    assert "worse <b> is worse since 2026-11-26" in told["description"]
    assert "Dotted" in told["title"]["subtitle"][0]


def test_clusters_stand_side_by_side_by_day(reports: Path) -> None:
    trend = Trend.load(str(reports))
    assert isinstance(trend_clusters(trend), Missing)
    named = trend.table.with_columns(cluster=pl.when(pl.col("name") == "steady").then(pl.lit("a")).otherwise(pl.lit("b")))
    days = cluster_days(named)
    assert days.height == 14
    assert days.row(-1, named=True)["headline"] == "1 of 1 runs flagged"
    title = over_time(days, noun="cluster").to_dict()["title"]["text"]
    assert title == "b: network share 30.0 % on the last day, 10.1 % usually"


def test_a_table_of_an_older_netlab_has_no_cluster(reports: Path, tmp_path: Path) -> None:
    Trend.load(str(reports)).table.drop("cluster").write_parquet(tmp_path / "old.parquet")
    assert Trend.load("x", str(tmp_path / "old.parquet")).table["cluster"].null_count() == 14


def test_measure_that_no_report_knows_is_said(reports: Path) -> None:
    assert isinstance(trend_exhibit(Trend.load(str(reports)), "wait_share"), Missing)


def test_page_of_a_trend_is_made_from_the_stored_table(reports: Path, tmp_path: Path) -> None:
    page = write_history(Trend.load(str(reports)), reports, tmp_path)
    assert page == tmp_path / "report.html"
    assert "Are runs getting worse?" in page.read_text("utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "files.json",
        "history.json",
        "history.parquet",
        "report.html",
        "report.ipynb",
    ]


@pytest.mark.parametrize("name", ["history.parquet", "report.html"])
def test_a_trend_never_replaces_what_no_history_left(reports: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match=f"holds {name}, which no history of netlab left there"):
        write_history(Trend.load(str(reports)), reports, tmp_path)
    assert [(path.name, path.read_text("utf-8")) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_unknown_parameter_of_a_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'foldr'; did you mean 'folder'\?"):
        write_page("fleet_trend", tmp_path, {"foldr": "x"}, "t")
