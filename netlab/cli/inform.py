"""What ``netlab config`` and ``netlab doctor`` print."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from netlab.config import Settings
    from netlab.pipeline.analysis import Analysis

__all__ = ["print_missing_inputs", "print_settings", "print_versions"]

_PACKAGES = (
    "polars",
    "numpy",
    "numba",
    "isal",
    "msgspec",
    "pyarrow",
    "pandas",
    "altair",
    "vl-convert-python",
    "papermill",
    "nbconvert",
    "jupyterlab",
)
_EXTRAS = {"torch": "netlab.capture and codec calibration", "distributed": "--scheduler", "jupyterlab": "exploration in JupyterLab"}

#: What a run may lack: the table that would hold it, what it would add, and how to record it.
_RECORDINGS = (
    (
        "device_events",
        "device activity: shares of compute and communication",
        "profile with torch.profiler activities CPU and CUDA, or netlab.capture(DIR)",
    ),
    (
        "sync_events",
        "recorded dependencies for what-if",
        "torch.profiler experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)",
    ),
    (
        "communicators",
        "transport, NICs and NCCL settings",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING NCCL_DEBUG_FILE=DIR/nccl.%h.%p.log",
    ),
    (
        "flight",
        "hanging and mismatched collectives",
        "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_ENABLE_TIMING=1",
    ),
    ("counters", "switch and NIC counters: which link", "a CSV of timestamp,device,port,counter,value, or a Prometheus query_range answer"),
    ("link_speed_tests", "the measured roofline", "all_reduce_perf -b 8 -e 8G -f 2 of nccl-tests on the same hosts"),
)


def print_settings(settings: Settings) -> None:
    """Each value with its origin."""
    plain = msgspec.to_builtins(settings.config)
    for table in ("run", "limits", "links"):
        print(f"[{table}]")
        for key, value in plain[table].items():
            shown = "not set" if value is None else value
            print(f"  {key} = {shown}    # {settings.origins[f'{table}.{key}']}")
    for name, options in plain["files"].items():
        print(f"[files] {name!r} = { {k: v for k, v in options.items() if v is not None} }    # {settings.origins[f'files.{name}']}")
    for rule in plain["classify"]:
        print(f"[[classify]] {rule['pattern']!r} -> {rule['op']}    # {settings.origins['classify']}")


def print_versions() -> None:
    """Versions of what netlab uses, and what is missing."""
    from netlab import __version__

    print(f"netlab {__version__}, Python {sys.version.split()[0]}")
    for package in _PACKAGES:
        try:
            print(f"  {package:<18} {version(package)}")
        except PackageNotFoundError:
            print(f"  {package:<18} missing")
    for module, use in _EXTRAS.items():
        state = "installed" if importlib.util.find_spec(module) else f"not installed; needed for {use}"
        print(f"  extra {module:<12} {state}")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    print(f"  browser            {browser or 'none found; only the browser tests need one'}")


def print_missing_inputs(analysis: Analysis) -> None:
    """What a run lacks, what that would add, and the command that records it."""
    run = analysis.run
    facts = run.facts
    print(f"\n{run.name}: {len(facts.ranks)} of {facts.world_size or '?'} ranks, {len(facts.steps)} steps")
    if facts.missing_ranks:
        print(
            f"  missing ranks {', '.join(map(str, facts.missing_ranks[:32]))}: without them waiting cannot be told from transfer for sure"
        )
    if not facts.steps:
        print("  no step marks: call profiler.step() once per iteration, or netlab.capture(DIR) and cap.step()")
    for table, adds, how in _RECORDINGS:
        has = run.manifest.tables.get(table, 0)
        print(f"  {'has ' if has else 'lacks'} {adds}" + ("" if has else f"\n        record: {how}"))
