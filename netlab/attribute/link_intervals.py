"""Counters to intervals: differences of successive samples, with everything that makes one unknown."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.attribute.link_issues import interval_issues, single_instants
from netlab.attribute.link_resets import Resets, resets_of
from netlab.attribute.link_samples import Samples, distinct_instants, stale_rows, stamp_slack
from netlab.attribute.link_scale import scale_issues
from netlab.issues import Issue
from netlab.schema.counters import LINK_INTERVALS

__all__ = ["FLAGS", "link_intervals"]

#: Bits of an interval's flags, in the order in which the text names them.
FLAGS = ("wrap", "wrap_ambiguous", "reset", "gap", "saturated", "stale_repeat", "duplicate", "clock_naive", "above_line_rate")
_BIT = {name: 1 << index for index, name in enumerate(FLAGS)}
_SERIES = ("device", "port", "queue", "direction", "metric")
_BATCH_ROWS = 1_000_000
#: A hole is longer than this many usual polls; its difference is kept, but says nothing about peaks.
_GAP_POLLS = 3
#: Smallest Ethernet frame with preamble and gap: the most packets a link can carry.
_PACKET_BITS = 84 * 8

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def link_intervals(counters: pl.DataFrame, ports: pl.DataFrame) -> tuple[pl.DataFrame, list[Issue]]:
    """Differences of successive samples of every counter, rates and utilisation.

    Parameters
    ----------
    counters
        ``COUNTERS`` with one spelling per port (``align_counters``). Only kind ``counter`` is differenced.
    ports
        ``PORTS``; reads ``speed_gbps``, without which utilisation is null and a wrap cannot be told from a reset.

    Returns
    -------
    ``LINK_INTERVALS`` and issues. ``delta`` is null after a reset (a 64-bit counter that fell, a device that restarted, or more bytes than
    the line can carry), over an ambiguous wrap of a 32-bit counter, at the end of a counter that sticks, and beside samples of one instant
    that differ. Over a hole (more than 3 usual polls) it is kept and flagged ``gap``.

    A 32-bit octet counter wraps in 34 s at 1 Gbit/s: a fall is a wrap only if the line can carry the implied bytes in the interval and the
    error of its length (a second, where stamps are whole seconds; else 0.1 s, or 10 ms by a device's own clock), and the poll is
    shorter than half the wrap time (RFC 2863, 3.1.6 recommends 64-bit counters above 20 Mbit/s for that reason); where it may have wrapped
    unseen, also growth is unknown.
    """
    if counters.is_empty():
        return LINK_INTERVALS.empty(), []
    resets = resets_of(counters)
    speeds = ports.select(pl.col("device", "port").cast(pl.Categorical), "speed_gbps")
    parts = [_intervals(part, speeds, resets) for part in _batches(counters)]
    frame = pl.concat([part for part in parts if part is not None] or [LINK_INTERVALS.empty()])
    return frame, [*single_instants(counters), *interval_issues(frame, resets), *scale_issues(frame, ports)]


def _sorted(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with each series in one piece and in order of time; a table sorted by its key already is."""
    first = _first_of_series(rows)
    late = np.diff(rows["ts_ns"].to_numpy()) < 0
    heads = rows.filter(pl.Series(first)).select(_SERIES)
    if not heads.is_duplicated().any() and not (late & ~first[1:]).any():
        return rows
    return rows.sort(*_SERIES, "ts_ns", maintain_order=True)


def _codes(series: pl.Series) -> NDArray[np.int64]:
    return series.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()


def _first_of_series(rows: pl.DataFrame) -> Bools:
    first = np.ones(len(rows), np.bool_)
    if len(rows) > 1:
        first[1:] = False
        for name in _SERIES:
            codes = rows[name].to_physical().fill_null(2**32 - 1).to_numpy()
            first[1:] |= codes[1:] != codes[:-1]
    return first


def _batches(counters: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Counters of whole devices, a million rows or so at a time, so that copies and temporary arrays stay small."""
    table = counters.select(*_SERIES, "ts_ns", "value_int", "width_bits", "overflow", "flags", "ts_source", "kind")
    codes = table["device"].to_physical().to_numpy()
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    if len(np.unique(codes[starts])) < len(starts):
        yield from _batches(counters.sort("device", maintain_order=True))
        return
    ends = np.append(starts[1:], len(codes))
    begin = 0
    for end, following in zip(ends, np.append(ends[1:], len(codes) + _BATCH_ROWS), strict=True):
        if following - begin > _BATCH_ROWS:
            wanted = (pl.col("kind") == "counter") & pl.col("value_int").is_not_null() & pl.col("ts_ns").is_not_null()
            rows = table.slice(begin, end - begin).filter(wanted).drop("kind")
            if not rows.is_empty():
                yield _sorted(rows)
            begin = int(end)


def _samples(rows: pl.DataFrame, speeds: pl.DataFrame) -> Samples:
    first = _first_of_series(rows)
    heads = rows.filter(pl.Series(first)).select("device", "port", "metric", pl.col("queue").is_null().alias("whole"))
    joined = heads.join(speeds, on=["device", "port"], how="left", maintain_order="left")
    series = np.cumsum(first) - 1
    is_bytes = ((joined["metric"] == "bytes") & joined["whole"]).to_numpy()[series]
    # A narrow twin that goes by its own name (ifInOctets beside ifHCInOctets) wraps as fast as the bytes it counts.
    names = joined["metric"].unique()
    octets = names.filter(names.cast(pl.String).str.contains("(?i)octets|bytes"))
    fast = joined["metric"].is_in(octets.implode()).to_numpy()[series]
    speed = joined["speed_gbps"].fill_null(float("nan")).to_numpy()[series]
    grid, own_clock = ((rows["ts_source"] == name).fill_null(False).to_numpy() for name in ("query_grid", "device"))
    ts_ns, device = rows["ts_ns"].to_numpy(), _codes(rows["device"])
    slack = stamp_slack(ts_ns, device, own_clock)
    return Samples(ts_ns, rows["value_int"].to_numpy(), first, is_bytes, fast, grid, device, _codes(rows["port"]), speed, slack)


def _intervals(rows: pl.DataFrame, speeds: pl.DataFrame, resets: Resets) -> pl.DataFrame | None:
    samples = _samples(rows, speeds)
    keep, repeats, differs = distinct_instants(samples)
    kept = samples if keep.all() else samples.take(keep)
    stale = stale_rows(kept)
    dropped = np.cumsum(stale, dtype=np.int64)[~stale]
    numbers = np.flatnonzero(keep)[~stale]
    repeats, differs = repeats[~stale], differs[~stale]
    final = kept.take(~stale) if stale.any() else kept
    _grid_slack(final, dropped)
    end = np.flatnonzero(~final.first)
    if not len(end):
        return None
    start = end - 1
    at_end = rows[numbers[end]]
    t0, t1 = final.ts_ns[start], final.ts_ns[end]
    mask = np.zeros(len(end), np.int64)
    mask |= np.where(dropped[end] != dropped[start], _BIT["stale_repeat"], 0)
    mask |= np.where(repeats[end] | repeats[start], _BIT["duplicate"], 0)
    naive = [text for text in rows["flags"].unique().cast(pl.String) if "clock_naive" in text.split(",")]
    if naive:
        mask |= np.where(at_end["flags"].is_in(naive).to_numpy(), _BIT["clock_naive"], 0)
    restarted = resets.within(at_end["device"], at_end["port"], t0, t1)
    delta, known = _differences(at_end, final, start, end, restarted, mask)
    known &= ~(differs[end] | differs[start])
    _too_fast(final, end, t0, t1, delta, known, mask)
    _mark_gaps(at_end, t1 - t0, mask)
    return _table(at_end, final.speed_gbps[end], final.is_bytes[end], t0, t1, delta, known, mask)


def _differences(at_end: pl.DataFrame, samples: Samples, start: Ints, end: Ints, restarted: Bools, mask: Ints) -> tuple[Ints, Bools]:
    """Growth of each interval and whether it is known; sets the bits of wraps, resets and saturation."""
    old, new = samples.value[start], samples.value[end]
    dt = samples.ts_ns[end] - samples.ts_ns[start]
    slack = samples.slack_ns[end]
    speed, is_bytes = samples.speed_gbps[end], samples.counts_bytes[end]
    delta = (new - old).view(np.int64)
    known = (new >= old) & (delta >= 0)
    width = at_end["width_bits"].fill_null(0).to_numpy()
    overflow = at_end["overflow"]
    narrow = (width > 0) & (width < 64)
    fell = new < old
    if narrow.any():
        scaled = [text for text in at_end["flags"].unique().cast(pl.String) if "scaled_x4" in text.split(",")]
        scale = np.where(at_end["flags"].is_in(scaled).to_numpy(), 4, 1) if scaled else np.ones(len(end), np.int64)
        span = np.where(narrow, np.left_shift(np.int64(1), np.where(narrow, np.minimum(width, 60), 0).astype(np.int64)), 0) * scale
        sticks = narrow & (overflow == "stick").fill_null(False).to_numpy()
        largest = (span - scale).view(np.uint64)
        stuck = sticks & ((new == largest) | (old == largest))
        wraps = narrow & (overflow == "wrap").fill_null(False).to_numpy()
        wrapped, ambiguous = _wraps(old, new, span, (dt, slack), speed, is_bytes, fell & wraps, wraps)
        delta = np.where(wrapped, delta + span, delta)
        known = (known | wrapped) & ~ambiguous & ~stuck
        fell = fell & ~wrapped & ~ambiguous
        wrapped &= ~restarted
        mask |= np.where(stuck, _BIT["saturated"], 0) | np.where(wrapped, _BIT["wrap"], 0)
        mask |= np.where(ambiguous & ~restarted, _BIT["wrap_ambiguous"], 0)
    mask |= np.where(fell | restarted, _BIT["reset"], 0)
    return delta, known & ~restarted


def _wraps(
    old: NDArray[np.uint64],
    new: NDArray[np.uint64],
    span: Ints,
    time: tuple[Ints, Floats],
    speed: Floats,
    is_bytes: Bools,
    fell: Bools,
    wraps: Bools,
) -> tuple[Bools, Bools]:
    """Falls of narrow counters that are surely one wrap, and intervals of which nobody can tell."""
    growth = (new.view(np.int64) - old.view(np.int64) + np.where(fell, span, 0)).astype(np.float64)
    known_speed = ~np.isnan(speed)
    per_ns = np.where(is_bytes, speed / 8, speed / _PACKET_BITS)
    dt, slack = time
    most = per_ns * (dt + slack)
    # Errors and packets come nowhere near the rate that would wrap them; a fall from the lower half is then a reset.
    near_end = is_bytes | (old.view(np.int64) > span // 2)
    with np.errstate(invalid="ignore"):
        possible = fell & near_end & (~known_speed | (growth <= most))
        short = known_speed & (per_ns * dt < span / 2)
        again = wraps & is_bytes & (~known_speed | (growth + span <= most))
    wrapped = possible & short & ~again
    return wrapped, (possible & ~wrapped) | (again & ~fell)


def _grid_slack(samples: Samples, dropped: Ints) -> None:
    """On a grid finer than the scrapes a new value shows up to one step late: merged repeats show how long a step is."""
    merged = np.zeros(len(dropped), np.int64)
    merged[1:] = dropped[1:] - dropped[:-1]
    rows = np.flatnonzero(samples.on_grid & ~samples.first & (merged > 0))
    steps = (samples.ts_ns[rows] - samples.ts_ns[rows - 1]) / (merged[rows] + 1)
    samples.slack_ns[rows] = np.maximum(samples.slack_ns[rows], steps)


def _too_fast(samples: Samples, end: Ints, t0: Ints, t1: Ints, delta: Ints, known: Bools, mask: Ints) -> None:
    """More bytes than the line can carry: a reset that ended above the old value; if most of a series is so, its speed or unit is wrong.

    A single interval may be longer than its stamps say, a whole series hardly: also too many bytes in all of it show a wrong unit.
    """
    speed, dt = samples.speed_gbps[end], t1 - t0
    with np.errstate(invalid="ignore"):
        over = known & samples.is_bytes[end] & (delta * 8.0 > speed * dt)
        fast = over & (delta * 8.0 > speed * (dt + samples.slack_ns[end]))
    if not over.any():
        return
    series = np.cumsum(samples.first)[end]
    counted = known & samples.is_bytes[end] & ~fast
    share = np.bincount(series, fast) / np.maximum(np.bincount(series), 1)
    bits, spans = np.bincount(series, np.where(counted, delta * 8.0, 0.0)), np.bincount(series, np.where(counted, dt, 0))
    slack = np.zeros(len(share))
    slack[series] = samples.slack_ns[end]
    full = np.zeros(len(share))
    full[series] = speed
    with np.errstate(invalid="ignore"):
        wrong = (share >= 0.5) | (bits > full * (spans + slack))
    beyond = over & wrong[series]
    mask |= np.where(beyond, _BIT["above_line_rate"], 0) | np.where(fast & ~beyond, _BIT["reset"], 0)
    known &= ~fast | beyond


def _mark_gaps(at_end: pl.DataFrame, dt: Ints, mask: Ints) -> None:
    """Flag holes: longer than three usual polls of a metric on a device; usual is the lower median, so that two polls differ too."""
    if dt.max() <= _GAP_POLLS * dt.min():
        return
    polls = at_end.select("device", "metric", pl.Series("dt", dt))
    usual = polls.group_by("device", "metric").agg(pl.col("dt").quantile(0.5, "lower").alias("usual"))
    joined = polls.join(usual, on=["device", "metric"], how="left", maintain_order="left")
    mask |= np.where((joined["dt"] > _GAP_POLLS * joined["usual"]).to_numpy(), _BIT["gap"], 0)


def _table(at_end: pl.DataFrame, speed: Floats, is_bytes: Bools, t0: Ints, t1: Ints, delta: Ints, known: Bools, mask: Ints) -> pl.DataFrame:
    dt = (t1 - t0).astype(np.float64)
    distinct, inverse = np.unique(mask, return_inverse=True)
    texts = pl.Series([",".join(name for name in FLAGS if bits & _BIT[name]) for bits in distinct.tolist()], dtype=pl.Categorical)
    grown = delta.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        # What the line carries in an interval that was longer than its stamps is full use, not more.
        used = np.minimum(grown * 8 / (dt * speed), 1.0)
    valid = known & is_bytes & ~np.isnan(speed) & (speed > 0) & ((mask & _BIT["above_line_rate"]) == 0)
    whether, usable = pl.Series(known), pl.Series(valid)
    columns = {
        "t0_ns": pl.Series(t0),
        "t1_ns": pl.Series(t1),
        **{name: at_end[name] for name in _SERIES},
        "delta": pl.select(pl.when(whether).then(pl.Series(delta))).to_series(),
        "rate_per_s": pl.select(pl.when(whether).then(pl.Series(grown * 1e9 / dt))).to_series(),
        "utilization": pl.select(pl.when(usable).then(pl.Series(used))).to_series(),
        "flags": texts.gather(pl.Series(inverse.astype(np.uint32))),
    }
    return pl.DataFrame(columns).select([column.name for column in LINK_INTERVALS.columns])
