"""Dependencies that were not recorded, read off the measured instants.

Every rule adds an edge only where the measured instants already obey it, so none can contradict the run; what remains unexplained stays
as a lag. Answers built on them say "dependencies inferred".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.arrays import COMMUNICATION, COMPUTE, ROUNDING_NS, Activities, Steps, grouped
from netlab.whatif.graph import EdgeKind, GraphBuilder
from netlab.whatif.host import LAUNCH, Calls, HostPoints

__all__ = [
    "TOUCH_NS",
    "View",
    "collective_inputs",
    "cpu_threads",
    "drains",
    "early_launches",
    "event_cause",
    "gaps",
    "lane_rows",
    "last_before",
    "last_launched",
    "paced_launches",
    "step_tails",
]

Ints = NDArray[np.int64]
_NEVER = int(np.iinfo(np.int64).min)

#: Two instants this close are one (`ROUNDING_NS`); kernels of one event wait start within 1-2 us of each other, too.
TOUCH_NS = ROUNDING_NS
#: Gaps up to this are launch and scheduling overhead of the device.
_OVERHEAD_NS = 5_000
#: A gap counts as explained if at most this share of it (or the overhead of waking up) remains.
_REST_SHARE = 0.1
_REST_NS = 20_000
#: Launches this close to the start they cause, after a pause this much longer, were paced by the device.
_PACED_NS = 100_000
_PAUSE_NS = 500_000
#: A CPU thread that is idle for this long has handed over or waits. Waking a thread on a busy host takes milliseconds (notes: 0.3 to 12).
_THREAD_PAUSE_NS = 1_000_000
_WAKE_SHARE = 0.25
_LATE_END_NS = 10_000_000


@dataclass(frozen=True)
class View:
    """What the rules look at: the run's arrays and the handles that its nodes have in the builder."""

    activities: Activities
    steps: Steps
    points: HostPoints
    host: Ints
    end: Ints
    arrival: Ints
    launch: Ints
    mark_end: Ints
    waiting: Calls
    #: Host instants that nothing after them waits for.
    early: NDArray[np.bool_]

    @property
    def first(self) -> Ints:
        """Handle whose predecessors decide when each activity starts."""
        return np.where(self.arrival >= 0, self.arrival, self.end)


def lane_rows(a: Activities) -> Iterator[Ints]:
    """Rows of each lane in order of start."""
    order = np.lexsort((np.arange(a.size), a.end_ns, a.start_ns, a.lane))
    yield from _runs(order, a.lane[order])


def _runs(order: Ints, keys: Ints) -> Iterator[Ints]:
    if len(order):
        yield from np.split(order, np.flatnonzero(np.diff(keys)) + 1)


def last_before(launch_ns: Ints, at_ns: Ints) -> Ints:
    """Position of the last launch before each instant, -1 where there is none; unknown launches count as early."""
    return np.searchsorted(np.maximum.accumulate(launch_ns), at_ns, side="left") - 1


def last_launched(a: Activities, part: Ints, at_ns: Ints) -> Iterator[tuple[Ints, Ints]]:
    """For each lane: the calls of its part, and the last row launched before each (-1 where there is none)."""
    calls_of = grouped(part)
    for rows in lane_rows(a):
        calls = calls_of.get((int(a.part[rows[0]]),))
        if calls is not None:
            place = last_before(a.launch_ns[rows], at_ns[calls])
            yield calls, np.where(place >= 0, rows[place], -1)


def _latest_end(a: Activities, rows: Ints, part: Ints, at_ns: Ints) -> Ints:
    """Among ``rows``, the one of the same part that ends last but not after each instant; -1 where there is none."""
    if not len(rows):
        return np.full(len(part), -1, np.int64)
    keys = np.concatenate((a.part[rows], part)), np.concatenate((a.end_ns[rows], at_ns))
    query = np.concatenate((np.zeros(len(rows), np.int64), np.ones(len(part), np.int64)))
    order = np.lexsort((query, keys[1], keys[0]))
    held = np.maximum.accumulate(np.where(query[order] == 0, np.arange(len(order)), -1))
    found = np.full(len(order), -1, np.int64)
    has = held >= 0
    found[has] = order[held[has]]
    result = np.empty(len(order), np.int64)
    result[order] = found
    picked = result[len(rows) :]
    row = np.where(picked >= 0, rows[picked], -1)
    return np.where((row >= 0) & (a.part[row] == part), row, -1)


