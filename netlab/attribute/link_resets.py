"""Instants at which counters of a device or port began anew, as its own clocks tell (uptime, boot time, last clear)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.units import NS_PER_S

__all__ = ["Resets", "resets_of"]

_TICK_NS = 10_000_000
_TICKS = 1 << 32
_CLOCKS = ("uptime_ticks", "boot_time_s", "last_clear_ns", "discontinuity_ticks")


@dataclass(frozen=True)
class Resets:
    """Instants of restarts by device and port (port empty: the whole device), with the clock that shows them."""

    frame: pl.DataFrame

    def within(self, device: pl.Series, port: pl.Series, t0_ns: NDArray[np.int64], t1_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether an interval (t0, t1] holds a restart of its device or port."""
        result = np.zeros(len(t0_ns), np.bool_)
        for name, own, at, _ in self.frame.iter_rows():
            mine = (device == name).to_numpy()
            if own:
                mine &= (port == own).to_numpy()
            result |= mine & (t0_ns < at) & (at <= t1_ns)
        return result

    def clock(self, device: str) -> str | None:
        """Which clock showed a restart of the device."""
        shown = self.frame.filter(pl.col("device") == device)["clock"]
        return str(shown[0]) if len(shown) else None


def resets_of(counters: pl.DataFrame) -> Resets:
    """Restarts in a ``counters`` table. An uptime that falls is a restart, unless its 32 bits ran out (every 497 days)."""
    clocks = counters.filter(pl.col("metric").is_in(_CLOCKS) & pl.col("ts_ns").is_not_null() & pl.col("value").is_not_null())
    rows: list[tuple[str, str, int, str]] = []
    if not clocks.is_empty():
        text = clocks.select(pl.col("device", "port", "metric").cast(pl.String), "ts_ns", "value").sort(
            "device", "port", "metric", "ts_ns", maintain_order=True
        )
        for (device, port, metric), part in text.group_by("device", "port", "metric", maintain_order=True):
            times, values = part["ts_ns"].to_list(), part["value"].to_list()
            for before, at, old, new in zip(times[:-1], times[1:], values[:-1], values[1:], strict=True):
                instant = _restart(str(metric), before, at, old, new)
                if instant is not None:
                    own = str(port) if metric in ("last_clear_ns", "discontinuity_ticks") else ""
                    rows.append((str(device), own, min(max(instant, before + 1), at), str(metric)))
    schema = {"device": pl.String, "port": pl.String, "at_ns": pl.Int64, "clock": pl.String}
    return Resets(pl.DataFrame(sorted(set(rows)), schema=schema, orient="row"))


def _restart(metric: str, before_ns: int, at_ns: int, old: float, new: float) -> int | None:
    """The instant of a restart between two readings of one clock, or None."""
    if metric == "uptime_ticks":
        expected = old + (at_ns - before_ns) / _TICK_NS
        if new >= old or abs(expected - _TICKS - new) < 0.05 * expected:
            return None
        return at_ns - int(new) * _TICK_NS
    if metric == "boot_time_s":
        return int(new * NS_PER_S) if new > old + 60 else None
    if new == old:
        return None
    if metric == "last_clear_ns":
        return int(new) if new > 1e17 else int(new * NS_PER_S)
    return at_ns
