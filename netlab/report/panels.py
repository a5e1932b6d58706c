"""An exhibit is a chart with the table below it; what a run lacks is a box that says how to record it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import Any

import polars as pl

from netlab.errors import ReportError
from netlab.figures.renderer import mimebundle, png_wanted
from netlab.report.markup import box, details, table

__all__ = ["Exhibit", "Missing"]


@dataclass(frozen=True)
class Exhibit:
    """A chart with its data; in Jupyter it shows both.

    ``labels`` name the table's columns for people, ``whole`` says where all rows are, ``without`` why there is a table but no chart.
    """

    chart: Any | None
    frame: pl.DataFrame
    labels: dict[str, str]
    whole: str = ""
    without: str = ""

    def _ipython_display_(self) -> None:
        from IPython.display import display

        shown = self
        if self.chart is not None:
            try:
                data, metadata = mimebundle(self.chart, png=png_wanted())
            except ReportError as error:  # too large to draw: one chart must not take the report down
                shown = replace(self, chart=None, without=f"No chart, only its data: {error}")
            else:
                display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
        display({"text/html": shown.table_html, "text/plain": f"table of {self.frame.height} rows"}, raw=True)  # type: ignore[no-untyped-call]

    @property
    def table_html(self) -> str:
        """The chart's data, closed until asked for; open where there is no chart."""
        rows = table(self.frame, self.labels, whole=self.whole)
        if self.chart is None:
            return box(self.without, [], below=rows)
        return details("Data of this chart", rows)


@dataclass(frozen=True)
class Missing:
    """Why there is no chart, and what to record for it. All texts are plain."""

    title: str
    sentence: str
    command: str = ""

    def _repr_html_(self) -> str:
        told = f"<b>{escape(self.title)}.</b> {escape(self.sentence)}"
        if not self.command:
            return f'<div class="nl-missing" role="note"><p>{told}</p></div>'
        how = f"<pre><code>{escape(self.command)}</code></pre>"
        return f'<details class="nl-missing"><summary>{told} How to get it:</summary>{how}</details>'

    def __repr__(self) -> str:
        return f"{self.title}: {self.sentence}"
