"""Fair sharing of links: collectives that move data at the same time through one rank's link slow each other down.

A longest path alone cannot share a link. The measured transfers are first turned into work (the time each would take alone), and after a
replay the transfers that overlap are timed anew as a fluid in which every collective gets an equal part of the busiest link it uses;
replay and re-timing alternate until nothing moves.
"""

from __future__ import annotations

import heapq
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.build import Model
from netlab.whatif.costs import Transfers

__all__ = ["Sharing", "fluid_ends", "fluid_work"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Links = list[tuple[int, ...]]

#: More overlapping collectives than this are left as measured; the fluid is worked out one event at a time.
MAX_OVERLAPPING = 50_000


def fluid_work(start_ns: Floats, end_ns: Floats, links: Links) -> Floats:
    """Time that each transfer would have taken alone, given when all of them ran and the links they use.

    >>> fluid_work(np.array([0.0, 5.0]), np.array([10.0, 15.0]), [(0,), (0,)]).tolist()
    [7.5, 7.5]
    """
    work = np.zeros(len(start_ns))
    edges = np.concatenate((start_ns, end_ns))
    order = np.lexsort((np.repeat([1, 0], len(start_ns)), edges))
    active: set[int] = set()
    load: dict[int, int] = defaultdict(int)
    before = 0.0
    for edge in order.tolist():
        now = float(edges[edge])
        for one in active:
            work[one] += (now - before) / max(load[link] for link in links[one])
        before = now
        one = edge % len(start_ns)
        opens = edge < len(start_ns)
        (active.add if opens else active.discard)(one)
        for link in links[one]:
            load[link] += 1 if opens else -1
    return work


def fluid_ends(start_ns: Floats, work_ns: Floats, links: Links) -> Floats:
    """When each transfer ends if every one gets an equal part of the busiest link it uses.

    >>> fluid_ends(np.array([0.0, 5.0]), np.array([7.5, 7.5]), [(0,), (0,)]).tolist()
    [10.0, 15.0]
    """
    count = len(start_ns)
    ends = start_ns.copy()
    waiting = [(float(start_ns[one]), one) for one in range(count)]
    heapq.heapify(waiting)
    left: dict[int, float] = {}
    load: dict[int, int] = defaultdict(int)
    now = 0.0
    while waiting or left:
        slow = {one: max(load[link] for link in links[one]) for one in left}
        first_end = min((now + left[one] * slow[one] for one in left), default=np.inf)
        first_start = waiting[0][0] if waiting else np.inf
        then = min(first_end, first_start)
        for one in left:
            left[one] -= (then - now) / slow[one]
        now = then
        if first_end <= first_start:
            # Compared by the smallest remainder, so that rounding cannot keep a finished transfer alive.
            least = min(left.values())
            for one in [one for one, rest in left.items() if rest <= max(least, 1e-6)]:
                ends[one] = now
                del left[one]
                for link in links[one]:
                    load[link] -= 1
        else:
            _, one = heapq.heappop(waiting)
            left[one] = float(work_ns[one])
            for link in links[one]:
                load[link] += 1
    return ends


class Sharing:
    """The collectives of a run by instance, the links they use, and the work of each."""

    def __init__(self, model: Model, transfers: Transfers, end_ns: Floats) -> None:
        self._own = transfers.size
        self._model = model
        self.instance, self.links = self._instances(transfers)
        sizes = np.array([len(links) for links in self.links], np.int64)
        self._one = np.repeat(np.arange(len(self.links)), sizes)
        self._link = np.unique(np.array([link for links in self.links for link in links], np.int64), return_inverse=True)[1]
        start, end = self._spans(transfers, end_ns)
        self._measured = end - start
        self.work = self._measured.copy()
        shared = self.overlapping(start, end)
        if 0 < len(shared) <= MAX_OVERLAPPING:
            self.work[shared] = fluid_work(start[shared], end[shared], [self.links[one] for one in shared.tolist()])
        self.present = bool(len(shared))

    def _instances(self, t: Transfers) -> tuple[Ints, Links]:
        """Entries that share a release node are one instance; its links are (rank, layer) of every member."""
        _, instance = np.unique(t.release, return_inverse=True)
        rank = self._model.activities.rank[t.row]
        layers = {layer: number for number, layer in enumerate(sorted({str(layer) for layer in t.layer}))}
        found: dict[int, set[int]] = defaultdict(set)
        for one, member, layer in zip(instance.tolist(), rank.tolist(), t.layer, strict=True):
            found[one].add(member * 8 + layers[str(layer)])
        return instance, [tuple(sorted(found[one])) for one in range(len(found))]

    def _spans(self, t: Transfers, end_ns: Floats) -> tuple[Floats, Floats]:
        count = len(self.links)
        start, end = np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(start, self.instance, end_ns[t.release])
        np.maximum.at(end, self.instance, end_ns[t.node])
        return start, np.maximum(end, start)

    def overlapping(self, start_ns: Floats, end_ns: Floats) -> Ints:
        """Instances that share a link with another at some instant."""
        one, link = self._one, self._link
        long = end_ns[one] > start_ns[one]
        one, link = one[long], link[long]
        order = np.lexsort((start_ns[one], link))
        one, link = one[order], link[order]
        if len(one) < 2:
            return np.empty(0, np.int64)
        # One axis for all links: each gets a stretch of its own, longer than the run.
        shift = link * (float(end_ns.max() - start_ns.min()) + 1.0)
        start, end = start_ns[one] + shift, end_ns[one] + shift
        reach = np.maximum.accumulate(end)
        behind = np.append(False, start[1:] < reach[:-1])
        ahead = np.append(start[1:] < end[:-1], False)
        return np.unique(one[behind | ahead])

    def factors(self, transfers: Transfers, end_ns: Floats, nominal_ns: Floats) -> Floats | None:
        """Per entry: by how much its transfer is longer (or shorter) than nominal, given where the replay put it.

        ``nominal_ns`` are the entries' lengths without re-timing. None where nothing shares a link, then or when measured.
        """
        if transfers.size != self._own:
            return None  # buckets of a scenario take turns by construction
        scale = np.ones(len(self.links))
        length = np.zeros(len(self.links))
        np.maximum.at(length, self.instance, nominal_ns)
        known = self._measured > 0
        scale[known] = length[known] / self._measured[known]
        start, end = self._spans(transfers, end_ns)
        shared = self.overlapping(start, end)
        if (not len(shared) and not self.present) or len(shared) > MAX_OVERLAPPING:
            return None
        alone = self.work * scale
        timed = alone.copy()
        if len(shared):
            timed[shared] = fluid_ends(start[shared], alone[shared], [self.links[one] for one in shared.tolist()]) - start[shared]
        factor = np.ones(len(self.links))
        factor[length > 0] = timed[length > 0] / length[length > 0]
        result: Floats = factor[self.instance]
        return result
