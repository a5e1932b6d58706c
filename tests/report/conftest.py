"""One finished report for the tests of this room: a kernel takes seconds to start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from netlab.report import write_report
from tests.made_run import Made, made_run


@dataclass(frozen=True)
class Report:
    """A report on disk and what it is about."""

    folder: Path
    made: Made

    @property
    def page(self) -> str:
        return (self.folder / "report.html").read_text("utf-8")


@pytest.fixture(scope="session")
def made_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    made = made_run(name="made <script>alert(1)</script>")
    folder = write_report(made.run, made.verdict, tmp_path_factory.mktemp("reports") / "r", {"run": "/data/made"})
    return Report(folder, made)