def event_cause(a: Activities, part: Ints, start_ns: Ints, end_ns: Ints) -> Ints:
    """What a call waited for, by when it returned: the activity launched before it that ended last before the return, at once before it."""
    cause = _latest_end(a, np.arange(a.size), part, end_ns)
    ends = np.where(cause >= 0, a.end_ns[cause], _NEVER)
    good = (cause >= 0) & (ends > start_ns) & (end_ns - ends <= np.maximum(_REST_NS, _REST_SHARE * (end_ns - start_ns)))
    good &= a.launch_ns[cause] < start_ns
    return np.where(good, cause, -1)


def step_tails(builder: GraphBuilder, view: View) -> None:
    """The mark of a step ends after the step's last device activity where it did so when measured and no host call came between.

    Time behind that activity stays. A loop that runs ahead of its device (the activity ends after the mark) is left alone.
    """
    a, s = view.activities, view.steps
    end, known = builder.latest()
    rows_of = grouped(a.part)
    for step in np.flatnonzero(view.mark_end >= 0):
        rows = rows_of.get((int(s.part[step]),), np.empty(0, np.int64))
        # What starts right at the mark's end is the next step's, whichever way its instant was rounded.
        closing = s.mark_end_ns[step] - TOUCH_NS
        inside = rows[(a.start_ns[rows] >= s.mark_start_ns[step] - TOUCH_NS) & (a.start_ns[rows] < closing)]
        if not len(inside):
            continue
        handle = int(view.mark_end[step])
        if known[handle] < a.end_ns[inside].max() <= end[handle] + TOUCH_NS:
            inside = inside[np.lexsort((a.end_ns[inside], a.lane[inside]))]
            tails = inside[np.append(np.diff(a.lane[inside]) != 0, True)]
            builder.edges(view.end[tails], np.full(len(tails), handle), EdgeKind.INFERRED)


