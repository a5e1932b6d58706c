"""Two runs side by side: steps, ranks and collectives of a slow run beside those of a good one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import members_text, plural, records
from netlab.figures.theme import INK, MUTED, PART_COLOURS, RULE, WIDTH, titled
from netlab.units import format_ms

__all__ = ["collectives_beside", "collectives_beside_frame", "ranks_beside", "ranks_beside_frame", "steps_beside", "steps_beside_frame"]

_PARTS = {
    "compute": "compute",
    "exposed_transfer": "exposed transfer",
    "exposed_wait": "exposed wait",
    "exposed_memory": "memory",
    "idle": "idle",
}
_MS = 1e6
#: More steps than this are drawn as means of so many neighbours.
_STEPS_SHOWN = 120
_RANKS_SHOWN = 40
_KINDS_SHOWN = 12
_BASE, _RUN = "good run", "slow run"
_SIDES = alt.Scale(domain=[_BASE, _RUN], range=["#7d8894", PART_COLOURS["exposed transfer"]])


def steps_beside_frame(compared: pl.DataFrame) -> pl.DataFrame:
    """One row per (position, part) of ``COMPARED_STEPS`` in ms, thinned to what a chart can show.

    Returns
    -------
    ``position, base_step, run_step, part, base_ms, run_ms, change_ms``. ``change_ms`` is against the same step of the base, or the mean of
    its steps where it has no such step; null where the run has none.
    """
    count = compared["position"].max()
    stride = -(-(int(count) + 1) // _STEPS_SHOWN) if isinstance(count, int) else 1
    thin = compared.with_columns(pl.col("position") // stride * stride).group_by("position", "part", maintain_order=True)
    means = thin.agg(
        pl.col("base_step", "run_step").min(), (pl.col("base_ns", "run_ns").mean() / _MS).name.map(lambda name: name[:-3] + "_ms")
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
        Step of the slow run from which on it is slow, drawn as a line.
    """
    whole = frame.filter(pl.col("part") == "step")
    numbered = bool((whole["base_step"] == whole["run_step"]).fill_null(value=True).all())
    place = pl.coalesce("run_step", "base_step") if numbered else pl.col("position")
    sides = pl.concat(
        whole.select(place.alias("place"), pl.col(step).alias("step"), pl.lit(name).alias("run"), pl.col(value).alias("ms"))
        for name, step, value in ((_BASE, "base_step", "base_ms"), (_RUN, "run_step", "run_ms"))
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
            color=alt.Color("run:N", title=None, scale=_SIDES, legend=alt.Legend(symbolType="stroke", symbolStrokeWidth=3)),
            strokeDash=alt.StrokeDash("run:N", title=None, scale=alt.Scale(domain=[_BASE, _RUN], range=[[5, 3], [1, 0]]), legend=None),
            tooltip=[alt.Tooltip("run:N"), alt.Tooltip("step:Q", title="step"), alt.Tooltip("ms:Q", title="step (ms)", format=".4~g")],
        )
        .properties(width=WIDTH - 40, height=170)
    )
    upper: Any = lines
    at = whole.filter(pl.col("run_step") <= since_step)[-1:] if since_step is not None else whole.clear()
    if at.height and int(at["position"][0]) > 0:
        mark = alt.Chart(alt.InlineData(values=[{"place": at.select(place).item(), "text": f"slow since step {since_step}"}]))
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
    return titled(chart, "compared-steps", _steps_title(whole, since_step), subtitle, described)


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


def _steps_title(whole: pl.DataFrame, since: int | None) -> str:
    old, new = whole["base_ms"].drop_nulls(), whole["run_ms"].drop_nulls()
    if old.is_empty() or new.is_empty():
        return "No step of the two runs stands beside another"
    longest = float(old.max())  # type: ignore[arg-type]
    slower = int((new > 1.02 * longest).sum())
    started = "" if since is None else f"; slow since step {since}"
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
        base_ms=pl.col("base_ns") / _MS,
        run_ms=pl.col("run_ns") / _MS,
        change_ms=(pl.col("run_ns") - pl.col("base_ns")) / _MS,
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


