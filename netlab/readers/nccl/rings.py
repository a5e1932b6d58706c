"""Rings and trees: from order lines, Ring/Tree lines and Trees lines to edges. NCCL cuts long lines; those edges are marked."""

from __future__ import annotations

import re

import polars as pl

from netlab.readers.nccl.messages import Message
from netlab.readers.nccl.state import Communicator
from netlab.schema import TABLES

__all__ = ["RingLines"]

_TREE = re.compile(r"\[(\d{1,7})\] (-?\d{1,7}(?:/-?\d{1,7})*)->(\d{1,7})->(-?\d{1,7})(?!\d)")
_NVLS_TREE = re.compile(r"(-?\d{1,7}(?:/-?\d{1,7})*)->(\d{1,7})->(-?\d{1,7})(?!\d)")
#: A Trees line is cut at 1023 characters with its header; one that comes near lost its end.
_CUT_LENGTH = 940

Edge = tuple[str, int, int, int, str, bool, int]


class RingLines:
    """Collects edges of communicators."""

    def __init__(self) -> None:
        self._edges: dict[tuple[int, Edge], tuple[Communicator | None, Edge]] = {}

    def add(self, owner: Communicator | None, message: Message, line: int) -> None:
        """One line that tells of a ring or a tree."""
        for edge in _edges(message, owner, line):
            self._edges.setdefault((id(owner), (*edge[:5], False, 0)), (owner, edge))

    def frame(self, source: str) -> pl.DataFrame:
        """``communicator_edges``."""
        rows = [(owner.comm_id if owner else None, *edge[:6], source, edge[6]) for owner, edge in self._edges.values()]
        return TABLES["communicator_edges"].conform(pl.DataFrame(rows, schema=dict(TABLES["communicator_edges"].schema), orient="row"))


def _edges(message: Message, owner: Communicator | None, line: int) -> list[Edge]:
    parts = message.parts
    if message.kind == "ring_order":
        return _order(parts, owner, line)
    if message.kind == "graph_ring":
        channel, before, me, after = (int(parts[k] or 0) for k in ("channel", "prev", "me", "next"))
        pairs = [(before, me), (me, after)]
        return [("ring", channel, a, b, "graph", False, line) for a, b in pairs if a >= 0 and b >= 0]
    if message.kind == "graph_tree":
        return _tree("tree", int(parts["channel"] or 0), parts["up"] or "-1", parts["me"] or "0", parts["down"] or "", "graph", False, line)
    text = parts["trees"] or ""
    cut = len(text) > _CUT_LENGTH
    if message.kind == "trees":
        return [e for c, down, me, up in _TREE.findall(text) for e in _tree("tree", int(c), up, me, down, "trees", cut, line)]
    return [e for c, (down, me, up) in enumerate(_NVLS_TREE.findall(text)) for e in _tree("nvls_tree", c, up, me, down, "trees", cut, line)]


def _order(parts: dict[str, str | None], owner: Communicator | None, line: int) -> list[Edge]:
    ranks = [int(rank) for rank in (parts["order"] or "").split() if len(rank) < 8]
    nranks = owner.nranks if owner is not None else None
    cut = parts["cut"] is not None or (nranks is not None and len(ranks) < nranks)
    # A closed ring has the edge from its last to its first rank; of a cut one that edge is not known.
    pairs = list(zip(ranks, ranks[1:] if cut else ranks[1:] + ranks[:1], strict=False))
    return [("ring", int(parts["channel"] or 0), a, b, "order", cut, line) for a, b in pairs if a != b]


def _tree(pattern: str, channel: int, up: str, me: str, down: str, basis: str, cut: bool, line: int) -> list[Edge]:
    children = [int(child) for child in down.split("/") if child and int(child) >= 0]
    edges = [(pattern, channel, int(me), child, basis, cut, line) for child in children]
    return edges + ([(pattern, channel, int(up), int(me), basis, cut, line)] if int(up) >= 0 else [])
