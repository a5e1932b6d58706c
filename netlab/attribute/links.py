"""Measures of links over a window: utilisation, loss, pause, ECN, errors. ``link_intervals`` gives the intervals they are made of."""

from __future__ import annotations

import numpy as np
import polars as pl

from netlab.attribute.link_intervals import link_intervals
from netlab.attribute.link_scale import series_heads
from netlab.schema.counters import LINKS

__all__ = ["ERROR_METRICS", "link_intervals", "links", "physical_ports"]

#: A pause frame stops a priority for at most this many bit times (IEEE 802.1Qbb: 65535 quanta of 512 bits).
_PAUSE_QUANTUM_BITS = 512
_PAUSE_FRAME_BITS = 65_535 * _PAUSE_QUANTUM_BITS
#: Metrics that count damage on the link itself; side effects of damage elsewhere are not among them.
ERROR_METRICS = ("errors", "fcs_errors", "symbol_errors", "fec_uncorrected", "link_recovery", "local_link_integrity_errors")
_LOGICAL = ("lag", "vlan", "mgmt")
_PORT = ("device", "port", "direction")
_SERIES = ("device", "port", "queue", "direction", "metric")
_SUMS: dict[str, pl.DataType | type[pl.DataType]] = {
    **dict.fromkeys(_SERIES, pl.String),
    "part": pl.Float64,
    "known_ns": pl.Int64,
    "any": pl.Boolean,
    "good": pl.Float64,
    "good_ns": pl.Int64,
    "peak": pl.Float64,
    "resolution_ns": pl.Float64,
}
#: Communication must fill this share of a poll before the poll says something about communication time.
_COMM_SHARE = 0.2


def physical_ports(ports: pl.DataFrame, counted: pl.DataFrame) -> pl.DataFrame:
    """(device, port) of the links proper: no VLANs or management ports, and no bundle whose members, or the device's ports, are counted.

    >>> ports = pl.DataFrame({"device": ["s"] * 2, "port": ["e0", "Po1"], "role": ["up", "lag"], "lag": ["Po1", None]})
    >>> physical_ports(ports, ports.select("device", "port"))["port"].to_list()
    ['e0']
    """
    known = counted.select(pl.col("device", "port").cast(pl.String)).unique().filter(pl.col("port") != "")
    roles = known.join(ports.select("device", "port", "role", "lag"), on=["device", "port"], how="left")
    logical = pl.col("role").is_in(_LOGICAL).fill_null(False)
    real = roles.filter(~logical)
    members = (
        ports.filter(pl.col("lag").is_not_null())
        .join(real, on=["device", "port"], how="semi")
        .select("device", pl.col("lag").alias("port"))
    )
    owned = ports.filter(pl.col("lag").is_not_null()).select("device", pl.col("lag").alias("port")).unique()
    lags = roles.filter(pl.col("role") == "lag").join(members, on=["device", "port"], how="anti")
    # A bundle stands in for its members only where none of them is counted; without known members, where the device has no other port.
    lags = pl.concat(
        [
            lags.join(owned, on=["device", "port"], how="semi"),
            lags.join(owned, on=["device", "port"], how="anti").join(real, on="device", how="anti"),
        ]
    )
    return pl.concat([real, lags]).select("device", "port").sort("device", "port")


