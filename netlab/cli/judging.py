"""Commands that judge runs: check, report, compare, history, whatif."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from netlab.cli.common import analysis_of, app, exit_code, settings_of, write_json
from netlab.cli.options import (
    ConfigOption,
    FailOn,
    FailOnOption,
    JsonOption,
    JunitOption,
    OutOption,
    Paths,
    QuietOption,
    RanksOption,
    SchedulerOption,
    SlackOption,
    StepsOption,
    StoreOption,
    ThresholdOption,
    VerboseOption,
    WorkersOption,
)

__all__: list[str] = []


@app.command()
def check(
    paths: Paths,
    json: JsonOption = None,
    threshold: ThresholdOption = None,
    fail_on: FailOnOption = FailOn.FLAGGED,
    config: ConfigOption = None,
    steps: StepsOption = None,
    ranks: RanksOption = None,
    store: StoreOption = None,
    workers: WorkersOption = 1,
    scheduler: SchedulerOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Verdict and tables on the terminal; exit code 1 if the network share is above its limit."""
    from netlab.cli.terminal import print_verdict

    settings = settings_of(paths, config, threshold, steps, ranks)
    verdict = analysis_of(paths, settings, store, workers, scheduler, quiet, json).verdict
    if json is not None:
        write_json(verdict.json(), json)
    if json != "-" and not quiet:
        print_verdict(verdict)
    return exit_code(verdict, fail_on)


@app.command()
def report(
    paths: Paths,
    out: OutOption = None,
    json: JsonOption = None,
    threshold: ThresholdOption = None,
    fail_on: FailOnOption = FailOn.FLAGGED,
    junit: JunitOption = None,
    slack_payload: SlackOption = None,
    config: ConfigOption = None,
    steps: StepsOption = None,
    ranks: RanksOption = None,
    store: StoreOption = None,
    workers: WorkersOption = 1,
    scheduler: SchedulerOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """The check and what-if through the report notebook: report.html, report.ipynb, verdict.json, summary.md and more."""
    from netlab.cli.terminal import print_verdict
    from netlab.pipeline.scenarios import with_what_if
    from netlab.report import write_report

    settings = settings_of(paths, config, threshold, steps, ranks)
    analysis = with_what_if(analysis_of(paths, settings, store, workers, scheduler, quiet, json), paths)
    told = {"run": os.pathsep.join(map(str, paths)), "config": config, "steps": steps, "ranks": ranks}
    parameters = {name: str(value) for name, value in told.items() if value is not None}
    folder = write_report(analysis.run, analysis.verdict, out, parameters, junit=junit, slack=slack_payload)
    if json is not None:
        write_json(analysis.verdict.json(), json)
    if json != "-" and not quiet:
        print_verdict(analysis.verdict)
        print(f"\nreport: {folder / 'report.html'}")
    return exit_code(analysis.verdict, fail_on)


@app.command()
def compare(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="The good run.", show_default=False)],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The slow run.", show_default=False)],
    out: OutOption = None,
    json: JsonOption = None,
    threshold: ThresholdOption = None,
    fail_on: FailOnOption = FailOn.FLAGGED,
    junit: JunitOption = None,
    slack_payload: SlackOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    workers: WorkersOption = 1,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Post-mortem of a slow run against a good one: what changed, where, since which step; writes a report like `report`."""
    from netlab.cli.terminal import print_verdict
    from netlab.pipeline.scenarios import with_comparison
    from netlab.report import write_report

    sides = []
    for path in (base, run):
        settings = settings_of([path], config, threshold, None, None)
        sides.append(analysis_of([path], settings, store, workers, None, quiet, json))
    analysis = with_comparison(sides[0], sides[1], [run])
    told = {"base": str(base), "run": str(run)}
    folder = write_report(analysis.run, analysis.verdict, out, told, notebook="post_mortem", junit=junit, slack=slack_payload)
    if json is not None:
        write_json(analysis.verdict.json(), json)
    if json != "-" and not quiet:
        print_verdict(analysis.verdict)
        print(f"\nreport: {folder / 'report.html'}")
    return exit_code(analysis.verdict, fail_on)


@app.command()
def history(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that holds the reports.", show_default=False)],
    out: OutOption = None,
    json: JsonOption = None,
    fail_on: FailOnOption = FailOn.FLAGGED,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Trend over the verdicts of many reports; exit code 1 if a newest report is flagged, or (--fail-on warning) worse than its past."""
    from netlab.cli.terminal import print_history
    from netlab.report import Trend, write_history

    trend = Trend.load(str(folder))
    document = trend.document
    target = out if out is not None else folder / "history"
    page = write_history(trend, folder, target)
    if json is not None:
        write_json(document.json(), json)
    if json != "-" and not quiet:
        print_history(document)
        print(f"\ntable: {target / 'history.parquet'}\nreport: {page}")
    flagged, worse = document.status == "flagged", bool(document.regressions)
    reasons = {FailOn.FLAGGED: flagged, FailOn.WARNING: worse, FailOn.INCONCLUSIVE: any(run.regression is None for run in document.runs)}
    levels = list(FailOn)
    return int(any(reasons.get(level, False) for level in levels[1 : levels.index(fail_on) + 1]))


@app.command()
def whatif(
    paths: Paths,
    scenarios: Annotated[
        Path | None, typer.Option("--scenarios", metavar="FILE", help="Scenarios; default scenarios.toml beside the inputs.")
    ] = None,
    sensitivity: Annotated[
        str | None, typer.Option("--sensitivity", metavar="NAME", help="Also tell what the answer to this scenario hangs on.")
    ] = None,
    json: JsonOption = None,
    threshold: ThresholdOption = None,
    config: ConfigOption = None,
    steps: StepsOption = None,
    ranks: RanksOption = None,
    store: StoreOption = None,
    workers: WorkersOption = 1,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """What would compression, overlap, another fabric or no straggler bring, and how sure is that."""
    from netlab.cli.terminal import print_sensitivity, print_what_if
    from netlab.pipeline.scenarios import answer_scenarios, find_scenarios, scenario_sensitivity

    settings = settings_of(paths, config, threshold, steps, ranks)
    chosen = find_scenarios(paths, scenarios)
    analysis = analysis_of(paths, settings, store, workers, None, quiet, json)
    answers = answer_scenarios(analysis.run, chosen)
    swings = None if sensitivity is None else scenario_sensitivity(analysis.run, answers.question(sensitivity))
    if json is not None:
        write_json(answers.json(sensitivity=swings), json)
    if json != "-" and not quiet:
        print_what_if(answers)
        if swings is not None:
            print_sensitivity(swings)
    return 0
