"""What the rules about links look at: measures by link, growth of every counter in the window, ports and cables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from netlab.run import Run
from netlab.topology import Fabric, fabric_of

__all__ = ["Growth", "LinkFacts", "link_facts", "name_of"]

Port = tuple[str, str]
_LOGICAL = ("lag", "vlan", "mgmt")
_BIN = "fec_codewords_s"
_SERIES = ("device", "port", "queue", "direction", "metric")


@dataclass(frozen=True)
class Growth:
    """Growth of one counter in the window, the time for which it is known, and whether its last interval still grew."""

    queue: str | None
    direction: str
    metric: str
    total: float
    known_ns: int
    last_share: float


@dataclass(frozen=True)
class LinkFacts:
    """Rows of ``links``, growth by port, rows of ``ports`` and the fabric they form. ``has_steps``: traces show what the job did."""

    links: tuple[dict[str, Any], ...]
    growth: dict[Port, tuple[Growth, ...]]
    ports: dict[Port, dict[str, Any]]
    fabric: Fabric
    has_steps: bool
    window_s: float
    #: Ports whose state changed from up to down between two samples: how often, and whether the last sample has them down.
    seen_down: dict[Port, tuple[int, bool]]

    def of(self, device: str, port: str, *metrics: str, direction: str | None = None) -> Iterator[Growth]:
        """Growth of some counters of a port."""
        for growth in self.growth.get((device, port), ()):
            if growth.metric in metrics and (direction is None or growth.direction == direction):
                yield growth

    def total(self, device: str, port: str, *metrics: str, direction: str | None = None) -> float | None:
        """Their sum over metrics, the port's own counter before those of its queues; None if none is counted."""
        rows = list(self.of(device, port, *metrics, direction=direction))
        whole = [row.total for row in rows if row.queue is None]
        parts = whole or [row.total for row in rows]
        return sum(parts) if parts else None

    def fec_tail(self, device: str, port: str) -> int | None:
        """Most symbol errors that a codeword had in the window, by the histogram of error correction; None if there is none."""
        bins = (growth for growth in self.growth.get((device, port), ()) if growth.metric.startswith(_BIN) and growth.total > 0)
        return max((int(growth.metric.removeprefix(_BIN)) for growth in bins), default=None)

    def peer(self, device: str, port: str) -> Port | None:
        """The other end of a port's cable."""
        row = self.ports.get((device, port), {})
        return (row["peer_device"], row["peer_port"]) if row.get("peer_device") and row.get("peer_port") else None

    def host_behind(self, device: str, port: str) -> str | None:
        """The host that a port belongs to or is cabled to."""
        row = self.ports.get((device, port), {})
        if row.get("role") == "hca":
            return str(row.get("host") or device)
        return None if row.get("host") is None else str(row["host"])


def name_of(port: Port) -> str:
    """``device/port``, as subjects name ports.

    >>> name_of(("leaf1", "Ethernet0"))
    'leaf1/Ethernet0'
    """
    return f"{port[0]}/{port[1]}"


def link_facts(run: Run) -> LinkFacts:
    """Gather the facts from a run's tables ``links``, ``link_intervals`` and ``ports``."""
    links = run.frame("links")
    ports = {(row["device"], row["port"]): row for row in run.frame("ports").iter_rows(named=True)}
    growth: dict[Port, list[Growth]] = {}
    window_s = 0.0
    if not links.is_empty():
        start, end = int(links["window_start_ns"][0]), int(links["window_end_ns"][0])
        window_s = (end - start) / 1e9
        keys = links.select(pl.col("device", "port").cast(pl.Categorical)).unique()
        inside = pl.min_horizontal("t1_ns", pl.lit(end)) - pl.max_horizontal("t0_ns", pl.lit(start))
        rows = (
            run.lazy("link_intervals")
            .join(keys.lazy(), on=["device", "port"], how="semi")
            .with_columns(inside.alias("inside_ns"), (pl.col("t1_ns") - pl.col("t0_ns")).alias("length_ns"))
            .filter((pl.col("inside_ns") > 0) & pl.col("delta").is_not_null())
            .with_columns((pl.col("delta") * (pl.col("inside_ns") / pl.col("length_ns"))).alias("part"))
            .group_by(_SERIES)
            .agg(
                pl.col("part").sum().alias("total"),
                pl.col("inside_ns").sum().alias("known_ns"),
                (pl.col("rate_per_s").sort_by("t0_ns").last() / 1e6).alias("last_share"),
            )
            .with_columns(pl.col(_SERIES).cast(pl.String))
            .sort(_SERIES)
            .collect()
        )
        for row in rows.iter_rows(named=True):
            item = Growth(row["queue"], row["direction"], row["metric"], row["total"], row["known_ns"], row["last_share"] or 0.0)
            growth.setdefault((row["device"], row["port"]), []).append(item)
    return LinkFacts(
        links=tuple(links.iter_rows(named=True)),
        growth={port: tuple(items) for port, items in growth.items()},
        ports=ports,
        fabric=fabric_of(run.frame("ports")),
        has_steps=not run.frame("steps").is_empty(),
        window_s=window_s,
        seen_down=_seen_down(run, ports, None if links.is_empty() else (start, end)),
    )


def _seen_down(run: Run, ports: dict[Port, dict[str, Any]], window: tuple[int, int] | None) -> dict[Port, tuple[int, bool]]:
    """Falls of the operational state in the window, as far as the polls show them; a port that is never up is not in use."""
    state = run.lazy("counters").filter((pl.col("metric") == "oper_up") & pl.col("ts_ns").is_not_null() & pl.col("value").is_not_null())
    if window is not None:
        state = state.filter(pl.col("ts_ns").is_between(*window))
    up = (pl.col("value") > 0).sort_by("ts_ns")
    falls = (up.shift(1) & ~up).sum()
    rows = state.group_by("device", "port").agg(falls.alias("falls"), (~up).last().alias("down")).filter(pl.col("falls") > 0)
    named = rows.with_columns(pl.col("device", "port").cast(pl.String)).collect()
    return {
        (device, port): (count, down)
        for device, port, count, down in named.iter_rows()
        if ports.get((device, port), {}).get("role") not in _LOGICAL
    }
