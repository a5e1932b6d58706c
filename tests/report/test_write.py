"""The whole report: every file, whole or not at all, and what stands there when the notebook fails."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import polars as pl
import pytest

from netlab.errors import ConfigError, ReportError
from netlab.export.notebooks import notebooks_folder
from netlab.figures.mime import VEGA_MIME
from netlab.ownership import listed_files
from netlab.report import write_report
from netlab.report.write import default_folder
from netlab.run import Run
from netlab.verdict.model import Verdict
from tests.made_run import made_run
from tests.report.conftest import Report


def _failing(folder: Path, source: str) -> Path:
    cells = [
        nbformat.v4.new_code_cell('run = ""\nthreshold = ""\nstored = ""\npng = False', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(source),
    ]
    notebook = nbformat.v4.new_notebook(
        cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    )
    folder.mkdir()
    nbformat.write(notebook, folder / "run_report.ipynb")
    return folder


def test_report_holds_every_file(made_report: Report) -> None:
    names = {path.name for path in made_report.folder.iterdir()}
    assert names == {"report.html", "report.ipynb", "verdict.json", "summary.md", "netlab.prom", "files.json", "tables", "charts"}
    pictures = {path.stem for path in (made_report.folder / "charts").glob("*.png")}
    assert {
        "attribution",
        "share-per-step",
        "heat-strip",
        "worst-step",
        "who-waits-for-whom",
        "bus-bandwidth",
        "transfer-tails",
    } <= pictures


def test_tables_and_verdict_beside_the_report_are_those_it_is_about(made_report: Report) -> None:
    stored = Run.open(made_report.folder / "tables")
    assert stored.frame("breakdown").equals(made_report.made.run.frame("breakdown"))
    assert Verdict.from_json((made_report.folder / "verdict.json").read_bytes()) == made_report.made.verdict
    assert not list(made_report.folder.rglob(".*"))


def test_executed_notebook_can_run_again_from_its_folder(made_report: Report) -> None:
    notebook = nbformat.read(made_report.folder / "report.ipynb", as_version=4)
    injected = next(cell.source for cell in notebook.cells if "injected-parameters" in cell.metadata.get("tags", []))
    assert 'stored = "."' in injected
    assert 'run = "/data/made"' in injected
    assert str(made_report.folder) not in json.dumps(notebook.metadata.get("netlab", {}))


def test_page_is_small_and_readable_by_others(made_report: Report) -> None:
    page = made_report.folder / "report.html"
    assert page.stat().st_size < 3_000_000
    assert stat.S_IMODE(made_report.folder.stat().st_mode) == 0o755
    assert stat.S_IMODE(page.stat().st_mode) == 0o644


def test_unknown_parameter_writes_nothing(tmp_path: Path) -> None:
    made = made_run(ranks=2, steps=1)
    with pytest.raises(ConfigError, match=r"'treshold'; did you mean 'threshold'\?"):
        write_report(made.run, made.verdict, tmp_path / "r", {"treshold": "0.1"})
    assert not list(tmp_path.iterdir())


def test_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    made = made_run(ranks=2, steps=1)
    (tmp_path / "file").write_text("mine", "utf-8")
    with pytest.raises(ReportError, match=r"file/r cannot be written: .*choose another folder"):
        write_report(made.run, made.verdict, tmp_path / "file" / "r")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("netlab.report.write.run_notebook", full)
    made = made_run(ranks=2, steps=1)
    with pytest.raises(ReportError, match="No space left on device"):
        write_report(made.run, made.verdict, tmp_path / "r")
    assert not list(tmp_path.iterdir())


def test_failed_notebook_leaves_a_page_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    notebooks = _failing(tmp_path / "n", 'raise ValueError("no such <table>")')
    monkeypatch.setattr("netlab.report.write.notebooks_folder", lambda: notebooks)
    made = made_run(ranks=2, steps=1)
    with pytest.raises(ReportError, match=r"cell \d raised ValueError: no such <table>"):
        write_report(made.run, made.verdict, tmp_path / "r")
    page = (tmp_path / "r" / "report.html").read_text("utf-8")
    assert "no such &lt;table&gt;" in page
    assert "<script" not in page
    assert (tmp_path / "r" / "verdict.json").is_file()
    prom = (tmp_path / "r" / "netlab.prom").read_text("utf-8")
    assert "netlab_report_success 0.0" in prom
    assert "last_run_timestamp" not in prom
    assert "Traceback" not in capfd.readouterr().err


def test_killed_kernel_is_a_failure_and_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebooks = _failing(tmp_path / "n", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setattr("netlab.report.write.notebooks_folder", lambda: notebooks)
    made = made_run(ranks=2, steps=1)
    with pytest.raises(ReportError, match="its kernel died"):
        write_report(made.run, made.verdict, tmp_path / "r")
    assert "Its kernel died" in (tmp_path / "r" / "report.html").read_text("utf-8")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_cell_beyond_its_time_limit_is_a_failure_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebooks = _failing(tmp_path / "n", "import time\ntime.sleep(60)")
    monkeypatch.setattr("netlab.report.write.notebooks_folder", lambda: notebooks)
    monkeypatch.setattr("netlab.report.kernel.CELL_TIMEOUT_S", 1)
    made = made_run(ranks=2, steps=1)
    with pytest.raises(ReportError, match="a cell ran longer than 1 s"):
        write_report(made.run, made.verdict, tmp_path / "r", slack=tmp_path / "slack.json")
    assert "ran longer than 1 s" in (tmp_path / "r" / "report.html").read_text("utf-8")
    assert "could not be made whole" in (tmp_path / "slack.json").read_text("utf-8")


def test_second_report_into_one_folder_replaces_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(source: Path, target: Path, parameters: Any, folder: Path) -> tuple[Any, None]:
        notebook = nbformat.v4.new_notebook()
        nbformat.write(notebook, target)
        return notebook, None

    monkeypatch.setattr("netlab.report.write.run_notebook", drawn)
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "mine.txt").write_text("kept", "utf-8")
    for ranks in (2, 4):
        made = made_run(ranks=ranks, steps=1, slow_rank=1)
        write_report(made.run, made.verdict, tmp_path / "r")
    assert Run.open(tmp_path / "r" / "tables").frame("ranks").height == 4
    assert (tmp_path / "r" / "mine.txt").read_text("utf-8") == "kept"
    assert not [path for path in (tmp_path / "r").iterdir() if path.name.startswith(".")]


def _drawing(name: str) -> Any:
    """A notebook that draws one chart of this name."""

    def drawn(source: Path, target: Path, parameters: Any, folder: Path) -> tuple[Any, None]:
        data = {VEGA_MIME: {"usermeta": {"netlab": {"name": name}}}, "image/png": "AAAA"}
        cell = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", data)])
        notebook = nbformat.v4.new_notebook(cells=[cell])
        nbformat.write(notebook, target)
        return notebook, None

    return drawn


def test_pictures_that_somebody_put_among_the_charts_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_run(ranks=2, steps=1)
    for name in ("first", "second"):
        monkeypatch.setattr("netlab.report.write.run_notebook", _drawing(name))
        write_report(made.run, made.verdict, tmp_path / "r")
        (tmp_path / "r" / "charts" / "mine.png").write_text("kept", "utf-8")
    assert sorted(path.name for path in (tmp_path / "r" / "charts").iterdir()) == ["mine.png", "second.png"]


@pytest.mark.parametrize("name", ["charts/mine.png", "tables/steps.parquet", "verdict.json", "report.html", "files.json"])
@pytest.mark.parametrize("verdict", [False, True])
def test_a_report_never_replaces_files_that_no_report_left(tmp_path: Path, name: str, *, verdict: bool) -> None:
    made, mine = made_run(ranks=2, steps=1), tmp_path / "r" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine", "utf-8")
    if verdict:  # `netlab check --json` leaves such a file, and that makes no report of a folder
        (tmp_path / "r" / "verdict.json").write_text(made.verdict.json(), "utf-8")
    before = _content(tmp_path / "r")
    with pytest.raises(ConfigError, match="which no report of netlab left there"):
        write_report(made.run, made.verdict, tmp_path / "r")
    assert _content(tmp_path / "r") == before


def _content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["report.html", "charts", "tables", "charts/first.png"])
def test_a_report_never_replaces_a_link(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, place = made_run(ranks=2, steps=1), tmp_path / "r" / name
    monkeypatch.setattr("netlab.report.write.run_notebook", _drawing("first"))
    (tmp_path / "r").mkdir()
    if "/" in name:
        write_report(made.run, made.verdict, tmp_path / "r")
        place.unlink()
    place.symlink_to(tmp_path / "gone")  # leads nowhere, yet somebody made it
    with pytest.raises(ConfigError, match=f"holds {name}, which no report of netlab left there"):
        write_report(made.run, made.verdict, tmp_path / "r")
    assert place.is_symlink()


@pytest.mark.parametrize("name", ["tables/mine.csv", "charts/second.png"])
def test_what_somebody_put_into_a_report_stays(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, mine = made_run(ranks=2, steps=1), tmp_path / "r" / name
    monkeypatch.setattr("netlab.report.write.run_notebook", _drawing("first"))
    write_report(made.run, made.verdict, tmp_path / "r")
    mine.write_text("mine", "utf-8")
    before = _content(tmp_path / "r")
    monkeypatch.setattr("netlab.report.write.run_notebook", _drawing("second"))
    with pytest.raises(ConfigError, match=f"holds {name}, which no report of netlab left there"):
        write_report(made.run, made.verdict, tmp_path / "r")
    assert _content(tmp_path / "r") == before
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_the_listing_names_what_was_written_and_is_kept_through_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_run(ranks=2, steps=1)
    for name in ("first", "second"):
        monkeypatch.setattr("netlab.report.write.run_notebook", _drawing(name))
        write_report(made.run, made.verdict, tmp_path / "r")
        assert listed_files(tmp_path / "r", "report") == set(_content(tmp_path / "r"))
    with monkeypatch.context() as patch:
        patch.setattr("netlab.report.write.run_notebook", _drawing("third"))
        patch.setattr("netlab.report.write.remove_own", _killed)  # after the files, before the listing is closed
        with pytest.raises(KeyboardInterrupt):
            write_report(made.run, made.verdict, tmp_path / "r")
    assert {path.name for path in (tmp_path / "r" / "charts").iterdir()} == {"second.png", "third.png"}
    write_report(made.run, made.verdict, tmp_path / "r")
    assert listed_files(tmp_path / "r", "report") == set(_content(tmp_path / "r"))
    assert [path.name for path in (tmp_path / "r" / "charts").iterdir()] == ["second.png"]


def _killed(*_: Any) -> None:
    raise KeyboardInterrupt


def test_folder_of_a_report_is_named_after_run_and_time() -> None:
    now = datetime(2026, 11, 30, 12, 5, 9, tzinfo=UTC)
    assert default_folder("../../etc/pass wd", now) == Path("reports/etc-pass-wd/20261130T120509Z")


def test_plain_papermill_refuses_a_parameter_that_is_not_declared(tmp_path: Path) -> None:
    notebook = notebooks_folder() / "run_report.ipynb"
    command = [sys.executable, "-m", "papermill", str(notebook), str(tmp_path / "out.ipynb"), "-p", "treshold", "0.1", "--no-progress-bar"]
    environment = {
        **os.environ,
        "JUPYTER_PLATFORM_DIRS": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment, timeout=120)
    assert done.returncode != 0
    assert "did you mean 'threshold'?" in done.stderr


def test_missing_frames_become_boxes_and_no_error() -> None:
    from netlab.report.comparison_exhibits import COMPARISON_EXHIBITS
    from netlab.report.exhibits import EXHIBITS
    from netlab.report.panels import Missing
    from netlab.report.sections import card, data_quality, findings, provenance, what_if
    from netlab.report.study import Study
    from netlab.run import RunFacts
    from netlab.verdict.model import ClockSummary, RunSummary
    from netlab.verdict.rows import Breakdown

    summary = RunSummary(
        name="logs",
        world_size=None,
        ranks=[],
        missing_ranks=[],
        hosts={},
        steps=[],
        excluded_steps=[],
        window="capture",
        backend="device",
        sources=[],
    )
    verdict = Verdict(
        netlab_version="0",
        created_at="2026-11-30T00:00:00Z",
        run=summary,
        clock=ClockSummary(aligned=False, offsets_ms={}, max_error_ms=None),
        threshold=0.25,
        status="inconclusive",
        flagged=False,
        cause="unknown",
        headline="No trace: no share can be given.",
        split=None,
        basis=None,
        totals=Breakdown(),
    )
    study = Study(Run.from_frames({}, RunFacts(name="logs", window="capture")), verdict, {"run": "x"})
    for name, build in EXHIBITS.items():
        # Nothing is said about a comparison that nobody asked for, and operation-level traces are no input that most runs lack.
        unasked = name in COMPARISON_EXHIBITS or name == "compute-by-rank"
        made = build(study)
        if unasked:
            assert made is None
        else:
            assert isinstance(made, Missing)
            assert made.command, f"{name} does not say what records it"
    for section in (card, data_quality, findings, what_if, provenance):
        assert isinstance(section(study)._repr_html_(), str)
    assert "Inconclusive" in card(study)._repr_html_()


def test_single_rank_has_no_who_waits_and_no_clocks() -> None:
    from netlab.report.exhibits import exhibit
    from netlab.report.panels import Missing
    from netlab.report.study import Study

    made = made_run(ranks=1, steps=2, slow_rank=0)
    study = Study(made.run, made.verdict)
    assert isinstance(exhibit(study, "who-waits-for-whom"), Missing)
    assert isinstance(exhibit(study, "clocks"), Missing)
    assert not isinstance(exhibit(study, "attribution"), Missing)
    with pytest.raises(ConfigError, match="did you mean 'heat-strip'"):
        exhibit(study, "heat-strop")


def test_large_run_stays_within_the_budget_of_a_page() -> None:
    from netlab.figures import attribution, heat_strip, rows_frame, share_per_step, strip_frame
    from netlab.figures.renderer import MARK_BUDGET, SPEC_BUDGET_BYTES, compile_vega
    from netlab.verdict.rows import RankRow, StepRow

    ranks, steps, step_ns = 1_024, 200, 10_000_000
    grid = pl.DataFrame({"rank": range(ranks)}, schema={"rank": pl.Int32}).join(
        pl.DataFrame({"step": range(steps)}, schema={"step": pl.Int32}), how="cross"
    )
    start = pl.col("step").cast(pl.Int64) * step_ns
    compute = grid.with_columns(kind=pl.lit("compute"), start_ns=start, end_ns=start + 6_000_000, transfer_start_ns=pl.lit(None, pl.Int64))
    late = (pl.col("rank") * 7919 % 1000) * 1_000
    comm = grid.with_columns(
        kind=pl.lit("communication"), start_ns=start + 5_000_000, end_ns=start + step_ns, transfer_start_ns=start + 7_000_000 + late
    )
    borders = grid.with_columns(start_ns=start, end_ns=start + step_ns, complete=pl.lit(True))
    breakdown = grid.with_columns(exposed_comm_ns=late + 4_000_000)
    strip = strip_frame(pl.concat([compute, comm]), borders, breakdown)
    parts = {
        "compute_ms": 6.0,
        "hidden_comm_ms": 1.0,
        "exposed_comm_ms": 3.0,
        "exposed_transfer_ms": 2.0,
        "exposed_wait_ms": 1.0,
        "exposed_memory_ms": 0.0,
        "idle_ms": 1.0,
    }
    shares = {"network_share": 0.2, "network_share_low": 0.2, "network_share_high": 0.2, "wait_share": 0.1, "comm_share": 0.3}
    rows = rows_frame([RankRow(rank=rank, iterations=steps, iteration_ms=10.0, **parts, **shares) for rank in range(ranks)])
    by_step = rows_frame([StepRow(step=step, iteration_ms=10.0, **parts, **shares) for step in range(steps)])
    assert strip.height < MARK_BUDGET
    # The worst case: every cell has some of both, and no two numbers are alike.
    strip = strip.with_columns(
        transfer_share=pl.lit(0.1) + pl.int_range(pl.len()) / 1e5, wait_share=pl.lit(0.2) + pl.int_range(pl.len()) / 1e5
    )
    sizes = [
        len(json.dumps(compile_vega(chart))) for chart in (heat_strip(strip, borders), attribution(rows), share_per_step(by_step, 0.25))
    ]
    assert max(sizes) < SPEC_BUDGET_BYTES