def paced_launches(builder: GraphBuilder, view: View) -> None:
    """A launch after a long pause that comes right where the device runs dry follows the device, not host work.

    Two patterns: the launch precedes the end of running work by no more than a launch takes and its kernel starts exactly there; or, where
    no waiting calls were recorded, the launch follows at once on the end of everything launched before.
    """
    a, points = view.activities, view.points
    rows = np.flatnonzero(a.launched)
    launches = np.flatnonzero(points.what == LAUNCH)
    if not len(rows) or not len(launches):
        return
    starts = np.full(int(view.host.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(starts, view.launch[rows], a.start_ns[rows])
    before = np.append(-1, np.maximum.accumulate(np.where(view.early, -1, np.arange(points.size))))[launches]
    chained = (before >= 0) & (points.part[before] == points.part[launches])
    launches, before = launches[chained], before[chained]
    at, part = points.at_ns[launches], points.part[launches]
    begin = starts[view.host[launches]]
    paused = at - points.at_ns[before] > _PAUSE_NS
    every = np.arange(a.size)
    cause = _latest_end(a, every, part, begin + TOUCH_NS)
    ends = np.where(cause >= 0, a.end_ns[cause], _NEVER)
    tight = paused & (begin - at <= _PACED_NS) & (begin - at >= 0) & (ends >= begin - TOUCH_NS) & (ends > at)
    tight &= np.where(cause >= 0, a.launch_ns[cause], _NEVER) < at
    builder.edges(view.end[cause[tight]], view.host[launches[tight]], EdgeKind.INFERRED)
    silent = ~np.isin(part, view.waiting.part)
    cause = _latest_end(a, every, part, at)
    ends = np.where(cause >= 0, a.end_ns[cause], _NEVER)
    running = _running(a, part, at)
    dry = paused & silent & ~tight & ~running & (at - ends <= _PACED_NS) & (ends > points.at_ns[before])
    builder.edges(view.end[cause[dry]], view.host[launches[dry]], EdgeKind.INFERRED)


def early_launches(a: Activities, points: HostPoints) -> NDArray[np.bool_]:
    """Launches of collectives that would start where the collective before them on their stream ended however early they were launched.

    Nothing shows that the host waited for that end, so what it does next does not wait for it either.
    """
    found = np.zeros(points.size, bool)
    for rows in lane_rows(a):
        before, after = rows[:-1], rows[1:]
        close = (a.kind[before] == COMMUNICATION) & (a.kind[after] == COMMUNICATION) & a.launched[after]
        close &= (np.abs(a.start_ns[after] - a.end_ns[before]) <= TOUCH_NS) & (a.launch_ns[after] < a.end_ns[before])
        close &= a.start_ns[after] - a.launch_ns[after] <= _PACED_NS
        for row in after[close].tolist():
            first = np.searchsorted(points.part, a.part[row], side="left")
            last = np.searchsorted(points.part, a.part[row], side="right")
            place = first + np.searchsorted(points.at_ns[first:last], a.launch_ns[row], side="left")
            while place < last and points.at_ns[place] == a.launch_ns[row]:
                found[place] |= points.what[place] == LAUNCH
                place += 1
    # A call that also launches compute is none of these.
    places = np.flatnonzero(found)
    others = np.flatnonzero(a.launched & (a.kind != COMMUNICATION)) if len(places) else places
    calls = set(zip(a.part[others].tolist(), a.launch_ns[others].tolist(), strict=True))
    for place in places.tolist():
        found[place] = (int(points.part[place]), int(points.at_ns[place])) not in calls
    return found


def _running(a: Activities, part: Ints, at_ns: Ints) -> NDArray[np.bool_]:
    """Whether an activity of the part was under way at each instant."""
    by_start = np.sort(_key(a.part, a.start_ns, a))
    started = np.searchsorted(by_start, _key(part, at_ns, a), side="left")
    by_end = np.sort(_key(a.part, a.end_ns, a))
    return started > np.searchsorted(by_end, _key(part, at_ns, a), side="right")


def _key(part: Ints, at_ns: Ints, a: Activities) -> NDArray[np.float64]:
    origin = a.start_ns.min()
    span = float(a.end_ns.max() - origin) + 2e9
    key: NDArray[np.float64] = part * span + np.clip(at_ns - origin, -1e9, span - 1e9)
    return key


def collective_inputs(builder: GraphBuilder, view: View) -> None:
    """A collective waits for the compute launched before it, as PyTorch's process groups make their stream wait for the current one."""
    a = view.activities
    own = np.flatnonzero(a.launched & (a.kind == COMPUTE))
    wanted = np.flatnonzero(a.launched & (a.kind == COMMUNICATION))
    if not len(own) or not len(wanted):
        return
    order = own[np.lexsort((a.start_ns[own], a.launch_ns[own], a.part[own]))]
    place = np.searchsorted(_key(a.part[order], a.launch_ns[order], a), _key(a.part[wanted], a.launch_ns[wanted], a), side="left") - 1
    row = np.where(place >= 0, order[place], -1)
    good = (row >= 0) & (a.part[row] == a.part[wanted]) & (a.end_ns[row] <= a.start_ns[wanted] + TOUCH_NS) & (a.lane[row] != a.lane[wanted])
    builder.edges(view.end[row[good]], view.first[wanted[good]], EdgeKind.INFERRED)


def gaps(builder: GraphBuilder, view: View) -> None:
    """An activity that starts right where another of its rank ends, after a gap that nothing known explains, waited for it."""
    a = view.activities
    _, known = builder.latest()
    first = view.first
    reach = known[first]
    gap = a.start_ns - reach
    open_rows = np.flatnonzero((reach > _NEVER // 8) & (gap > _OVERHEAD_NS))
    cause = _latest_end(a, np.arange(a.size), a.part[open_rows], a.start_ns[open_rows] + TOUCH_NS)
    ends = np.where(cause >= 0, a.end_ns[cause], _NEVER)
    rest = a.start_ns[open_rows] - ends
    good = (cause >= 0) & (ends > reach[open_rows]) & (cause != open_rows)
    good &= rest <= np.maximum(_REST_NS, _REST_SHARE * gap[open_rows])
    both = a.launched[open_rows] & a.launched[cause]
    good &= ~both | (a.launch_ns[cause] <= a.launch_ns[open_rows])
    # An activity that starts before its cause ended (rounding) would put its arrival before it.
    good &= (a.start_ns[cause] < a.start_ns[open_rows]) | (a.end_ns[cause] < a.end_ns[open_rows])
    builder.edges(view.end[cause[good]], first[open_rows[good]], EdgeKind.INFERRED)


def drains(builder: GraphBuilder, view: View) -> None:
    """The last collective of each communication lane in a step is done before compute that was launched after it and started later.

    Hidden collectives leave no gap that shows who waits for them; without this a slower network would never reach the optimizer.
    """
    a = view.activities
    communication = np.flatnonzero((a.kind == COMMUNICATION) & (a.step >= 0))
    compute = np.flatnonzero(a.kind == COMPUTE)
    compute = compute[np.lexsort((a.start_ns[compute], a.part[compute]))]
    if not len(communication) or not len(compute):
        return
    order = communication[np.lexsort((a.end_ns[communication], a.step[communication], a.lane[communication]))]
    last = np.append((np.diff(a.lane[order]) != 0) | (np.diff(a.step[order]) != 0), True)
    tails = order[last]
    done = a.end_ns[tails] - TOUCH_NS
    place = np.searchsorted(_key(a.part[compute], a.start_ns[compute], a), _key(a.part[tails], done, a), side="left")
    good = place < len(compute)
    tails, target, done = tails[good], compute[place[good]], done[good]
    good = (a.part[target] == a.part[tails]) & (a.start_ns[target] >= done) & (a.launch_ns[target] >= a.launch_ns[tails])
    builder.edges(view.end[tails[good]], view.first[target[good]], EdgeKind.INFERRED)


def cpu_threads(builder: GraphBuilder, view: View) -> None:
    """Order between the threads of a CPU run: marks and operators, hand-overs, the start of Gloo's work, the wait for its end.

    DDP's wait for a bucket is no event: it is a pause of the thread that ends when the collective does.
    """
    a, points = view.activities, view.points
    compute = np.flatnonzero(a.kind != COMMUNICATION)
    communication = np.flatnonzero(a.kind == COMMUNICATION)
    _, known = builder.latest()
    reach = known[view.first]
    # Marks follow the operators before them; the first operator after a mark follows the mark.
    cause = _latest_end(a, compute, points.part, points.at_ns)
    builder.edges(np.where(cause >= 0, view.end[cause], -1), view.host, EdgeKind.INFERRED)
    after = np.searchsorted(_key(points.part, points.at_ns, a), _key(a.part[compute], a.start_ns[compute], a), side="right") - 1
    held = (after >= 0) & (points.part[after] == a.part[compute])
    passed = held & (points.at_ns[after] >= reach[compute])
    builder.edges(np.where(passed, view.host[after], -1), view.first[compute], EdgeKind.INFERRED)
    # Hand-over between compute threads, and from them to the Gloo threads.
    paused = compute[(a.start_ns[compute] - reach[compute]) > _THREAD_PAUSE_NS]
    for rows in (paused, communication):
        cause = _latest_end(a, compute, a.part[rows], a.start_ns[rows])
        builder.edges(np.where(cause >= 0, view.end[cause], -1), view.first[rows], EdgeKind.INFERRED)
    # Waits for collectives.
    _, known = builder.latest()
    reach = known[view.first]
    gap = a.start_ns - reach
    rows = compute[(gap[compute] > _THREAD_PAUSE_NS) & (reach[compute] > _NEVER // 8)]
    slack = np.maximum(_REST_NS, _WAKE_SHARE * gap[rows])
    cause = _latest_end(a, communication, a.part[rows], a.start_ns[rows])
    good = (cause >= 0) & (a.start_ns[rows] - np.where(cause >= 0, a.end_ns[cause], _NEVER) <= slack)
    builder.edges(view.end[cause[good]], view.first[rows[good]], EdgeKind.INFERRED)
    # Gloo's thread says that it is done after it has woken the waiting one, on a busy host milliseconds after: the lag is negative then.
    rows, slack = rows[~good], np.minimum(slack[~good], _LATE_END_NS)
    cause = _latest_end(a, communication, a.part[rows], a.start_ns[rows] + slack)
    good = (cause >= 0) & (a.end_ns[cause] > a.start_ns[rows]) & (a.start_ns[cause] <= a.start_ns[rows] - gap[rows] + slack)
    builder.edges(view.end[cause[good]], view.first[rows[good]], EdgeKind.INFERRED)
