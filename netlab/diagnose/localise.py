"""Which link slowed the job, and how sure: counters joined to the steps, with the wording that the evidence allows.

The ladder: *no evidence*, *cannot tell* (with the reason), *associated* (p at most 0.05), *localised* (p at most 0.01, errors of the link
itself, at least seven peers, on a path of the job, not contradicted by who waited for whom, and the same at both ends of the device's clock
range). "Caused" would need an intervention, so it is never said. Utilisation is an effect and no candidate.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.diagnose.link_changes import onsets_near_change
from netlab.diagnose.link_grid import ERROR_CLASS, Clock, Grid, Series, device_clocks, event_series, grid_of
from netlab.diagnose.link_statistics import Tested, effective_size, max_null_test, outcome_residual, peer_residuals, ranked
from netlab.run import Run
from netlab.topology import Hop, fabric_of

__all__ = ["LinkVerdict", "Localisation", "localise", "mark_links"]

Floats = NDArray[np.float64]
_FEWEST_CELLS, _FEWEST_SLOW, _FEWEST_EFFECTIVE, _FEWEST_EVENTS, _FEWEST_LINKS = 40, 5, 30.0, 5, 8
_ASSOCIATED, _LOCALISED = 0.05, 0.01
_SLOW = 1.25
_MOST_HOSTS = 64
_ALSO_LATE = 0.1


@dataclass(frozen=True)
class LinkVerdict:
    """What the test says about one counter of one port. ``excess_ms`` is per step, with its 95 % interval; ``reasons`` why not more."""

    device: str
    port: str
    direction: str
    metric: str
    state: str
    p_value: float
    statistic: float
    excess_ms: float
    excess_low_ms: float
    excess_high_ms: float
    coverage: float
    precision: float
    steps: tuple[int, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Localisation:
    """The answer for a run. ``state`` is localised, associated, no evidence or cannot tell.

    ``detectable_r2`` is the smallest share of the outcome's variance that the test could have named at 0.01.
    """

    state: str
    reason: str
    verdicts: tuple[LinkVerdict, ...] = ()
    cells: int = 0
    cell_ms: float | None = None
    detectable_r2: float | None = None
    clocks: tuple[tuple[str, Clock], ...] = ()
    #: Where steps became slow for good and counters began with it: the start of that cell.
    change_ns: int | None = None


def localise(run: Run, seed: int = 0) -> Localisation:
    """Test every cause-class counter of every port against the exposed communication of the run.

    Parameters
    ----------
    run
        Tables ``steps``, ``activities``, ``links``, ``link_intervals``, ``ports`` and ``collectives``.
    seed
        Of the resampling: the same run gives the same answer.

    Returns
    -------
    The verdict with its reason; never an accusation where the data are too few to refuse one.
    """
    grid = grid_of(run)
    if grid is None:
        return Localisation("cannot tell", "steps and counters of the same time are needed; record counters during the profiled steps")
    cells = len(grid.exposed_ms)
    empty = Localisation("cannot tell", "", cells=cells, cell_ms=grid.cell_ms)
    if cells < _FEWEST_CELLS:
        need = f"{cells} cells of {grid.cell_ms:.3g} ms are too few (40 needed); poll faster or profile more steps"
        return replace(empty, reason=need)
    outcome = grid.exposed_ms - _trend(grid.exposed_ms)
    slow = grid.exposed_ms > _SLOW * max(float(np.median(grid.exposed_ms)), 1e-9)
    if slow.sum() < _FEWEST_SLOW:
        return replace(
            empty, reason=f"only {int(slow.sum())} cells have more exposed communication than usual (5 needed): nothing to explain"
        )
    clocks = device_clocks(run, grid)
    series = event_series(run, grid, clocks)
    known = replace(empty, clocks=tuple(sorted(clocks.items())))
    candidates = [item for item in series if (item.events >= 0.5).sum() >= _FEWEST_EVENTS]
    if not candidates:
        return replace(known, state="no evidence", reason="no error, drop, pause, ECN, FEC or flap counter moved in five cells or more")
    tested, residual = _test(outcome, series, candidates, seed)
    size = effective_size(residual)
    known = replace(known, detectable_r2=tested.critical**2)
    if size < _FEWEST_EFFECTIVE:
        need = f"neighbouring cells resemble each other so much that {cells} are worth {size:.0f} (30 needed); record longer"
        return _by_change(run, grid, replace(known, reason=need), candidates, slow, seed)
    return _conclude(run, grid, known, candidates, series, outcome, slow, tested, seed)


def _trend(values: Floats, width: int = 41) -> Floats:
    """Rolling median."""
    half = min(width, max(3, len(values) // 2)) // 2
    padded = np.concatenate((np.full(half, np.median(values[: half + 1])), values, np.full(half, np.median(values[-half - 1 :]))))
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1), np.float64)


def _test(outcome: Floats, series: list[Series], candidates: list[Series], seed: int) -> tuple[Tested, Floats]:
    """The family-wise test of the candidates, after removing what peers share."""
    values = ranked(np.log1p(np.stack([item.events for item in series])))
    outcome = ranked(outcome[None, :])[0]
    peers = np.array([item.peers for item in series], np.int64)
    residual = outcome_residual(outcome, values, peers)
    chosen = {id(item) for item in candidates}
    rows = [number for number, item in enumerate(series) if id(item) in chosen]
    return max_null_test(residual, peer_residuals(values, peers)[rows], seed), residual


def _conclude(
    run: Run,
    grid: Grid,
    known: Localisation,
    candidates: list[Series],
    series: list[Series],
    outcome: Floats,
    slow: NDArray[np.bool_],
    tested: Tested,
    seed: int,
) -> Localisation:
    order = sorted(
        range(len(candidates)), key=lambda n: (tested.p_value[n], -tested.statistic[n], candidates[n].device, candidates[n].port)
    )
    suspects = [n for n in order if tested.p_value[n] <= _ASSOCIATED]
    if not suspects:
        best = candidates[order[0]]
        chance = f"does no better than chance (p = {tested.p_value[order[0]]:.2g})"
        reason = f"the best of {len(candidates)} counters ({best.device}/{best.port} {best.metric}) {chance}"
        return _by_change(run, grid, replace(known, state="no evidence", reason=reason), candidates, slow, seed)
    bounds = _at_clock_bounds(run, grid, known, candidates, outcome, seed)
    on_path, blamed = _paths(run), _blamed_ranks(run)
    off_path = [n for n in order if on_path is not None and not on_path.get((candidates[n].device, candidates[n].port), False)]
    off = max((float(tested.statistic[n]) for n in off_path), default=-1.0)
    ranks = {(row["device"], row["port"]): row["ranks"] for row in run.frame("ports").iter_rows(named=True)}
    sizes = Counter(item.peers for item in series)
    verdicts = []
    for n in suspects:
        item = candidates[n]
        reasons = []
        if item.metric not in ERROR_CLASS:
            reasons.append("it is a sign of congestion, which a merely sensitive link shows, too")
        if tested.p_value[n] > _LOCALISED:
            reasons.append(f"p = {tested.p_value[n]:.2g} is above 0.01")
        if sizes[item.peers] < _FEWEST_LINKS:
            reasons.append(f"it has {sizes[item.peers] - 1} peers to compare with (7 needed)")
        if on_path is None:
            reasons.append("no cabling is known (links.csv, LLDP), so nobody can say whether the job's traffic uses it")
        elif not on_path.get((item.device, item.port), False):
            reasons.append("it is on no path of the job")
        elif off >= tested.statistic[n]:
            reasons.append("a link on no path of the job scores as high")
        own = set(ranks.get((item.device, item.port)) or ())
        if blamed and own and not own & blamed:
            reasons.append(f"the others waited for rank {', '.join(map(str, sorted(blamed)))}, which is not behind it")
        if bounds.get((item.device, item.port, item.direction, item.metric), 1.0) > _LOCALISED:
            reasons.append("within the range of the device's clock the link is not found again")
        state = "associated" if reasons else "localised"
        verdicts.append(
            _verdict(
                run, grid, item, state, tuple(reasons), float(tested.p_value[n]), float(tested.statistic[n]), int(tested.lag[n]), slow, seed
            )
        )
    best_state = "localised" if any(verdict.state == "localised" for verdict in verdicts) else "associated"
    named = ", ".join(f"{verdict.device}/{verdict.port} ({verdict.metric})" for verdict in verdicts if verdict.state == best_state)
    return replace(known, state=best_state, reason=named, verdicts=tuple(verdicts))


def _by_change(run: Run, grid: Grid, known: Localisation, candidates: list[Series], slow: NDArray[np.bool_], seed: int) -> Localisation:
    """The answer where steps became slow and stayed so: counters of damage that began with it are associated."""
    errors = [item for item in candidates if item.metric in ERROR_CLASS]
    found = onsets_near_change(grid.exposed_ms, [item.events for item in errors])
    if found is None or found[1] > _ASSOCIATED:
        return known
    near, chance, change = found
    reasons = ("steps became slow once and stayed so; one change alone localises nobody", known.reason)
    verdicts = tuple(_verdict(run, grid, errors[n], "associated", reasons, chance, 0.0, 0, slow, seed) for n in near)
    named = ", ".join(f"{verdict.device}/{verdict.port} ({verdict.metric})" for verdict in verdicts)
    return replace(known, state="associated", reason=named, verdicts=verdicts, change_ns=int(grid.edges_ns[change]))


def _at_clock_bounds(
    run: Run, grid: Grid, known: Localisation, candidates: list[Series], outcome: Floats, seed: int
) -> dict[tuple[str, str, str, str], float]:
    """The worse p of each candidate at the two ends of the clocks' ranges."""
    clocks = dict(known.clocks)
    names = {(item.device, item.port, item.direction, item.metric) for item in candidates}
    worst: dict[tuple[str, str, str, str], float] = {}
    for bound in ("low_ns", "high_ns"):
        series = event_series(run, grid, clocks, bound)
        again = [item for item in series if (item.device, item.port, item.direction, item.metric) in names]
        tested, _ = _test(outcome, series, again, seed)
        for item, p_value in zip(again, tested.p_value, strict=True):
            key = (item.device, item.port, item.direction, item.metric)
            worst[key] = max(worst.get(key, 0.0), float(p_value))
    return worst


