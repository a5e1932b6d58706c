"""Environment variables that make NCCL and PyTorch leave logs and dumps; they count only before the first communicator exists."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

__all__ = ["flight_environment", "nccl_environment", "set_defaults"]

_OLD_FLIGHT_NAMES = ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


def nccl_environment(folder: Path) -> dict[str, str]:
    """What makes NCCL write one log per process: versions, network choice, channels, topology, tuning; no line per collective.

    >>> nccl_environment(Path("run"))["NCCL_DEBUG_FILE"]
    'run/nccl/nccl.%h.%p.log'
    """
    return {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,GRAPH,TUNING",
        "NCCL_DEBUG_FILE": f"{folder}/nccl/nccl.%h.%p.log",
    }


def flight_environment(folder: Path, torch: Any) -> dict[str, str]:
    """What makes PyTorch keep a flight recorder and dump it when a collective times out.

    Its variables were renamed together with its dump function.
    """
    current = hasattr(getattr(torch._C, "_distributed_c10d", None), "_dump_fr_trace")
    size, prefix = ("TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE") if current else _OLD_FLIGHT_NAMES
    return {size: "2000", prefix: f"{folder}/flight/nccl_trace_rank_", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}


def set_defaults(values: dict[str, str], environment: MutableMapping[str, str]) -> dict[str, str]:
    """Set what is not set yet; returns what had another value already and was left alone.

    >>> environment = {"NCCL_DEBUG": "WARN"}
    >>> set_defaults({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "x"}, environment), environment["NCCL_DEBUG_FILE"]
    ({'NCCL_DEBUG': 'WARN'}, 'x')
    """
    kept = {name: environment[name] for name, value in values.items() if environment.get(name, value) != value}
    for name, value in values.items():
        environment.setdefault(name, value)
    return kept
