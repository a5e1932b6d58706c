"""Steps and counters on one grid of time cells: exposed communication as outcome, events of each port as series, clocks of the devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.intervals import mask_times
from netlab.run import Run

__all__ = ["CAUSES", "ERROR_CLASS", "Clock", "Grid", "Series", "device_clocks", "event_series", "grid_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Damage on the link itself: the only class that can be localised.
ERROR_CLASS = (
    "errors",
    "fcs_errors",
    "symbol_errors",
    "fec_uncorrected",
    "link_recovery",
    "link_downed",
    "carrier_changes",
    "local_link_integrity_errors",
)
#: Signs of congestion: a link that is merely more sensitive shows more of them, so they can be associated at most.
_CONGESTION = (
    "discards",
    "ecn_marked",
    "pause_frames",
    "pause_us",
    "wred_drops",
    "xmit_wait",
    "retransmits",
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
)
CAUSES = (*ERROR_CLASS, *_CONGESTION)
_MOST_CELLS, _MOST_WINDOWS = 2_000, 200_000
_CLOCK_STEPS = 81


@dataclass(frozen=True)
class Grid:
    """Equal cells over the run: ``edges_ns`` (T + 1), and per cell the mean exposed communication of a rank."""

    edges_ns: Ints
    exposed_ms: Floats
    steps: int
    poll_ns: int

    @property
    def cell_ms(self) -> float:
        """Length of a cell."""
        return float(self.edges_ns[1] - self.edges_ns[0]) / 1e6


@dataclass(frozen=True)
class Clock:
    """How far a device's clock is ahead, with the range that fits nearly as well; ``correlation`` of bytes and communication."""

    offset_ns: int
    low_ns: int
    high_ns: int
    correlation: float


@dataclass(frozen=True)
class Series:
    """Events per cell of one counter, and the peer group that it belongs to (same metric, direction, role and speed)."""

    device: str
    port: str
    direction: str
    metric: str
    peers: int
    events: Floats


def _array(frame: pl.DataFrame, name: str) -> Ints:
    return frame[name].to_numpy().astype(np.int64)


def grid_of(run: Run) -> Grid | None:
    """The grid of a run: cells as long as the longer of usual poll and usual step; None without steps, activities or polls.

    A grid of time, not of steps: in a longer step a counter that grows evenly counts more, and would seem to slow it.
    """
    steps, activities = run.frame("steps").filter("complete"), run.frame("activities")
    intervals = run.frame("link_intervals").filter(pl.col("metric").is_in([*CAUSES, "bytes"]))
    if steps.is_empty() or activities.is_empty() or intervals.is_empty():
        return None
    start, end = int(steps["start_ns"].min()), int(steps["end_ns"].max())  # type: ignore[arg-type]
    step_ns = float((steps["end_ns"] - steps["start_ns"]).median())  # type: ignore[arg-type]
    poll_ns = float((intervals["t1_ns"] - intervals["t0_ns"]).median())  # type: ignore[arg-type]
    cell = max(step_ns, poll_ns, (end - start) / _MOST_CELLS)
    count = int((end - start) / cell)
    if count < 1:
        return None
    edges = start + np.rint(np.arange(count + 1) * cell).astype(np.int64)
    return Grid(edges, _exposed(activities, edges), steps["step"].n_unique(), int(poll_ns))


