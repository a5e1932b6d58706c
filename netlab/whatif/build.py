"""From the tables of an aligned run to its dependency graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.run import Run
from netlab.whatif import infer
from netlab.whatif.arrays import COMMUNICATION, MEMORY, Activities, Steps, load_activities, load_steps
from netlab.whatif.graph import EdgeKind, Graph, GraphBuilder, NodeKind
from netlab.whatif.handovers import forward_to_backward
from netlab.whatif.host import CALL_END, LAUNCH, MARK_END, MARK_START, Calls, HostPoints, host_points, raw_calls

__all__ = ["Model", "build_model"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Model:
    """The graph of a run, and which node stands for what. A node number is -1 where there is none."""

    graph: Graph
    activities: Activities
    steps: Steps
    #: Node at which each activity ends; its start is the arrival for communication, else end minus duration.
    end_node: Ints
    arrival_node: Ints
    #: Node from which the data of a communication activity moves: the join of its instance, or its own arrival.
    release_node: Ints
    launch_node: Ints
    mark_start_node: Ints
    mark_end_node: Ints
    dependencies: str
    cpu: bool

    @property
    def communication(self) -> Ints:
        """Rows of the communication activities."""
        return np.flatnonzero(self.activities.kind == COMMUNICATION)


def build_model(run: Run) -> Model:
    """The dependency graph of a run.

    Order inside a stream, launches, host order, recorded event waits and waiting calls are taken from the tables. What was not recorded
    is inferred from the measured instants (`netlab.whatif.infer`), and the answers say so.

    Raises
    ------
    RunError
        If the run holds no activities.
    """
    activities = load_activities(run)
    steps = load_steps(run, activities)
    cpu = run.facts.backend == "cpu"
    waiting, records = (Calls.none(), Calls.none()) if cpu else raw_calls(run, activities, steps)
    builder = GraphBuilder()
    end, arrival, release = _device_nodes(builder, activities)
    points = host_points(activities, steps, waiting)
    host = builder.nodes(NodeKind.HOST, _rank_of_part(activities)[points.part], points.at_ns)
    early = infer.early_launches(activities, points)
    builder.chain(host[~early], points.part[~early], EdgeKind.HOST_ORDER)
    _after_the_host(builder, points, host, early)
    launch = _launch_edges(builder, activities, points, host, arrival, end)
    _waiting_calls(builder, activities, points, host, waiting, records, end)
    recorded = _event_waits(builder, run, activities, records, end, arrival)
    mark_start, mark_end = _marks(points, host, steps, MARK_START), _marks(points, host, steps, MARK_END)
    view = infer.View(activities, steps, points, host, end, arrival, launch, mark_end, waiting, early)
    if cpu:
        forward_to_backward(builder, run, activities, end, view.first)
        infer.cpu_threads(builder, view)
    infer.step_tails(builder, view)
    if not cpu:
        infer.paced_launches(builder, view)
    if not recorded:
        infer.collective_inputs(builder, view)
    infer.gaps(builder, view)
    if not recorded:
        infer.drains(builder, view)
    graph = builder.build()
    place = np.append(graph.node, -1)
    return Model(
        graph=graph,
        activities=activities,
        steps=steps,
        end_node=place[end],
        arrival_node=place[arrival],
        release_node=place[release],
        launch_node=place[launch],
        mark_start_node=place[mark_start],
        mark_end_node=place[mark_end],
        dependencies="recorded" if recorded else "inferred",
        cpu=cpu,
    )


def _after_the_host(builder: GraphBuilder, points: HostPoints, host: Ints, early: NDArray[np.bool_]) -> None:
    """Launches that do not hold the host up still come after what it did before them."""
    place = np.flatnonzero(early)
    before = np.append(-1, np.maximum.accumulate(np.where(early, -1, np.arange(points.size))))[place]
    good = (before >= 0) & (points.part[before] == points.part[place])
    builder.edges(host[before[good]], host[place[good]], EdgeKind.HOST_ORDER)


def _rank_of_part(activities: Activities) -> Ints:
    ranks = np.zeros(int(activities.part.max(initial=-1)) + 1, np.int64)
    ranks[activities.part] = activities.rank
    return ranks


def _device_nodes(builder: GraphBuilder, a: Activities) -> tuple[Ints, Ints, Ints]:
    """Nodes of the activities, order inside streams, and one shared join per collective instance."""
    rows = np.arange(a.size)
    communication = a.kind == COMMUNICATION
    end = np.full(a.size, -1, np.int64)
    own = np.flatnonzero(~communication)
    for kind, which in ((NodeKind.COMPUTE, own[a.kind[own] != MEMORY]), (NodeKind.MEMORY, own[a.kind[own] == MEMORY])):
        end[which] = builder.nodes(kind, a.rank[which], a.end_ns[which], (a.end_ns - a.start_ns)[which], which)
    members = np.flatnonzero(communication)
    arrival = np.full(a.size, -1, np.int64)
    arrival[members] = builder.nodes(NodeKind.ARRIVAL, a.rank[members], a.start_ns[members], None, members)
    release = arrival.copy()
    matched = members[a.instance[members] >= 0]
    instances, place = np.unique(a.instance[matched], return_inverse=True)
    last_arrival = np.full(len(instances), np.iinfo(np.int64).min)
    np.maximum.at(last_arrival, place, a.start_ns[matched])
    # A member that left before the last one came (an eager send, a root) did not wait for it.
    waits = a.end_ns[matched] > last_arrival[place]
    shared = np.bincount(place, weights=waits, minlength=len(instances)) > 1
    waits &= shared[place]
    first_row = np.zeros(len(instances), np.int64)
    first_row[place[::-1]] = matched[::-1]
    join = np.full(len(instances), -1, np.int64)
    join[shared] = builder.nodes(NodeKind.JOIN, a.rank[first_row[shared]], last_arrival[shared], None, np.flatnonzero(shared))
    every = shared[place]
    builder.edges(arrival[matched[every]], join[place[every]], EdgeKind.COLLECTIVE)
    release[matched[waits]] = join[place[waits]]
    begins = a.start_ns.copy()
    begins[matched[waits]] = np.maximum(last_arrival[place[waits]], a.start_ns[matched[waits]])
    end[members] = builder.nodes(NodeKind.MEMBER, a.rank[members], a.end_ns[members], (a.end_ns - begins)[members], members)
    builder.edges(release[members], end[members], EdgeKind.COLLECTIVE)
    order = np.lexsort((rows, a.end_ns, a.start_ns, a.lane))
    first = np.where(arrival >= 0, arrival, end)
    same = a.lane[order][1:] == a.lane[order][:-1]
    # Kernels of one stream that overlap (graph branches merged by the profiler) are not in each other's way.
    apart = a.start_ns[order][1:] >= a.end_ns[order][:-1]
    builder.edges(end[order[:-1][same & apart]], first[order[1:][same & apart]], EdgeKind.STREAM)
    return end, arrival, release


def _launch_edges(builder: GraphBuilder, a: Activities, points: HostPoints, host: Ints, arrival: Ints, end: Ints) -> Ints:
    """Edge from the launching call to each activity that did not start before it; returns the host node of each launch."""
    launches = np.flatnonzero(points.what == LAUNCH)
    launch = np.full(a.size, -1, np.int64)
    rows = np.flatnonzero(a.launched)
    if len(rows):
        place = _find(points.part[launches], points.at_ns[launches], a.part[rows], a.launch_ns[rows])
        launch[rows] = host[launches[place]]
    first = np.where(arrival >= 0, arrival, end)
    good = (launch >= 0) & (a.launch_ns <= a.start_ns)
    builder.edges(launch[good], first[good], EdgeKind.LAUNCH)
    return launch


def _find(part: Ints, at: Ints, wanted_part: Ints, wanted_at: Ints) -> Ints:
    """Position of each wanted (part, instant) among sorted pairs that contain it."""
    keys = np.concatenate((part, wanted_part)), np.concatenate((at, wanted_at))
    order = np.lexsort((np.arange(len(keys[0])), keys[1], keys[0]))
    held = np.maximum.accumulate(np.where(order < len(part), order, -1))
    result = np.empty(len(keys[0]), np.int64)
    result[order] = held
    return result[len(part) :]


def _waiting_calls(builder: GraphBuilder, a: Activities, points: HostPoints, host: Ints, waiting: Calls, records: Calls, end: Ints) -> None:
    """A waiting call returns when what was launched before it is done: on its stream if known, else wherever that fits the instants.

    An event may stand before work that was launched since: its record call says where, or else the instant at which the call returned.
    """
    if not waiting.size:
        return
    returns = np.full(waiting.size, -1, np.int64)
    ends = points.what == CALL_END
    returns[points.row[ends]] = host[ends]
    stream = a.frame["stream"].fill_null(-1).to_numpy()
    issued = waiting.start_ns.copy()
    order = np.argsort(records.correlation, kind="stable")
    place = np.searchsorted(records.correlation[order], waiting.record)
    known = waiting.event & (waiting.record >= 0) & (place < records.size)
    row = order[np.minimum(place, max(records.size - 1, 0))] if records.size else np.zeros(waiting.size, np.int64)
    if records.size:
        known &= (records.correlation[row] == waiting.record) & (records.part[row] == waiting.part)
        issued[known] = records.start_ns[row[known]]
    else:
        known &= False
    for calls, last in infer.last_launched(a, waiting.part, issued):
        fits = (
            (last >= 0) & (~waiting.event[calls] | known[calls]) & ((waiting.stream[calls] < 0) | (waiting.stream[calls] == stream[last]))
        )
        fits &= a.end_ns[last] <= waiting.end_ns[calls] + infer.TOUCH_NS
        builder.edges(np.where(fits, end[last], -1), returns[calls], EdgeKind.SYNC_CALL)
    cause = infer.event_cause(a, waiting.part, waiting.start_ns, waiting.end_ns)
    guessed = waiting.event & ~known & (cause >= 0)
    builder.edges(end[cause[guessed]], returns[guessed], EdgeKind.INFERRED)


def _event_waits(builder: GraphBuilder, run: Run, a: Activities, records: Calls, end: Ints, arrival: Ints) -> bool:
    """Edges of recorded stream waits; False if the run holds none.

    The awaited work is the last launched on the recorded stream before the record call; what waits is the next launched on the waiting
    stream. Host order decides, because wait events may be out of order on the device (HTA pull request 73).
    """
    waits = run.frame("sync_events").filter(pl.col("name").str.contains("(?i)stream wait") & pl.col("wait_on_stream").is_not_null())
    if waits.is_empty() or run.frame("trace_files").is_empty():
        return False
    calls = run.frame("launches").select("file", "correlation", pl.col("start_ns").alias("call_ns")).unique(["file", "correlation"])
    offsets = run.frame("clocks").select("rank", "offset_ns").unique("rank", keep="first", maintain_order=True)
    waits = (
        waits.join(run.frame("trace_files").select("file", "rank"), on="file")
        .join(calls, on=["file", "correlation"], how="left")
        .join(
            calls.rename({"correlation": "wait_on_record_correlation", "call_ns": "record_ns"}),
            on=["file", "wait_on_record_correlation"],
            how="left",
        )
        .join(offsets, on="rank", how="left")
        .with_columns(
            (pl.col("call_ns").fill_null(pl.col("start_ns")) - pl.col("offset_ns").fill_null(0)).alias("call_ns"),
        )
        .with_columns((pl.col("record_ns") - pl.col("offset_ns").fill_null(0)).fill_null(pl.col("call_ns")).alias("record_ns"))
        .sort("rank", "call_ns")
    )
    first = np.where(arrival >= 0, arrival, end)
    stream = a.frame["stream"].fill_null(-1).to_numpy()
    lanes: dict[tuple[int, int], list[Ints]] = {}
    for rows in infer.lane_rows(a):
        lanes.setdefault((int(a.rank[rows[0]]), int(stream[rows[0]])), []).append(rows)
    found = False
    for (rank, waiter, awaited), group in waits.group_by(["rank", "stream", "wait_on_stream"], maintain_order=True):
        for before in lanes.get((int(rank), int(awaited)), []):
            for after in lanes.get((int(rank), int(waiter)), []):
                if a.part[before[0]] != a.part[after[0]]:
                    continue
                source = infer.last_before(a.launch_ns[before], group["record_ns"].to_numpy())
                target = np.searchsorted(np.maximum.accumulate(a.launch_ns[after]), group["call_ns"].to_numpy(), side="left")
                good = (source >= 0) & (target < len(after))
                s, t = before[source[good]], after[target[good]]
                ordered = a.end_ns[s] <= a.start_ns[t] + infer.TOUCH_NS
                builder.edges(end[s[ordered]], first[t[ordered]], EdgeKind.EVENT)
                found = found or bool(ordered.any())
    return found


def _marks(points: HostPoints, host: Ints, steps: Steps, what: int) -> Ints:
    result = np.full(steps.size, -1, np.int64)
    which = points.what == what
    result[points.row[which]] = host[which]
    return result
