"""What a report is about: a run with its tables, and the verdict on it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import netlab
from netlab.errors import ReportError, RunError
from netlab.run import Run
from netlab.units import parse_share
from netlab.verdict.model import Verdict

__all__ = ["Study", "run_paths"]


@dataclass(frozen=True)
class Study:
    """A run, its verdict, and the parameters that led there."""

    run: Run
    verdict: Verdict
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, run: str, threshold: str | float = "", *, stored: str = "", **options: Any) -> Study:
        """Open a run and judge it, or take both from a finished report.

        Parameters
        ----------
        run
            Folder or file with the inputs; several are divided by a colon. A relative path counts from the working directory, and from the
            project's checkout if there is nothing, so that the notebooks find the recorded sample from wherever they are opened.
        threshold
            Limit of the network share, 0 to 1; empty means that of the run's configuration.
        stored
            Folder of a report (``tables/`` and ``verdict.json``): nothing is read or computed again, the rest is only named.
        options
            Further options of ``netlab.check``; empty ones are left out.

        Raises
        ------
        RunError
            If there is nothing under that path.
        """
        given = {key: value for key, value in options.items() if value not in (None, "")}
        parameters = {"run": run, "threshold": str(threshold), **given}
        if stored:
            return cls._stored(Path(stored), parameters)
        from netlab.pipeline.analysis import analyse_run
        from netlab.pipeline.scenarios import with_what_if

        paths = run_paths(run)
        opened = netlab.open(*paths, **given)
        limit = opened.manifest.config.threshold if threshold == "" else parse_share(str(threshold))
        analysis = with_what_if(analyse_run(opened, limit), paths)
        return cls(analysis.run, analysis.verdict, parameters)

    @classmethod
    def _stored(cls, folder: Path, parameters: dict[str, Any]) -> Study:
        try:
            verdict = Verdict.from_json((folder / "verdict.json").read_bytes())
        except OSError as error:
            raise ReportError(f"{folder} holds no verdict.json ({error.strerror}); give the folder of a report.") from error
        return cls(Run.open(folder / "tables"), verdict, parameters)

    @classmethod
    def compare(cls, base: str, run: str, threshold: str | float = "", *, stored: str = "") -> Study:
        """A slow run beside a good one: the slow run's study, whose verdict holds the comparison.

        Parameters
        ----------
        base, run
            Folders of the good and of the slow run; see ``load``.
        threshold
            Limit of the network share; empty means that of each run's configuration.
        stored
            Folder of a finished comparison: nothing is read or computed again.
        """
        parameters = {"base": base, "run": run, "threshold": str(threshold)}
        if stored:
            return cls._stored(Path(stored), parameters)
        from netlab.pipeline.analysis import analyse_run
        from netlab.pipeline.scenarios import with_comparison

        sides = []
        for path in (_found(base), _found(run)):
            opened = netlab.open(path)
            limit = opened.manifest.config.threshold if threshold == "" else parse_share(str(threshold))
            sides.append(analyse_run(opened, limit))
        analysis = with_comparison(sides[0], sides[1], [_found(run)])
        return cls(analysis.run, analysis.verdict, parameters)


def run_paths(run: str) -> list[Path]:
    """The inputs that a notebook's ``run`` names: one path, or several divided by a colon; see ``Study.load``."""
    return [_found(run)] if Path(run).exists() else [_found(part) for part in run.split(os.pathsep)]


def _found(text: str) -> Path:
    """The path itself, or the same path in the project's checkout."""
    path = Path(text)
    beside = Path(netlab.__file__).resolve().parents[1] / path
    for candidate in (path, beside):
        if candidate.exists():
            return candidate
    raise RunError(f"{text}: there is no such file or folder; give the folder with the inputs of the run.")
