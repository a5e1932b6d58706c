"""What goes beyond one verdict: what-if rows, and the comparison with another run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from netlab.pipeline.analysis import Analysis
from netlab.pipeline.inputs import input_folders
from netlab.postmortem import Side, compare, comparison_tables
from netlab.run import Run
from netlab.whatif import Scenario, WhatIf, load_scenarios, what_if
from netlab.whatif.codec_costs import load_codec_costs
from netlab.whatif.sensitivity import Sensitivity, sensitivity

__all__ = ["answer_scenarios", "find_scenarios", "scenario_sensitivity", "with_comparison", "with_what_if"]


def find_scenarios(paths: Sequence[Path], given: Path | None) -> tuple[Scenario, ...] | None:
    """Scenarios of a file: the given one, else scenarios.toml beside the inputs; None means the built-in set.

    Raises
    ------
    ScenarioError
        If the file is wrong.
    """
    if given is not None:
        return load_scenarios(given)
    beside = [folder / "scenarios.toml" for folder in input_folders(paths) if (folder / "scenarios.toml").is_file()]
    return load_scenarios(beside[0]) if beside else None


def answer_scenarios(run: Run, scenarios: Sequence[Scenario] | None) -> WhatIf:
    """Answer scenarios with the rates, price and threshold that the run was opened with."""
    config = run.manifest.config
    return what_if(
        run,
        scenarios,
        threshold=config.threshold,
        price_per_gpu_hour=config.run.price_per_gpu_hour,
        links=config.links,
        codecs=load_codec_costs(),
    )


def scenario_sensitivity(run: Run, scenario: Scenario) -> Sensitivity:
    """Which assumption an answer hangs on, with the rates that the run was opened with and this device's codec costs."""
    return sensitivity(run, scenario, links=run.manifest.config.links, codecs=load_codec_costs())


def with_what_if(analysis: Analysis, paths: Sequence[Path]) -> Analysis:
    """The analysis with what-if rows in its verdict and its tables."""
    answers = answer_scenarios(analysis.run, find_scenarios(paths, None))
    verdict = msgspec.structs.replace(analysis.verdict, what_if=answers.to_dict()["scenarios"])
    return Analysis(analysis.run.with_frames({"scenarios": answers.frame()}), verdict)


def with_comparison(base: Analysis, slow: Analysis, paths: Sequence[Path]) -> Analysis:
    """The slow run's analysis with its comparison against the base, its tables, and what-if rows."""
    sides = Side(base.run, base.verdict), Side(slow.run, slow.verdict)
    verdict = compare(*sides)
    return with_what_if(Analysis(slow.run.with_frames(comparison_tables(*sides, verdict)), verdict), paths)
