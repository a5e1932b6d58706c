"""DDP gradient buckets of another size: when each gradient is ready, what closes a bucket, and when it can be sent."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.units import dtype_bytes
from netlab.whatif.arrays import COMPUTE, grouped
from netlab.whatif.changes.bucket_launches import Launches
from netlab.whatif.changes.targets import GRADIENT_OPS, require_split, select_groups
from netlab.whatif.draft import Draft, Refusal, Setting
from netlab.whatif.graph import EdgeKind

__all__ = ["cut", "cut_buckets"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_MIB = 2**20
#: Share of a training step's compute before the first bucket that is forward work: backward costs twice the forward pass.
_FORWARD_SHARE = 1 / 3
_READY = "torch::distributed::reducer::mul_out"
_COPY_BACK = "torch.distributed.ddp.reducer::copy_bucket_to_grad"


def cut(size_bytes: Ints, cap_bytes: float) -> Ints:
    """Position of the last parameter of each bucket. A bucket closes once it has reached its cap, as DDP's reducer does.

    Source: torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size.

    >>> cut(np.array([4, 4, 4, 4, 4]), 5).tolist()
    [1, 3, 4]
    """
    ends, held = [], 0.0
    for place, size in enumerate(size_bytes.tolist()):
        held += size
        if held >= cap_bytes:
            ends.append(place)
            held = 0.0
    if not ends or ends[-1] != len(size_bytes) - 1:
        ends.append(len(size_bytes) - 1)
    return np.array(ends)


@dataclass(frozen=True)
class _Ready:
    """When gradients of one (part, step) become ready: cumulative bytes at instants from the graph's origin."""

    at_ns: Floats
    bytes: Floats
    exact: bool

    def at(self, held_bytes: Floats, *, late: bool) -> Floats:
        """When so many bytes are there; ``late``: not before the instant at which that was measured."""
        if late:
            place = np.minimum(np.searchsorted(self.bytes, held_bytes - 0.5, side="left"), len(self.at_ns) - 1)
            return np.asarray(self.at_ns[place], float)
        return np.interp(held_bytes, self.bytes, self.at_ns)


def cut_buckets(draft: Draft, setting: Setting, bucket_mb: float) -> None:
    """Send the same gradient bytes in buckets of ``bucket_mb`` MiB, each as soon as it is full; buckets take turns on the link.

    Where the trace holds DDP's reducer operators, gradients have their own sizes and instants; else gradient bytes are taken to appear
    evenly between the buckets that were measured.

    Raises
    ------
    Refusal
        If the run has no gradient all-reduce of known size, or its split is not known.
    """
    t = draft.transfers
    in_groups, _ = select_groups(draft, setting, None)
    chosen = in_groups & np.isin(t.op.astype(str), GRADIENT_OPS) & (t.group_size > 1)
    if not chosen.any() or not (t.bytes[chosen] > 0).any():
        raise Refusal("The run has no gradient all-reduce of known size, so there are no buckets to cut.", ("message sizes in the traces",))
    require_split(draft, setting, chosen, "another bucket size")
    chosen &= (t.bytes > 0) & ~t.of("unknown")
    a = setting.model.activities
    grains, launches = _grains(setting), Launches.of(setting)
    exact = True
    for group in sorted({str(g) for g in t.group[chosen]}):
        mine = chosen & (t.group == group)
        entries = np.flatnonzero(mine)
        for (_, step), places in grouped(a.window[t.row[entries]], a.step[t.row[entries]]).items():
            if step >= 0:
                exact &= _recut(draft, setting, entries[places], bucket_mb * _MIB, grains, launches)
    draft.lower("calibrated")
    draft.say(
        f"Gradients leave in buckets of {bucket_mb:g} MiB (each closes once it is that full), one after the other; "
        "the first is as large as the others."
    )
    if not exact:
        draft.lower("datasheet")
        draft.even_gradients = True
        draft.inputs_missing.append("gradient-ready instants (DDP's reducer operators in the trace)")
        draft.say(
            "Gradient bytes are taken to appear evenly over the backward pass, "
            "which starts a third into the compute before the first bucket; the interval reaches to gradients that come "
            "only when their measured bucket was full."
        )


