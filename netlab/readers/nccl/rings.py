"""Rings and trees: from order lines, Ring/Tree lines and Trees lines to edges in columns. NCCL cuts long lines; those edges are marked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.readers.nccl.messages import Message
from netlab.readers.nccl.state import Communicator, LogState, Process, thread_owners
from netlab.schema import TABLES

__all__ = ["BASES", "CUT_LENGTH", "PATTERNS", "RingLines"]

_TREE = re.compile(r"\[(\d{1,7})\] (-?\d{1,7}(?:/-?\d{1,7})*)->(\d{1,7})->(-?\d{1,7})(?!\d)")
_NVLS_TREE = re.compile(r"(-?\d{1,7}(?:/-?\d{1,7})*)->(\d{1,7})->(-?\d{1,7})(?!\d)")
#: A Trees line is cut at 1023 characters with its header; one that comes near lost its end.
CUT_LENGTH = 940
#: Numbers of patterns and of what an edge was read from.
PATTERNS = ("ring", "tree", "nvls_tree")
BASES = ("order", "graph", "trees")
_ROWS = 50_000
_PART_ROWS = 100_000

Edge = tuple[int, int, int, int, int, bool]


class _Block(NamedTuple):
    """Columns; ``owner`` is the communicator that the line itself names (RCCL), -1 for none."""

    process: NDArray[np.int32]
    tid: NDArray[np.int32]
    line: NDArray[np.int32]
    owner: NDArray[np.int32]
    pattern: NDArray[np.int8]
    basis: NDArray[np.int8]
    channel: NDArray[np.int32]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    cut: NDArray[np.bool_]


_TYPES = (np.int32, np.int32, np.int32, np.int32, np.int8, np.int8, np.int32, np.int32, np.int32, np.bool_)


class RingLines:
    """Collects edges of communicators."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._blocks: list[_Block] = []
        self._owners: list[Communicator] = []
        self._number_of: dict[int, int] = {}

    def add(self, process: Process, tid: int, owner: Communicator | None, message: Message, line: int, nranks: int | None) -> None:
        """One line that tells of a ring or a tree; ``nranks`` is the size of the communicator that it seems to be of."""
        number = -1 if owner is None else self._number(owner)
        # Thread ids wider than 32 bits are torn numbers.
        where = (process.number, tid if tid < 2**31 else -1, line, number)
        self._rows += [(*where, *edge) for edge in _edges(message, nranks)]
        if len(self._rows) >= _ROWS:
            self._seal()

    def add_columns(self, columns: tuple[NDArray[Any], ...]) -> None:
        """Many edges, in order; the columns of a block."""
        self._seal()
        self._blocks.append(_Block(*(column.astype(kind) for column, kind in zip(columns, _TYPES, strict=True))))

    def _seal(self) -> None:
        if self._rows:
            rows, self._rows = np.array(self._rows, dtype=np.int64), []
            self._blocks.append(_Block(*(rows[:, i].astype(kind) for i, kind in enumerate(_TYPES))))

    def _number(self, owner: Communicator) -> int:
        number = self._number_of.get(id(owner))
        if number is None:
            number = self._number_of[id(owner)] = len(self._owners)
            self._owners.append(owner)
        return number

    def frames(self, state: LogState, source: str) -> Iterator[pl.DataFrame]:
        """``communicator_edges`` in parts: each edge once for each process that tells of it."""
        self._seal()
        if not self._blocks:
            return
        block = _Block(*(np.concatenate(column) for column in zip(*self._blocks, strict=True)))
        self._blocks.clear()
        processes = list(state.processes.values())
        wide = [column.astype(np.int64) for column in (block.process, block.tid, block.line)]
        settled = thread_owners(processes, wide[0], wide[1], wide[2], self._number, afterwards=True)
        owner = np.where(block.owner >= 0, block.owner, settled)
        order = np.lexsort((block.line, owner, block.process))
        ids = pl.Series([*(o.comm_id for o in self._owners), None], dtype=pl.String)
        start = 0
        while start < len(order):
            stop = min(start + _PART_ROWS, len(order))
            while stop < len(order) and owner[order[stop]] == owner[order[stop - 1]]:
                stop += 1  # edges of one communicator stay together, since equal ones count once
            rows = order[start:stop]
            yield self._frame(block, owner, rows, ids, source)
            start = stop

    @staticmethod
    def _frame(block: _Block, owner: NDArray[np.int64], rows: NDArray[np.intp], ids: pl.Series, source: str) -> pl.DataFrame:
        narrow = pl.DataFrame({
            "process": block.process[rows], "owner": owner[rows], "pattern": block.pattern[rows], "channel": block.channel[rows],
            "src_rank": block.src[rows], "dst_rank": block.dst[rows], "basis": block.basis[rows], "truncated": block.cut[rows],
            "line": block.line[rows],
        })  # fmt: skip
        once = narrow.unique(["process", "owner", "pattern", "channel", "src_rank", "dst_rank", "basis"], keep="first", maintain_order=True)
        once = once.sort("line", maintain_order=True)
        place = np.where(once["owner"].to_numpy() < 0, len(ids) - 1, once["owner"].to_numpy())
        frame = once.with_columns(
            ids[place].alias("comm_id"),
            pl.Series(PATTERNS)[once["pattern"].to_numpy()].alias("pattern"),
            pl.Series(BASES)[once["basis"].to_numpy()].alias("basis"),
            pl.lit(source).alias("source"),
        )
        return frame.select(pl.col(name).cast(dtype) for name, dtype in TABLES["communicator_edges"].schema.items())


def _edges(message: Message, nranks: int | None) -> list[Edge]:
    parts = message.parts
    if message.kind == "ring_order":
        return _order(parts, nranks)
    if message.kind == "graph_ring":
        channel, before, me, after = (int(parts[k] or 0) for k in ("channel", "prev", "me", "next"))
        return [(0, 1, channel, a, b, False) for a, b in ((before, me), (me, after)) if a >= 0 and b >= 0]
    if message.kind == "graph_tree":
        return _tree(1, 1, int(parts["channel"] or 0), parts["up"] or "-1", parts["me"] or "0", parts["down"] or "", False)
    text = parts["trees"] or ""
    cut = len(text) > CUT_LENGTH
    if message.kind == "trees":
        return [e for c, down, me, up in _TREE.findall(text) for e in _tree(1, 2, int(c), up, me, down, cut)]
    return [e for c, (down, me, up) in enumerate(_NVLS_TREE.findall(text)) for e in _tree(2, 2, c, up, me, down, cut)]


def _order(parts: dict[str, str | None], nranks: int | None) -> list[Edge]:
    ranks = [int(rank) for rank in (parts["order"] or "").split() if len(rank) < 8]
    cut = parts["cut"] is not None or (nranks is not None and len(ranks) < nranks)
    # A closed ring has the edge from its last to its first rank; of a cut one that edge is not known.
    pairs = list(zip(ranks, ranks[1:] if cut else ranks[1:] + ranks[:1], strict=False))
    return [(0, 0, int(parts["channel"] or 0), a, b, cut) for a, b in pairs if a != b]


def _tree(pattern: int, basis: int, channel: int, up: str, me: str, down: str, cut: bool) -> list[Edge]:
    # Numbers that no job has belong to torn lines.
    known = [child for child in down.split("/") if child and 0 <= int(child) <= 9_999_999]
    edges: list[Edge] = [(pattern, basis, channel, int(me), int(child), cut) for child in known]
    return edges + ([(pattern, basis, channel, int(up), int(me), cut)] if 0 <= int(up) <= 9_999_999 else [])
