"""Measures of links over a window: utilisation, loss, pause, ECN, errors. ``link_intervals`` gives the intervals they are made of."""

from __future__ import annotations

import polars as pl

from netlab.attribute.link_intervals import link_intervals
from netlab.schema.counters import LINKS

__all__ = ["ERROR_METRICS", "link_intervals", "links", "physical_ports"]

#: A pause frame stops a priority for at most this many bit times (IEEE 802.1Qbb: 65535 quanta of 512 bits).
_PAUSE_QUANTUM_BITS = 512
_PAUSE_FRAME_BITS = 65_535 * _PAUSE_QUANTUM_BITS
#: Metrics that count damage on the link itself; side effects of damage elsewhere are not among them.
ERROR_METRICS = ("errors", "fcs_errors", "symbol_errors", "fec_uncorrected", "link_recovery", "local_link_integrity_errors")
_LOGICAL = ("lag", "vlan", "mgmt")
_PORT = ("device", "port", "direction")
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
    chosen = physical_ports(ports, intervals)
    keys = chosen.with_columns(pl.col("device", "port").cast(pl.Categorical))
    own = intervals.join(keys, on=["device", "port"], how="semi", maintain_order="left")
    if own.is_empty():
        return LINKS.empty()
    start, end = window or (int(own["t0_ns"].min()), int(own["t1_ns"].max()))  # type: ignore[arg-type]
    cut = _cut(own, start, end)
    if cut.is_empty():
        return LINKS.empty()
    sums = _sums(cut)
    table = _directions(sums)
    for part in (
        _utilisation(cut, ports, end - start),
        _loss(sums),
        _pause(sums, ports),
        _ecn(sums),
        _counts(sums),
        _communication(cut, ports, comm_windows),
    ):
        table = table.join(part, on=list(_PORT), how="left")
    described = ports.select(
        "device", "port", "role", "speed_gbps", "rail", "ranks", pl.concat_str("peer_device", pl.lit("/"), "peer_port").alias("peer")
    )
    table = table.join(described, on=["device", "port"], how="left")
    return LINKS.validate(
        LINKS.conform(table, window="samples" if window is None else "run", window_start_ns=start, window_end_ns=end, localised="no")
    )


def _flagged(frame: pl.DataFrame, *flags: str) -> list[str]:
    """Texts of flags that name any of some."""
    return [text for text in frame["flags"].unique().cast(pl.String) if set(text.split(",")) & set(flags)]


