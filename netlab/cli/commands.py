"""Every command of netlab, thin: options to settings, a call, output, exit code."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netlab.cli.options import (
    ConfigOption,
    FailOn,
    FailOnOption,
    JsonOption,
    OutOption,
    Paths,
    QuietOption,
    RanksOption,
    SchedulerOption,
    StepsOption,
    StoreOption,
    ThresholdOption,
    VerboseOption,
    WorkersOption,
)

if TYPE_CHECKING:
    from netlab.config import Settings
    from netlab.pipeline.analysis import Analysis
    from netlab.verdict.model import Verdict

__all__ = ["app"]

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


def _settings(paths: list[Path], config: Path | None, threshold: str | None, steps: str | None, ranks: str | None) -> Settings:
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
    if settings.config.run.steps is not None:
        parse_steps(settings.config.run.steps)
    if settings.config.run.ranks is not None:
        parse_ranks(settings.config.run.ranks)
    for warning in settings.warnings:
        say(f"netlab: {warning}")
    return settings


def _analyse(
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
                _write_json(rejected_verdict(paths, settings, store, error).json(), json)
            raise


def _write_json(text: str, target: str) -> None:
    if target == "-":
        sys.stdout.write(text)
        return
    from netlab.export.files import write_text

    write_text(Path(target), text)


def _exit_code(verdict: Verdict, fail_on: FailOn) -> int:
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

    settings = _settings(paths, config, threshold, steps, ranks)
    verdict = _analyse(paths, settings, store, workers, scheduler, quiet, json).verdict
    if json is not None:
        _write_json(verdict.json(), json)
    if json != "-" and not quiet:
        print_verdict(verdict)
    return _exit_code(verdict, fail_on)


@app.command()
def report(
    paths: Paths,
    out: OutOption = None,
    json: JsonOption = None,
    threshold: ThresholdOption = None,
    fail_on: FailOnOption = FailOn.FLAGGED,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit file, one case per check.")] = None,
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

    settings = _settings(paths, config, threshold, steps, ranks)
    analysis = with_what_if(_analyse(paths, settings, store, workers, scheduler, quiet, json), paths)
    told = {"run": os.pathsep.join(map(str, paths)), "config": config, "steps": steps, "ranks": ranks}
    parameters = {name: str(value) for name, value in told.items() if value is not None}
    folder = write_report(analysis.run, analysis.verdict, out, parameters, junit=junit)
    if json is not None:
        _write_json(analysis.verdict.json(), json)
    if json != "-" and not quiet:
        print_verdict(analysis.verdict)
        print(f"\nreport: {folder / 'report.html'}")
    return _exit_code(analysis.verdict, fail_on)


@app.command()
def compare(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="The good run.", show_default=False)],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The slow run.", show_default=False)],
    out: OutOption = None,
    json: JsonOption = None,
    threshold: ThresholdOption = None,
    fail_on: FailOnOption = FailOn.FLAGGED,
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
        settings = _settings([path], config, threshold, None, None)
        sides.append(_analyse([path], settings, store, workers, None, quiet, json))
    analysis = with_comparison(sides[0], sides[1], [run])
    folder = write_report(analysis.run, analysis.verdict, out)
    if json is not None:
        _write_json(analysis.verdict.json(), json)
    if json != "-" and not quiet:
        print_verdict(analysis.verdict)
        print(f"\nreport: {folder / 'report.html'}")
    return _exit_code(analysis.verdict, fail_on)


@app.command()
def whatif(
    paths: Paths,
    scenarios: Annotated[
        Path | None, typer.Option("--scenarios", metavar="FILE", help="Scenarios; default scenarios.toml beside the inputs.")
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
    from netlab.cli.terminal import print_what_if
    from netlab.pipeline.scenarios import answer_scenarios, find_scenarios

    settings = _settings(paths, config, threshold, steps, ranks)
    chosen = find_scenarios(paths, scenarios)
    analysis = _analyse(paths, settings, store, workers, None, quiet)
    answers = answer_scenarios(analysis.run, chosen)
    if json is not None:
        _write_json(answers.json(), json)
    if json != "-" and not quiet:
        print_what_if(answers)
    return 0


@app.command()
def ingest(
    paths: Paths,
    store: Annotated[Path, typer.Option("--store", metavar="DIR", help="Folder for the Parquet tables and manifest.json.")],
    config: ConfigOption = None,
    workers: WorkersOption = 1,
    scheduler: SchedulerOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Only the Parquet tables of a run."""
    from netlab.cli.terminal import progress_bar
    from netlab.pipeline.analysis import ingest_run

    settings = _settings(paths, config, None, None, None)
    with progress_bar(quiet, "reading") as progress:
        run = ingest_run(paths, settings, store, workers=workers, scheduler=scheduler, progress=progress)
    if not quiet:
        print(f"{run!r}\nstored: {store}")
    return 0