def _exposed(activities: pl.DataFrame, edges: Ints) -> Floats:
    """Mean over ranks of the communication that no compute covers, per cell, in milliseconds."""
    ranks = activities["rank"].unique().sort().to_numpy()
    count = len(edges) - 1
    most = max(1, _MOST_WINDOWS // count)
    if len(ranks) > most:
        ranks = ranks[np.linspace(0, len(ranks) - 1, most).astype(np.int64)]
    chosen = activities.filter(pl.col("rank").is_in(ranks.tolist()) & pl.col("kind").is_in(("compute", "communication")))
    bit = (chosen["kind"] == "compute").cast(pl.Int64).to_numpy()
    lanes = np.repeat(ranks.astype(np.int64), count)
    times = mask_times(
        _array(chosen, "rank"),
        _array(chosen, "start_ns"),
        _array(chosen, "end_ns"),
        bit,
        lanes,
        np.tile(edges[:-1], len(ranks)),
        np.tile(edges[1:], len(ranks)),
        2,
    )
    return np.asarray(times[:, 1].reshape(len(ranks), count).mean(axis=0) / 1e6, np.float64)


def _growth(t0: Ints, t1: Ints, delta: Floats, edges: Ints) -> Floats:
    """Growth per cell of a counter known by intervals; each grows evenly within, nothing grows between."""
    at = np.column_stack((t0, t1)).ravel().astype(np.float64)
    total = np.column_stack((np.cumsum(delta) - delta, np.cumsum(delta))).ravel()
    return np.diff(np.interp(edges.astype(np.float64), at, total))


def device_clocks(run: Run, grid: Grid) -> dict[str, Clock]:
    """Clock of each device that counts bytes: the shift, within one poll, at which its bytes fit the communication between hosts best.

    Every transfer spreads its message evenly over its time. One clock for a device, never for a link. The range holds all shifts whose
    correlation is within two standard errors of the best. A best shift at the end of the poll is refused: the clock may be anywhere.
    """
    activities = run.frame("activities").filter((pl.col("kind") == "communication") & (pl.col("layer") != "intra_node"))
    intervals = run.frame("link_intervals").filter(
        (pl.col("metric") == "bytes") & pl.col("queue").is_null() & pl.col("delta").is_not_null()
    )
    if activities.is_empty() or intervals.is_empty():
        return {}
    start = activities["transfer_start_ns"].fill_null(activities["start_ns"]).to_numpy().astype(np.int64)
    busy_at, busy_total = _busy(start, _array(activities, "end_ns"), activities["bytes"].fill_null(0).to_numpy().astype(np.float64))
    first, last = int(grid.edges_ns[0]), int(grid.edges_ns[-1])
    shifts = np.linspace(-grid.poll_ns, grid.poll_ns, _CLOCK_STEPS)
    clocks = {}
    for (device,), part in intervals.group_by("device", maintain_order=True):
        summed = (
            part.filter((pl.col("t0_ns") >= first) & (pl.col("t1_ns") <= last))
            .group_by("t0_ns", "t1_ns")
            .agg(pl.col("delta").sum())
            .sort("t0_ns")
        )
        if summed.height < 20:
            continue
        t0, t1 = summed["t0_ns"].to_numpy(), summed["t1_ns"].to_numpy()
        rate = summed["delta"].to_numpy() / (t1 - t0)
        fits = np.zeros(len(shifts))
        for number, shift in enumerate(shifts):
            # A clock that is ahead by the shift stamps what happens at t with t + shift.
            busy = np.interp(t1 - shift, busy_at, busy_total) - np.interp(t0 - shift, busy_at, busy_total)
            share = busy / (t1 - t0)
            if share.std() > 0 and rate.std() > 0:
                fits[number] = np.corrcoef(share, rate)[0, 1]
        best = float(fits.max())
        near = shifts[fits >= best - 2 * (1 - best**2) / np.sqrt(len(t0))]
        if best >= 0.3 and 0 < fits.argmax() < len(shifts) - 1:
            # Polls are coarse: of shifts that fit alike, the smallest.
            alike = shifts[fits >= best - 1e-6]
            clocks[str(device)] = Clock(round(alike[np.abs(alike).argmin()]), round(near.min()), round(near.max()), best)
    return clocks


def _busy(start: Ints, end: Ints, size: Floats) -> tuple[Floats, Floats]:
    """Bytes moved until each instant, if every message flows evenly; without sizes, time spent in transfers."""
    duration = np.maximum(end - start, 1).astype(np.float64)
    rate = np.where(size > 0, size, duration if not size.any() else 0.0) / duration
    at = np.concatenate((start, end)).astype(np.float64)
    order = np.argsort(at, kind="stable")
    at, level = at[order], np.cumsum(np.concatenate((rate, -rate))[order])
    return at, np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(at))))


def event_series(run: Run, grid: Grid, clocks: dict[str, Clock], bound: str = "offset_ns") -> list[Series]:
    """Events per cell of every counter that can be a cause, of all physical ports, silent ones too (they are the controls)."""
    links = run.frame("links").select(pl.col("device", "port").cast(pl.Categorical)).unique()
    wanted = run.frame("link_intervals").filter(pl.col("metric").is_in(CAUSES))
    intervals = wanted.join(links, on=["device", "port"], how="semi", maintain_order="left")
    ports = {
        (device, port): (role, speed)
        for device, port, role, speed in run.frame("ports").select("device", "port", "role", "speed_gbps").iter_rows()
    }
    groups: dict[tuple[object, ...], int] = {}
    found = []
    keys = ["device", "port", "direction", "metric"]
    for (device, port, direction, metric), part in intervals.group_by(keys, maintain_order=True):
        shift = getattr(clocks[str(device)], bound) if str(device) in clocks else 0
        edges = grid.edges_ns + shift
        events = np.zeros(len(edges) - 1)
        for _, queue in part.group_by("queue", maintain_order=True):
            delta = queue["delta"].fill_null(0).to_numpy().astype(np.float64)
            events += _growth(_array(queue, "t0_ns"), _array(queue, "t1_ns"), delta, edges)
        group = (str(metric), str(direction), *ports.get((str(device), str(port)), (None, None)))
        number = groups.setdefault(group, len(groups))
        found.append(Series(str(device), str(port), str(direction), str(metric), number, np.maximum(events, 0.0)))
    return found
