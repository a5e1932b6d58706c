"""The course of each link's traffic: its period, its bursts and its anomalies, as far as the polls show them."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.attribute.link_scale import series_heads
from netlab.schema.traffic import LINK_TRAFFIC

__all__ = ["link_traffic", "period_of"]

Floats = NDArray[np.float64]
#: Fewer polls have no course; a period must be seen three times, and take two polls or more (Nyquist).
_FEWEST_POLLS, _FEWEST_TURNS = 32, 3
#: Autocorrelation that noise of so many polls stays below in practice, and that a period must reach anyway.
_NOISE, _CLEAR = 4.0, 0.3
_MULTIPLE = 0.75
_BURST = 2.0
#: An anomaly is this many robust deviations and this share of the mean away from the median of its surroundings.
_FAR, _LARGE, _AROUND = 8.0, 0.5, 21
#: ... and this many times what one poll in ten differs by.
_WIDE = 6.0
_MOST_POLLS, _MOST_STRETCH = 20_000, 4


def link_traffic(intervals: pl.DataFrame, links: pl.DataFrame, step_ns: float | None = None) -> pl.DataFrame:
    """One row per direction of each link with enough polls of its bytes.

    Parameters
    ----------
    intervals
        ``LINK_INTERVALS``.
    links
        ``LINKS`` or any frame with ``device`` and ``port``: the physical ports.
    step_ns
        Median step of the run, where traces tell it.

    Returns
    -------
    ``LINK_TRAFFIC``. A poll shows a mean: bursts shorter than ``poll_ms`` and periods below twice that cannot be seen, and are not denied.
    """
    heads = series_heads(intervals).filter(
        (pl.col("metric") == "bytes") & pl.col("queue").is_null() & (pl.col("direction") != "none") & (pl.col("rows") >= _FEWEST_POLLS)
    )
    heads = heads.join(links.select("device", "port").unique(), on=["device", "port"], how="semi", maintain_order="left")
    gaps = [text for text in intervals["flags"].unique().cast(pl.String) if "gap" in text.split(",")]
    rows = []
    for head in heads.iter_rows(named=True):
        piece = intervals.slice(head["first"], head["rows"]).tail(_MOST_POLLS)
        known = piece["delta"].is_not_null().to_numpy()
        if known.sum() < _FEWEST_POLLS:
            continue
        even = known & ~piece["flags"].is_in(gaps).to_numpy() if gaps else known
        t0, t1 = piece["t0_ns"].to_numpy(), piece["t1_ns"].to_numpy()
        rate = np.where(known, piece["delta"].fill_null(0).to_numpy() / (t1 - t0), np.nan)
        rows.append(
            {
                "device": head["device"],
                "port": head["port"],
                "direction": head["direction"],
                "polls": int(known.sum()),
                "step_ms": None if step_ns is None else step_ns / 1e6,
                **_course(t0, t1, rate, even),
            }
        )
    return (
        LINK_TRAFFIC.validate(LINK_TRAFFIC.conform(pl.DataFrame(rows, schema=dict(LINK_TRAFFIC.schema)))) if rows else LINK_TRAFFIC.empty()
    )


def _course(t0: NDArray[np.int64], t1: NDArray[np.int64], rate: Floats, even: NDArray[np.bool_]) -> dict[str, object]:
    length = (t1 - t0).astype(np.float64)
    poll = float(np.median(length[even])) if even.any() else float(np.median(length))
    known = ~np.isnan(rate)
    total = float((rate[known] * length[known]).sum())
    mean = total / float(length[known].sum())
    found: dict[str, object] = {"poll_ms": poll / 1e6, "bursts": 0, "anomalies": 0}
    if mean <= 0:
        return found
    high = even & known & (np.nan_to_num(rate) > _BURST * mean)
    starts = np.flatnonzero(high & ~np.append(False, high[:-1]))
    ends = np.flatnonzero(high & ~np.append(high[1:], False))
    found |= {
        "peak_to_mean": float(np.nanmax(np.where(even, rate, np.nan))) / mean if (even & known).any() else None,
        "bursts": len(starts),
        "longest_burst_ms": float((t1[ends] - t0[starts]).max()) / 1e6 if len(starts) else None,
        "burst_bytes_share": float((rate[high] * length[high]).sum()) / total,
    }
    period = _even_period(t0, t1, np.nan_to_num(rate), known, poll)
    if period is not None:
        found |= {"period_ms": period[0] / 1e6, "period_strength": period[1]}
    return found | _anomalies(t0[even & known], rate[even & known], mean, None if period is None else period[0] / poll)


def _even_period(
    t0: NDArray[np.int64], t1: NDArray[np.int64], rate: Floats, known: NDArray[np.bool_], poll: float
) -> tuple[float, float] | None:
    """The period in nanoseconds and its autocorrelation, on an even grid of polls; unknown intervals count as the mean."""
    count = int((t1[-1] - t0[0]) / poll)
    # Over long holes there is nothing to repeat, and the even grid would be as long as they are.
    if count < _FEWEST_POLLS or count > _MOST_STRETCH * len(t0) or known.mean() < 0.9:
        return None
    level = np.where(known, rate, rate[known].mean())
    at = np.append(t0[:1], t1).astype(np.float64)
    moved = np.append(0.0, np.cumsum(level * (t1 - t0)))
    grid = np.diff(np.interp(t0[0] + poll * np.arange(count + 1), at, moved))
    found = period_of(grid)
    return None if found is None else (found[0] * poll, found[1])


def period_of(values: Floats) -> tuple[float, float] | None:
    """Period of a series in samples and the autocorrelation there, or None.

    The first peak of the autocorrelation after it has come down, if it stands out of noise and three periods fit.

    >>> wave = np.tile([5.0, 1.0, 0.0, 1.0], 20)
    >>> period_of(wave)[0]
    4.0
    """
    count = len(values)
    centred = values - values.mean()
    power = np.fft.rfft(centred, 2 * count)
    full = np.fft.irfft(power * power.conj())[: count // _FEWEST_TURNS + 1]
    if full[0] <= 0:
        return None
    # The sum at a lag has fewer terms; without this a period late in the range would look weak.
    correlation = full / full[0] * count / (count - np.arange(len(full)))
    down = np.flatnonzero(correlation < 0.5 * _CLEAR)
    if not len(down):
        return None
    inner = np.arange(max(int(down[0]), 2), len(correlation) - 1)
    peaks = inner[(correlation[inner] >= correlation[inner - 1]) & (correlation[inner] >= correlation[inner + 1])]
    strong = peaks[correlation[peaks] >= max(_CLEAR, _NOISE / np.sqrt(count))]
    if not len(strong):
        return None
    left, middle, right = correlation[strong - 1], correlation[strong], correlation[strong + 1]
    bend = left - 2 * middle + right
    shift = np.where(bend < 0, 0.5 * (left - right) / np.minimum(bend, -1e-12), 0.0)
    height = middle - 0.25 * (left - right) * shift
    # Of multiples of one period the first: one that falls between two lags is weaker there than its multiples that meet a lag.
    first = int(np.flatnonzero(height >= _MULTIPLE * height.max())[0])
    lag, between = int(strong[first]), float(shift[first])
    return float(lag + (between if lag > 2 and abs(between) >= 0.02 else 0.0)), float(min(correlation[lag], 1.0))


def _anomalies(t0: NDArray[np.int64], rate: Floats, mean: float, period: float | None) -> dict[str, object]:
    """Intervals far from the median of those around them; the rise and fall of a period is no anomaly."""
    width = min(len(rate) // 2 * 2 - 1, max(_AROUND, 2 * round(period or 0) + 1))
    usual = pl.Series(rate).rolling_median(width, center=True, min_samples=width // 2 + 1).to_numpy()
    residual = rate - usual
    spread = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
    # A link that hardly varies has no scale of its own; a hundredth of its mean is one. Traffic that comes and goes has a wide one.
    scale = max(spread, 0.01 * mean, _WIDE * float(np.quantile(np.abs(residual), 0.9)) / _FAR)
    distance = np.abs(residual) / scale
    far = (distance > _FAR) & (np.abs(residual) > _LARGE * mean)
    if not far.any():
        return {}
    worst = int(np.argmax(np.where(far, distance, 0.0)))
    return {
        "anomalies": int(far.sum()),
        "anomaly_ns": int(t0[worst]),
        "anomaly_ratio": float(rate[worst] / usual[worst]) if usual[worst] > 0 else None,
    }
