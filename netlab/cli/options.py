"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "ConfigOption",
    "FailOn",
    "FailOnOption",
    "JsonOption",
    "JunitOption",
    "OutOption",
    "Paths",
    "QuietOption",
    "RanksOption",
    "SchedulerOption",
    "SlackOption",
    "StepsOption",
    "StoreOption",
    "ThresholdOption",
    "VerboseOption",
    "WorkersOption",
]


class FailOn(StrEnum):
    """What makes a command return 1; each includes those before it."""

    NEVER = "never"
    CRITICAL = "critical"
    CERTAIN = "certain"
    FLAGGED = "flagged"
    WARNING = "warning"
    INCONCLUSIVE = "inconclusive"


Paths = Annotated[list[Path], typer.Argument(metavar="PATH...", help="A folder, read recursively, or files.", show_default=False)]
JsonOption = Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write the JSON document there; - is stdout.")]
ThresholdOption = Annotated[
    str | None, typer.Option("--threshold", metavar="SHARE", help="Limit of the network share, 0 to 1.  [default: 0.25]")
]
FailOnOption = Annotated[FailOn, typer.Option("--fail-on", help="What makes the exit code 1; each includes those before it.")]
StoreOption = Annotated[
    Path | None, typer.Option("--store", metavar="DIR", help="Where parsed files are kept.  [default: the user's cache]")
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A TOML file that overrides netlab.toml beside the inputs.")
]
StepsOption = Annotated[str | None, typer.Option("--steps", metavar="A:B", help="Only these steps, half-open: 12:20.")]
RanksOption = Annotated[str | None, typer.Option("--ranks", metavar="LIST", help="Only these ranks: 0,8-15.")]
WorkersOption = Annotated[int, typer.Option("--workers", min=1, help="Processes that read files side by side.")]
SchedulerOption = Annotated[
    str | None, typer.Option("--scheduler", metavar="ADDRESS", help="A dask.distributed scheduler, tcp://HOST:PORT.")
]
JunitOption = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit file, one case per check.")]
SlackOption = Annotated[Path | None, typer.Option("--slack-payload", metavar="FILE", help="Write a Slack message (Block Kit JSON).")]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for the results.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress, no text; only errors.")]
VerboseOption = Annotated[bool, typer.Option("-v", "--verbose", help="Debug log and tracebacks on stderr.")]
