"""Samples that are no new reading: repeats of one instant, and polls that answered with old values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.units import NS_PER_S

__all__ = ["Samples", "distinct_instants", "stale_rows", "stamp_slack"]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
#: A repeat that is followed by at least this multiple of the usual rate per missed poll was no idle interval.
_CATCH_UP = 0.5
#: A stamp in whole seconds is off by up to half a second at either end of an interval; finer ones are good to a millisecond.
_WHOLE_S_NS, _FINE_NS = NS_PER_S, 1_000_000
#: The value is read after (a collector) or refreshed before (a device: 10 ms is the ``lifespan`` of mlx5's hw_counters) its stamp.
_LAG_NS, _DEVICE_LAG_NS = 100_000_000, 10_000_000


@dataclass(frozen=True)
class Samples:
    """Columns of sorted samples as arrays. ``first`` marks the first row of each series, ``speed_gbps`` is NaN where unknown."""

    ts_ns: Ints
    value: NDArray[np.uint64]
    first: Bools
    is_bytes: Bools
    #: Also bytes of queues and of counters that go by their own name.
    counts_bytes: Bools
    on_grid: Bools
    device: Ints
    port: Ints
    speed_gbps: NDArray[np.float64]
    #: By how much an interval that ends in the row may be longer than its stamps say.
    slack_ns: NDArray[np.float64]

    def take(self, rows: Bools) -> Samples:
        """Some of the rows; the first kept row of a series becomes its first."""
        series = np.cumsum(self.first)[rows]
        first = np.ones(len(series), np.bool_)
        first[1:] = series[1:] != series[:-1]
        return Samples(
            self.ts_ns[rows],
            self.value[rows],
            first,
            self.is_bytes[rows],
            self.counts_bytes[rows],
            self.on_grid[rows],
            self.device[rows],
            self.port[rows],
            self.speed_gbps[rows],
            self.slack_ns[rows],
        )


def stamp_slack(ts_ns: Ints, device: Ints, own_clock: Bools) -> NDArray[np.float64]:
    """Error of the length of an interval, by row: how coarse the stamps of the row's device are, and how far reading and stamp lie apart.

    More than line rate is impossible, but a burst may seem so if the true interval was longer: up to this much. ``own_clock`` marks stamps
    that the device made itself.
    """
    starts = np.flatnonzero(np.append(True, device[1:] != device[:-1]))
    whole = np.logical_and.reduceat(ts_ns % NS_PER_S == 0, starts)
    coarse = np.repeat(np.where(whole, _WHOLE_S_NS, _FINE_NS), np.diff(np.append(starts, len(device))))
    return coarse + np.where(own_clock, float(_DEVICE_LAG_NS), float(_LAG_NS))


def distinct_instants(samples: Samples) -> tuple[Bools, Bools, Bools]:
    """Which rows to keep (the last of each instant of a series), and of the kept ones which repeat and whose repeats differ."""
    count = len(samples.ts_ns)
    again = np.zeros(count, np.bool_)
    again[1:] = ~samples.first[1:] & (samples.ts_ns[1:] == samples.ts_ns[:-1])
    if not again.any():
        return np.ones(count, np.bool_), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    differs = np.zeros(count, np.int64)
    differs[1:] = again[1:] & (samples.value[1:] != samples.value[:-1])
    starts = np.flatnonzero(~again)
    keep = np.append(~again[1:], True)
    return keep, np.add.reduceat(again.astype(np.int64), starts) > 0, np.add.reduceat(differs, starts) > 0


def stale_rows(samples: Samples) -> Bools:
    """Rows that repeat an old reading and should be left out, so that their interval joins the next.

    A poll is stale when every byte counter of its unit repeats exactly, they moved before, and they move afterwards. The unit is the
    device, or on the grid of a Prometheus range query the port: targets are scraped apart, and a missed scrape is filled with the last
    value. Off the grid, where an idle interval looks the same, the repeat must be followed by a catch-up: at least 1.5 times the usual
    rate, or more than the line can carry. A grid finer than the scrapes repeats every value; runs of the usual length are one reading.
    Where one port alone repeats (its counters are cached apart), only more than the line can carry shows it, and only if the line could
    have carried it in the whole time.
    """
    count = len(samples.ts_ns)
    none = np.zeros(count, np.bool_)
    repeat = np.zeros(count, np.bool_)
    repeat[1:] = ~samples.first[1:] & (samples.value[1:] == samples.value[:-1])
    if not (repeat & samples.is_bytes).any():
        return none
    delta = np.zeros(count, np.float64)
    grown = np.zeros(count, np.bool_)
    grown[1:] = ~samples.first[1:] & (samples.value[1:] > samples.value[:-1])
    delta[1:] = np.where(grown[1:], (samples.value[1:] - samples.value[:-1]).astype(np.float64), 0.0)
    unit = np.where(samples.on_grid, samples.port, -1)
    rows = np.flatnonzero(samples.is_bytes & ~samples.first)
    lengths = np.ones(count)
    lengths[1:] = np.maximum(samples.ts_ns[1:] - samples.ts_ns[:-1], 1)
    bits_per_ns = delta * 8 / lengths
    frame = pl.DataFrame(
        {
            "device": samples.device[rows],
            "unit": unit[rows],
            "ts_ns": samples.ts_ns[rows],
            "repeat": repeat[rows],
            "rate": bits_per_ns[rows],
            "impossible": bits_per_ns[rows] > (1 + samples.slack_ns[rows] / lengths[rows]) * samples.speed_gbps[rows],
            "grid": samples.on_grid[rows],
        }
    )
    polls = frame.group_by("device", "unit", "ts_ns").agg(
        pl.col("repeat").all(), pl.col("rate").sum(), pl.col("impossible").any(), pl.col("grid").all()
    )
    polls = polls.sort("device", "unit", "ts_ns")
    stale = repeat & _marked(samples, unit, polls.filter(_stale_polls(polls)))
    if frame.select((pl.col("impossible") & ~pl.col("grid")).any()).item():
        line = samples.speed_gbps[rows] * lengths[rows]
        own = frame.with_columns(pl.Series("unit", samples.port[rows]), pl.Series("bits", delta[rows] * 8), pl.Series("line", line))
        stale |= repeat & _marked(samples, samples.port, _cached(own))
    return stale


def _marked(samples: Samples, unit: Ints, polls: pl.DataFrame) -> Bools:
    """Rows of some polls (device, unit, ts_ns)."""
    if polls.is_empty():
        return np.zeros(len(samples.ts_ns), np.bool_)
    rows = pl.DataFrame({"device": samples.device, "unit": unit, "ts_ns": samples.ts_ns})
    marks = rows.join(polls.select("device", "unit", "ts_ns", hit=True), on=["device", "unit", "ts_ns"], how="left", maintain_order="left")
    known: Bools = marks["hit"].fill_null(False).to_numpy()
    return known


def _cached(rows: pl.DataFrame) -> pl.DataFrame:
    """Polls in which all byte counters of a port repeat until one shows more than the line carries, though not more than in all of them."""
    polls = (
        rows.group_by("device", "unit", "ts_ns")
        .agg(pl.col("repeat").all(), pl.col("impossible", "grid").any(), pl.col("bits", "line").max())
        .sort("device", "unit", "ts_ns")
    )
    # A run is some repeats and the moving poll after them.
    port = pl.struct("device", "unit").rle_id()
    begins = (~pl.col("repeat")).shift(1, fill_value=True) | (port != port.shift(1)).fill_null(True)
    runs = polls.with_columns(begins.cum_sum().alias("run"))
    found = runs.filter(
        pl.col("impossible").last().over("run")
        & (pl.len().over("run") > 1)
        & (pl.col("bits").sum().over("run") <= pl.col("line").sum().over("run"))
        & ~pl.col("grid").any().over("run")
    )
    return found.filter("repeat")


def _stale_polls(polls: pl.DataFrame) -> NDArray[np.bool_]:
    """Which polls of a sorted (device, unit, ts_ns) table are stale."""
    device, unit = polls["device"].to_numpy(), polls["unit"].to_numpy()
    repeat, rate = polls["repeat"].to_numpy(), polls["rate"].to_numpy()
    impossible, grid = polls["impossible"].to_numpy(), polls["grid"].to_numpy()
    result = np.zeros(len(repeat), np.bool_)
    border = np.ones(len(repeat), np.bool_)
    border[1:] = (device[1:] != device[:-1]) | (unit[1:] != unit[:-1])
    moved = ~repeat
    # Each run is one moving poll and the repeats after it.
    starts = np.flatnonzero(moved | border)
    lengths = np.diff(np.append(starts, len(repeat)))
    unit_of_run = np.cumsum(border)[starts]
    for number in np.unique(unit_of_run[(lengths > 1) | ~moved[starts]]):
        runs = np.flatnonzero(unit_of_run == number)
        usual = max(1, int(np.median(lengths[runs]))) if grid[starts[runs[0]]] else 1
        for run in runs[(lengths[runs] > 1) | ~moved[starts[runs]]]:
            # The first poll of a unit has no difference; a run that opens with repeats began at that one.
            start = starts[run] if moved[starts[run]] else starts[run] - 1
            length = starts[run] + lengths[run] - start
            zeros = np.arange(start + 1, start + length)
            following = run + 1 if run + 1 < len(starts) and unit_of_run[run + 1] == number else None
            if usual > 1:
                late = np.arange(1, length) % usual if length > 2 * usual else np.ones(length - 1)
                result[zeros[late != 0]] = True
            if following is None or not moved[starts[run]]:
                continue
            after = starts[following]
            around = [rate[start]] if rate[start] > 0 else []
            if after + 1 < len(rate) and not border[after + 1] and moved[after + 1]:
                around.append(rate[after + 1])
            caught_up = bool(around) and rate[after] >= (1 + _CATCH_UP * (length - 1)) * float(np.mean(around))
            if impossible[after] or caught_up or (grid[start] and length <= 2 * usual):
                result[zeros] = True
    return result
