"""The application object, and what several commands do alike: settings, analysis, the JSON document, the exit code."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netlab.cli.options import FailOn

if TYPE_CHECKING:
    from netlab.config import Settings
    from netlab.pipeline.analysis import Analysis
    from netlab.verdict.model import Verdict

__all__ = ["analysis_of", "app", "exit_code", "settings_of", "write_json"]

app = typer.Typer(
    help="Why was this training run slow: network, straggler, schedule or host?",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
)


def _version(value: bool) -> None:
    if value:
        from netlab import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def _root(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False) -> None:
    pass


def settings_of(paths: list[Path], config: Path | None, threshold: str | None, steps: str | None, ranks: str | None) -> Settings:
    from netlab.cli.terminal import say
    from netlab.config import load_settings
    from netlab.pipeline.inputs import input_folders
    from netlab.selection import parse_ranks, parse_steps
    from netlab.units import parse_share

    flags: dict[str, Any] = {"run.steps": steps, "run.ranks": ranks}
    if threshold is not None:
        parse_share(threshold, "--threshold")
        flags["limits.network_share"] = float(threshold)
    settings = load_settings(input_folders(paths), config, os.environ, flags)
    for key, parse in (("steps", parse_steps), ("ranks", parse_ranks)):
        text, origin = getattr(settings.config.run, key), settings.origins[f"run.{key}"]
        if text is not None:
            parse(text, f"--{key}" if origin == "flag" else f"{origin}: run.{key}")
    for warning in settings.warnings:
        say(f"netlab: {warning}")
    return settings


def analysis_of(
    paths: list[Path], settings: Settings, store: Path | None, workers: int, scheduler: str | None, quiet: bool, json: str | None = None
) -> Analysis:
    """The analysis; inputs that cannot be one run still leave a document with null totals where ``--json`` asks for one."""
    from netlab.cli.terminal import progress_bar
    from netlab.errors import RunError
    from netlab.pipeline.analysis import analyse, rejected_verdict

    with progress_bar(quiet, "reading") as progress:
        try:
            return analyse(paths, settings, store=store, workers=workers, scheduler=scheduler, progress=progress)
        except RunError as error:
            if json is not None:
                write_json(rejected_verdict(paths, settings, store, error).json(), json)
            raise


def write_json(text: str, target: str) -> None:
    if target == "-":
        sys.stdout.write(text)
        return
    from netlab.export.files import write_text

    write_text(Path(target), text)


def exit_code(verdict: Verdict, fail_on: FailOn) -> int:
    """1 if the verdict holds something that ``--fail-on`` names."""
    reasons = {
        FailOn.CRITICAL: any(finding.severity == "critical" for finding in verdict.findings),
        FailOn.CERTAIN: verdict.totals.flag_certain,
        FailOn.FLAGGED: verdict.flagged,
        FailOn.WARNING: verdict.status == "warn" or any(finding.severity == "warning" for finding in verdict.findings),
        FailOn.INCONCLUSIVE: verdict.status == "inconclusive",
    }
    levels = list(FailOn)
    return int(any(reasons[level] for level in levels[1 : levels.index(fail_on) + 1]))