def _recut(
    draft: Draft, setting: Setting, these: Ints, cap_bytes: float, grains: dict[tuple[int, int], _Ready], launches: Launches
) -> bool:
    """Replace the buckets of one group in one step; returns whether the gradients' own sizes were known."""
    t, model = draft.transfers, setting.model
    a = model.activities
    by_part: dict[int, Ints] = {}
    for part in np.unique(a.part[t.row[these]]).tolist():
        mine = these[a.part[t.row[these]] == part]
        by_part[part] = mine[np.argsort(a.start_ns[t.row[mine]], kind="stable")]
    reference = next(iter(by_part.values()))
    sizes = t.bytes[reference]
    total = float(sizes.sum())
    ready = {part: _ready(setting, part, t.row[mine], sizes, grains) for part, mine in by_part.items()}
    first = next(iter(ready.values()))
    if first.exact and all(r.exact and len(r.bytes) == len(first.bytes) for r in ready.values()):
        edges = first.bytes[cut(np.diff(first.bytes, prepend=0.0).astype(np.int64), cap_bytes)]
    else:
        edges = np.append(np.arange(cap_bytes, total - 1, cap_bytes), total)
    joins = draft.add_nodes(np.zeros(len(edges)))
    share = np.diff(edges, prepend=0.0) / total
    covers = np.cumsum(sizes)
    for part, mine in by_part.items():
        _place(draft, setting, part, mine, ready[part], edges, share, joins, covers, launches)
    return first.exact


def _place(
    draft: Draft,
    setting: Setting,
    part: int,
    mine: Ints,
    ready: _Ready,
    edges: Floats,
    share: Floats,
    joins: Ints,
    covers: Ints,
    launches: Launches,
) -> None:
    t = draft.transfers
    at = ready.at(edges, late=setting.late_gradients and not ready.exact)
    cause, lag = _anchor(setting, part, at)
    full = draft.add_nodes(lag)
    launch = launches.replace(draft, setting, t.row[mine], cause)
    arrival = draft.add_nodes(np.zeros(len(edges)))
    member = draft.add_nodes(np.zeros(len(edges)))
    known, called = cause >= 0, launch >= 0
    draft.more += [
        (setting.model.end_node[cause[known]], full[known]),
        (full, arrival),
        (launch[called], arrival[called]),
        (arrival, joins),
        (joins, member),
        (member[:-1], joins[1:]),
    ]
    # What waited for an old bucket waits for every new one that holds some of its bytes.
    needed = np.searchsorted(edges, covers - 0.5, side="left")
    draft.more.append((member[np.minimum(needed, len(edges) - 1)], t.node[mine]))
    draft.replaced.append(t.row[mine])
    latency = np.full(len(edges), draft.latency_ns[mine].mean())
    moved = draft.byte_ns[mine].sum() * share
    draft.latency_ns[mine] = 0.0
    draft.byte_ns[mine] = 0.0
    size = np.rint(np.diff(edges, prepend=0.0)).astype(np.int64)
    like = np.full(len(edges), mine[0])
    draft.transfers = t.joined(like, t.row[like], arrival, joins, member, (latency, moved), size)
    draft.latency_ns = np.concatenate((draft.latency_ns, latency))
    draft.byte_ns = np.concatenate((draft.byte_ns, moved))


def _anchor(setting: Setting, part: int, at_ns: Floats) -> tuple[Ints, Floats]:
    """For each instant: the compute that ended last before it (row, -1 for none), and the rest of the way."""
    model, a = setting.model, setting.model.activities
    rows = np.flatnonzero((a.part == part) & (a.kind == COMPUTE))
    rows = rows[np.argsort(a.end_ns[rows], kind="stable")]
    ends = (a.end_ns[rows] - model.graph.origin_ns).astype(float)
    place = np.searchsorted(ends, at_ns, side="right") - 1
    row = rows[np.maximum(place, 0)]
    known = place >= 0
    lag = np.where(known, at_ns - ends[np.maximum(place, 0)], at_ns)
    return np.where(known, row, -1), np.maximum(lag, 0.0)


