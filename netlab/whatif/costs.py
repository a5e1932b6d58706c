"""What a collective costs: NCCL's factors, latency and byte part of every measured transfer, and how sure the split is.

``transfer = a + b x bytes``. NCCL models its own collectives so (src/graph/tuning.cc, v2.30: time = latency + bytes / bandwidth). The
measured split transfers of the run decide; NCCL's printed table is the prior where sizes vary too little to tell a from b.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.attribute.bandwidth import bus_factor
from netlab.run import Run
from netlab.whatif.build import Model

__all__ = ["Fit", "Transfers", "theil_sen", "transfers"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: A slope needs sizes that span this much, and this many instances (notes/whatif.md 3.0).
_MIN_SPAN = 4.0
_MIN_SAMPLES = 8
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
        chosen = np.linspace(0, len(size) - 1, _MAX_SAMPLES).astype(int)
        order = np.argsort(size, kind="stable")[chosen]
        size, time = size[order], time[order]
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


def transfers(run: Run, model: Model) -> Transfers:
    """Split every transfer of the run into latency and bytes.

    Where sizes of one kind of collective span less than a factor of 4 or there are fewer than 8 instances, the latency is that of small
    messages of the same operation and layer, else NCCL's own from the log's TUNING table; without either the whole transfer counts as
    bytes.
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
    fits = _fits(frame.with_columns(pl.Series("quality", split.astype(str))), run.frame("tuning_predictions"), cpu=model.cpu)
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


def _fits(frame: pl.DataFrame, table: pl.DataFrame, *, cpu: bool) -> dict[tuple[str, str, str], Fit]:
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
        # Without a sign of its own, latency may be that of a ring's rounds.
        rounds = (2 if name[1] == "all_reduce" else 1) * max(int(members) - 1, 1)
        most = min(rounds * (_CPU_ROUND_NS if cpu else _DEVICE_ROUND_NS), float(time.min()) / 2)
        latency, slope, source, span = 0.0, float(np.median(time / size)), "none", (0.0, most)
        if len(size) >= _MIN_SAMPLES and size.max() >= _MIN_SPAN * size.min():
            a, b = theil_sen(size, time)
            if a >= 0 and b > 0:
                latency, slope, source, span = a, b, "fit", _intercept_range(size, time, a, b)
        own, own_range = small.get((name[1], layer), (None, (0.0, 0.0)))
        printed = _prior(table, name[1], float(np.median(size)))
        known = ((own, own_range, "small messages"), (printed, ((printed or 0.0) / 2, (printed or 0.0) * 2), "table"))
        for prior, prior_range, origin in known:
            large = size > _SMALL_BYTES
            if source == "none" and prior is not None and large.any() and prior < time[large].min():
                latency, slope, source = prior, float(np.median((time[large] - prior) / size[large])), origin
                span = (prior_range[0], min(prior_range[1], float(time[large].min())))
        found[name] = Fit(latency, slope, source, len(size), span)
    return found


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
