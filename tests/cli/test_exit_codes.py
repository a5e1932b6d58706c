"""Exit codes and the one sentence that goes with each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from netlab.cli import main
from netlab.synth import write_run
from netlab.verdict.model import ClockSummary, RunSummary, Verdict
from netlab.verdict.rows import Breakdown


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as leave:
        main([str(word) for word in words])
    return int(leave.value.code or 0)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("healthy")
    write_run(folder, plant="none", ranks=4, steps=3, seed=1)
    return folder


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["chek", "x"], 2, ["chek"]),
        (["check", "x", "--treshold", "0.1"], 2, ["--treshold", "--threshold"]),
        (["check", "x", "--threshold", "25%"], 2, ["25%", "0 to 1"]),
        (["check", "x", "--threshold", "25"], 2, ["25", "0 to 1"]),
        (["check", "x", "--fail-on", "sometimes"], 2, ["never", "critical", "certain", "flagged", "warning", "inconclusive"]),
        (["check", "x", "--steps", "3:1"], 2, ["--steps"]),
        (["check", "nothing-here"], 3, ["nothing-here", "does not exist"]),
        (["config", "nothing-here"], 3, ["nothing-here", "does not exist"]),
        (["export", "x", "--to", "cvs", "--out", "o"], 2, ["cvs", "csv"]),
        (["synth", "o", "--plant", "stragler"], 2, ["stragler", "straggler"]),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    words: list[str], code: int, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*words) == code
    captured = capsys.readouterr()
    assert [word for word in said if word not in captured.err] == []
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_json_on_stdout_stands_alone(healthy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", healthy, "--json", "-", "--quiet") == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "netlab.check/1"


def test_a_limit_below_the_share_makes_the_exit_code_one(healthy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", healthy, "--threshold", "0.0001") == 1
    assert run("check", healthy, "--threshold", "0.0001", "--fail-on", "never") == 0
    assert "FLAGGED" in capsys.readouterr().out


def test_files_that_nobody_reads_leave_a_document_with_null_totals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("no measurements here\n")
    target = tmp_path / "v.json"
    assert run("check", tmp_path / "run", "--json", target) == 3
    document = json.loads(target.read_text())
    assert document["status"] == "inconclusive"
    assert document["totals"]["network_share"] is None
    assert document["run"]["sources"][0]["status"] == "rejected"
    assert "notes.txt" in capsys.readouterr().err


def test_a_stored_run_gives_the_verdict_of_its_files(healthy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ingest", healthy, "--store", tmp_path / "store", "--workers", "2") == 0
    assert run("check", healthy, "--json", tmp_path / "a.json") == 0
    assert run("check", tmp_path / "store", "--json", tmp_path / "b.json") == 0
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    first.pop("created_at"), second.pop("created_at")
    assert first == second


def test_a_run_of_files_has_one_name_whatever_their_order(healthy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(healthy.glob("**/*.json*"))[:2]
    names = []
    for number, order in enumerate((files, files[::-1])):
        run("check", *order, "--json", tmp_path / f"{number}.json")
        names.append(json.loads((tmp_path / f"{number}.json").read_text())["run"]["name"])
    assert names[0] == names[1]


def test_the_same_defect_of_many_files_is_one_line(healthy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(healthy, tmp_path / "run")
    for number in range(3):
        (tmp_path / "run" / f"empty{number}.json").write_bytes(b"")
    run("check", tmp_path / "run", "--fail-on", "never")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "EMPTY_FILE" in line]
    assert "empty0.json" in line
    assert "(and 2 more; --json has them all)" in line


def test_scenarios_of_files_that_are_no_run_leave_a_document_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("no measurements here\n")
    assert run("whatif", tmp_path / "notes.txt", "--json", tmp_path / "w.json") == 3
    assert json.loads((tmp_path / "w.json").read_text())["totals"]["network_share"] is None


def test_notebooks_are_copied_again_but_never_over_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("notebooks", tmp_path / "n") == run("notebooks", tmp_path / "n") == 0
    changed = tmp_path / "n" / "explore.ipynb"
    changed.write_text("mine")
    assert run("notebooks", tmp_path / "n") == 2
    assert changed.read_text() == "mine"
    assert "explore.ipynb" in capsys.readouterr().err


def test_tables_are_never_stored_over_somebody_elses_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    write_run(folder, plant="none", ranks=2, steps=3, seed=1)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    file = tmp_path / "file"
    file.write_text("mine")
    assert run("ingest", folder, "--store", folder) == run("ingest", folder, "--store", file) == 2
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert file.read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert run("ingest", folder, "--store", tmp_path / "empty") == run("ingest", folder, "--store", tmp_path / "empty") == 0


def test_a_full_disk_is_one_sentence_and_exit_code_four(
    healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/data/x.parquet")

    monkeypatch.setattr("netlab.pipeline.analysis.ingest_run", full)
    assert run("ingest", healthy, "--store", tmp_path / "s") == 4
    assert capsys.readouterr().err == "netlab: /data/x.parquet: No space left on device. Free some space or choose another place.\n"


def test_an_export_never_replaces_the_inputs(healthy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    shutil.copytree(healthy, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert run("export", folder, "--to", "csv", "--out", folder) == 2
    assert "holds ranks.csv, which no export of netlab left there" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    for kind in ("csv", "parquet", "csv"):
        assert run("export", folder, "--to", kind, "--out", tmp_path / "out") == 0


def _reports(folder: Path, *, worse: bool, flagged: bool) -> Path:
    """Six reports of one run, the newest 30 % slower, or flagged."""
    summary = RunSummary(
        name="job", world_size=2, ranks=[0, 1], missing_ranks=[], hosts={}, steps=[1], excluded_steps=[], window="step", backend="device",
        sources=[],
    )  # fmt: skip
    times = [100.0, 101.0, 99.0, 100.0, 101.0, 99.5, 130.0 if worse else 100.0]
    for day, ms in enumerate(times, 1):
        last = flagged and day == len(times)
        verdict = Verdict(
            netlab_version="0", created_at=f"2026-01-0{day}T00:00:00+00:00", run=summary,
            clock=ClockSummary(aligned=True, offsets_ms={}, max_error_ms=None), threshold=0.25, status="flagged" if last else "pass",
            flagged=last, cause="none", headline="h.", split="measured", basis="transfer",
            totals=Breakdown(iteration_ms=ms, network_share=0.1 + day * 1e-3, flagged=last),
        )  # fmt: skip
        (folder / str(day)).mkdir(parents=True)
        (folder / str(day) / "verdict.json").write_text(verdict.json(), "utf-8")
    return folder


@pytest.mark.parametrize(
    ("worse", "flagged", "codes"),
    [
        (False, False, {"never": 0, "flagged": 0, "warning": 0, "inconclusive": 0}),
        (True, False, {"never": 0, "critical": 0, "flagged": 0, "warning": 1, "inconclusive": 1}),
        (False, True, {"never": 0, "critical": 0, "certain": 0, "flagged": 1, "warning": 1}),
    ],
)
def test_history_fails_on_what_it_is_told_to(
    worse: bool, flagged: bool, codes: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("netlab.report.trend.write_page", lambda *_: Path("report.html"))  # a kernel takes seconds
    folder = _reports(tmp_path / "reports", worse=worse, flagged=flagged)
    assert {level: run("history", folder, "--fail-on", level, "--quiet") for level in codes} == codes
    assert run("history", folder, "--quiet") == codes["flagged"]
    assert (folder / "history" / "history.parquet").is_file()
