"""A run: a cupboard of Parquet tables with a manifest. It holds tables and facts, and no analysis."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from netlab.config import Config
from netlab.disk import write_parquet
from netlab.errors import ConfigError, RunError
from netlab.schema import SCHEMA_VERSION, TABLES
from netlab.shelf import FileFrame, TallFrame
from netlab.units import plural

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ExcludedStep", "Manifest", "Run", "RunFacts", "check_target"]


class ExcludedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A (rank, step) that is kept out of the figures, and why."""

    step: int
    rank: int
    reason: str


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a run beside its tables. ``window`` is step or capture, ``backend`` device or cpu."""

    name: str
    world_size: int | None = None
    ranks: list[int] = []
    missing_ranks: list[int] = []
    hosts: dict[str, list[int]] = {}
    steps: list[int] = []
    excluded_steps: list[ExcludedStep] = []
    window: str = "step"
    backend: str = "device"
    #: Clocks of several ranks could be put on one axis.
    clock_aligned: bool = False
    #: Host dependencies were recorded (sync events) rather than inferred.
    sync_recorded: bool = False
    #: There are traces, not logs, dumps or counters only.
    traced: bool = True


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of manifest.json."""

    facts: RunFacts
    netlab_version: str
    schema_version: int = SCHEMA_VERSION
    tables: dict[str, int] = {}
    #: Configuration under which the run was opened; a later check uses it again.
    config: Config = Config()


