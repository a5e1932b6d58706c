"""Host time of collectives that a scenario launches more or less often.

Every call of a collective costs the host time (checks, event record and wait, the launch), which is the gap before its launch. A bucket
that is no longer sent gives that back; one that is sent anew takes what the run's own took, right after the launch of the compute it
follows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.draft import Draft, Setting
from netlab.whatif.graph import EdgeKind

__all__ = ["Launches"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Launches:
    """Host order of a run: which node follows which, and which launch nothing but one collective."""

    #: Node that follows each in its host's order, -1 for the last and for all that are not host nodes.
    following: Ints
    #: Activities that each node launches.
    count: Ints

    @classmethod
    def of(cls, setting: Setting) -> Launches:
        """The host order of a run's graph."""
        graph, launch = setting.model.graph, setting.model.launch_node
        following = np.full(graph.size, -1, np.int64)
        order = np.flatnonzero(graph.edge_kind == EdgeKind.HOST_ORDER)
        targets = np.repeat(np.arange(graph.size), np.diff(graph.pointer))
        following[graph.predecessor[order]] = targets[order]
        return cls(following, np.bincount(launch[launch >= 0], minlength=graph.size))

    def replace(self, draft: Draft, setting: Setting, old_rows: Ints, anchor_rows: Ints) -> Ints:
        """Take the launches of ``old_rows`` off their host and put one after that of each anchor; returns the new nodes, -1 without one.

        A call that took longer than usual for another reason keeps the rest: no gap that nothing explains is dropped.
        """
        launch = setting.model.launch_node
        old = launch[old_rows]
        old = old[(old >= 0) & (self.count[np.maximum(old, 0)] == 1)]
        lag = draft.lag_ns[old]
        nodes = np.full(len(anchor_rows), -1, np.int64)
        if not len(old) or not (lag > 0).any():
            return nodes
        usual = float(np.median(lag[lag > 0]))
        draft.lag_ns[old] -= np.clip(lag, 0.0, usual)
        before = np.where(anchor_rows >= 0, launch[np.maximum(anchor_rows, 0)], -1)
        has = np.flatnonzero(before >= 0)
        nodes[has] = draft.add_nodes(np.full(len(has), usual))
        # Several calls after one launch follow each other; what followed that launch comes behind the last of them.
        previous: dict[int, int] = {}
        source, target = [], []
        for place in has.tolist():
            host = int(before[place])
            source.append(previous.get(host, host))
            target.append(int(nodes[place]))
            previous[host] = int(nodes[place])
        for host, last in previous.items():
            if self.following[host] >= 0:
                source.append(last)
                target.append(int(self.following[host]))
        draft.more.append((np.array(source, np.int64), np.array(target, np.int64)))
        return nodes
