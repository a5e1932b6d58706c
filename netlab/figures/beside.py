"""Two runs side by side: steps and ranks of a slow run beside those of a good one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.theme import MUTED, PART_COLOURS, RULE, WIDTH, titled
from netlab.units import NS_PER_MS, format_ms, plural

__all__ = ["BASE", "RUN", "SIDES", "ranks_beside", "ranks_beside_frame", "steps_beside", "steps_beside_frame"]

_PARTS = {
    "compute": "compute",
    "exposed_transfer": "exposed transfer",
    "exposed_wait": "exposed wait",
    "exposed_memory": "memory",
    "idle": "idle",
}
#: More steps than this are drawn as means of so many neighbours.
_STEPS_SHOWN = 120
_RANKS_SHOWN = 40
#: What the two runs are called, and their colours.
BASE, RUN = "good run", "slow run"
SIDES = alt.Scale(domain=[BASE, RUN], range=["#7d8894", PART_COLOURS["exposed transfer"]])


def steps_beside_frame(compared: pl.DataFrame) -> pl.DataFrame:
    """One row per (position, part) of ``COMPARED_STEPS`` in ms, thinned to what a chart can show.

    Returns
    -------
    ``position, base_step, run_step, part, base_ms, run_ms, change_ms``. ``change_ms`` is against the same step of the base, or the mean of
    its steps where it has no such step; null where the run has none. Of steps drawn as one, ``base_step`` and ``run_step`` are the first.
    """
    first = (
        (pl.coalesce("run_step", "base_step").min(),) * 2 if _numbered(compared) else (pl.col("base_step").min(), pl.col("run_step").min())
    )
    count = compared["position"].max()
    stride = -(-(int(count) + 1) // _STEPS_SHOWN) if isinstance(count, int) else 1
    thin = compared.with_columns(pl.col("position") // stride * stride).group_by("position", "part", maintain_order=True)
    means = thin.agg(
        *(
            pl.when(pl.col(name).is_not_null().any()).then(step).alias(name)
            for name, step in zip(("base_step", "run_step"), first, strict=True)
        ),
        (pl.col("base_ns", "run_ns").mean() / NS_PER_MS).name.map(lambda name: name[:-3] + "_ms"),
    )
    usual = pl.col("base_ms").fill_null(pl.col("base_ms").mean().over("part"))
    return means.with_columns(change_ms=pl.col("run_ms") - usual).sort("position", "part")


def steps_beside(frame: pl.DataFrame, since_step: int | None = None) -> Any:
    """Step times of both runs above, below what each part gained or lost.

    Parameters
    ----------
    frame
        Result of ``steps_beside_frame``.
    since_step
        First step of the slow run's slow phase, drawn as a line unless it is the first of all.
    """
    whole = frame.filter(pl.col("part") == "step")
    numbered = _numbered(whole)
    place = pl.coalesce("run_step", "base_step") if numbered else pl.col("position")
    sides = pl.concat(
        whole.select(place.alias("place"), pl.col(step).alias("step"), pl.lit(name).alias("run"), pl.col(value).alias("ms"))
        for name, step, value in ((BASE, "base_step", "base_ms"), (RUN, "run_step", "run_ms"))
    ).drop_nulls("ms")
    axis = alt.Axis(grid=False, tickMinStep=1, format="d")
    x = alt.X(
        "place:Q",
        title="step" if numbered else "step, counted from the first",
        axis=axis,
        scale=alt.Scale(zero=False, nice=False, padding=8),
    )
    lines = (
        alt.Chart(alt.InlineData(values=records(sides)))
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=26, filled=True) if whole.height <= 60 else False)
        .encode(
            x=x,
            y=alt.Y("ms:Q", title="step (ms)", scale=alt.Scale(zero=False), axis=alt.Axis(format=",~f", tickCount=5)),
            color=alt.Color("run:N", title=None, scale=SIDES, legend=alt.Legend(symbolType="stroke", symbolStrokeWidth=3)),
            strokeDash=alt.StrokeDash("run:N", title=None, scale=alt.Scale(domain=[BASE, RUN], range=[[5, 3], [1, 0]]), legend=None),
            tooltip=[alt.Tooltip("run:N"), alt.Tooltip("step:Q", title="step"), alt.Tooltip("ms:Q", title="step (ms)", format=".4~g")],
        )
        .properties(width=WIDTH - 40, height=170)
    )
    upper: Any = lines
    at = whole.filter(pl.col("run_step") <= since_step)[-1:] if since_step is not None else whole.clear()
    begins = since_step if at.height and int(at["position"][0]) > 0 else None
    if begins is not None:
        mark = alt.Chart(alt.InlineData(values=[{"place": at.select(place).item(), "text": f"slow phase begins, step {begins}"}]))
        rule = mark.mark_rule(color=RULE, strokeDash=[6, 4], strokeWidth=1.6).encode(x="place:Q")
        text = mark.mark_text(align="left", baseline="top", dx=6, color=RULE, fontWeight=600).encode(
            x="place:Q", y=alt.value(2), text="text:N"
        )
        upper = alt.layer(lines, rule, text)
    parts = frame.filter((pl.col("part") != "step") & pl.col("change_ms").is_not_null())
    chart = upper
    if parts.height:
        chart = alt.vconcat(upper, _changes(parts, place, x), spacing=14).resolve_scale(color="independent")
    how = "the same step of the good run" if numbered else "the good run's step at the same place, since their numbers differ"
    alone = whole.filter(pl.col("base_ms").is_null()).height
    mean = f" ({plural(alone, 'step')} that the good run does not have: against its mean)" if alone else ""
    subtitle = f"Above: means over ranks. Below: what each part gained or lost against {how}{mean}."
    described = f"Lines of {plural(whole.height, 'step')}, and stacked bars of the change of each part."
    return titled(chart, "compared-steps", _steps_title(whole, begins), subtitle, described)


def _numbered(steps: pl.DataFrame) -> bool:
    """Whether the runs stand beside each other by step number."""
    return bool((steps["base_step"] == steps["run_step"]).fill_null(value=True).all())


def _changes(parts: pl.DataFrame, place: pl.Expr, x: alt.X) -> Any:
    named = parts.with_columns(place.alias("place"), pl.col("part").replace_strict(_PARTS))
    present = [part for part in PART_COLOURS if part in set(named["part"])]
    places = sorted(set(named["place"]))
    apart = min((after - before for before, after in pairwise(places)), default=1)
    span = max(places) - min(places) + apart
    colour = alt.Color("part:N", title=None, scale=alt.Scale(domain=present, range=[PART_COLOURS[part] for part in present]))
    rows = records(named.select("place", "part", "change_ms", "base_step", "run_step"))
    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(size=max(2, min(26, 0.8 * (WIDTH - 60) * apart / span)))
        .encode(
            x=x,
            y=alt.Y("change_ms:Q", title="change (ms)", axis=alt.Axis(format="+,~f", tickCount=5)),
            color=colour,
            tooltip=[
                alt.Tooltip("part:N"),
                alt.Tooltip("run_step:Q", title="step of the slow run"),
                alt.Tooltip("base_step:Q", title="step of the good run"),
                alt.Tooltip("change_ms:Q", title="change (ms)", format="+.4~g"),
            ],
        )
        .properties(width=WIDTH - 40, height=150)
    )


def _steps_title(whole: pl.DataFrame, begins: int | None) -> str:
    old, new = whole["base_ms"].drop_nulls(), whole["run_ms"].drop_nulls()
    if old.is_empty() or new.is_empty():
        return "No step of the two runs stands beside another"
    longest = float(old.max())  # type: ignore[arg-type]
    slower = int((new > 1.02 * longest).sum())
    started = "" if begins is None else f"; the slow phase begins at step {begins}"
    how_many = "no step" if not slower else "every step" if slower == len(new) else f"{slower} of {plural(len(new), 'step')}"
    verb = "takes" if slower in (0, 1, len(new)) else "take"
    return f"{how_many} {verb} longer than the longest of the good run ({format_ms(longest)}){started}".capitalize()


def ranks_beside_frame(compared: pl.DataFrame) -> pl.DataFrame:
    """Change of each part of each rank in ms, run minus base: ``rank, part, base_ms, run_ms, change_ms``.

    A rank that only the slow run has stands beside the mean of the good run's ranks.
    """
    mean = pl.col("base_ns").mean().over("part")
    known = compared.filter(pl.col("run_ns").is_not_null()).with_columns(base_ns=pl.col("base_ns").fill_null(mean))
    return known.select(
        "rank",
        "part",
        base_ms=pl.col("base_ns") / NS_PER_MS,
        run_ms=pl.col("run_ns") / NS_PER_MS,
        change_ms=(pl.col("run_ns") - pl.col("base_ns")) / NS_PER_MS,
    )


def ranks_beside(frame: pl.DataFrame) -> Any:
    """Bars of what each rank's parts gained or lost.

    Parameters
    ----------
    frame
        Result of ``ranks_beside_frame``; of more than 40 ranks those whose own time (compute and idle) changed most and least.
    """
    own = frame.filter(pl.col("part").is_in(["compute", "idle"])).group_by("rank").agg(pl.col("change_ms").sum()).sort("change_ms", "rank")
    ranks = own["rank"].to_list()
    chosen = sorted(ranks if len(ranks) <= _RANKS_SHOWN else ranks[: _RANKS_SHOWN // 2] + ranks[-_RANKS_SHOWN // 2 :])
    parts = frame.filter(pl.col("rank").is_in(chosen) & (pl.col("part") != "step") & pl.col("change_ms").is_not_null())
    named = parts.with_columns(pl.col("part").replace_strict(_PARTS))
    present = [part for part in PART_COLOURS if part in set(named["part"])]
    base = alt.Chart(alt.InlineData(values=records(named)))
    bars = base.mark_bar(height={"band": 0.82}).encode(
        x=alt.X("change_ms:Q", title="change of the mean step (ms)", axis=alt.Axis(format="+,~f", tickCount=8)),
        y=alt.Y("rank:O", title="rank"),
        color=alt.Color("part:N", title=None, scale=alt.Scale(domain=present, range=[PART_COLOURS[part] for part in present])),
        tooltip=[
            alt.Tooltip("rank:O"),
            alt.Tooltip("part:N"),
            alt.Tooltip("base_ms:Q", title="good run (ms)", format=".4~g"),
            alt.Tooltip("run_ms:Q", title="slow run (ms)", format=".4~g"),
            alt.Tooltip("change_ms:Q", title="change (ms)", format="+.4~g"),
        ],
    )
    zero = alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color=MUTED).encode(x="zero:Q")
    height = alt.Step(max(11, min(26, 480 // max(len(chosen), 1))))
    chart = alt.layer(bars, zero).properties(width=WIDTH - 20, height=height)
    subtitle = "To the right: longer than in the good run. A rank whose own compute or idle time grew makes the others wait."
    if len(chosen) < len(ranks):
        subtitle += f" Of {len(ranks):,} ranks, the {len(chosen)} whose own time changed most and least."
    return titled(chart, "compared-ranks", _ranks_title(own), subtitle, f"Stacked bars of {plural(len(chosen), 'rank')}.")


def _ranks_title(own: pl.DataFrame) -> str:
    if not own.height:
        return "Ranks of the two runs cannot be compared"
    top, usual = own.row(-1, named=True), float(own["change_ms"].median() or 0.0)  # type: ignore[arg-type]
    if top["change_ms"] > 1.0 and top["change_ms"] > 2 * abs(usual) + 0.5:
        return f"Rank {top['rank']} itself became {format_ms(top['change_ms'])} slower; the median rank {format_ms(usual)}"
    return f"No rank stands out by its own time: compute and idle changed by {format_ms(usual)} on the median rank"
