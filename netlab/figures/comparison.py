"""A slow run beside a good one: which part of the step grew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.theme import INK, MUTED, PART_COLOURS, WIDTH, titled
from netlab.units import format_ms, format_percent

__all__ = ["change_of_parts", "changes_frame"]

_PARTS = {
    "compute": "compute",
    "exposed_transfer": "exposed transfer",
    "exposed_wait": "exposed wait",
    "exposed_memory": "memory",
    "idle": "idle",
}


def changes_frame(delta_ms: Mapping[str, float | None]) -> pl.DataFrame:
    """Change of each part of the pooled step, run minus base, the largest first.

    >>> changes_frame({"compute": 0.5, "exposed_wait": -2.0, "idle": None}).rows()
    [('exposed wait', -2.0), ('compute', 0.5)]
    """
    rows = [(_PARTS[name], float(value)) for name, value in delta_ms.items() if value is not None and name in _PARTS]
    frame = pl.DataFrame(rows, schema={"part": pl.String, "ms": pl.Float64}, orient="row")
    return frame.sort(pl.col("ms").abs(), "part", descending=[True, False])


def change_of_parts(changes: pl.DataFrame, base: str, *, significant: bool, cause: str, share_of_delta: float | None = None) -> Any:
    """Bars of what each part of the step gained or lost.

    Parameters
    ----------
    changes
        Result of ``changes_frame``.
    base
        Name of the run that this one is compared with.
    significant, cause, share_of_delta
        ``significant``, ``cause`` and ``share_of_delta`` of the comparison, for the title.
    """
    parts = changes["part"].to_list()
    base_chart = alt.Chart(alt.InlineData(values=records(changes)))
    colour = alt.Color("part:N", legend=None, scale=alt.Scale(domain=parts, range=[PART_COLOURS[part] for part in parts]))
    y = alt.Y("part:N", title=None, sort=parts, axis=alt.Axis(labelColor=INK))
    x = alt.X("ms:Q", title=f"change of the mean step against {base[:60]} (ms)", axis=alt.Axis(format="+,~f", tickCount=8))
    tooltip = [alt.Tooltip("part:N", title="part"), alt.Tooltip("ms:Q", title="change (ms)", format="+.4~g")]
    zero = alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color=MUTED).encode(x="zero:Q")
    chart = alt.layer(base_chart.mark_bar(height={"band": 0.7}).encode(x=x, y=y, color=colour, tooltip=tooltip), zero)
    chart = chart.properties(width=WIDTH - 90, height=alt.Step(28))
    subtitle = "To the right: longer than in the other run. Parts are means over the ranks and steps that both runs have."
    return titled(
        chart, "comparison", _title(changes, significant, cause, share_of_delta), subtitle, f"Bars of {len(parts)} parts of the step."
    )


def _title(changes: pl.DataFrame, significant: bool, cause: str, share: float | None) -> str:
    total = float(changes["ms"].sum())
    if not significant:
        return f"No difference beyond noise: {format_ms(abs(total))} a step"
    words = f"The step became {format_ms(abs(total))} {'longer' if total > 0 else 'shorter'}"
    if changes.height:
        words += f", most of it {changes['part'][0]}"
    if cause not in ("none", "unknown"):
        words += f"; cause: {cause.replace('_', ' ')}" + (f" ({format_percent(share, 0)} of the change)" if share is not None else "")
    return words
