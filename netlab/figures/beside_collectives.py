"""Two runs side by side: the kinds of collectives of a slow run beside those of a good one."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.figures.beside import BASE, RUN, SIDES
from netlab.figures.frames import members_text, records
from netlab.figures.theme import INK, MUTED, WIDTH, titled
from netlab.units import NS_PER_MS, format_ms, plural

__all__ = ["collectives_beside", "collectives_beside_frame"]

_KINDS_SHOWN = 12
#: Counts of collectives in a step that differ by less are told as the same.
_SAME_COUNT = 0.005


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
        share = pl.col(f"{side}_share")
        times = [pl.col(f"{side}_{what}_ns") * share / NS_PER_MS for what in ("transfer", "wait")]
        known = [
            pl.when(time.is_not_null().any()).then(time.sum()).alias(f"{side}_{what}_ms")
            for time, what in zip(times, ("transfer", "wait"), strict=True)
        ]
        size = (pl.col(f"{side}_bytes") * share).sum() / share.filter(pl.col(f"{side}_bytes").is_not_null()).sum()
        there = compared.filter(share.is_not_null()).group_by("op", "scope")
        sums.append(there.agg(share.sum().alias(f"{side}_count"), size.fill_nan(None).alias(f"{side}_bytes"), *known))
    joined = sums[0].join(sums[1], on=["op", "scope"], how="full", coalesce=True)
    kind = pl.concat_str("op", pl.lit(" "), pl.col("scope").map_elements(_scope, return_dtype=pl.String))
    named = joined.with_columns(kind.alias("kind"), change_ms=_time("run") - _time("base"))
    return named.sort(pl.col("change_ms").abs(), "op", "scope", descending=[True, False, False], nulls_last=True)


def _time(side: str) -> pl.Expr:
    """Transfer and wait of a kind; none where a run lacks the kind, null where neither is known."""
    transfer, wait = pl.col(f"{side}_transfer_ms"), pl.col(f"{side}_wait_ms")
    return pl.when(pl.col(f"{side}_count").is_null()).then(0.0).otherwise(pl.coalesce(transfer + wait, transfer, wait))


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
                for name, side, ms in ((BASE, "base", old), (RUN, "run", new))
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
            color=alt.Color("run:N", title=None, scale=SIDES),
            shape=alt.Shape("run:N", title=None, scale=alt.Scale(domain=[BASE, RUN], range=["circle", "diamond"])),
            size=alt.value(90),
            tooltip=[
                alt.Tooltip("kind:N"),
                alt.Tooltip("run:N"),
                alt.Tooltip("ms:Q", title=f"{what} in a step (ms)", format=".4~g"),
                alt.Tooltip("count:Q", title="collectives in a step", format=".3~g"),
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
    if top["change_ms"] is None:
        return "Transfer and waiting of collectives are not known in both runs"
    old, new = frame.head(1).select(_time("base").alias("base"), _time("run").alias("run")).row(0)
    counts = [top["base_count"], top["run_count"]]
    if None in counts:
        return f"Most changed: {top['kind']}, which only the {'slow' if counts[0] is None else 'good'} run has"
    same = abs(counts[0] - counts[1]) < _SAME_COUNT * counts[0]
    after, before = ("" if same else f" in {count:.3g} call{'' if count == 1 else 's'}" for count in reversed(counts))
    return f"Most changed: {top['kind']}, {format_ms(new)} a step{after} instead of {format_ms(old)}{before}"