def _paths(run: Run) -> dict[tuple[str, str], bool] | None:
    """Whether each port lies on a shortest path between two hosts of the job; None without cabling."""
    ports = run.frame("ports")
    fabric = fabric_of(ports)
    hosts = sorted(set(run.frame("ranks")["host"].drop_nulls()) & set(fabric.hops))
    if len(hosts) < 2:
        return None
    hops: set[Hop] = fabric.group_hops(hosts) if len(hosts) <= _MOST_HOSTS else {hop for own in fabric.hops.values() for hop in own}
    used = {(hop.device, hop.port) for hop in hops} | {(hop.peer_device, hop.peer_port) for hop in hops}
    return {(device, port): (device, port) in used for device, port in ports.select("device", "port").iter_rows()}


def _blamed_ranks(run: Run) -> set[int]:
    """Ranks for which the others waited: whoever caused at least half as much waiting as the worst, if waiting is a fifth of communication.

    A stalled transfer makes both its ends late, and which of the two comes last is chance: whoever waits a tenth of the longest wait at
    most came as late as the last.
    """
    rows = run.frame("collectives").filter(pl.col("wait_ns").is_not_null())
    if rows.is_empty():
        return set()
    waited, moved = float(rows["wait_ns"].sum()), float(rows["transfer_ns"].fill_null(0).sum())
    if waited < 0.2 * (waited + moved):
        return set()
    wait = pl.col("wait_ns")
    late = rows.select("instance", "rank", "wait_ns", total=wait.sum().over("instance"), longest=wait.max().over("instance"))
    caused = late.filter((wait <= _ALSO_LATE * pl.col("longest")) & (pl.col("total") > 0)).group_by("rank").agg(pl.col("total").sum())
    return set(caused.filter(pl.col("total") >= 0.5 * pl.col("total").max())["rank"].to_list())


