"""What timeline findings are made from, and the sums that several of them need."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Protocol

import polars as pl

from netlab.units import NS_PER_MS, format_numbers

__all__ = ["Timeline", "cost_ms", "layer_cause", "name_group", "name_ranks", "pooled_exposed", "pooled_waits", "shares"]


class Timeline(Protocol):
    """Figures of an aligned run, as `netlab.attribute.attribution` gives them; that function's room describes each."""

    @property
    def threshold(self) -> Fraction: ...
    @property
    def window(self) -> str: ...
    @property
    def totals(self) -> dict[str, Any]: ...
    @property
    def by_rank(self) -> pl.DataFrame: ...
    @property
    def by_step(self) -> pl.DataFrame: ...
    @property
    def pooled(self) -> pl.DataFrame: ...
    @property
    def instances(self) -> pl.DataFrame: ...
    @property
    def exposed(self) -> pl.DataFrame: ...
    @property
    def rooflines(self) -> pl.DataFrame: ...
    @property
    def delays(self) -> pl.DataFrame: ...
    @property
    def stragglers(self) -> pl.DataFrame: ...
    @property
    def change_points(self) -> pl.DataFrame: ...
    @property
    def activities(self) -> pl.DataFrame: ...
    @property
    def collectives(self) -> pl.DataFrame: ...
    @property
    def groups(self) -> pl.DataFrame: ...
    @property
    def ranks(self) -> pl.DataFrame: ...


def pooled_exposed(timeline: Timeline) -> pl.DataFrame:
    """Exposed times of the members whose steps are pooled.

    Matching sees every rank; what is set against pooled step time must leave out the ranks and steps that are not part of it.
    """
    placed = timeline.exposed.join(timeline.instances.select("instance", "window", "step"), on="instance")
    keys = [name for name in ("rank", "window", "step") if name in timeline.pooled.columns]
    return placed.join(timeline.pooled.select(keys).unique(), on=keys, how="semi").select(timeline.exposed.columns)


def pooled_waits(timeline: Timeline) -> pl.DataFrame:
    """Exposed waits of pooled instances with their first cause.

    Returns
    -------
    One row per waiting member: ``instance, window, step, rank, group, exposed_ns, lateness_ns``; from the delays ``late_rank, cause,
    root_rank, root_by, culprit``; ``blamed`` (the members that were last together where the chain of causes ends), and ``layer`` of the
    culprit's instance (or of the waiting one). Waits within the clock error are out.
    """
    found = timeline.instances.filter(pl.col("split") == "measured")
    error = pl.col("error_ns").fill_null(0)
    about = found.select("instance", "window", "step", "group", "lateness_ns", "layer", error=error)
    causes = timeline.delays.select("instance", "late_rank", "cause", "root_rank", "root_by", "culprit", "root_instance")
    culprits = timeline.instances.select(culprit="instance", culprit_layer="layer", culprit_group="group")
    roots = timeline.instances.select(root_instance="instance", blamed="late_ranks")
    waits = pooled_exposed(timeline).select("instance", "rank", exposed_ns="exposed_wait_ns").join(about, on="instance")
    waits = (
        waits.filter(pl.col("exposed_ns") > pl.col("error"))
        .join(causes, on="instance", how="left")
        .join(culprits, on="culprit", how="left")
    )
    return (
        waits.join(roots, on="root_instance", how="left")
        .with_columns(
            pl.col("cause").fill_null("unknown"),
            layer=pl.col("culprit_layer").fill_null(pl.col("layer")),
        )
        .sort("instance", "rank")
    )


def shares(timeline: Timeline, waits: pl.DataFrame) -> float:
    """Part of pooled step time that some waits take."""
    whole = int(timeline.pooled["step_ns"].sum())
    return int(waits["exposed_ns"].sum()) / whole if whole else 0.0


def cost_ms(timeline: Timeline, waits: pl.DataFrame) -> float:
    """Mean time by which steps would shrink without these waits, at most.

    In each step the rank that waits most bounds what the step can gain; no wait gains more than the last member's lateness against the
    median of the others.
    """
    keys = [name for name in ("window", "step") if name in timeline.pooled.columns]
    steps = timeline.pooled.select(keys).unique().height if keys else 1
    gain = waits.group_by(*keys, "rank").agg(pl.min_horizontal("exposed_ns", "lateness_ns").sum())
    worst = gain.group_by(keys).agg(pl.col("exposed_ns").max()) if keys else gain.select(pl.col("exposed_ns").max())
    return float(worst["exposed_ns"].sum()) / max(steps, 1) / NS_PER_MS


def layer_cause(layer: str | None) -> str:
    """The verdict's word for a layer.

    >>> layer_cause("inter_node"), layer_cause("intra_node"), layer_cause("unplaced")
    ('fabric', 'intra_node', 'unknown')
    """
    return {"inter_node": "fabric", "intra_node": "intra_node"}.get(layer or "", "unknown")


def name_ranks(ranks: Iterable[int]) -> str:
    """Ranks as text.

    >>> name_ranks([3]), name_ranks([4, 5, 6])
    ('rank 3', 'ranks 4-6')
    """
    found = sorted(set(ranks))
    return f"rank{'' if len(found) == 1 else 's'} {format_numbers(found)}"


def name_group(group: str, description: str | None = None) -> str:
    """A group as text: its pair, or its ranks and what it is for.

    >>> name_group("3,7"), name_group("0,1,2,3", "data_parallel")
    ('ranks 3 and 7', 'group 0-3 (data_parallel)')
    """
    members = [int(rank) for rank in group.split(",") if rank]
    if len(members) == 2:
        return f"ranks {members[0]} and {members[1]}"
    return f"group {format_numbers(members)}" + (f" ({description})" if description else "")
