"""How long a collective's slowest flow takes on a layout, by the way in which flows are put on the links above the leaves.

Spraying and adaptive routing use every path evenly. ECMP hashes each flow onto one path, and flows that meet share a link: the slowest one
sets a synchronous collective, so its time is a distribution over hashes, drawn with a fixed seed.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.layouts import Demand, Layout

__all__ = ["Balancing", "slowest_flow"]

Balancing = Literal["ecmp", "adaptive", "spray"]
Floats = NDArray[np.float64]

_TRIALS = 400
_SEED = 20_260_101
#: Beyond so many pairs of leaves every pair is no longer drawn on its own.
_EXACT_PAIRS = 2_048
_MANY_PAIRS_TRIALS = 100


def slowest_flow(
    layout: Layout, demand: Demand, balancing: Balancing = "adaptive", *, queue_pairs: int = 1, trials: int = _TRIALS
) -> Floats:
    """Time of the slowest flow, in units of a flow that has a NIC to itself; one value per drawn hash, a single one without hashing.

    ``queue_pairs`` is into how many equal parts a flow is split, each hashed on its own.

    Examples
    --------
    Eight flows hashed onto eight uplinks: the slowest takes 2.6 times as long as with a link to itself.

    >>> import numpy as np
    >>> layout = Layout("leaf-spine", (0,) * 8 + (1,) * 8)
    >>> time = slowest_flow(layout, Demand(np.array([[0, 8], [0, 0]]), 1.0), "ecmp")
    >>> bool(2.5 < time.mean() < 2.7)
    True
    """
    crossing = demand.flows * (1 - np.eye(len(demand.flows)))
    # A dragonfly routes around full links by itself; how well is an interval that the caller declares.
    if balancing != "ecmp" or layout.kind == "dragonfly" or not crossing.any():
        return np.array([max(demand.nic_load, _even(layout, crossing))])
    draw = np.random.default_rng(_SEED)
    if np.count_nonzero(crossing) > _EXACT_PAIRS:
        trials = min(trials, _MANY_PAIRS_TRIALS)
    hashed = [_hashed(layout, crossing, queue_pairs, draw) for _ in range(trials)]
    times: Floats = np.maximum(np.array(hashed), demand.nic_load)
    return times


def _even(layout: Layout, crossing: Floats) -> float:
    """Load of the busiest leaf's uplinks (or of what comes down to it) when all of them share it."""
    busiest = max(crossing.sum(axis=1).max(initial=0), crossing.sum(axis=0).max(initial=0))
    return float(busiest) / (layout.uplinks * layout.uplink_capacity)


def _hashed(layout: Layout, crossing: Floats, queue_pairs: int, draw: np.random.Generator) -> float:
    """Load of the busiest link for one draw of hashes."""
    source, target = np.nonzero(crossing)
    counts = np.rint(crossing[source, target] * queue_pairs).astype(np.int64)
    if len(source) > _EXACT_PAIRS:
        # Summed over so many pairs, what goes up and what comes down are as good as independent.
        totals = (np.rint(crossing.sum(axis=axis) * queue_pairs).astype(np.int64) for axis in (1, 0))
        loads = [draw.multinomial(total, np.full(layout.uplinks, 1 / layout.uplinks)) for total in totals]
        pods = [np.arange(layout.leaves) // layout.leaves_per_pod] * 2
        spread = loads
    else:
        spine = draw.multinomial(counts, np.full(layout.uplinks, 1 / layout.uplinks))
        loads = [_sums(end, spine, layout.leaves) for end in (source, target)]
        apart = source // layout.leaves_per_pod != target // layout.leaves_per_pod
        pods = [end[apart] // layout.leaves_per_pod for end in (source, target)]
        spread = [spine[apart]] * 2
    if layout.kind == "fat-tree":
        # Each aggregation switch has as many links to the cores as leaves below it.
        loads += [_over_cores(pod, flows, layout, draw) for pod, flows in zip(pods, spread, strict=True)]
    return float(max(load.max(initial=0) for load in loads)) / queue_pairs / layout.uplink_capacity


def _over_cores(pod: NDArray[np.int64], flows: NDArray[np.int64], layout: Layout, draw: np.random.Generator) -> NDArray[np.int64]:
    """Flows on each link between an aggregation switch of a pod and a core."""
    at_switch = _sums(pod, flows, layout.leaves // layout.leaves_per_pod + 1)
    return draw.multinomial(at_switch, np.full(layout.leaves_per_pod, 1 / layout.leaves_per_pod))


def _sums(place: NDArray[np.int64], counts: NDArray[np.int64], places: int) -> NDArray[np.int64]:
    total = np.zeros((places, counts.shape[1]), np.int64)
    np.add.at(total, place, counts)
    return total