def _cut(intervals: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """Intervals that touch the window, with the part inside it (``inside_ns``, ``part`` of the delta; null where unknown)."""
    inside = pl.min_horizontal("t1_ns", pl.lit(end)) - pl.max_horizontal("t0_ns", pl.lit(start))
    length = pl.col("t1_ns") - pl.col("t0_ns")
    cut = intervals.with_columns(inside.alias("inside_ns"), length.alias("length_ns")).filter(pl.col("inside_ns") > 0)
    # A whole interval keeps its integer: 80.0 % must not become 80.00000000000001 %.
    whole = pl.when(pl.col("inside_ns") == pl.col("length_ns")).then(pl.col("delta").cast(pl.Float64))
    share = whole.otherwise(pl.col("delta") * (pl.col("inside_ns") / pl.col("length_ns")))
    return cut.with_columns(share.alias("part"))


def _sums(cut: pl.DataFrame) -> pl.DataFrame:
    """Growth and known time of each counter in the window, as text columns."""
    known = pl.col("delta").is_not_null()
    grouped = (
        cut.filter(known)
        .group_by("device", "port", "queue", "direction", "metric")
        .agg(pl.col("part").sum(), pl.col("inside_ns").sum().alias("known_ns"))
    )
    return grouped.with_columns(pl.col("device", "port", "queue", "direction", "metric").cast(pl.String))


def _directions(sums: pl.DataFrame) -> pl.DataFrame:
    """The rows of the result: rx and tx where anything directed was counted, else none."""
    seen = sums.select(_PORT).unique()
    directed = seen.filter(pl.col("direction") != "none")
    rest = seen.filter(pl.col("direction") == "none").join(directed, on=["device", "port"], how="anti")
    return pl.concat([directed, rest]).sort(_PORT)


def _whole_port(sums: pl.DataFrame, metric: str) -> pl.DataFrame:
    """A metric of whole ports: the port's own counter, or the sum of its queues where it has none."""
    rows = sums.filter(pl.col("metric") == metric)
    own = rows.filter(pl.col("queue").is_null()).select(*_PORT, "part", "known_ns")
    queues = rows.filter(pl.col("queue").is_not_null()).join(own, on=list(_PORT), how="anti")
    summed = queues.group_by(_PORT).agg(pl.col("part").sum(), pl.col("known_ns").max())
    return pl.concat([own, summed]).rename({"part": metric, "known_ns": f"{metric}_ns"})


def _utilisation(cut: pl.DataFrame, ports: pl.DataFrame, window_ns: int) -> pl.DataFrame:
    whole = cut.filter((pl.col("metric") == "bytes") & pl.col("queue").is_null())
    gap = pl.col("flags").is_in(_flagged(cut, "gap"))
    # Beyond the line's rate the unit or speed is wrong; such intervals say nothing about utilisation.
    fast = pl.col("flags").is_in(_flagged(cut, "above_line_rate"))
    known = pl.col("delta").is_not_null()
    grouped = whole.group_by(_PORT).agg(
        pl.col("part").filter(known).sum().alias("bytes"),
        pl.col("part").filter(known & ~fast).sum().alias("good"),
        pl.col("inside_ns").filter(known & ~fast).sum().alias("good_ns"),
        pl.col("inside_ns").filter(known).sum().alias("known_ns"),
        pl.col("utilization").filter(~gap).max().alias("utilization_peak"),
        pl.col("length_ns").filter(~gap).median().alias("resolution_ns"),
    )
    grouped = grouped.with_columns(pl.col(_PORT).cast(pl.String)).join(
        ports.select("device", "port", "speed_gbps"), on=["device", "port"], how="left"
    )
    measured = pl.col("good_ns") > 0
    return grouped.select(
        *_PORT,
        pl.when(pl.col("known_ns") > 0).then(pl.col("bytes").round()).cast(pl.Int64).alias("bytes"),
        (pl.col("known_ns") / window_ns).clip(0, 1).alias("coverage"),
        pl.when(measured).then(pl.col("good") * 8 / (pl.col("good_ns") * pl.col("speed_gbps"))).alias("utilization_mean"),
        "utilization_peak",
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
    rows = sums.filter(pl.col("metric").is_in(("pause_us", "pause_quanta", "pause_frames"))).join(
        ports.select("device", "port", "speed_gbps"), on=["device", "port"], how="left"
    )
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
    marks = sums.filter(pl.col("metric") == "ecn_marked").select(*keys, pl.col("part").alias("marked"))
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


def _communication(cut: pl.DataFrame, ports: pl.DataFrame, comm_windows: pl.DataFrame | None) -> pl.DataFrame:
    """Mean utilisation over communication time: bytes of the polls in which ranks communicated, over that time."""
    if comm_windows is None or comm_windows.is_empty():
        return pl.DataFrame(schema={**dict.fromkeys(_PORT, pl.String), "utilization_comm": pl.Float64})
    windows = comm_windows.sort("start_ns")
    # Communication time before an instant is a step function; its difference over a poll is the overlap.
    before = (windows["end_ns"] - windows["start_ns"]).cum_sum().shift(1, fill_value=0).to_numpy()
    starts, ends = windows["start_ns"].to_numpy(), windows["end_ns"].to_numpy()
    whole = cut.filter((pl.col("metric") == "bytes") & pl.col("queue").is_null() & pl.col("delta").is_not_null())

    def elapsed(times: pl.Series) -> pl.Series:
        at = times.to_numpy()
        index = starts.searchsorted(at, "right") - 1
        inside = before[index.clip(0)] + (at.clip(max=ends[index.clip(0)]) - starts[index.clip(0)])
        return pl.Series(inside * (index >= 0))

    overlap = elapsed(whole["t1_ns"]) - elapsed(whole["t0_ns"])
    used = whole.with_columns(overlap.alias("comm_ns")).filter(pl.col("comm_ns") >= _COMM_SHARE * pl.col("length_ns"))
    grouped = used.group_by(_PORT).agg(pl.col("delta").sum(), pl.col("comm_ns").sum()).with_columns(pl.col(_PORT).cast(pl.String))
    grouped = grouped.join(ports.select("device", "port", "speed_gbps"), on=["device", "port"], how="left")
    return grouped.select(*_PORT, (pl.col("delta") * 8 / (pl.col("comm_ns") * pl.col("speed_gbps"))).clip(0, 1).alias("utilization_comm"))
