"""``netlab.capture`` records what netlab reads, and never ends the training that it records."""

from __future__ import annotations

import gzip
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import netlab
from netlab.errors import ConfigError, RunError
from netlab.recording import capture

_VARIABLES = (
    "NCCL_DEBUG",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_FILE",
    "TORCH_FR_BUFFER_SIZE",
    "TORCH_FR_DUMP_TEMP_FILE",
    "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test sets is forgotten after it."""
    for name in _VARIABLES:
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)


@pytest.fixture
def torch() -> Any:
    """PyTorch, or the test is skipped."""
    return pytest.importorskip("torch", reason="needs the torch extra: pip install 'netlab[torch]'")


def _divide(one: int, other: int) -> float:
    return one / other


def test_missing_torch_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RunError, match=r"netlab\[torch\]"):
        capture(tmp_path)


def test_analysis_does_not_import_torch() -> None:
    code = "import sys, netlab, netlab.recording, netlab.synth; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_schedule_that_records_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="active is 0"):
        capture(tmp_path, active=0)


@pytest.mark.torch
def test_a_loop_leaves_traces_facts_and_counters(torch: Any, tmp_path: Path) -> None:
    model = torch.nn.Linear(8, 8)
    with capture(tmp_path / "run", name="small", wait=1, warmup=1, active=2, cycles=2, counters_ms=20) as recording:
        for _ in range(9):
            model(torch.randn(4, 8)).sum().backward()
            recording.step()
    assert recording.failures == {}
    assert [path.name for path in recording.traces] == ["rank0.cycle0.pt.trace.json.gz", "rank0.cycle1.pt.trace.json.gz"]
    with gzip.open(recording.traces[0]) as stream:
        names = {event["name"] for event in json.load(stream)["traceEvents"]}
    assert {"ProfilerStep#2", "ProfilerStep#3"} <= names
    assert 'name = "small"' in (tmp_path / "run" / "netlab.toml").read_text()
    assert (tmp_path / "run" / "ranks" / "rank0.csv").is_file()
    assert not list((tmp_path / "run").rglob("*.part*"))


@pytest.mark.torch
def test_a_profiler_that_fails_never_breaks_training(
    torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise RuntimeError("another profiler is active")

    monkeypatch.setattr(torch.profiler, "profile", refuse)
    steps = 0
    with caplog.at_level(logging.WARNING), capture(tmp_path) as recording:
        for _ in range(5):
            steps += 1
            recording.step()
    assert steps == 5
    assert len([record for record in caplog.records if "another profiler is active" in record.getMessage()]) == 1
    assert "profiler" in recording.failures


@pytest.mark.torch
def test_a_folder_that_cannot_be_written_never_breaks_training(torch: Any, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with capture(blocked / "run", wait=0, warmup=0, active=1, counters_ms=20) as recording:
        for _ in range(3):
            recording.step()
    assert {"environment", "facts", "trace"} <= recording.failures.keys()


@pytest.mark.torch
def test_an_error_of_the_loop_is_not_swallowed(torch: Any, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), capture(tmp_path / "run"):
        _divide(1, 0)
    assert (tmp_path / "run" / "netlab.toml").is_file()


@pytest.mark.torch
def test_rank_is_remembered_when_the_loop_destroys_its_group(torch: Any, tmp_path: Path) -> None:
    recording = capture(tmp_path / "run", wait=0, warmup=1, active=1)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    recording.start()
    for _ in range(3):
        recording.step()
    torch.distributed.destroy_process_group()
    recording.stop()
    recording.stop()
    assert recording.failures == {}
    assert "world_size = 1" in (tmp_path / "run" / "netlab.toml").read_text()


@pytest.mark.torch
def test_too_short_a_loop_is_said(torch: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), capture(tmp_path / "run", wait=5) as recording:
        recording.step()
    assert "at least 8 times" in caplog.text


@pytest.mark.torch
def test_a_call_after_init_is_said_to_be_too_late(torch: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        with caplog.at_level(logging.WARNING):
            capture(tmp_path / "run")
        assert "after init_process_group" in caplog.text
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.torch
def test_two_gloo_ranks_become_a_run_that_netlab_reads(torch: Any, tmp_path: Path) -> None:
    script = Path(__file__).with_name("two_ranks.py")
    jobs = [subprocess.Popen([sys.executable, str(script), str(tmp_path), str(rank)], stdout=subprocess.DEVNULL) for rank in range(2)]
    assert [job.wait(timeout=120) for job in jobs] == [0, 0]
    run = netlab.open(tmp_path / "run", store=tmp_path / "store")
    assert run.facts.ranks == [0, 1]
    assert run.facts.backend == "cpu"
    assert run.facts.steps == [2, 3]
    assert run.frame("collectives")["op"].unique().to_list() == ["all_reduce"]
    assert (tmp_path / "run" / "flight" / "nccl_trace_rank_1").stat().st_size > 0