def _ready(setting: Setting, part: int, rows: Ints, sizes: Ints, grains: dict[tuple[int, int], _Ready]) -> _Ready:
    a, s = setting.model.activities, setting.model.steps
    step = int(a.step[rows[0]])
    known = grains.get((part, step))
    if known is not None and abs(known.bytes[-1] - sizes.sum()) <= 0.01 * sizes.sum():
        return known
    row = np.flatnonzero((s.part == part) & (s.step == step))
    origin = setting.model.graph.origin_ns
    arrivals = _filled(setting, rows)
    start = float(s.start_ns[row[0]] - origin) if len(row) else arrivals[0]
    backward = start + _FORWARD_SHARE * (arrivals[0] - start)
    return _Ready(np.append(backward, np.maximum.accumulate(arrivals)), np.append(0.0, np.cumsum(sizes)).astype(float), False)


def _filled(setting: Setting, rows: Ints) -> Floats:
    """When each measured bucket was full: its arrival without the time that it stood behind the bucket before it on its stream."""
    model, graph = setting.model, setting.model.graph
    filled = graph.end_ns[model.arrival_node[rows]].copy()
    for place, node in enumerate(model.arrival_node[rows].tolist()):
        own = slice(int(graph.pointer[node]), int(graph.pointer[node + 1]))
        others = graph.predecessor[own][graph.edge_kind[own] != EdgeKind.STREAM]
        if len(others) and graph.lag_ns[node] < filled[place]:
            filled[place] = min(filled[place], float(graph.end_ns[others].max()) + max(0.0, float(graph.lag_ns[node])))
    return filled


def _grains(setting: Setting) -> dict[tuple[int, int], _Ready]:
    """Instants and sizes of the single gradients, from DDP's reducer operators where the run keeps host operators."""
    run, a, s = setting.run, setting.model.activities, setting.model.steps
    ops = run.frame("host_ops").filter(pl.col("name").is_in([_READY, _COPY_BACK]))
    files = run.frame("trace_files")
    if ops.is_empty() or files.is_empty():
        return {}
    offsets = run.frame("clocks").select("rank", "offset_ns").unique("rank", keep="first", maintain_order=True)
    ops = ops.join(files.select("file", "rank"), on="file").join(offsets, on="rank", how="left")
    ops = ops.with_columns((pl.col("end_ns") - pl.col("offset_ns").fill_null(0)).alias("end_ns")).sort("rank", "end_ns")
    found: dict[tuple[int, int], _Ready] = {}
    ranks = {int(p): int(r) for p, r in zip(a.part, a.rank, strict=True)}
    for row in range(s.size):
        part = int(s.part[row])
        inside = ops.filter(
            (pl.col("rank") == ranks[part]) & pl.col("end_ns").is_between(int(s.start_ns[row]), int(s.end_ns[row]), closed="left")
        )
        ready, copies = inside.filter(pl.col("name") == _READY), inside.filter(pl.col("name") == _COPY_BACK)
        sizes = [_bytes(*values) for values in copies.select("input_dims", "input_types").iter_rows()]
        if not ready.height or ready.height != len(sizes) or None in sizes:
            continue
        held = np.cumsum(np.array(sizes, float))
        found[part, int(s.step[row])] = _Ready((ready["end_ns"].to_numpy() - setting.model.graph.origin_ns).astype(float), held, True)
    return found


def _bytes(dims: str | None, types: str | None) -> int | None:
    """Bytes of the first input of an operator from its recorded shapes.

    >>> _bytes("[[1024, 1024]]", '["float"]')
    4194304
    """
    try:
        shape = json.loads(dims or "")
        first = shape[0] if shape and isinstance(shape[0], list) else shape
        return int(np.prod(first)) * (dtype_bytes(json.loads(types)[0] if types else None) or 4)
    except (ValueError, TypeError, IndexError, KeyError):
        return None