class Run:
    """Tables of one run, on disk or in memory.

    Examples
    --------
    >>> run = Run.from_frames({}, RunFacts(name="empty"))
    >>> run.frame("steps").height
    0
    """

    def __init__(self, manifest: Manifest, *, folder: Path | None = None, frames: Mapping[str, TallFrame] | None = None) -> None:
        self.manifest = manifest
        self.folder = folder
        self._files = {name: frame for name, frame in (frames or {}).items() if isinstance(frame, FileFrame)}
        self._frames = {name: frame for name, frame in (frames or {}).items() if isinstance(frame, pl.DataFrame)}

    @property
    def facts(self) -> RunFacts:
        """What is known beside the tables."""
        return self.manifest.facts

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.facts.name

    @property
    def tables(self) -> list[str]:
        """Names of the tables that have rows."""
        return sorted(name for name, rows in self.manifest.tables.items() if rows)

    @classmethod
    def from_frames(cls, frames: Mapping[str, TallFrame], facts: RunFacts, config: Config | None = None) -> Run:
        """A run in memory, large tables in files. Every frame must be exactly its declared table; those in files were checked before."""
        from netlab import __version__

        checked = {name: TABLES[name].validate(frame) if isinstance(frame, pl.DataFrame) else frame for name, frame in frames.items()}
        counts = {name: frame.height for name, frame in checked.items()}
        manifest = Manifest(facts=facts, netlab_version=__version__, tables=counts, config=config or Config())
        return cls(manifest, frames=checked)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Open a stored run.

        Raises
        ------
        RunError
            If the folder holds no run, or one that another version of netlab wrote.
        """
        path = folder / "manifest.json"
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except (OSError, msgspec.MsgspecError) as error:
            raise RunError(f"{folder} holds no stored run ({error}); give the folder of the raw files instead.") from error
        if manifest.schema_version != SCHEMA_VERSION:
            raise RunError(
                f"{folder} was written with table version {manifest.schema_version}, "
                f"this netlab reads version {SCHEMA_VERSION}; ingest the raw files again."
            )
        return cls(manifest, folder=folder)

    def save(self, folder: Path) -> Run:
        """Write all tables and the manifest; the folder appears whole or not at all.

        Raises
        ------
        ConfigError
            If the folder holds anything but the tables of a stored run: saving replaces it as a whole.
        """
        check_target(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        draft.chmod(0o755)  # mkdtemp makes it private; a store is for all
        try:
            for name in self.manifest.tables:
                if name in self._files:
                    shutil.copyfile(self._files[name].path, draft / f"{name}.parquet")
                else:
                    write_parquet(self.frame(name), draft / f"{name}.parquet")
            (draft / "manifest.json").write_bytes(msgspec.json.format(msgspec.json.encode(self.manifest), indent=1))
            _replace_folder(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return Run.open(folder)

    def with_frames(self, frames: Mapping[str, pl.DataFrame]) -> Run:
        """A run in memory with some tables added or replaced."""
        held = {name: self.frame(name) for name in self.manifest.tables}
        return Run.from_frames({**held, **frames}, self.facts, self.manifest.config)

    def frame(self, name: str) -> pl.DataFrame:
        """A table as a polars frame; empty if the run has no rows of it.

        Raises
        ------
        RunError
            If no such table is declared; the message names the nearest one.
        """
        if name not in TABLES:
            raise RunError(f"There is no table {name!r}; tables are {', '.join(TABLES)}.")
        if name in self._frames:
            return self._frames[name]
        if name in self._files:
            self._frames[name] = self._files[name].lazy().collect()
            return self._frames[name]
        if self.folder is not None and (self.folder / f"{name}.parquet").is_file():
            self._frames[name] = pl.read_parquet(self.folder / f"{name}.parquet")
            return self._frames[name]
        return TABLES[name].empty()

    def lazy(self, name: str) -> pl.LazyFrame:
        """A table as a lazy scan: columns and rows that are not asked for are not read."""
        if name not in self._frames and name in self._files:
            return self._files[name].lazy()
        if name not in self._frames and self.folder is not None and (self.folder / f"{name}.parquet").is_file():
            return pl.scan_parquet(self.folder / f"{name}.parquet")
        return self.frame(name).lazy()

    def pandas(self, name: str) -> pd.DataFrame:
        """A table as a pandas frame."""
        return self.frame(name).to_pandas()

    def __repr__(self) -> str:
        ranks = f"{len(self.facts.ranks)} of {self.facts.world_size or '?'} ranks"
        return f"<Run {self.name!r}: {ranks}, {len(self.facts.steps)} steps, tables {', '.join(self.tables)}>"

    def _repr_html_(self) -> str:
        from html import escape

        facts = self.facts
        head = (
            f"{len(facts.ranks)} of {facts.world_size or '?'} ranks, {plural(len(facts.hosts), 'host')}, {plural(len(facts.steps), 'step')}"
        )
        rows = "".join(
            f'<tr><td style="text-align:left">{name}</td><td style="text-align:right">{self.manifest.tables[name]:,}</td>'
            f'<td style="text-align:left">{escape(TABLES[name].doc.partition(". ")[0].rstrip("."))}</td></tr>'
            for name in self.tables
        )
        return (
            f"<p><b>{escape(self.name)}</b>: {head}</p><details><summary>{plural(len(self.tables), 'table')}</summary><table><thead><tr>"
            '<th style="text-align:left">table</th><th style="text-align:right">rows</th><th style="text-align:left">what it holds</th>'
            f"</tr></thead><tbody>{rows}</tbody></table></details>"
        )


def check_target(folder: Path) -> None:
    """Refuse a place whose replacement would lose somebody's files."""
    ours = {"manifest.json", *(f"{name}.parquet" for name in TABLES)}
    try:
        foreign = sorted(path.name for path in folder.iterdir() if path.name not in ours)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise ConfigError(f"{folder} is a file; give a new folder or that of an earlier run's tables.") from None
    if foreign:
        raise ConfigError(
            f"{folder} holds {foreign[0]}, which is no table of a stored run and would be lost; give a new folder or that of an earlier "
            "run's tables."
        )


def _replace_folder(draft: Path, target: Path) -> None:
    """Put a finished folder in the place of another; a reader of the old one keeps its open files."""
    if target.exists():
        old: Any = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
        os.replace(target, old / "old")
        os.replace(draft, target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(draft, target)
