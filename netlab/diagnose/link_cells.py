"""Evidence of a localisation as tables: what was tested and concluded, and the cells of the links that it names."""

from __future__ import annotations

import numpy as np
import polars as pl

from netlab.diagnose.link_grid import event_series, grid_of
from netlab.diagnose.localise import LinkVerdict, Localisation
from netlab.run import Run
from netlab.schema.counters import LINK_CELLS, LINK_TESTS

__all__ = ["link_evidence"]

_KEPT = 4


def link_evidence(run: Run, localisation: Localisation) -> dict[str, pl.DataFrame]:
    """Tables ``link_tests`` and ``link_cells`` of a localisation; the cells of its four best verdicts are kept.

    Where no link is named, ``link_tests`` has one row without a link, which gives the reason.
    """
    best = sorted(localisation.verdicts, key=_strength)[:_KEPT]
    return {"link_tests": _tests(localisation, best), "link_cells": _cells(run, localisation, best)}


def _strength(verdict: LinkVerdict) -> tuple[bool, float, float, str, str]:
    return verdict.state != "localised", verdict.p_value, -verdict.statistic, verdict.device, verdict.port


def _tests(localisation: Localisation, best: list[LinkVerdict]) -> pl.DataFrame:
    common = {"cells": localisation.cells, "cell_ms": localisation.cell_ms, "detectable_r2": localisation.detectable_r2}
    names = ("device", "port", "direction", "metric", "state", "p_value", "excess_ms", "excess_low_ms", "excess_high_ms")
    rows = [
        {"number": number, **{name: getattr(verdict, name) for name in names}, "reason": "; ".join(verdict.reasons), **common}
        for number, verdict in enumerate(best)
    ]
    if not rows:
        rows = [{"number": 0, "state": localisation.state, "reason": localisation.reason, **common}]
    return LINK_TESTS.conform(pl.DataFrame(rows))


def _cells(run: Run, localisation: Localisation, best: list[LinkVerdict]) -> pl.DataFrame:
    grid = grid_of(run) if best else None
    if grid is None:
        return LINK_CELLS.empty()
    series = event_series(run, grid, dict(localisation.clocks))
    at = {(item.device, item.port, item.direction, item.metric): number for number, item in enumerate(series)}
    parts = []
    for verdict in best:
        own = series[at[verdict.device, verdict.port, verdict.direction, verdict.metric]]
        others = [item.events for item in series if item.peers == own.peers and item is not own]
        frame = pl.DataFrame({"t0_ns": grid.edges_ns[:-1], "exposed_ms": grid.exposed_ms, "events": own.events})
        mean = pl.Series("peer_events", np.mean(others, axis=0)) if others else pl.lit(None, pl.Float64).alias("peer_events")
        names = {name: getattr(verdict, name) for name in ("device", "port", "direction", "metric", "state")}
        parts.append(LINK_CELLS.conform(frame.with_columns(mean), **names))
    return pl.concat(parts).sort(LINK_CELLS.key)
