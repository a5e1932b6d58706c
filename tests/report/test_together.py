"""Scheduled runs that end at the same time: one folder holds one whole report, and a history reads only whole ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import msgspec
import nbformat
import polars as pl
import pytest

from netlab.history import collect
from netlab.report import Trend, write_history, write_report
from netlab.run import Run
from netlab.verdict.model import Verdict
from tests.made_run import made_run

_WRITERS, _ROUNDS = 4, 6


@pytest.fixture
def unrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notebooks are saved and not run: a kernel takes seconds."""

    def saved(source: Path, target: Path, parameters: Any, folder: Path) -> tuple[Any, None]:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(f"# {parameters.get('run', 'trend')}")])
        nbformat.write(notebook, target)
        return notebook, None

    monkeypatch.setattr("netlab.report.write.run_notebook", saved)


@pytest.mark.usefixtures("unrun")
def test_reports_that_end_at_once_leave_one_whole_report(tmp_path: Path) -> None:
    start = Barrier(_WRITERS)

    def write(number: int) -> None:
        made = made_run(ranks=number, steps=1, slow_rank=0, name=f"run {number}")
        for _ in range(_ROUNDS):
            start.wait()
            write_report(made.run, made.verdict, tmp_path / "r")

    with ThreadPoolExecutor(_WRITERS) as pool:
        for done in [pool.submit(write, number) for number in range(2, 2 + _WRITERS)]:
            done.result()
    name = Verdict.from_json((tmp_path / "r" / "verdict.json").read_bytes()).run.name
    assert f'<h1 id="{name.replace(" ", "-")}">' in (tmp_path / "r" / "report.html").read_text("utf-8")
    assert f"run {Run.open(tmp_path / 'r' / 'tables').frame('ranks').height}" == name
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.usefixtures("unrun")
def test_a_history_beside_reports_that_appear_reads_only_whole_ones(tmp_path: Path) -> None:
    made = made_run(ranks=2, steps=1, slow_rank=0)
    write_report(made.run, made.verdict, tmp_path / "0")
    ended = Event()

    def write() -> None:
        try:
            for day in range(1, 12):
                verdict = msgspec.structs.replace(made.verdict, created_at=f"2026-11-{day:02d}T03:00:00Z")
                write_report(made.run, verdict, tmp_path / f"{day}")
        finally:
            ended.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not ended.is_set():
            assert collect(tmp_path)[1] == []
        writing.result()
    assert collect(tmp_path)[0].height == 12


@pytest.mark.usefixtures("unrun")
def test_histories_of_one_folder_at_once_leave_a_whole_table(tmp_path: Path) -> None:
    made = made_run(ranks=2, steps=1, slow_rank=0)
    write_report(made.run, made.verdict, tmp_path / "reports" / "0")
    trend = Trend.load(str(tmp_path / "reports"))
    with ThreadPoolExecutor(_WRITERS) as pool:
        for done in [pool.submit(write_history, trend, tmp_path / "reports", tmp_path / "out") for _ in range(3 * _WRITERS)]:
            done.result()
    assert pl.read_parquet(tmp_path / "out" / "history.parquet").equals(trend.table)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "files.json",
        "history.json",
        "history.parquet",
        "report.html",
        "report.ipynb",
    ]
