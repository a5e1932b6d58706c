"""The only place that states the order of stages: files -> parts -> raw run -> aligned run -> attribution -> findings -> verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from netlab.align import AlignOptions, align
from netlab.align.counters import options_of
from netlab.align.events import EVENT_METADATA
from netlab.config import Config, Settings, nearest
from netlab.errors import RunError
from netlab.issues import Issue, issues_frame
from netlab.pipeline.assemble import RawRun, assemble
from netlab.pipeline.evidence import add_links, add_nccl, facts_without_traces, hosts_of_ranks, with_nics
from netlab.pipeline.ingest import Progress, ingest_files
from netlab.pipeline.inputs import InputFile, find_inputs
from netlab.pipeline.store import FileStore, default_store
from netlab.run import Run
from netlab.schema import TABLES
from netlab.schema.timeline import ACTIVITIES
from netlab.schema.traces import LAUNCHES, RAW_TABLES
from netlab.selection import parse_ranks, parse_steps
from netlab.shelf import TallFrame

__all__ = ["Ingested", "ingest_inputs", "open_run", "run_name", "stored_run"]

#: Raw trace tables that stay in a run: what-if and host analysis read them. Device events live on as activities.
_KEPT_RAW = frozenset({"trace_files", "process_groups", "sync_events", "annotations", "host_ops", "flows"})
#: What may be told without a trace.
_EVIDENCE = ("flight", "communicators", "nccl_events", "counters", "link_speed_tests", "profiler_events")
_RAW = frozenset(table.name for table in RAW_TABLES) | {EVENT_METADATA}


@dataclass(frozen=True)
class Ingested:
    """The inputs of a run after reading, before alignment."""

    files: list[InputFile]
    raw: RawRun


def run_name(paths: Sequence[Path], config: Config) -> str:
    """The configured name, else that of the folder or file that sorts first, whatever the order they are given in."""
    if config.run.name:
        return config.run.name
    first = min(path.resolve() for path in paths)
    return first.name if first.is_dir() else first.name.split(".")[0]


def stored_run(paths: Sequence[Path]) -> Run | None:
    """The run that ``netlab ingest`` stored, if that is what the single path holds."""
    if len(paths) == 1 and (paths[0] / "manifest.json").is_file() and list(paths[0].glob("*.parquet")):
        return Run.open(paths[0])
    return None


def ingest_inputs(
    paths: Sequence[Path], *, store: Path | None = None, workers: int = 1, scheduler: str | None = None, progress: Progress | None = None
) -> Ingested:
    """Find and read all files under the paths."""
    files = find_inputs(paths)
    cache = FileStore(store or default_store())
    if scheduler is not None:
        from netlab.pipeline.distributed import ingest_on_scheduler

        accounts = ingest_on_scheduler(files, cache.root, scheduler, progress)
    else:
        accounts = ingest_files(files, cache.root, workers, progress)
    if store is None:
        cache.prune()
    return Ingested(files, assemble(files, accounts, cache, cache.draft))


def open_run(ingested: Ingested, settings: Settings, name: str) -> Run:
    """Align what was read and put all tables into one run; takes the raw trace tables out of ``ingested``.

    Raises
    ------
    RunError
        If nothing could be read, or the files cannot be one run.
    """
    raw, config = ingested.raw, settings.config
    if not raw.frames and not (raw.sources["status"] != "rejected").any():
        reasons = [row["message"] or row["path"] for row in raw.sources.iter_rows(named=True)]
        raise RunError(
            f"No input could be read: {'; '.join(reasons[:3])}" + (f" (and {len(reasons) - 3} more)" if len(reasons) > 3 else "")
        )
    frames = {table: frame for table, frame in raw.frames.items() if table in _KEPT_RAW or table not in _RAW}
    tall: dict[str, TallFrame] = {}
    issues = [*_ranks_of_dumps(frames, raw.issues, config), *_unused_file_options(config, raw)]
    if "trace_files" in raw.frames:
        paths = raw.frames["trace_files"]["path"].to_list()
        options = _align_options(config, name, hosts_of_ranks(frames), paths)
        # Alignment gets the only reference to the bulk, so that it is let go as soon as nobody needs it.
        aligned = align({table: raw.frames.pop(table) for table in list(raw.frames) if table in _RAW}, raw.tall, options)
        frames |= aligned.frames
        tall = {"activities": aligned.activities, LAUNCHES.name: aligned.launches}
        issues += [*aligned.issues, *add_nccl(frames)]
        with_nics(frames)
        facts = aligned.facts
    else:
        found = add_nccl(frames)
        # Beside traces or logs, dumps of two runs are an issue; alone they are all there is.
        apart = [issue.message for issue in found if issue.code == "DUPLICATE_RANK"]
        if apart and [name for name in _EVIDENCE if name in frames and not frames[name].is_empty()] == ["flight"]:
            raise RunError(f"DUPLICATE_RANK: {' '.join(apart[:3])}")
        issues += found
        with_nics(frames)
        facts = facts_without_traces(frames, name, config)
    issues += add_links(frames, config, tall.get("activities", ACTIVITIES.empty()).lazy())
    frames["sources"] = raw.sources
    frames["issues"] = issues_frame(issues)
    return Run.from_frames(frames | tall, facts, config)


def _ranks_of_dumps(frames: dict[str, pl.DataFrame], issues: Sequence[Issue], config: Config) -> Sequence[Issue]:
    """Put the ranks of ``[files]`` into flight-recorder dumps; the issues without those that were about them."""
    sources = frames["flight"]["source"].unique().to_list() if "flight" in frames else []
    told = {source: rank for source in sources if (rank := options_of(source, config.files).rank) is not None}
    if not told:
        return issues
    of_source = pl.col("source").replace_strict(told, default=pl.col("rank"), return_dtype=frames["flight"].schema["rank"])
    frames["flight"] = TABLES["flight"].conform(frames["flight"].with_columns(rank=of_source))
    return [issue for issue in issues if issue.code != "RANK_ASSUMED" or issue.source not in told]


def _align_options(config: Config, name: str, rank_hosts: dict[int, str], paths: list[str]) -> AlignOptions:
    steps = None
    if config.run.steps is not None:
        first, last = parse_steps(config.run.steps)
        steps = range(first or 0, 2**31 if last is None else last)
    ranks = {path: options_of(path, config.files).rank for path in paths}
    return AlignOptions(
        run_name=name,
        world_size=config.run.world_size,
        gpus_per_node=config.run.gpus_per_node,
        rank_overrides={path: rank for path, rank in ranks.items() if rank is not None},
        rank_hosts=rank_hosts,
        classify=tuple((rule.pattern, rule.op) for rule in config.classify),
        intra_node_gbps=config.links.intra_node_gbps,
        inter_node_gbps=config.links.inter_node_gbps,
        steps=steps,
        ranks=None if config.run.ranks is None else parse_ranks(config.run.ranks),
    )


def _unused_file_options(config: Config, raw: RawRun) -> list[Issue]:
    """Keys of ``[files]`` that name no input: a misspelt path must not pass in silence."""
    sources = raw.sources["path"].to_list()
    unused = [key for key in config.files if not any(path == key or path.endswith("/" + key.lstrip("./")) for path in sources)]
    return [
        Issue(code="UNUSED_FILE_OPTION", message=f"netlab.toml: [files] {key!r} names no input; {nearest(key, sources)}") for key in unused
    ]
