"""From replayed instants back to tables: steps with their new borders, activities with their new times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.schema.timeline import ACTIVITIES, STEPS
from netlab.whatif.arrays import COMMUNICATION, COMPUTE, MEMORY, grouped
from netlab.whatif.build import Model
from netlab.whatif.costs import Transfers

__all__ = ["Borders", "StepRule", "simulated_tables"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Borders:
    """Start and end of each row of the steps, in ns from the graph's origin; a further axis is the scenario."""

    start_ns: Floats
    end_ns: Floats

    @property
    def length_ns(self) -> Floats:
        """Length of each step."""
        return self.end_ns - self.start_ns


class StepRule:
    """The border rule of docs/methods.md on replayed instants.

    The border behind a step is the later of the next mark and the earlier of {end of the last kernel launched inside the step, start of the
    first compute kernel launched inside the next}. What the rule leaves unexplained in the measured run (a border that was placed for
    another reason) is a constant that is added back.
    """

    def __init__(self, model: Model) -> None:
        a, s = model.activities, model.steps
        step_of = _launched_in(model)
        rows = np.flatnonzero((step_of >= 0) & (a.kind != MEMORY))
        rows = rows[np.argsort(step_of[rows], kind="stable")]
        self._rows, self._groups = rows, step_of[rows]
        self._starts = np.flatnonzero(np.append(True, np.diff(self._groups) != 0)) if len(rows) else np.empty(0, np.int64)
        self._first = np.full(s.size, -1, np.int64)
        compute = rows[a.kind[rows] == COMPUTE]
        order = compute[np.lexsort((a.start_ns[compute], step_of[compute]))][::-1]
        self._first[step_of[order]] = order
        self._model = model
        self._rest_start = np.zeros(s.size)
        self._rest_end = np.zeros(s.size)
        self._from_device = (s.frame["reason"] == "start_from_device").fill_null(False).to_numpy() & (self._first >= 0)
        graph = model.graph
        measured = self.borders(graph.end_ns, graph.duration_ns, np.zeros(graph.size))
        self._rest_start = s.start_ns - graph.origin_ns - measured.start_ns
        self._rest_end = s.end_ns - graph.origin_ns - measured.end_ns

    def borders(self, end_ns: Floats, duration_ns: Floats, lead_ns: Floats) -> Borders:
        """Borders for replayed ends; ``lead_ns`` is time that a scenario put before a node and that belongs to the node's step.

        All three are (nodes,) or (nodes, scenarios).
        """
        model = self._model
        s = model.steps
        tail = end_ns.shape[1:]
        last_end = np.full((s.size, *tail), -np.inf)
        if len(self._rows):
            ends = end_ns[model.end_node[self._rows]]
            last_end[self._groups[self._starts]] = np.maximum.reduceat(ends, self._starts, axis=0)
        first_start = np.full((s.size, *tail), np.inf)
        has = self._first >= 0
        node = model.end_node[self._first[has]]
        first_start[has] = end_ns[node] - duration_ns[node] - lead_ns[node]
        mark_start = (end_ns - lead_ns)[model.mark_start_node]
        mark_end = np.where(_wide(model.mark_end_node >= 0, tail), end_ns[model.mark_end_node], -np.inf)
        end = np.maximum(mark_end, last_end)
        start = mark_start.copy()
        start[self._from_device] = first_start[self._from_device]
        before = np.flatnonzero(s.followed)
        device = np.minimum(np.where(np.isinf(last_end[before]), np.inf, last_end[before]), first_start[before + 1])
        border = np.maximum(mark_start[before + 1], np.where(np.isinf(device), -np.inf, device))
        end[before] = border
        start[before + 1] = border
        end = np.where(np.isinf(end), start, end) + _wide(self._rest_end, tail)
        return Borders(start + _wide(self._rest_start, tail), end)


def _wide(values: Any, tail: tuple[int, ...]) -> Any:
    return values.reshape((-1, *(1,) * len(tail))) if tail else values


def _launched_in(model: Model) -> Ints:
    """Row of the step in whose mark each activity was launched, -1 for none; unknown launches count by the step of their start."""
    a, s = model.activities, model.steps
    result = np.full(a.size, -1, np.int64)
    closing = np.where(s.mark_end_ns >= 0, s.mark_end_ns, np.iinfo(np.int64).max)
    rows_of = grouped(a.part)
    for part, steps in grouped(s.part).items():
        rows = rows_of.get(part, np.empty(0, np.int64))
        steps = steps[np.argsort(s.mark_start_ns[steps], kind="stable")]
        at = np.where(a.launched[rows], a.launch_ns[rows], a.start_ns[rows])
        place = np.searchsorted(s.mark_start_ns[steps], at, side="right") - 1
        inside = (place >= 0) & (at < closing[steps[place]])
        result[rows[inside]] = steps[place[inside]]
    return result


