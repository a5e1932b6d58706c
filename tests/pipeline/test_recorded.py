"""What a run was recorded with and what it lacks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import netlab
from netlab.cli import main
from netlab.pipeline.recorded import COMMANDS, Recorded, recorded
from netlab.synth import write_run

DATA = Path(__file__).resolve().parents[2] / "data"


def _states(folder: Path) -> dict[str, Recorded]:
    return {row.adds.partition(":")[0]: row for row in recorded(netlab.open(folder))}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    write_run(folder, plant="lossy-link", ranks=8, steps=4, seed=1)
    return folder


def test_what_was_recorded_is_not_asked_for(whole: Path) -> None:
    lacking = {name for name, row in _states(whole).items() if row.state != "has"}
    assert lacking == {"flight recorder", "the measured roofline of collectives"}


def test_every_lack_comes_with_what_records_it() -> None:
    rows = recorded(netlab.open(DATA / "gpu-16rank" / "rank3.pt.trace.json.gz"))
    assert all(row.how for row in rows if row.state in ("lacks", "partly"))
    assert sum(row.state == "lacks" for row in rows) >= 6


def test_counters_of_queues_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    text = "NIC statistics:\n     rx_bytes: 9\n     tx_prio3_bytes: 5\n     rx_prio3_bytes: 4\n"
    (tmp_path / "ethtool.nodea.txt").write_text(text, "utf-8")
    assert COMMANDS["queues"].startswith("ethtool -S IFACE > DIR/ethtool.HOST.txt")
    assert netlab.open(tmp_path).manifest.tables["link_queues"] == 2


def test_missing_ranks_are_named() -> None:
    row = _states(DATA / "gpu-16rank" / "rank3.pt.trace.json.gz")["every rank"]
    assert (row.state, row.note) == ("partly", "no trace of 15 ranks: 0-2, 4-15")


def test_a_run_on_cpus_needs_no_log_of_nccl() -> None:
    states = _states(DATA / "ddp-gloo-4rank")
    assert states["transport, NICs and NCCL settings"].state == "needless"
    assert states["device activity"].state == "has"


def test_a_host_without_a_log_is_named(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    logs = sorted((tmp_path / "run").rglob("nccl*node1*"))
    assert logs
    for log in logs:
        log.unlink()
    row = _states(tmp_path / "run")["transport, NICs and NCCL settings"]
    assert (row.state, row.note) == ("partly", "no log of node1")


def test_doctor_tells_what_a_run_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leave:
        main(["doctor", str(DATA / "gpu-16rank")])
    assert leave.value.code == 0
    said = capsys.readouterr().out
    assert "  has      device activity" in said
    assert "record: netlab.capture(DIR, counters_ms=100)" in said
    assert "5 of 12 to record the next time" in said