def _verdict(
    run: Run,
    grid: Grid,
    item: Series,
    state: str,
    reasons: tuple[str, ...],
    p_value: float,
    statistic: float,
    lag: int,
    slow: NDArray[np.bool_],
    seed: int,
) -> LinkVerdict:
    """The verdict with its effect: exposed time of cells with the event beyond that of cells without."""
    event = np.roll(item.events, -lag) >= 0.5
    # Where events never stop, cells with more than the usual number count.
    if event.mean() > 0.8:
        event = np.roll(item.events, -lag) > 2 * np.median(item.events)
    chance = np.random.default_rng(seed)
    mean = _excess(grid.exposed_ms, event)
    length = max(2, round(len(event) ** 0.5))
    draws = []
    for _ in range(200):
        starts = chance.integers(0, len(event), -(-len(event) // length))
        cells = (starts[:, None] + np.arange(length)).ravel() % len(event)
        draws.append(_excess(grid.exposed_ms[cells], event[cells]))
    low, high = np.quantile(draws, [0.025, 0.975])
    hit = event & slow
    return LinkVerdict(
        device=item.device,
        port=item.port,
        direction=item.direction,
        metric=item.metric,
        state=state,
        p_value=p_value,
        statistic=statistic,
        excess_ms=max(0.0, mean / grid.steps),
        excess_low_ms=max(0.0, float(low) / grid.steps),
        excess_high_ms=max(0.0, float(high) / grid.steps),
        coverage=float(hit.sum() / max(1, slow.sum())),
        precision=float(hit.sum() / max(1, event.sum())),
        steps=_steps_in(run, grid, hit),
        reasons=reasons,
    )


def _excess(exposed_ms: Floats, event: NDArray[np.bool_]) -> float:
    """Exposed milliseconds that cells with the event have beyond the mean of the others, summed."""
    if not event.any() or event.all():
        return 0.0
    return float((exposed_ms[event] - exposed_ms[~event].mean()).sum())


def _steps_in(run: Run, grid: Grid, cells: NDArray[np.bool_]) -> tuple[int, ...]:
    """Steps that lie at least half in marked cells."""
    steps = run.frame("steps").filter("complete").group_by("step").agg(pl.col("start_ns").min(), pl.col("end_ns").max()).sort("step")
    marked = np.concatenate(([0], np.cumsum(cells * np.diff(grid.edges_ns))))
    start, end = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    inside = np.interp(end, grid.edges_ns, marked) - np.interp(start, grid.edges_ns, marked)
    return tuple(steps.filter(pl.Series(inside >= 0.5 * (end - start)))["step"].to_list())


def mark_links(links: pl.DataFrame, localisation: Localisation) -> pl.DataFrame:
    """The ``links`` table with its ``localised`` column filled from the verdicts; both directions of a port carry its state."""
    states: dict[tuple[str, str], str] = {}
    for verdict in localisation.verdicts:
        key = (verdict.device, verdict.port)
        if states.get(key) != "localised":
            states[key] = verdict.state
    if not states:
        return links
    rows = [(device, port, state) for (device, port), state in sorted(states.items())]
    table = pl.DataFrame(rows, schema={"device": pl.String, "port": pl.String, "state": pl.String}, orient="row")
    joined = links.join(table, on=["device", "port"], how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("state", "localised").alias("localised")).drop("state")
