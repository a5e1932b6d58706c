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
    from netlab.run import Run

__all__ = ["print_recorded", "print_settings", "print_versions"]

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


def print_recorded(run: Run) -> None:
    """What a run was recorded with, what it lacks, what that would add, and the command that records it."""
    from netlab.pipeline.recorded import recorded

    facts = run.facts
    print(f"\n{run.name}: {len(facts.ranks)} of {facts.world_size or '?'} ranks, {len(facts.steps)} steps")
    found = recorded(run)
    for row in found:
        note = f" ({row.note})" if row.note else ""
        print(f"  {row.state:<9}{row.adds}{note}")
        if row.state in ("lacks", "partly"):
            print(f"           record: {row.how}")
    lacking = sum(row.state in ("lacks", "partly") for row in found)
    print(f"  {lacking} of {len(found)} to record the next time" if lacking else "  nothing to add the next time")