@app.command()
def export(
    paths: Paths,
    to: Annotated[str, typer.Option("--to", metavar="perfetto|parquet|csv", help="Format.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the files.")],
    threshold: ThresholdOption = None,
    config: ConfigOption = None,
    steps: StepsOption = None,
    ranks: RanksOption = None,
    store: StoreOption = None,
    workers: WorkersOption = 1,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """All tables as CSV or Parquet, or the worst step as a trace for the Perfetto UI."""
    from netlab.config import nearest
    from netlab.errors import ConfigError
    from netlab.export import EXPORTS

    if to not in EXPORTS:
        raise ConfigError(f"--to is {to!r}; {nearest(to, EXPORTS)}")
    settings = _settings(paths, config, threshold, steps, ranks)
    analysis = _analyse(paths, settings, store, workers, None, quiet)
    written = EXPORTS[to](analysis.run, out)
    if not quiet:
        print(f"{len(written)} files in {out}")
    return 0


@app.command()
def config(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A run's folder.")] = Path(),
    config: ConfigOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Effective configuration, each value with its origin."""
    from netlab.cli.inform import print_settings

    print_settings(_settings([path], config, None, None, None))
    return 0


@app.command()
def doctor(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="[PATH]...", help="A run: says what it lacks and how to record it.")] = None,
    verbose: VerboseOption = False,
) -> int:
    """Versions, extras and what works here; with a run, what it lacks."""
    from netlab.cli.inform import print_missing_inputs, print_versions

    print_versions()
    if paths:
        print_missing_inputs(_analyse(paths, _settings(paths, None, None, None, None), None, 1, None, True))
    return 0


@app.command()
def notebooks(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to copy them.")], verbose: VerboseOption = False) -> int:
    """Copy the workbook's notebooks for exploration."""
    from netlab.export.notebooks import copy_notebooks

    for path in copy_notebooks(folder):
        print(path)
    return 0


@app.command()
def synth(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An empty or new folder.")],
    plant: Annotated[str, typer.Option("--plant", help="The fault to plant.")] = "none",
    ranks: Annotated[int, typer.Option("--ranks", min=1, help="Number of ranks.")] = 8,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Number of steps; by default as many as the fault needs to show.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same bytes.")] = 0,
    verbose: VerboseOption = False,
) -> int:
    """Make a run with known truth in real file formats; the truth lies in DIR/truth.json."""
    from netlab.config import nearest
    from netlab.errors import ConfigError
    from netlab.synth import PLANTS, write_run

    if plant not in PLANTS:
        raise ConfigError(f"--plant is {plant!r}; {nearest(plant, PLANTS)}")
    write_run(folder, plant=plant, ranks=ranks, steps=steps, seed=seed)
    print(folder)
    return 0


@app.command()
def plan(
    params: Annotated[float, typer.Option("--params", help="Parameters of the model, such as 70e9.")],
    ranks: Annotated[int, typer.Option("--ranks", help="GPUs.")],
    dtype: Annotated[str, typer.Option("--dtype", help="Element type of gradients on the wire: fp32, bf16, fp8, ...")] = "bf16",
    step_seconds: Annotated[
        float | None, typer.Option("--step-seconds", help="Time of one step (of one micro-step with --accumulation).")
    ] = None,
    accumulation: Annotated[int, typer.Option("--accumulation", help="Micro-steps between two synchronisations.")] = 1,
    gpus_per_node: Annotated[int, typer.Option("--gpus-per-node")] = 8,
    tensor: Annotated[int, typer.Option("--tensor", help="Tensor-parallel degree.")] = 1,
    pipeline: Annotated[int, typer.Option("--pipeline", help="Pipeline stages.")] = 1,
    expert: Annotated[int, typer.Option("--expert", help="Expert-parallel degree.")] = 1,
    sequence_parallel: Annotated[int, typer.Option("--sequence-parallel", help="Ulysses degree.")] = 1,
    sharded: Annotated[
        bool, typer.Option("--sharded", help="Weights and gradients sharded over data-parallel ranks (FSDP, ZeRO-3).")
    ] = False,
    parameter_servers: Annotated[int, typer.Option("--parameter-servers", min=0)] = 0,
    layers: Annotated[int | None, typer.Option("--layers")] = None,
    hidden: Annotated[int | None, typer.Option("--hidden")] = None,
    batch: Annotated[int | None, typer.Option("--batch", help="Samples of a micro-batch on a rank.")] = None,
    sequence: Annotated[int | None, typer.Option("--sequence", help="Tokens of a sample.")] = None,
    top_k: Annotated[int, typer.Option("--top-k", help="Experts per token.")] = 2,
    intra_node_gbps: Annotated[float | None, typer.Option("--intra-node-gbps", help="Rate per GPU inside a host.")] = None,
    inter_node_gbps: Annotated[float | None, typer.Option("--inter-node-gbps", help="Rate per GPU between hosts.")] = None,
    oversubscription: Annotated[float, typer.Option("--oversubscription", help="Host over uplink bandwidth of a leaf.")] = 1.0,
    threshold: ThresholdOption = None,
    price_per_gpu_hour: Annotated[float | None, typer.Option("--price-per-gpu-hour")] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Traffic and bandwidth of a job that has not run yet, in closed form."""
    from netlab.cli.terminal import print_plan
    from netlab.units import parse_share
    from netlab.whatif.plan import Job
    from netlab.whatif.plan import plan as planned

    limit = 0.25 if threshold is None else float(parse_share(threshold, "--threshold"))
    document = planned(
        Job(
            params=params, ranks=ranks, dtype=dtype, step_seconds=step_seconds, accumulation=accumulation, gpus_per_node=gpus_per_node,
            tensor=tensor, pipeline=pipeline, expert=expert, sequence_parallel=sequence_parallel, sharded=sharded,
            parameter_servers=parameter_servers, layers=layers, hidden=hidden, batch=batch, sequence=sequence, top_k=top_k,
            intra_node_gbps=intra_node_gbps, inter_node_gbps=inter_node_gbps, oversubscription=oversubscription, network_share=limit,
            price_per_gpu_hour=price_per_gpu_hour,
        )
    )  # fmt: skip
    if json is not None:
        _write_json(document.json(), json)
    if json != "-" and not quiet:
        print_plan(document)
    return 0