def links(
    intervals: pl.DataFrame,
    ports: pl.DataFrame,
    window: tuple[int, int] | None = None,
    comm_windows: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """One row per direction of each physical port.

    Parameters
    ----------
    intervals
        ``LINK_INTERVALS``.
    ports
        ``PORTS``: speed, role, bundle, rail and cable of each port.
    window
        First step start and last step end on the aligned clock (nanoseconds); None: from the first to the last sample.
    comm_windows
        Disjoint sorted ``start_ns``, ``end_ns`` in which any rank communicated, or None.

    Returns
    -------
    ``LINKS``. Means are weighted by time: bytes over the time for which they are known, gaps included; peaks come from single intervals
    without gaps, and ``resolution_ms`` is the median length of those. An interval that a border of the window cuts counts by its share.
    ``loss_ratio`` = (discards + errors) / (packets + discards + errors) of the same direction. ``pause_ratio`` is the share of time of the
    priority paused longest; where only frames are counted it is null and ``pause_ratio_max`` bounds it (65,535 quanta a frame).
    """
    heads = series_heads(intervals)
    chosen = physical_ports(ports, heads)
    heads = heads.join(chosen, on=["device", "port"], how="semi", maintain_order="left")
    if heads.is_empty():
        return LINKS.empty()
    start, end = window or _span(intervals)
    sums = _sums(intervals, heads, start, end)
    if sums.is_empty():
        # Counters of another time than the run's are still worth seeing; ``window`` says that they are not of the run.
        return links(intervals, ports) if window is not None else LINKS.empty()
    table = _directions(sums)
    bytes_ = _bytes_of(intervals, heads)
    for part in (
        _utilisation(sums, ports, end - start),
        _loss(sums),
        _pause(sums, ports),
        _ecn(sums),
        _credit_wait(sums, ports),
        _counts(sums),
        _communication(bytes_, ports, comm_windows, start, end),
    ):
        table = table.join(part, on=list(_PORT), how="left")
    described = ports.select(
        "device", "port", "role", "speed_gbps", "rail", "ranks", pl.concat_str("peer_device", pl.lit("/"), "peer_port").alias("peer")
    )
    table = table.join(described, on=["device", "port"], how="left")
    return LINKS.validate(
        LINKS.conform(table, window="samples" if window is None else "run", window_start_ns=start, window_end_ns=end, localised="no")
    )


def _span(intervals: pl.DataFrame) -> tuple[int, int]:
    return int(intervals["t0_ns"].min()), int(intervals["t1_ns"].max())  # type: ignore[arg-type]


def _flagged(frame: pl.DataFrame, flag: str) -> list[str]:
    """Texts of flags that name a flag."""
    return [text for text in frame["flags"].unique().cast(pl.String) if flag in text.split(",")]


def _sums(intervals: pl.DataFrame, heads: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """Of each series in the window: growth (``part``) and the time for which it is known; of whole ports' bytes also what peaks need.

    An interval that a border cuts counts by its share; a whole one keeps its integer: 80.0 % must not become 80.00000000000001 %.
    """
    gaps, fast = _flagged(intervals, "gap"), _flagged(intervals, "above_line_rate")
    rows = []
    for head in heads.iter_rows(named=True):
        piece = intervals.slice(head["first"], head["rows"])
        t0, t1 = piece["t0_ns"].to_numpy(), piece["t1_ns"].to_numpy()
        length, inside = t1 - t0, np.minimum(t1, end) - np.maximum(t0, start)
        delta = piece["delta"].fill_null(0).to_numpy().astype(np.float64)
        known = (inside > 0) & piece["delta"].is_not_null().to_numpy()
        if not (inside > 0).any():
            continue
        part = np.where(inside == length, delta, delta * (inside / length))
        row = {name: head[name] for name in _SERIES}
        row |= {"part": float(part[known].sum()), "known_ns": int(inside[known].sum()), "any": bool(known.any())}
        if head["metric"] == "bytes" and head["queue"] is None:
            flags = piece["flags"]
            gap = flags.is_in(gaps).to_numpy() if gaps else np.zeros(len(t0), np.bool_)
            # Beyond the line's rate the unit or the speed is wrong; such intervals say nothing about utilisation.
            good = known & ~flags.is_in(fast).to_numpy() if fast else known
            whole = (inside > 0) & ~gap
            used = piece["utilization"].filter(pl.Series(whole))
            row |= {"good": float(part[good].sum()), "good_ns": int(inside[good].sum()), "peak": used.max()}
            row["resolution_ns"] = float(np.median(length[whole])) if whole.any() else None
        rows.append(row)
    return pl.DataFrame(rows, schema=_SUMS)


def _bytes_of(intervals: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
    """Intervals of whole ports' bytes."""
    wanted = heads.filter((pl.col("metric") == "bytes") & pl.col("queue").is_null())
    parts = [intervals.slice(first, rows) for first, rows in wanted.select("first", "rows").iter_rows()]
    return pl.concat(parts) if parts else intervals.clear()


def _directions(sums: pl.DataFrame) -> pl.DataFrame:
    """The rows of the result: rx and tx where anything directed was counted, else none."""
    seen = sums.select(_PORT).unique()
    directed = seen.filter(pl.col("direction") != "none")
    rest = seen.filter(pl.col("direction") == "none").join(directed, on=["device", "port"], how="anti")
    return pl.concat([directed, rest]).sort(_PORT)


def _whole_port(sums: pl.DataFrame, metric: str) -> pl.DataFrame:
    """A metric of whole ports: the port's own counter, or the sum of its queues where it has none."""
    rows = sums.filter((pl.col("metric") == metric) & pl.col("any"))
    own = rows.filter(pl.col("queue").is_null()).select(*_PORT, "part", "known_ns")
    queues = rows.filter(pl.col("queue").is_not_null()).join(own, on=list(_PORT), how="anti")
    summed = queues.group_by(_PORT).agg(pl.col("part").sum(), pl.col("known_ns").max())
    return pl.concat([own, summed]).rename({"part": metric, "known_ns": f"{metric}_ns"})


def _utilisation(sums: pl.DataFrame, ports: pl.DataFrame, window_ns: int) -> pl.DataFrame:
    whole = sums.filter((pl.col("metric") == "bytes") & pl.col("queue").is_null())
    joined = whole.join(ports.select("device", "port", "speed_gbps"), on=["device", "port"], how="left")
    mean = pl.col("good") * 8 / (pl.col("good_ns") * pl.col("speed_gbps"))
    return joined.select(
        *_PORT,
        pl.when(pl.col("any")).then(pl.col("part").round()).cast(pl.Int64).alias("bytes"),
        (pl.col("known_ns") / window_ns).clip(0, 1).alias("coverage"),
        pl.when(pl.col("good_ns") > 0).then(mean.clip(upper_bound=1)).alias("utilization_mean"),
        pl.col("peak").alias("utilization_peak"),
        (pl.col("resolution_ns") / 1e6).alias("resolution_ms"),
    )


def _loss(sums: pl.DataFrame) -> pl.DataFrame:
    packets = _packets(sums)
    frame = packets
    for metric in ("discards", "errors", "fcs_errors"):
        frame = frame.join(_whole_port(sums, metric).select(*_PORT, metric), on=list(_PORT), how="left")
    bad = pl.coalesce("errors", "fcs_errors")
    lost = pl.col("discards").fill_null(0) + bad.fill_null(0)
    counted = pl.col("discards").is_not_null() | bad.is_not_null()
    ratio = pl.when(counted & (pl.col("packets") + lost > 0)).then(lost / (pl.col("packets") + lost))
    return frame.select(*_PORT, ratio.alias("loss_ratio"))


def _packets(sums: pl.DataFrame) -> pl.DataFrame:
    """All packets of a direction: the total, or unicast plus the others where only those are counted apart."""
    frame = _whole_port(sums, "packets").select(*_PORT, "packets")
    total = _whole_port(sums, "unicast_packets").select(*_PORT)
    partial = frame.join(total, on=list(_PORT), how="anti")
    for metric in ("multicast_packets", "broadcast_packets"):
        partial = partial.join(_whole_port(sums, metric).select(*_PORT, metric), on=list(_PORT), how="left")
        partial = partial.with_columns(pl.col("packets") + pl.col(metric).fill_null(0)).drop(metric)
    return pl.concat([frame.join(total, on=list(_PORT), how="semi"), partial])


def _pause(sums: pl.DataFrame, ports: pl.DataFrame) -> pl.DataFrame:
    chosen = sums.filter(pl.col("metric").is_in(("pause_us", "pause_quanta", "pause_frames")) & pl.col("any"))
    rows = chosen.join(ports.select("device", "port", "speed_gbps"), on=["device", "port"], how="left")
    ns = (
        pl.when(pl.col("metric") == "pause_us")
        .then(pl.col("part") * 1_000)
        .when(pl.col("metric") == "pause_quanta")
        .then(pl.col("part") * _PAUSE_QUANTUM_BITS / pl.col("speed_gbps"))
        .otherwise(pl.col("part") * _PAUSE_FRAME_BITS / pl.col("speed_gbps"))
    )
    ratio = (ns / pl.col("known_ns")).clip(0, 1)
    frames = pl.col("metric") == "pause_frames"
    grouped = (
        rows.with_columns(ratio.alias("ratio"))
        .group_by(_PORT)
        .agg(pl.col("ratio").filter(~frames).max().alias("pause_ratio"), pl.col("ratio").filter(frames).max().alias("bound"))
    )
    return grouped.select(*_PORT, "pause_ratio", pl.when(pl.col("pause_ratio").is_null()).then(pl.col("bound")).alias("pause_ratio_max"))


def _ecn(sums: pl.DataFrame) -> pl.DataFrame:
    """Marked packets over the packets of the queues that mark; of a NIC, over its RDMA packets where those are counted."""
    keys = [*_PORT, "queue"]
    marks = sums.filter((pl.col("metric") == "ecn_marked") & pl.col("any")).select(*keys, pl.col("part").alias("marked"))
    queued = sums.filter((pl.col("metric") == "packets") & pl.col("queue").is_not_null()).select(*keys, pl.col("part").alias("queued"))
    by_port = (
        marks.join(queued, on=keys, how="left", nulls_equal=True)
        .group_by(_PORT)
        .agg(pl.col("marked").sum(), pl.col("queued").sum(), pl.col("queued").is_null().any().alias("lacking"))
    )
    by_port = by_port.join(_whole_port(sums, "rdma_packets").select(*_PORT, "rdma_packets"), on=list(_PORT), how="left")
    by_port = by_port.join(_packets(sums), on=list(_PORT), how="left")
    base = pl.when(~pl.col("lacking")).then(pl.col("queued")).otherwise(pl.coalesce("rdma_packets", "packets"))
    return by_port.select(*_PORT, pl.when(base > 0).then(pl.col("marked") / base).clip(0, 1).alias("ecn_ratio"))


def _credit_wait(sums: pl.DataFrame, ports: pl.DataFrame) -> pl.DataFrame:
    """XmitWait as a share of time: 64 bit times a tick (the convention of ibdiagnet's analyses; the real tick depends on the device)."""
    waits = _whole_port(sums, "xmit_wait").join(ports.select("device", "port", "speed_gbps"), on=["device", "port"], how="left")
    ratio = pl.col("xmit_wait") * 64 / (pl.col("xmit_wait_ns") * pl.col("speed_gbps"))
    return waits.select(*_PORT, ratio.clip(0, 1).alias("wait_ratio"))


def _counts(sums: pl.DataFrame) -> pl.DataFrame:
    """Errors, discards and link-downs; those without a direction stand in both rows of the port."""
    rows = _directions(sums)
    for name, metrics in (("errors", ERROR_METRICS), ("discards", ("discards",)), ("link_downed", ("link_downed",))):
        parts = [_whole_port(sums, metric).rename({metric: name}).select(*_PORT, name) for metric in metrics]
        every = pl.concat(parts).group_by(_PORT).agg(pl.col(name).sum())
        free = every.filter(pl.col("direction") == "none").select("device", "port", pl.col(name).alias("free"))
        rows = rows.join(every, on=list(_PORT), how="left").join(free, on=["device", "port"], how="left")
        both = pl.col(name).is_not_null() | pl.col("free").is_not_null()
        extra = pl.when(pl.col("direction") == "none").then(0).otherwise(pl.col("free").fill_null(0))
        rows = rows.with_columns(pl.when(both).then((pl.col(name).fill_null(0) + extra).round()).cast(pl.Int64).alias(name)).drop("free")
    return rows


def _communication(
    bytes_: pl.DataFrame, ports: pl.DataFrame, comm_windows: pl.DataFrame | None, window_start: int, window_end: int
) -> pl.DataFrame:
    """Mean utilisation over communication time: bytes of the polls in which ranks communicated, over that time."""
    if comm_windows is None or comm_windows.is_empty() or bytes_.is_empty():
        return pl.DataFrame(schema={**dict.fromkeys(_PORT, pl.String), "utilization_comm": pl.Float64})
    windows = comm_windows.sort("start_ns")
    # Communication time before an instant is a step function; its difference over a poll is the overlap.
    before = (windows["end_ns"] - windows["start_ns"]).cum_sum().shift(1, fill_value=0).to_numpy()
    starts, ends = windows["start_ns"].to_numpy(), windows["end_ns"].to_numpy()
    inside = (pl.col("t1_ns") > window_start) & (pl.col("t0_ns") < window_end)
    whole = bytes_.filter(inside & pl.col("delta").is_not_null())

    def elapsed(times: pl.Series) -> pl.Series:
        at = times.to_numpy()
        index = starts.searchsorted(at, "right") - 1
        inside = before[index.clip(0)] + (at.clip(max=ends[index.clip(0)]) - starts[index.clip(0)])
        return pl.Series(inside * (index >= 0))

    overlap = elapsed(whole["t1_ns"]) - elapsed(whole["t0_ns"])
    used = whole.with_columns(overlap.alias("comm_ns")).filter(pl.col("comm_ns") >= _COMM_SHARE * (pl.col("t1_ns") - pl.col("t0_ns")))
    grouped = used.group_by(_PORT).agg(pl.col("delta").sum(), pl.col("comm_ns").sum()).with_columns(pl.col(_PORT).cast(pl.String))
    grouped = grouped.join(ports.select("device", "port", "speed_gbps"), on=["device", "port"], how="left")
    return grouped.select(*_PORT, (pl.col("delta") * 8 / (pl.col("comm_ns") * pl.col("speed_gbps"))).clip(0, 1).alias("utilization_comm"))