def simulated_tables(
    model: Model,
    borders: Borders,
    end_ns: Floats,
    duration_ns: Floats,
    lead_ns: Floats,
    tail_ns: Floats,
    transfers: Transfers,
    replaced: Ints,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """``ACTIVITIES`` and ``STEPS`` of one replayed scenario, so that the functions that measure a real run measure this one.

    Parameters
    ----------
    end_ns, duration_ns
        Replayed end and duration of every node.
    lead_ns, tail_ns
        Encoding (or repeated compute) before a node, and decoding after it; they become compute of their own.
    transfers
        The scenario's communication; entries beyond the run's own are kernels that the scenario adds.
    replaced
        Rows of the activities whose place those take.
    """
    graph, a = model.graph, model.activities
    arrival = np.where(model.arrival_node >= 0, model.arrival_node, model.end_node)
    template, first, release, node = np.arange(a.size), arrival, model.release_node, model.end_node
    extra = np.flatnonzero(transfers.node >= graph.size)
    if len(extra):
        stays = ~np.isin(template, replaced)
        template, first, release, node = (
            np.concatenate((own[stays], more[extra]))
            for own, more in (
                (template, transfers.row),
                (first, transfers.arrival),
                (release, transfers.release),
                (node, transfers.node),
            )
        )
    communication = a.kind[template] == COMMUNICATION
    end = end_ns[node] - tail_ns[node]
    start = np.where(communication, end_ns[first], end - duration_ns[node])
    end = np.maximum(end, start)
    begin = np.where(communication, np.clip(end_ns[np.where(communication, release, 0)], start, end), start)
    shift = _part_shifts(model, borders, end, a.part[template])
    origin = (graph.origin_ns + shift)[a.part[template]]
    table = a.frame[template]
    added = [
        _extra(table, origin, lead_ns[first], start - lead_ns[first], start),
        _extra(table, origin, tail_ns[node], end, end + tail_ns[node]),
    ]
    times = {"start_ns": start, "end_ns": end, "_begin": begin}
    known = (pl.col("kind") == "communication") & pl.col("transfer_start_ns").is_not_null()
    late = pl.col("transfer_start_low_ns") - pl.col("transfer_start_ns")
    early = pl.col("transfer_start_ns") - pl.col("transfer_start_high_ns")
    frame = table.with_columns(pl.Series(name, np.rint(values).astype(np.int64) + origin) for name, values in times.items()).with_columns(
        pl.when(known).then("_begin").alias("transfer_start_ns"),
        _if_communication(pl.when(known).then(pl.min_horizontal(pl.col("_begin") + late, "end_ns")).otherwise("end_ns"), "low"),
        _if_communication(pl.when(known).then(pl.max_horizontal(pl.col("_begin") - early, "start_ns")).otherwise("start_ns"), "high"),
    )
    every = pl.concat([frame.select(list(ACTIVITIES.schema)), *added]).with_columns(pl.int_range(pl.len()).alias("activity"))
    part_shift = shift[model.steps.part] + graph.origin_ns
    steps = model.steps.frame.with_columns(
        pl.Series("start_ns", np.rint(borders.start_ns).astype(np.int64) + part_shift),
        pl.Series("end_ns", np.rint(borders.end_ns).astype(np.int64) + part_shift),
        pl.Series("mark_start_ns", np.rint(end_ns[model.mark_start_node]).astype(np.int64) + part_shift),
    )
    return ACTIVITIES.conform(every), STEPS.conform(steps)


def _if_communication(value: pl.Expr, end: str) -> pl.Expr:
    return pl.when(pl.col("kind") == "communication").then(value).alias(f"transfer_start_{end}_ns")


def _extra(frame: pl.DataFrame, origin: Ints, length: Floats, start: Floats, end: Floats) -> pl.DataFrame:
    rows = np.flatnonzero(length > 0)
    added = (
        frame[rows]
        .select("rank", "device", "window", "step")
        .with_columns(
            pl.Series("start_ns", np.rint(start[rows]).astype(np.int64) + origin[rows], pl.Int64),
            pl.Series("end_ns", np.rint(end[rows]).astype(np.int64) + origin[rows], pl.Int64),
        )
    )
    return ACTIVITIES.conform(added, kind="compute", name="added by the scenario", activity=-1)


def _part_shifts(model: Model, borders: Borders, end: Floats, part_of: Ints) -> Ints:
    """Where a scenario makes a profiler window longer, later windows of the rank move back so that none overlap."""
    a = model.activities
    parts = int(a.part.max()) + 1
    shift = np.zeros(parts, np.int64)
    first, last = np.full(parts, np.inf), np.full(parts, -np.inf)
    np.minimum.at(first, model.steps.part, borders.start_ns)
    np.maximum.at(last, model.steps.part, borders.end_ns)
    np.maximum.at(last, part_of, end)
    rank = np.zeros(parts, np.int64)
    rank[a.part] = a.rank
    order = np.lexsort((np.where(np.isinf(first), 0, first), rank))
    reach: dict[int, float] = {}
    for part in order.tolist():
        floor = reach.get(int(rank[part]), -np.inf)
        if np.isfinite(first[part]) and first[part] < floor:
            shift[part] = int(np.ceil(floor - first[part]))
        reach[int(rank[part])] = max(floor, float(last[part]) + int(shift[part]))
    return shift
