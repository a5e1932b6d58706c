"""Exhibits: a chart, the table below it, and where they come from. What a run lacks becomes a box that says how to record it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl

from netlab.config import nearest
from netlab.errors import ConfigError
from netlab.figures.frames import rows_frame
from netlab.figures.parts import attribution, share_per_step
from netlab.figures.renderer import mimebundle
from netlab.report.markup import box, details, table
from netlab.report.study import Study
from netlab.verdict.rows import RankRow, StepRow

__all__ = ["EXHIBITS", "Exhibit", "Missing", "exhibit"]


@dataclass(frozen=True)
class Exhibit:
    """A chart with its data. In Jupyter it shows both; ``labels`` name the table's columns for people."""

    chart: Any
    frame: pl.DataFrame
    labels: dict[str, str]
    whole: str = ""

    def _ipython_display_(self) -> None:
        from IPython.display import display

        from netlab.figures.renderer import png_wanted

        data, metadata = mimebundle(self.chart, png=png_wanted())
        display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
        display({"text/html": self.table_html, "text/plain": f"table of {self.frame.height} rows"}, raw=True)  # type: ignore[no-untyped-call]

    @property
    def table_html(self) -> str:
        """The chart's data, closed until asked for."""
        return details("Data of this chart", table(self.frame, self.labels, whole=self.whole))


@dataclass(frozen=True)
class Missing:
    """Why there is no chart, and what to record for it. All texts are plain."""

    title: str
    sentence: str
    command: str = ""

    def _repr_html_(self) -> str:
        return box(self.title, [self.sentence], command=self.command)

    def __repr__(self) -> str:
        return f"{self.title}: {self.sentence}"


Builder = Callable[[Study], "Exhibit | Missing"]

_RECORD_TRACE = """with netlab.capture(DIR) as cap:    # or torch.profiler with CPU and CUDA activities, on every rank
    for batch in loader:
        train(batch)
        cap.step()"""

PART_LABELS = {
    "iteration_ms": "step (ms)",
    "compute_ms": "compute (ms)",
    "hidden_comm_ms": "hidden comm. (ms)",
    "exposed_transfer_ms": "exposed transfer (ms)",
    "exposed_wait_ms": "exposed wait (ms)",
    "exposed_memory_ms": "memory (ms)",
    "idle_ms": "idle (ms)",
    "network_share": "network share",
    "comm_share": "comm. share",
}


def _attribution(study: Study) -> Exhibit | Missing:
    frame = rows_frame(study.verdict.by_rank, RankRow)
    if not frame.height:
        return Missing(
            "No attribution of time", "There is no device activity, so it is not known where the step's time went.", _RECORD_TRACE
        )
    chart = attribution(frame, msgspec.to_builtins(study.verdict.totals))
    return Exhibit(chart, frame, {"rank": "rank", **PART_LABELS}, "tables/breakdown.parquet")


def _share_per_step(study: Study) -> Exhibit | Missing:
    frame = rows_frame(study.verdict.by_step, StepRow)
    if not frame.height:
        return Missing("No shares per step", "The inputs mark no steps.", _RECORD_TRACE)
    labels = {"step": "step", **PART_LABELS, "network_share_low": "at least", "network_share_high": "at most"}
    return Exhibit(share_per_step(frame, study.verdict.threshold), frame, labels, "tables/breakdown.parquet")


EXHIBITS: dict[str, Builder] = {
    "attribution": _attribution,
    "share-per-step": _share_per_step,
}


def exhibit(study: Study, name: str) -> Exhibit | Missing:
    """The exhibit of that name, or what is missing for it.

    Raises
    ------
    ConfigError
        If there is no such exhibit; names the nearest one.
    """
    if name not in EXHIBITS:
        raise ConfigError(f"There is no exhibit {name!r}; {nearest(name, EXHIBITS)}")
    return EXHIBITS[name](study)
