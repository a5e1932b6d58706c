"""Who this process is in the job: what a trace does not say, written beside it."""

from __future__ import annotations

import csv
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["RankFacts", "rank_facts", "write_ports", "write_rank_row", "write_run_file"]

_RANK_COLUMNS = ("rank", "host", "local_rank", "gpu_index", "nic", "nic_port", "rail")


@dataclass(frozen=True, kw_only=True)
class RankFacts:
    """Place of a process in the job; ``gpu_index`` and ``nic`` are None where unknown."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    host: str
    gpu_index: int | None
    nic: str | None


def rank_facts(torch: Any, environment: Mapping[str, str] = os.environ) -> RankFacts:
    """Facts from the process group where it exists, else from the launcher's variables (torchrun, Slurm)."""
    group = torch.distributed
    ready = group.is_available() and group.is_initialized()
    rank = group.get_rank() if ready else _number(environment, ("RANK", "SLURM_PROCID"), 0)
    world = group.get_world_size() if ready else _number(environment, ("WORLD_SIZE", "SLURM_NTASKS"), 1)
    return RankFacts(
        rank=rank,
        world_size=world,
        local_rank=_number(environment, ("LOCAL_RANK", "SLURM_LOCALID"), rank),
        local_world_size=_number(environment, ("LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE"), world),
        host=socket.gethostname().split(".")[0],
        gpu_index=torch.cuda.current_device() if torch.cuda.is_available() else None,
        nic=_declared_nic(environment),
    )


def write_rank_row(path: Path, facts: RankFacts) -> None:
    """Write this rank's row of ``ranks.csv``; each rank has a file of its own, for hosts may share no disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(_RANK_COLUMNS)
        rows.writerow([facts.rank, facts.host, facts.local_rank, facts.gpu_index, facts.nic, None, None])


def write_ports(path: Path, host: str, speeds: Mapping[str, float]) -> None:
    """Write the speeds of a host's ports as a ``ports.csv``; utilisation needs them. Nothing is written where none is known."""
    if not speeds:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(("device", "port", "speed_gbps", "role", "host", "nic"))
        rows.writerows((host, port, f"{speed:g}", "hca", host, port) for port, speed in speeds.items())


def write_run_file(path: Path, name: str, facts: RankFacts) -> None:
    """Write ``netlab.toml`` with what the analysis should know, unless one is there."""
    if path.exists():
        return
    path.write_text(f"[run]\nname = {json.dumps(name)}\nworld_size = {facts.world_size}\ngpus_per_node = {facts.local_world_size}\n")


def _number(environment: Mapping[str, str], names: tuple[str, ...], otherwise: int) -> int:
    for name in names:
        text = environment.get(name, "").split("(")[0]
        if text.isdigit():
            return int(text)
    return otherwise


def _declared_nic(environment: Mapping[str, str]) -> str | None:
    """The one interface that the job was told to use; a list, a prefix to exclude or nothing tells no single one."""
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        text = environment.get(name, "").removeprefix("=")
        if text and "," not in text and not text.startswith("^"):
            return text
    return None
