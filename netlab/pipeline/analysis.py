"""From a run to its verdict: attribution, findings, judgement, document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import msgspec
import polars as pl

from netlab.attribute import Attribution, attribution, input_marks
from netlab.attribute.counter_coverage import with_clocks
from netlab.attribute.nccl import logged_gbps
from netlab.config import Settings
from netlab.diagnose import judge
from netlab.diagnose.link_cells import link_evidence
from netlab.diagnose.links import link_findings
from netlab.diagnose.localise import Localisation, localise, mark_links
from netlab.diagnose.nccl import nccl_findings
from netlab.diagnose.onsets import link_onset
from netlab.errors import RunError
from netlab.findings import Finding, findings_frame
from netlab.issues import Issue, issues_frame
from netlab.pipeline.ingest import Progress
from netlab.pipeline.stages import ingest_inputs, open_run, run_name, stored_run
from netlab.run import Run, RunFacts, check_target
from netlab.schema.timeline import TIMELINE_TABLES
from netlab.verdict.build import Judgement, build_verdict
from netlab.verdict.model import Verdict

__all__ = ["Analysis", "analyse", "analyse_run", "ingest_run", "rejected_verdict"]


@dataclass(frozen=True)
class Analysis:
    """A run with its analysis tables, and the verdict on it."""

    run: Run
    verdict: Verdict


def analyse(
    paths: Sequence[Path],
    settings: Settings,
    *,
    store: Path | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Analysis:
    """Read, align, attribute and judge what lies under the paths."""
    run = stored_run(paths)
    if run is None:
        ingested = ingest_inputs(paths, store=store, workers=workers, scheduler=scheduler, progress=progress)
        run = open_run(ingested, settings, run_name(paths, settings.config))
    return analyse_run(run, settings.config.threshold)


def analyse_run(run: Run, threshold: Fraction) -> Analysis:
    """Attribute and judge an opened run; the result's run holds the tables of attribution and ``findings`` too."""
    figures = _figures(run, threshold)
    uneven, doubts = _job_findings(run)
    if figures.issues or doubts:
        known = msgspec.convert(run.frame("issues").to_dicts(), list[Issue])
        run = run.with_frames({"issues": issues_frame([*known, *figures.issues, *doubts])})
    localisation = localise(run)
    if localisation.verdicts:
        run = run.with_frames({"links": mark_links(run.frame("links"), localisation)})
    if localisation.clocks:
        clocks = {device: (clock.offset_ns, clock.low_ns, clock.high_ns) for device, clock in localisation.clocks}
        run = run.with_frames({"counter_coverage": with_clocks(run.frame("counter_coverage"), clocks)})
    judgement = _judgement(run, figures, localisation, uneven)
    verdict = build_verdict(run, figures, judgement)
    tables = {**figures.tables, **link_evidence(run, localisation), "findings": findings_frame(judgement.findings)}
    return Analysis(run.with_frames(tables), verdict)


def _figures(run: Run, threshold: Fraction) -> Attribution:
    links = run.manifest.config.links
    logged = logged_gbps(run.frame("connections"), run.frame("topology_nodes"), run.frame("topology_paths"))
    declared = {"intra_node": links.intra_node_gbps, "inter_node": links.inter_node_gbps}
    predicted = run.frame("group_links").drop_nulls("predicted_gb_per_s").group_by("group").agg(pl.col("predicted_gb_per_s").max())
    return attribution(
        {table.name: run.frame(table.name) for table in TIMELINE_TABLES},
        threshold=threshold,
        window=run.facts.window,
        declared_gbps={layer: rate for layer, rate in declared.items() if rate is not None},
        logged_gbps=logged,
        predicted=dict(predicted.iter_rows()),
        speed_tests=run.frame("link_speed_tests"),
        inputs=input_marks(run.frame("annotations"), run.frame("trace_files"), run.frame("clocks")),
    )


def _job_findings(run: Run) -> tuple[list[Finding], list[Issue]]:
    """What operation-level traces of jobs tell; the replay is loaded for them alone."""
    operations = run.frame("job_operations")
    if operations.is_empty():
        return [], []
    from netlab.whatif.uneven import uneven_findings

    return uneven_findings(operations)


def _judgement(run: Run, figures: Attribution, localisation: Localisation, more: Sequence[Finding]) -> Judgement:
    evidence = [*more, *nccl_findings(run, breakdown=figures.breakdown), *link_findings(run, run.manifest.config.limits, localisation)]
    concluded = judge(figures, run.facts, evidence, link_onset(run, localisation))
    return Judgement(
        status=concluded.status,
        cause=concluded.cause,
        headline=concluded.headline,
        findings=concluded.findings,
        hangs=[{**row, "group": _members(row["group"])} for row in run.frame("hangs").iter_rows(named=True)],
        links=run.frame("links").to_dicts(),
    )


def _members(group: str) -> list[int] | str:
    """A group's ranks; its name where only that is known."""
    parts = group.split(",")
    return [int(part) for part in parts] if all(part.isdigit() for part in parts) else group


def ingest_run(
    paths: Sequence[Path],
    settings: Settings,
    store: Path,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Run:
    """Read and align a run and store its tables in a folder; parsed files stay in the cache."""
    check_target(store)
    ingested = ingest_inputs(paths, workers=workers, scheduler=scheduler, progress=progress)
    run = open_run(ingested, settings, run_name(paths, settings.config))
    return run.save(store)


def rejected_verdict(paths: Sequence[Path], settings: Settings, store: Path | None, error: RunError) -> Verdict:
    """The document of inputs that cannot be read or cannot be one run: null figures, the sources, and the reason as an issue."""
    config = settings.config
    name = run_name(paths, config)
    issues: list[Issue] = []
    frames = {}
    try:
        ingested = ingest_inputs(paths, store=store)
        frames["sources"] = ingested.raw.sources
        issues += ingested.raw.issues
    except RunError:
        pass  # there is no file at all: the reason below says it
    code, separator, _ = str(error).partition(": ")
    known = code if separator and code.isupper() else "NO_INPUT"
    issues.append(Issue(code=known, severity="error", message=str(error)))
    run = Run.from_frames({**frames, "issues": issues_frame(issues)}, RunFacts(name=name, world_size=config.run.world_size), config)
    judgement = Judgement(status="inconclusive", cause="unknown", headline=str(error))
    return build_verdict(run, _figures(run, config.threshold), judgement)
