"""The functions of ``import netlab``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from netlab.config import load_settings
from netlab.pipeline.analysis import analyse_run
from netlab.pipeline.inputs import input_folders
from netlab.pipeline.stages import ingest_inputs, open_run, run_name, stored_run
from netlab.run import Run
from netlab.units import parse_share
from netlab.verdict.model import Verdict

if TYPE_CHECKING:
    from netlab.whatif import Scenario, WhatIf
    from netlab.whatif.sensitivity import Sensitivity

__all__ = ["check", "open", "sensitivity", "what_if"]

PathText = str | os.PathLike[str]


def open(
    *paths: PathText,
    config: PathText | None = None,
    steps: str | None = None,
    ranks: str | None = None,
    store: PathText | None = None,
    workers: int = 1,
) -> Run:
    """Read a run: a folder or files of any known format, or a folder that ``netlab ingest`` wrote.

    Parameters
    ----------
    paths
        A folder (read recursively) or files.
    config
        A TOML file that overrides ``netlab.toml`` beside the inputs.
    steps, ranks
        Only these, as ``12:20`` and ``0,8-15``.
    store
        Where parsed files are kept; the user's cache by default.
    workers
        Processes that read files side by side.

    Raises
    ------
    RunError
        If nothing can be read, or the files cannot be one run.
    ConfigError
        If a configuration is wrong.
    """
    chosen = [Path(path) for path in paths]
    stored = stored_run(chosen)
    if stored is not None:
        return stored
    settings = load_settings(
        input_folders(chosen), None if config is None else Path(config), os.environ, {"run.steps": steps, "run.ranks": ranks}
    )
    ingested = ingest_inputs(chosen, store=None if store is None else Path(store), workers=workers)
    return open_run(ingested, settings, run_name(chosen, settings.config))


def check(run: Run, threshold: str | float | Fraction | None = None) -> Verdict:
    """Judge a run. The threshold is a share from 0 to 1; by default the one it was opened with."""
    if threshold is None:
        limit = run.manifest.config.threshold
    else:
        limit = threshold if isinstance(threshold, Fraction) else parse_share(str(threshold))
    return analyse_run(run, limit).verdict


def what_if(run: Run, scenarios: PathText | Sequence[Scenario] | None = None) -> WhatIf:
    """Answer what-if scenarios: a TOML file, scenarios made in Python, or the built-in set."""
    from netlab.pipeline.scenarios import answer_scenarios, find_scenarios

    chosen: Sequence[Scenario] | None
    if isinstance(scenarios, str | os.PathLike):
        chosen = find_scenarios([], Path(scenarios))
    else:
        chosen = scenarios
    return answer_scenarios(run, chosen)


def sensitivity(run: Run, scenario: Scenario) -> Sensitivity:
    """Which assumption the answer to a scenario hangs on, and what would have to be true for the change to pay.

    Raises
    ------
    ScenarioError
        If the scenario is refused for this run.
    """
    from netlab.pipeline.scenarios import scenario_sensitivity

    return scenario_sensitivity(run, scenario)
