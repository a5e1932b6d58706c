"""Which ranks of a pipeline-parallel job compute longer than the others."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.theme import WIDTH, ramp, titled
from netlab.units import NS_PER_MS, format_percent, plural

__all__ = ["compute_frame", "compute_map"]

_LANES_SHOWN = 64
#: Excess below this share is told as none.
_ALIKE = 0.05


def compute_frame(operations: pl.DataFrame) -> pl.DataFrame:
    """Compute time of each rank in a step, and how far it is from the mean of all.

    Parameters
    ----------
    operations
        ``JOB_OPERATIONS`` of one job.

    Returns
    -------
    One row per (pipeline stage, data-parallel rank): ``stage, dp_rank, rank, compute_ms, spread_ms, excess``. ``spread_ms`` is the standard
    deviation over steps, ``excess`` the share by which the time is above (or below) the mean of all.

    Examples
    --------
    >>> rows = {"stage": [0, 1], "dp_rank": [0, 0], "rank": [0, 1], "step": [3, 3], "op": ["forward-compute"] * 2, "start_ns": [0, 0],
    ...         "end_ns": [1_000_000, 3_000_000]}
    >>> compute_frame(pl.DataFrame(rows)).select("rank", "compute_ms", "excess").rows()
    [(0, 1.0, -0.5), (1, 3.0, 0.5)]
    """
    compute = operations.filter(pl.col("op").str.ends_with("-compute"))
    by_step = compute.group_by("stage", "dp_rank", "step").agg(
        ((pl.col("end_ns") - pl.col("start_ns")).sum() / NS_PER_MS).alias("ms"), pl.col("rank").min()
    )
    ranks = by_step.group_by("stage", "dp_rank").agg(
        pl.col("rank").min(), pl.col("ms").mean().alias("compute_ms"), pl.col("ms").std().alias("spread_ms")
    )
    return ranks.with_columns(excess=pl.col("compute_ms") / pl.col("compute_ms").mean() - 1).sort("stage", "dp_rank")


def compute_map(frame: pl.DataFrame) -> Any:
    """Map of pipeline stage by data-parallel rank: the darker, the longer it computes than the mean.

    Parameters
    ----------
    frame
        Result of ``compute_frame``; of more than 64 data-parallel ranks those with the longest compute are drawn.
    """
    by_lane = frame.group_by("dp_rank").agg(pl.col("excess").max()).sort("excess", "dp_rank", descending=[True, False])
    lanes = sorted(by_lane["dp_rank"].head(_LANES_SHOWN).to_list())
    shown = frame.filter(pl.col("dp_rank").is_in(lanes)).with_columns(above=pl.col("excess").clip(lower_bound=0))
    most = max(float(frame["excess"].max() or 0), _ALIKE)  # type: ignore[arg-type]
    chart = (
        alt.Chart(alt.InlineData(values=records(shown)))
        .mark_rect(stroke=None, cornerRadius=2)
        .encode(
            x=alt.X("dp_rank:O", title="data-parallel rank", axis=alt.Axis(labelAngle=0, grid=False, labelOverlap=True)),
            y=alt.Y("stage:O", title="pipeline stage", axis=alt.Axis(grid=False)),
            color=alt.Color(
                "above:Q",
                title="above the mean",
                scale=alt.Scale(domain=[0, most], range=ramp("neutral")),
                legend=alt.Legend(orient="right", direction="vertical", gradientLength=90, format=".0%"),
            ),
            tooltip=[
                alt.Tooltip("rank:Q", title="rank"),
                alt.Tooltip("stage:O", title="pipeline stage"),
                alt.Tooltip("dp_rank:O", title="data-parallel rank"),
                alt.Tooltip("compute_ms:Q", title="compute in a step (ms)", format=",.4~g"),
                alt.Tooltip("spread_ms:Q", title="standard deviation over steps (ms)", format=",.3~g"),
                alt.Tooltip("excess:Q", title="against the mean", format="+.1%"),
            ],
        )
        .properties(width=alt.Step(max(8, min(60, (WIDTH - 140) // len(lanes)))), height=alt.Step(26))
    )
    subtitle = "A dark row is a stage with more work, a single dark cell a slow rank."
    if len(lanes) < by_lane.height:
        subtitle += f" Of {plural(by_lane.height, 'data-parallel rank')}, the {len(lanes)} with the longest compute."
    described = f"Map of {plural(frame['stage'].n_unique(), 'stage')} by {plural(len(lanes), 'data-parallel rank')}."
    return titled(chart, "compute-by-rank", _title(frame), subtitle, described)


def _title(frame: pl.DataFrame) -> str:
    top = frame.sort("excess", "stage", "dp_rank", descending=[True, False, False]).row(0, named=True)
    if top["excess"] < _ALIKE:
        return f"All ranks compute alike: none takes {format_percent(_ALIKE, 0)} longer than the mean"
    stage = frame.filter(pl.col("stage") == top["stage"])
    if stage["excess"].min() > 0 and stage["excess"].min() > top["excess"] / 2:  # type: ignore[operator]
        return f"Stage {top['stage']} computes {format_percent(float(stage['excess'].mean()), 0)} longer than ranks do on average"  # type: ignore[arg-type]
    return f"Rank {top['rank']} (stage {top['stage']}) computes {format_percent(top['excess'], 0)} longer than ranks do on average"
