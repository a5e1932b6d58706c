"""For exploring: brush ranks and steps in one chart, see where their time went in the other."""

from __future__ import annotations

import json
from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.parts import extreme_ranks, parts_frame
from netlab.figures.theme import PART_COLOURS, WIDTH, ramp, titled
from netlab.units import plural

__all__ = ["rank_step_explorer"]

_RANKS_SHOWN = 40
#: Cells of the map, each with its parts: 0.7 MB.
_CELLS = 6_000


def rank_step_explorer(by_rank_step: pl.DataFrame) -> Any:
    """Exposed communication of each (rank, step) above, parts of the step of the brushed ones below.

    Parameters
    ----------
    by_rank_step
        ``verdict.by_rank_step`` as a frame; of more than 40 ranks those with most and least exposed communication, and of more steps than
        fit the last ones.

    Returns
    -------
    Two linked charts: drag over the upper one, double-click to clear.
    """
    ranks = extreme_ranks(by_rank_step.group_by("rank").agg(pl.col("exposed_comm_ms").sum()), "exposed_comm_ms", _RANKS_SHOWN)
    shown = by_rank_step.filter(pl.col("rank").is_in(ranks))
    steps = sorted(shown["step"].unique().to_list())[-(_CELLS // max(len(ranks), 1)) :]
    shown = shown.filter(pl.col("step").is_in(steps))
    long = parts_frame(shown.with_columns(pl.struct("rank", "step").alias("key")), "key").unnest("key")
    present = [part for part in PART_COLOURS if part in set(long["part"])]
    # One row per cell and a column per part: with a row per part the data would be six times as large.
    names = {part: f"p{number}" for number, part in enumerate(present)}
    wide = long.with_columns(pl.col("part").replace_strict(names)).pivot(
        on="part", on_columns=list(names.values()), index=["rank", "step"], values="ms"
    )
    cells = shown.select("rank", "step", "comm_share").join(wide, on=["rank", "step"], how="left", maintain_order="left")
    brush = alt.selection_interval(name="brush", encodings=["x", "y"])
    upper = (
        alt.Chart()
        .mark_rect(aria=False)
        .encode(
            x=alt.X("step:O", title="step", axis=alt.Axis(labelAngle=0, grid=False, labelOverlap=True)),
            y=alt.Y("rank:O", title="rank", axis=alt.Axis(grid=False)),
            color=alt.condition(
                brush,
                alt.Color(
                    "comm_share:Q",
                    title="exposed communication",
                    scale=alt.Scale(domain=[0, 1], range=ramp("transfer"), clamp=True),
                    legend=alt.Legend(orient="right", direction="vertical", format=".0%", gradientLength=90, values=[0, 0.5, 1]),
                ),
                alt.value("rgba(125,136,148,0.15)"),
            ),
            tooltip=[
                alt.Tooltip("rank:O"),
                alt.Tooltip("step:O"),
                alt.Tooltip("comm_share:Q", title="exposed communication", format=".1%"),
            ],
        )
        .add_params(brush)
        .properties(width=WIDTH - 150, height=alt.Step(max(7, min(20, 300 // max(len(ranks), 1)))))
    )
    lower = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=alt.X("mean_ms:Q", title="mean time per step of the selected (ms)", axis=alt.Axis(format=",~f")),
            y=alt.Y("rank:O", title="rank"),
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(domain=present, range=[PART_COLOURS[part] for part in present]),
                legend=alt.Legend(orient="right", direction="vertical"),
            ),
            order=alt.Order("order:Q"),
            tooltip=[alt.Tooltip("rank:O"), alt.Tooltip("part:N"), alt.Tooltip("mean_ms:Q", title="ms", format=".4~g")],
        )
        .transform_filter(brush)
        .transform_fold(list(names.values()), as_=["key", "ms"])
        .transform_calculate(order="toNumber(slice(datum.key, 1))")
        .transform_calculate(part=f"{json.dumps(present)}[datum.order]")
        .transform_joinaggregate(steps="distinct(step)", groupby=["rank"])
        .transform_aggregate(sum_ms="sum(ms)", steps="max(steps)", groupby=["rank", "part", "order"])
        .transform_calculate(mean_ms="datum.sum_ms / datum.steps")
        .properties(width=WIDTH - 150, height=alt.Step(max(9, min(20, 300 // max(len(ranks), 1)))))
    )
    chart = alt.vconcat(upper, lower, data=alt.InlineData(values=records(cells, 4)), spacing=16).resolve_scale(color="independent")
    title = "Drag over ranks and steps: below stands where their time went"
    subtitle = f"{plural(len(ranks), 'rank')}, {plural(len(steps), 'step')}. Double-click clears the selection."
    return titled(chart, "explorer", title, subtitle, "A heat map of ranks and steps, linked with stacked bars of their parts.")
