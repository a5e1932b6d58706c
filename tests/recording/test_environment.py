"""What the recorder sets, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netlab.recording.environment import flight_environment, nccl_environment, set_defaults
from netlab.recording.facts import rank_facts, write_rank_row, write_run_file


def _torch(*, ready: bool, current_names: bool = True) -> Any:
    """A stand-in for torch: a process group of rank 3 of 8, or none."""
    bound = SimpleNamespace(**({"_dump_fr_trace": None} if current_names else {}))
    return SimpleNamespace(
        distributed=SimpleNamespace(is_available=lambda: True, is_initialized=lambda: ready, get_rank=lambda: 3, get_world_size=lambda: 8),
        cuda=SimpleNamespace(is_available=lambda: False),
        _C=SimpleNamespace(_distributed_c10d=bound),
    )


def test_a_variable_that_the_user_set_is_left_alone() -> None:
    environment = {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_SUBSYS": "INIT"}
    kept = set_defaults(nccl_environment(Path("/run")), environment)
    assert environment["NCCL_DEBUG"] == "WARN"
    assert environment["NCCL_DEBUG_FILE"] == "/run/nccl/nccl.%h.%p.log"
    assert kept == {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_SUBSYS": "INIT"}


@pytest.mark.parametrize(("current", "name"), [(True, "TORCH_FR_BUFFER_SIZE"), (False, "TORCH_NCCL_TRACE_BUFFER_SIZE")])
def test_flight_recorder_uses_the_names_of_the_installed_torch(current: bool, name: str) -> None:
    assert name in flight_environment(Path("/run"), _torch(ready=False, current_names=current))


def test_rank_comes_from_the_process_group_before_the_launcher() -> None:
    facts = rank_facts(_torch(ready=True), {"RANK": "1", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4"})
    assert (facts.rank, facts.world_size, facts.local_rank, facts.local_world_size) == (3, 8, 2, 4)


def test_rank_comes_from_slurm_where_nothing_else_tells() -> None:
    facts = rank_facts(
        _torch(ready=False), {"SLURM_PROCID": "5", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1", "SLURM_NTASKS_PER_NODE": "4(x4)"}
    )
    assert (facts.rank, facts.world_size, facts.local_rank, facts.local_world_size) == (5, 16, 1, 4)


@pytest.mark.parametrize(("text", "nic"), [("eth0", "eth0"), ("=eth0", "eth0"), ("eth0,eth1", None), ("^docker0", None), ("", None)])
def test_nic_is_named_only_where_one_interface_is_declared(text: str, nic: str | None) -> None:
    assert rank_facts(_torch(ready=False), {"NCCL_SOCKET_IFNAME": text}).nic == nic


def test_facts_are_files_that_netlab_reads(tmp_path: Path) -> None:
    facts = rank_facts(_torch(ready=True), {"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "8", "GLOO_SOCKET_IFNAME": "eth0"})
    write_rank_row(tmp_path / "ranks" / "rank3.csv", facts)
    write_run_file(tmp_path / "netlab.toml", 'a "run"', facts)
    row = (tmp_path / "ranks" / "rank3.csv").read_text().splitlines()
    assert row[0] == "rank,host,local_rank,gpu_index,nic,nic_port,rail"
    assert row[1] == f"3,{facts.host},3,,eth0,,"
    assert (tmp_path / "netlab.toml").read_text() == '[run]\nname = "a \\"run\\""\nworld_size = 8\ngpus_per_node = 8\n'


def test_a_run_file_that_is_there_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "netlab.toml"
    path.write_text("[run]\n")
    write_run_file(path, "other", rank_facts(_torch(ready=True), {}))
    assert path.read_text() == "[run]\n"
