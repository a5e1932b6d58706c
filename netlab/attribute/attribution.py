"""All figures of a run at once, in the order in which they build on each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import polars as pl

from netlab.attribute.arrivals import instance_rows, instances, p2p_rows
from netlab.attribute.bandwidth import collective_rows, fits, tails, with_bandwidth
from netlab.attribute.breakdown import breakdown, spans
from netlab.attribute.changes import change_points, warmup_steps
from netlab.attribute.delays import delayed_activities, delays
from netlab.attribute.groups import exposed_members, group_rows, rooflines, traffic
from netlab.attribute.pool import pool, pooled_rows
from netlab.attribute.slowdown import compute_slowdown
from netlab.attribute.stragglers import straggler_rows, stragglers
from netlab.issues import Issue
from netlab.schema.analysis import BREAKDOWN, SPANS
from netlab.schema.depth import BANDWIDTH_FITS, COMPUTE_SLOWDOWN, DELAYS, STRAGGLERS, TRAFFIC, TRANSFER_TAILS

__all__ = ["Attribution", "attribution"]


@dataclass(frozen=True)
class Attribution:
    """Figures of one run. Frames are described where they are made; ``*_rows`` are rows of ``netlab.check/1``.

    ``window`` is step or capture; with capture, ``pooled`` holds the rows of ``spans``.
    """

    threshold: Fraction
    window: str
    breakdown: pl.DataFrame
    spans: pl.DataFrame
    pooled: pl.DataFrame
    instances: pl.DataFrame
    exposed: pl.DataFrame
    rooflines: pl.DataFrame
    delays: pl.DataFrame
    stragglers: pl.DataFrame
    activities: pl.DataFrame
    steps: pl.DataFrame
    collectives: pl.DataFrame
    p2p: pl.DataFrame
    groups: pl.DataFrame
    ranks: pl.DataFrame

    @cached_property
    def totals(self) -> dict[str, Any]:
        """BREAKDOWN over everything; all null, and not flagged, without any row."""
        return self._pool([]).row(0, named=True)

    @cached_property
    def by_rank(self) -> pl.DataFrame:
        """BREAKDOWN per rank (and device) over the pooled steps."""
        return self._pool(["rank", "device"])

    @cached_property
    def by_step(self) -> pl.DataFrame:
        """BREAKDOWN per step over the ranks; empty for a capture."""
        if self.window == "capture":
            return pool(self.breakdown.clear(), ["step", "window"], self.threshold)
        return self._pool(["step", "window"])

    @cached_property
    def by_rank_step(self) -> pl.DataFrame:
        """BREAKDOWN of every complete (rank, step), pooled or not."""
        return pool(self.breakdown, ["rank", "device", "window", "step"], self.threshold)

    @cached_property
    def span(self) -> pl.DataFrame:
        """BREAKDOWN from the first to the last device activity of each rank."""
        return pool(self.spans, ["rank", "device"], self.threshold)

    @cached_property
    def change_points(self) -> pl.DataFrame:
        """A slow phase of steps, where there is one."""
        return change_points(self.pooled)

    @cached_property
    def warmup_steps(self) -> list[int]:
        """First steps that are much slower than the rest."""
        return warmup_steps(self.pooled)

    @cached_property
    def tables(self) -> dict[str, pl.DataFrame]:
        """Every table that attribution adds to a run, by name."""
        made = {
            BREAKDOWN: self.breakdown,
            SPANS: self.spans,
            DELAYS: self.delays,
            STRAGGLERS: self.stragglers,
            TRAFFIC: traffic(self.shown, self._messages(), self.ranks),
            TRANSFER_TAILS: tails(self.shown),
            BANDWIDTH_FITS: fits(self.shown),
            COMPUTE_SLOWDOWN: compute_slowdown(self.activities),
        }
        return {table.name: table.validate(table.conform(frame)) for table, frame in made.items()}

    @property
    def issues(self) -> list[Issue]:
        """Doubts that only the figures show."""
        slow = self.warmup_steps
        if not slow:
            return []
        named = ", ".join(map(str, slow))
        text = f"Steps {named} take over 1.5 times as long as those after them; if they warm up, leave them out: --steps {slow[-1] + 1}:."
        return [Issue(code="WARMUP_STEPS", message=text)]

    @cached_property
    def shown(self) -> pl.DataFrame:
        """Instances but for those of steps that are selected on no rank; causes of waits are still sought among all."""
        lane = ["window", "step"]
        left_out = self.steps.group_by(lane).agg((pl.col("reason") == "not selected").fill_null(value=False).all().alias("out"))
        return self.instances.join(left_out.filter("out"), on=lane, how="anti", maintain_order="left")

    def group_rows(self) -> list[dict[str, Any]]:
        """by_group."""
        return group_rows(self.shown, self.exposed, self.groups, self.rooflines)

    def collective_rows(self) -> list[dict[str, Any]]:
        """collectives."""
        return collective_rows(self.shown)

    def instance_rows(self, *, limit: int = 200) -> list[dict[str, Any]]:
        """The worst instances; ``start_ms`` counts from the first activity of the run."""
        first = self.activities["start_ns"].min() if self.activities.height else 0
        return instance_rows(self.shown, self.collectives, limit=limit, origin_ns=int(first))  # type: ignore[arg-type]

    def p2p_rows(self) -> list[dict[str, Any]]:
        """p2p."""
        return p2p_rows(self._messages())

    def straggler_rows(self) -> list[dict[str, Any]]:
        """stragglers."""
        return straggler_rows(self.stragglers)

    def _messages(self) -> pl.DataFrame:
        return self.p2p.join(self.shown, on="instance", how="semi", maintain_order="left")

    def _pool(self, by: list[str]) -> pl.DataFrame:
        return pool(self.pooled, by, self.threshold, iteration=self.window == "step")


def attribution(
    frames: Mapping[str, pl.DataFrame],
    *,
    threshold: Fraction = Fraction(1, 4),
    window: str = "step",
    declared_gbps: Mapping[str, float] | None = None,
    logged_gbps: Mapping[str, float] | None = None,
    speed_tests: pl.DataFrame | None = None,
    predicted: Mapping[str, float] | None = None,
    inputs: pl.DataFrame | None = None,
) -> Attribution:
    """Attribute the time of an aligned run.

    Parameters
    ----------
    frames
        ``TIMELINE_TABLES`` by name.
    threshold
        Network share above which a row is flagged.
    window
        ``step``, or ``capture`` for a run without steps.
    declared_gbps, logged_gbps
        One-direction rate per GPU by layer (``intra_node``, ``inter_node``), as configured and as logs or topology state it.
    speed_tests
        ``link_speed_tests``.
    predicted
        Group to the best bus bandwidth that NCCL itself predicts for it.
    inputs
        Result of `netlab.attribute.input_marks`.
    """
    activities, steps, collectives, p2p = (frames[name] for name in ("activities", "steps", "collectives", "p2p"))
    found = with_bandwidth(instances(collectives), _batched(collectives))
    exposed = exposed_members(collectives, activities)
    causes = delays(found, exposed, collectives, activities, steps, p2p, inputs)
    delayed = delayed_activities(causes, collectives)
    by_step, over_span = breakdown(activities, steps, delayed), spans(activities, delayed)
    pooled = pooled_rows(by_step) if window == "step" else over_span
    limits = rooflines(
        found, frames["ranks"], declared_gbps=declared_gbps or {}, logged_gbps=logged_gbps, tests=speed_tests, predicted=predicted
    )
    return Attribution(
        threshold=threshold,
        window=window,
        breakdown=by_step,
        spans=over_span,
        pooled=pooled,
        instances=found,
        exposed=exposed,
        rooflines=limits,
        delays=causes,
        stragglers=stragglers(found, collectives, causes, pooled),
        activities=activities,
        steps=steps,
        collectives=collectives,
        p2p=p2p,
        groups=frames["groups"],
        ranks=frames["ranks"],
    )


def _batched(collectives: pl.DataFrame) -> pl.DataFrame:
    """Instances whose kernel served several peers at once."""
    return collectives.filter(pl.len().over("activity") > 1).select("instance").unique()
