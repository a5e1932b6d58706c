"""What a collective costs: NCCL's factors, latency and byte part of every measured transfer, and how sure the split is.

``transfer = a + b x bytes``. NCCL models its own collectives so (src/graph/tuning.cc, v2.30: time = latency + bytes / bandwidth). The
measured split transfers of the run decide; NCCL's printed table is the prior where sizes vary too little to tell a from b. Bytes never move
faster than the declared rate of the links, so what a transfer took beyond that is the most that its latency can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.attribute.bandwidth import bus_factor
from netlab.run import Run
from netlab.whatif.build import Model

__all__ = ["Fit", "Transfers", "ring_lanes", "theil_sen", "transfers"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: A slope needs sizes that span this much, and this many instances (notes/whatif.md 3.0).
_MIN_SPAN = 4.0
_MIN_SAMPLES = 8
#: Closer sizes do too if there are this many instances and they leave the latency this sure (of the shortest transfer).
_CLOSE_SPAN = 2.0
_MANY_SAMPLES = 50
_SURE = 0.10
#: Messages up to this size are all latency (64 KiB take 1.3 us at 400 Gbit/s), if there are this many of them.
_SMALL_BYTES = 64 * 1024
_MIN_SMALL = 5
#: Error of a median over that of a mean.
_MEDIAN_ERROR = 1.2533
#: One round of a ring between hosts: NCCL's Simple protocol (src/graph/tuning.cc, v2.30), and TCP with a thread to wake.
_DEVICE_ROUND_NS, _CPU_ROUND_NS = 14_000.0, 1_000_000.0
#: Pairs beyond this many instances add nothing to a median slope.
_MAX_SAMPLES = 400


@dataclass(frozen=True)
class Fit:
    """``transfer = latency_ns + ns_per_byte x bytes`` of one kind of collective; ``source`` is fit, small messages, table or none."""

    latency_ns: float
    ns_per_byte: float
    source: str
    samples: int
    #: Least and most latency that fits the run, 95 %.
    latency_range_ns: tuple[float, float]


def theil_sen(size: Floats, time: Floats) -> tuple[float, float]:
    """Median slope and intercept through points; robust against the odd slow transfer.

    >>> theil_sen(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([12.0, 14.0, 16.0, 18.0, 126.0]))
    (10.0, 2.0)
    """
    if len(size) > _MAX_SAMPLES:
        # As many of every size as there are, up to an equal part: a few small messages among many large ones hold the line up.
        groups = [np.flatnonzero(size == one) for one in np.unique(size)]
        part = max(1, _MAX_SAMPLES // len(groups))
        chosen = np.concatenate([own[np.linspace(0, len(own) - 1, min(len(own), part)).astype(int)] for own in groups])
        if len(chosen) > _MAX_SAMPLES:
            chosen = chosen[np.linspace(0, len(chosen) - 1, _MAX_SAMPLES).astype(int)]
        size, time = size[chosen], time[chosen]
    one, other = np.triu_indices(len(size), 1)
    apart = size[one] != size[other]
    slopes = (time[other] - time[one])[apart] / (size[other] - size[one])[apart]
    slope = float(np.median(slopes))
    return float(np.median(time - slope * size)), slope


@dataclass(frozen=True)
class Transfers:
    """The communication of a run, one entry per member kernel. All arrays have the same length."""

    row: Ints
    #: Nodes at which the member arrives, from which its data moves, and at which it ends.
    arrival: Ints
    release: Ints
    node: Ints
    latency_ns: Floats
    byte_ns: Floats
    bytes: Ints
    group_size: Ints
    op: NDArray[np.object_]
    dtype: NDArray[np.object_]
    group: NDArray[np.object_]
    group_name: NDArray[np.object_]
    layer: NDArray[np.object_]
    #: measured, bounded or unknown
    split: NDArray[np.object_]
    fits: dict[tuple[str, str, str], Fit]

    @property
    def size(self) -> int:
        """Number of member kernels."""
        return len(self.row)

    def of(self, quality: str) -> NDArray[np.bool_]:
        """Members whose split has that quality."""
        return np.asarray(self.split == quality, bool)

    def joined(
        self, index: Ints, row: Ints, arrival: Ints, release: Ints, node: Ints, parts: tuple[Floats, Floats], size: Ints
    ) -> Transfers:
        """More members, each like the entry ``index`` but with nodes, parts (latency, bytes) and message size of its own."""
        grown: dict[str, Any] = {
            "row": row,
            "arrival": arrival,
            "release": release,
            "node": node,
            "latency_ns": parts[0],
            "byte_ns": parts[1],
            "bytes": size,
        }
        names = ("group_size", "op", "dtype", "group", "group_name", "layer", "split")
        grown |= {name: getattr(self, name)[index] for name in names}
        joined: dict[str, Any] = {name: np.concatenate((getattr(self, name), values)) for name, values in grown.items()}
        return replace(self, **joined)

    def bus_gb_per_s(self) -> Floats:
        """Bus bandwidth of each member while bytes move (latency left out); NaN where bytes or split are not known."""
        factor = np.array([bus_factor(str(op), int(n)) or 1.0 for op, n in zip(self.op, self.group_size, strict=True)])
        moving = self.byte_ns
        usable = (self.bytes > _SMALL_BYTES) & (moving > 0) & (self.split == "measured")
        return np.where(usable, factor * self.bytes / np.where(moving > 0, moving, 1), np.nan)


def ring_lanes(members: Sequence[int], host_of: Mapping[int, int | str]) -> int:
    """GPUs of a group on the host that has fewest of them: so many NICs carry a ring between hosts.

    >>> ring_lanes([0, 1, 4, 5, 6], {0: "a", 1: "a", 4: "b", 5: "b", 6: "b"})
    2
    """
    found = [host_of[rank] for rank in members if rank in host_of]
    return min((found.count(host) for host in set(found)), default=1) or 1


def transfers(run: Run, model: Model, link_gbps: Mapping[str, float | None] | None = None) -> Transfers:
    """Split every transfer of the run into latency and bytes.

    Where sizes of one kind of collective span less than a factor of 4 (2, if there are many instances and the line is sure) or there are
    fewer than 8 instances, the latency is that of small messages of the same operation and layer, else NCCL's own from the log's TUNING
    table; without either the whole transfer counts as bytes.

    Parameters
    ----------
    run, model
        The run and its graph.
    link_gbps
        Declared one-direction rate per GPU of each layer (``intra_node``, ``inter_node``); None where it is not known.
    """
    rows = model.communication
    frame = model.activities.frame[rows].with_row_index("place")
    nodes = model.end_node[rows]
    total = model.graph.duration_ns[nodes]
    groups = run.frame("groups").select("group", "size").unique("group")
    frame = frame.join(groups, on="group", how="left", maintain_order="left").with_columns(
        pl.col("size").fill_null(pl.col("group").str.count_matches(",") + 1).fill_null(1).alias("size"),
        pl.Series("total", total),
    )
    waits = model.graph.kind[model.release_node[rows]] == 5
    split = np.where(frame["split"].is_null().to_numpy(), "unknown", frame["split"].fill_null("unknown").to_numpy()).astype(object)
    # A member alone in its instance, in a group of several, has not been split, whatever its row says.
    split[(split == "measured") & ~waits & (frame["size"].to_numpy() > 1) & (frame["instance"].is_null().to_numpy())] = "unknown"
    host_of = {rank: host for host, ranks in run.facts.hosts.items() for rank in ranks}
    fits = _fits(
        frame.with_columns(pl.Series("quality", split.astype(str))),
        run.frame("tuning_predictions"),
        _Wire(link_gbps or {}, host_of),
        cpu=model.cpu,
    )
    latency = np.zeros(len(rows))
    size = frame["bytes"].fill_null(0).to_numpy().astype(float)
    for key, indices in (
        frame.group_by("group", "op", "dtype", maintain_order=True)
        .agg("place")
        .select(pl.struct("group", "op", "dtype").alias("key"), "place")
        .iter_rows()
    ):
        fit = fits.get(_key(key))
        if fit is not None:
            # A transfer that took longer than the line through all of them (a stall, a busy link) was slower in both parts alike.
            expected = fit.latency_ns + fit.ns_per_byte * np.maximum(size[indices], 0)
            share = fit.latency_ns / np.maximum(expected, 1e-9) if fit.latency_ns > 0 else np.zeros(len(indices))
            latency[indices] = np.minimum(1.0, share) * np.maximum(total[indices], 0.0)
    latency[split == "unknown"] = 0.0

    def objects(name: str) -> NDArray[np.object_]:
        return np.array(frame[name].to_list(), object)

    return Transfers(
        row=rows,
        arrival=model.arrival_node[rows],
        release=model.release_node[rows],
        node=nodes,
        latency_ns=latency,
        byte_ns=total - latency,
        bytes=frame["bytes"].fill_null(-1).to_numpy(),
        group_size=frame["size"].cast(pl.Int64).to_numpy(),
        op=objects("op"),
        dtype=objects("dtype"),
        group=objects("group"),
        group_name=objects("group_name"),
        layer=objects("layer"),
        split=split,
        fits=fits,
    )


def _key(values: dict[str, str | None]) -> tuple[str, str, str]:
    return (values["group"] or "", values["op"] or "unknown", values["dtype"] or "")


@dataclass(frozen=True)
class _Wire:
    """The least time that bytes take on the declared links."""

    link_gbps: Mapping[str, float | None]
    host_of: Mapping[int, int | str]

    def ns_per_byte(self, group: str, op: str, layer: str | None, members: int) -> float:
        """Per byte of the message; 0 where the rate is not declared."""
        gbps = self.link_gbps.get(layer or "")
        factor = bus_factor(op, members)
        if not gbps or factor is None:
            return 0.0
        ranks = [int(rank) for rank in group.split(",") if rank.strip().isdigit()]
        return factor * 8 / (gbps * (ring_lanes(ranks, self.host_of) if layer == "inter_node" else 1))


def _fits(frame: pl.DataFrame, table: pl.DataFrame, wire: _Wire, *, cpu: bool) -> dict[tuple[str, str, str], Fit]:
    usable = frame.filter((pl.col("quality") == "measured") & (pl.col("bytes") > 0) & (pl.col("total") > 0))
    samples = usable.group_by("group", "op", "dtype", "instance", maintain_order=True).agg(
        pl.col("total").max(), pl.col("bytes").max(), pl.col("layer").first(), pl.col("size").first()
    )
    small = _small_message_latency(samples)
    found: dict[tuple[str, str, str], Fit] = {}
    for key, sizes, times, layer, members in (
        samples.group_by("group", "op", "dtype", maintain_order=True)
        .agg("bytes", "total", pl.col("layer").first(), pl.col("size").first())
        .select(pl.struct("group", "op", "dtype").alias("key"), "bytes", "total", "layer", "size")
        .iter_rows()
    ):
        size, time = np.array(sizes, float), np.array(times, float)
        name = _key(key)
        least = wire.ns_per_byte(name[0], name[1], layer, int(members))
        cap = float(np.quantile(time - least * size, 0.05))
        if cap <= 0:
            least, cap = 0.0, float(time.min())  # faster than the declared links: the declaration is wrong
        own, own_range = small.get((name[1], layer), (None, (0.0, 0.0)))
        printed = _prior(table, name[1], float(np.median(size)))
        priors = ((own, own_range, "small messages"), (printed, ((printed or 0.0) / 2, (printed or 0.0) * 2), "table"))
        line = _line(size, time)
        if line is not None:
            fit = line if line.ns_per_byte >= least else replace(line, latency_ns=max(0.0, float(np.median(time - least * size))))
            found[name] = replace(fit, ns_per_byte=max(fit.ns_per_byte, least), latency_range_ns=_within(fit.latency_range_ns, cap, fit))
            continue
        # Without a sign of its own, latency may be that of a ring's rounds.
        rounds = (2 if name[1] == "all_reduce" else 1) * max(int(members) - 1, 1)
        most = min(rounds * (_CPU_ROUND_NS if cpu else _DEVICE_ROUND_NS), float(time.min()) / 2, cap)
        fit = Fit(0.0, float(np.median(time / size)), "none", len(size), (0.0, most))
        large = size > _SMALL_BYTES
        for prior, span, origin in priors:
            if fit.source == "none" and prior is not None and large.any() and prior < time[large].min():
                prior = min(prior, cap)
                fit = Fit(prior, float(np.median((time[large] - prior) / size[large])), origin, len(size), span)
                fit = replace(fit, latency_range_ns=_within(span, min(cap, float(time[large].min())), fit))
        found[name] = fit
    return found


def _within(span: tuple[float, float], most: float, fit: Fit) -> tuple[float, float]:
    """The range of a latency, cut at the most that it can be, and never without its point."""
    return min(span[0], most, fit.latency_ns), max(min(span[1], most), fit.latency_ns)


def _line(size: Floats, time: Floats) -> Fit | None:
    """Latency and slope of a robust line; None where sizes are too few or too alike to tell them apart."""
    if len(size) < _MIN_SAMPLES or size.max() < _CLOSE_SPAN * size.min():
        return None
    a, b = theil_sen(size, time)
    if a < 0 or b <= 0:
        return None
    span = _intercept_range(size, time, a, b)
    wide = size.max() >= _MIN_SPAN * size.min()
    if not wide and (len(size) < _MANY_SAMPLES or span[1] - a > _SURE * time.min()):
        return None
    return Fit(a, b, "fit", len(size), span)


def _intercept_range(size: Floats, time: Floats, latency: float, slope: float) -> tuple[float, float]:
    """95 % of the intercept of a robust line: the usual formula with the spread from the median absolute residual."""
    left = time - latency - slope * size
    spread = 1.4826 * float(np.median(np.abs(left - np.median(left))))
    apart = float(((size - size.mean()) ** 2).sum())
    error = _MEDIAN_ERROR * spread * float(np.sqrt(1 / len(size) + size.mean() ** 2 / apart))
    return max(0.0, latency - 1.96 * error), min(latency + 1.96 * error, max(latency, float(time.min())))


def _small_message_latency(samples: pl.DataFrame) -> dict[tuple[str, str | None], tuple[float, tuple[float, float]]]:
    """Median transfer of messages too small for their bytes to matter, with its range, by operation and layer."""
    total = pl.col("total")
    few = samples.filter(pl.col("bytes") <= _SMALL_BYTES).group_by("op", "layer")
    found = {}
    for op, layer, middle, quarter, three, n in few.agg(
        total.median().alias("middle"), total.quantile(0.25).alias("quarter"), total.quantile(0.75).alias("three"), pl.len().alias("n")
    ).iter_rows():
        error = 1.96 * _MEDIAN_ERROR * (three - quarter) / 1.349 / n**0.5
        if n >= _MIN_SMALL:
            found[op, layer] = (middle, (max(0.0, middle - error), middle + error))
    return found


def _prior(table: pl.DataFrame, op: str, size: float) -> float | None:
    """Latency of the algorithm and protocol that NCCL's own table makes fastest at this size."""
    rows = table.filter((pl.col("op") == op) & (pl.col("bandwidth_gb_per_s") > 0))
    if rows.is_empty():
        return None
    time_us = rows["latency_us"] + size / (1_000 * rows["bandwidth_gb_per_s"])
    return float(rows["latency_us"][int(time_us.arg_min() or 0)]) * 1_000