def collectives_beside_frame(compared: pl.DataFrame) -> pl.DataFrame:
    """Kinds of collectives of a step, the largest change first.

    Parameters
    ----------
    compared
        ``COMPARED_COLLECTIVES``.

    Returns
    -------
    One row per (operation, group): number, mean size, transfer and wait of one member in a step of each run, and ``change_ms``, the
    change of both together. A kind that one run lacks has nulls there.
    """
    sums = []
    for side in ("base", "run"):
        there = compared.filter(pl.col(f"{side}_transfer_ns").is_not_null() | pl.col(f"{side}_wait_ns").is_not_null())
        sums.append(
            there.group_by("op", "scope").agg(
                pl.len().alias(f"{side}_count"),
                pl.col(f"{side}_bytes").mean(),
                *((pl.col(f"{side}_{what}_ns").sum() / _MS).alias(f"{side}_{what}_ms") for what in ("transfer", "wait")),
            )
        )
    joined = sums[0].join(sums[1], on=["op", "scope"], how="full", coalesce=True)
    change = pl.sum_horizontal("run_transfer_ms", "run_wait_ms") - pl.sum_horizontal("base_transfer_ms", "base_wait_ms")
    return joined.with_columns(
        pl.concat_str("op", pl.lit(" "), pl.col("scope").map_elements(_scope, return_dtype=pl.String)).alias("kind"), change_ms=change
    ).sort(pl.col("change_ms").abs(), "op", "scope", descending=[True, False, False])


def _scope(scope: str) -> str:
    return f"of ranks {members_text(scope, shown=4)}" if scope[:1].isdigit() else f"({scope.replace('_', ' ')})"


def collectives_beside(frame: pl.DataFrame) -> Any:
    """Transfer and wait of each kind of collective in both runs, joined by a line.

    Parameters
    ----------
    frame
        Result of ``collectives_beside_frame``; the 12 kinds that changed most are drawn.
    """
    shown = frame.head(_KINDS_SHOWN)
    kinds = shown["kind"].to_list()
    rows, spans = [], []
    for row in shown.iter_rows(named=True):
        for what in ("transfer", "wait"):
            old, new = row[f"base_{what}_ms"], row[f"run_{what}_ms"]
            rows += [
                {"kind": row["kind"], "what": what, "run": name, "ms": ms, "count": row[f"{side}_count"]}
                for name, side, ms in ((_BASE, "base", old), (_RUN, "run", new))
                if ms is not None
            ]
            if old is not None and new is not None:
                spans.append({"kind": row["kind"], "what": what, "low": min(old, new), "high": max(old, new)})
    panels = []
    for what in ("transfer", "wait"):
        y = alt.Y("kind:N", title=None, sort=kinds, axis=alt.Axis(labels=what == "transfer", labelColor=INK, labelLimit=260))
        axis = alt.Axis(format=",~f", tickCount=5)
        own = alt.Chart(alt.InlineData(values=records(pl.DataFrame([r for r in rows if r["what"] == what], infer_schema_length=None))))
        dots = own.mark_point(filled=True, opacity=1).encode(
            x=alt.X("ms:Q", title=f"{what} a step (ms)", axis=axis),
            y=y,
            color=alt.Color("run:N", title=None, scale=_SIDES),
            shape=alt.Shape("run:N", title=None, scale=alt.Scale(domain=[_BASE, _RUN], range=["circle", "diamond"])),
            size=alt.value(90),
            tooltip=[
                alt.Tooltip("kind:N"),
                alt.Tooltip("run:N"),
                alt.Tooltip("ms:Q", title=f"{what} in a step (ms)", format=".4~g"),
                alt.Tooltip("count:Q", title="collectives in a step"),
            ],
        )
        lines = alt.Chart(alt.InlineData(values=[span for span in spans if span["what"] == what]))
        joined = lines.mark_rule(strokeWidth=2, color=MUTED).encode(x="low:Q", x2="high:Q", y=y)
        panels.append(alt.layer(joined, dots).properties(width=(WIDTH - 250) // 2, height=alt.Step(26)))
    chart = alt.hconcat(*panels, spacing=22)
    subtitle = "Means over the members, sums over a step (how many a step, where that differs), hidden behind compute or not."
    if frame.height > shown.height:
        subtitle += f" Of {frame.height:,} kinds, the {shown.height} that changed most."
    described = f"Pairs of points of {plural(shown.height, 'kind')} of collectives, transfer on the left, waiting on the right."
    return titled(chart, "compared-collectives", _collectives_title(frame), subtitle, described)


def _collectives_title(frame: pl.DataFrame) -> str:
    top = frame.row(0, named=True)
    old = None if top["base_count"] is None else (top["base_transfer_ms"] or 0.0) + (top["base_wait_ms"] or 0.0)
    new = None if top["run_count"] is None else (top["run_transfer_ms"] or 0.0) + (top["run_wait_ms"] or 0.0)
    if old is None or new is None:
        return f"Most changed: {top['kind']}, which only the {'slow' if old is None else 'good'} run has"
    counts = ["", ""] if top["base_count"] == top["run_count"] else [f" ({top[f'{side}_count']})" for side in ("run", "base")]
    return f"Most changed: {top['kind']}, {format_ms(new)} a step{counts[0]} instead of {format_ms(old)}{counts[1]}"
