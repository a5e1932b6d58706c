"""Communication of a step as a bound: no overlap hides more than there is time for."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.intervals import measure
from netlab.whatif.arrays import grouped
from netlab.whatif.build import Model
from netlab.whatif.costs import Transfers
from netlab.whatif.engine import Result

__all__ = ["busiest_ns"]

Floats = NDArray[np.float64]


def busiest_ns(model: Model, transfers: Transfers, result: Result) -> Floats:
    """Union of transfer (and of what may be transfer) per row of the steps, the busiest rank of each step for all of its rows."""
    t, a, s = transfers, model.activities, model.steps
    start = result.end_ns[t.node] - result.tail_ns[t.node] - result.duration_ns[t.node]
    end = result.end_ns[t.node] - result.tail_ns[t.node]
    part, step = a.part[t.row], a.step[t.row]
    busy = np.zeros(s.size)
    entries = grouped(part, step)
    for row in range(s.size):
        own = entries.get((int(s.part[row]), int(s.step[row])))
        if own is not None:
            busy[row] = measure(np.rint(start[own]).astype(np.int64), np.rint(end[own]).astype(np.int64))
    window = s.frame["window"].cast(pl.Int64).to_numpy()
    for rows in grouped(window, s.step).values():
        busy[rows] = busy[rows].max()
    return busy
