"""Reading many files: any order, any number of workers, lost workers, bad files beside good ones."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from netlab import shelf
from netlab.config import load_settings
from netlab.errors import RunError
from netlab.pipeline import ingest
from netlab.pipeline.ingest import ingest_files, parse_file
from netlab.pipeline.inputs import InputFile, find_inputs
from netlab.pipeline.stages import ingest_inputs, open_run
from netlab.pipeline.store import FileStore
from netlab.run import Run
from netlab.synth import write_run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_run(folder, plant="straggler", ranks=4, steps=3, seed=5)
    return folder


def opened(paths: list[Path], store: Path, workers: int = 1) -> Run:
    return open_run(ingest_inputs(paths, store=store, workers=workers), load_settings(), "made")


def same_tables(first: Run, second: Run) -> bool:
    names = [name for name in first.manifest.tables if name != "sources"]
    return first.facts == second.facts and all(first.frame(name).equals(second.frame(name)) for name in names)


def test_workers_and_the_order_of_paths_change_nothing(made: Path, tmp_path: Path) -> None:
    files = sorted(made.glob("*"))
    serial = opened(files, tmp_path / "a")
    assert same_tables(serial, opened(files[::-1], tmp_path / "b", workers=2))


@pytest.mark.parametrize("sample", ["made", "gloo"])
def test_tall_tables_on_disk_change_nothing(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: str) -> None:
    folder = made if sample == "made" else Path(__file__).resolve().parents[2] / "data/ddp-gloo-4rank"
    usual = opened([folder], tmp_path / "store")
    monkeypatch.setattr(shelf, "SPILL_BYTES", 1)
    monkeypatch.setattr(shelf, "_STRETCH_ROWS", 150)
    tall = opened([folder], tmp_path / "store")
    assert same_tables(usual, tall)
    assert tall.save(tmp_path / "run").frame("activities").equals(usual.frame("activities"))
    del tall
    gc.collect()
    assert not list((tmp_path / "store/files").glob(".draft-*"))


def test_a_large_file_is_read_in_a_process_of_its_own_and_gives_the_same(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = find_inputs([made])
    here = ingest_files(files, tmp_path / "here")
    monkeypatch.setattr(ingest, "_LARGE_BYTES", 0)
    monkeypatch.setattr(ingest, "_LARGE_COMPRESSED_BYTES", 0)
    monkeypatch.setattr(ingest, "parse_file", lambda *_: pytest.fail("read in this process"))
    assert ingest_files(files, tmp_path / "apart") == here
    assert sorted(p.name for p in (tmp_path / "apart/files").iterdir()) == sorted(p.name for p in (tmp_path / "here/files").iterdir())


def test_a_large_file_whose_process_is_killed_is_told(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "_LARGE_BYTES", 0)
    monkeypatch.setattr(ingest, "_LARGE_COMPRESSED_BYTES", 0)
    monkeypatch.setattr(ingest, "_PARSE_ONE", "import os; os.kill(os.getpid(), 9)")
    (account,) = ingest_files(find_inputs([made])[:1], tmp_path)
    assert (account.status, account.issues[0].code) == ("rejected", "WORKER_KILLED")


def test_a_killed_worker_takes_no_file_with_it(made: Path, tmp_path: Path) -> None:
    files = find_inputs([made])
    killed: list[int] = []

    def kill_first_child() -> None:
        end = time.monotonic() + 20
        while not killed and time.monotonic() < end:
            for child in multiprocessing.active_children():
                if child.pid is not None:
                    os.kill(child.pid, signal.SIGKILL)
                    killed.append(child.pid)
                    return
            time.sleep(0.01)

    killer = threading.Thread(target=kill_first_child)
    killer.start()
    accounts = ingest_files(files, FileStore(tmp_path / "a").root, workers=2)
    killer.join()
    assert killed
    assert accounts == ingest_files(files, FileStore(tmp_path / "b").root)
    assert not list((tmp_path / "a" / "files").glob(".draft-*"))


class Poison(InputFile):
    """A file that ends every process that is handed it."""

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return os._exit, (9,)


def test_a_file_that_kills_every_worker_is_reported_and_costs_no_other(made: Path, tmp_path: Path) -> None:
    files = find_inputs([made])
    poisoned = [Poison(files[0].source, files[0].path), *files[1:]]
    heard: list[int] = []
    accounts = ingest_files(poisoned, tmp_path / "a", 2, lambda done, total, _: heard.append(done))
    assert (accounts[0].status, accounts[0].issues[0].code) == ("rejected", "WORKER_KILLED")
    assert accounts[1:] == ingest_files(files[1:], tmp_path / "b")
    assert heard == list(range(1, len(files) + 1))


def test_an_unchanged_file_is_parsed_once(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened([made], tmp_path / "store")

    def refuse(*_: object) -> None:
        raise AssertionError("parsed again")

    monkeypatch.setattr("netlab.pipeline.ingest.claim", refuse)
    assert same_tables(first, opened([made], tmp_path / "store"))


def test_damaged_and_foreign_files_are_listed_beside_the_good_ones(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    shutil.copytree(made, folder)
    (folder / "empty.json").write_bytes(b"")
    (folder / "notes.md").write_text("# Notes\n")
    (folder / "settings.json").write_text('{"a": 1}')
    trace = next(folder.glob("*trace.json.gz"))
    trace.write_bytes(trace.read_bytes()[:4000])
    run = opened([folder], tmp_path / "store")
    status = dict(run.frame("sources").select("path", "status").iter_rows())
    assert status["empty.json"] == status["notes.md"] == status["settings.json"] == "rejected"
    assert status[trace.name] in ("partial", "rejected")
    codes = set(run.frame("issues")["code"])
    assert {"EMPTY_FILE", "UNKNOWN_FORMAT", "TRUNCATED_GZIP"} <= codes
    assert len(run.facts.ranks) >= 3


def test_nothing_readable_is_one_error_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a.json").write_bytes(b"")
    with pytest.raises(RunError, match=r"a\.json is empty"):
        opened([tmp_path / "run"], tmp_path / "store")


def test_a_file_option_that_names_no_input_is_said(made: Path, tmp_path: Path) -> None:
    (tmp_path / "netlab.toml").write_text('[files]\n"rank9.pt.trace.json.gz" = { rank = 1 }\n')
    run = open_run(ingest_inputs([made], store=tmp_path / "store"), load_settings([tmp_path]), "made")
    (message,) = run.frame("issues").filter(pl.col("code") == "UNUSED_FILE_OPTION")["message"].to_list()
    assert "rank9" in message
    assert "did you mean" in message


@pytest.mark.parametrize("text", ['{"schema":"netlab.truth/1"}', '{\n "schema": "netlab.check/1",'])
def test_results_of_netlab_itself_are_named_as_such(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    stored = parse_file(InputFile("result.json", tmp_path / "result.json"), tmp_path / "store")
    assert stored.status == "rejected"
    assert stored.issues[0].severity == "info"
    assert "result of netlab itself" in str(stored.message)


def test_hidden_files_and_own_configuration_are_no_inputs(tmp_path: Path) -> None:
    for name in (".hidden", "netlab.toml", "scenarios.toml", "a.log"):
        (tmp_path / name).write_text("x")
    assert [file.source for file in find_inputs([tmp_path])] == ["a.log"]
