"""Commands around the judging: ingest, export, plan, synth, notebooks, run, config, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from netlab.cli.common import analysis_of, app, settings_of, write_json
from netlab.cli.options import (
    ConfigOption,
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

__all__: list[str] = []


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

    settings = settings_of(paths, config, None, None, None)
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
    settings = settings_of(paths, config, threshold, steps, ranks)
    analysis = analysis_of(paths, settings, store, workers, None, quiet)
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
    from netlab.errors import RunError

    if not path.exists():
        raise RunError(f"{path} does not exist; give a run's folder.")
    print_settings(settings_of([path], config, None, None, None))
    return 0


@app.command()
def doctor(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="[PATH]...", help="A run: says what it lacks and how to record it.")] = None,
    verbose: VerboseOption = False,
) -> int:
    """Versions, extras and what works here; with a run, what it lacks."""
    from netlab.cli.inform import print_recorded, print_versions

    print_versions()
    if paths:
        print_recorded(analysis_of(paths, settings_of(paths, None, None, None, None), None, 1, None, True).run)
    return 0


@app.command()
def notebooks(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to copy them.")], verbose: VerboseOption = False) -> int:
    """Copy the workbook's notebooks for exploration."""
    from netlab.export.notebooks import copy_notebooks

    for path in copy_notebooks(folder):
        print(path)
    return 0


@app.command()
def run(
    notebook: Annotated[
        str, typer.Argument(metavar="NOTEBOOK", help="One of the workbook's, such as explore, or a file.", show_default=False)
    ],
    given: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the notebook, such as run=PATH; repeatable.")
    ] = None,
    out: OutOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Run a notebook of the workbook, or your copy of one, into report.html and report.ipynb."""
    from netlab.report import write_notebook

    page = write_notebook(notebook, out, given or [])
    if not quiet:
        print(f"report: {page}")
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
    from netlab.synth import write_run

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
    hosts_per_leaf: Annotated[int, typer.Option("--hosts-per-leaf", help="Hosts below one leaf (of one rail).")] = 32,
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
            intra_node_gbps=intra_node_gbps, inter_node_gbps=inter_node_gbps, oversubscription=oversubscription,
            hosts_per_leaf=hosts_per_leaf, network_share=limit, price_per_gpu_hour=price_per_gpu_hour,
        )
    )  # fmt: skip
    if json is not None:
        write_json(document.json(), json)
    if json != "-" and not quiet:
        print_plan(document)
    return 0


@app.command()
def calibrate(
    device: Annotated[
        str | None, typer.Option("--device", help="A torch device such as cpu or cuda:0; default the GPU if there is one.")
    ] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Encode and decode cost of every compression method on this device, kept where whatif finds it (needs netlab[torch])."""
    import msgspec

    from netlab.recording.codec_timing import calibrate as measured
    from netlab.whatif.codec_costs import save_codec_costs

    costs = measured(device)
    path = save_codec_costs(costs)
    if json is not None:
        write_json(msgspec.json.format(msgspec.json.encode(costs), indent=1).decode() + "\n", json)
    if json != "-" and not quiet:
        print(f"{costs.device}, ns per element (encode + decode):")
        for method, encode in costs.encode_ns_per_element.items():
            print(f"  {method:9} {encode:8.3f} + {costs.decode_ns_per_element[method]:.3f}")
        print(f"kept in {path}")
    return 0
