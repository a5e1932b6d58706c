"""Tables of network counters: raw cumulative samples, rates per interval, ports and cables."""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = ["COUNTERS", "COUNTER_TABLES", "LINKS", "LINK_INTERVALS", "PORTS"]

COUNTERS = Table(
    name="counters",
    doc="Raw samples as a device gave them: cumulative, in canonical units.",
    key=("device", "port", "queue", "direction", "metric", "ts_ns"),
    unique=False,
    columns=(
        Column(
            "ts_ns",
            pl.Int64,
            "Instant of the sample, Unix epoch; null where the format has no time (a single snapshot).",
            unit="ns",
            nullable=True,
        ),
        Column("device", pl.String, "Switch or host."),
        Column("port", pl.String, "Port or NIC."),
        Column("queue", pl.String, "Queue, priority or traffic class.", nullable=True),
        Column("direction", pl.String, "rx, tx or none; the owner's direction."),
        Column("metric", pl.String, "Canonical name, or the vendor's own."),
        Column("kind", pl.String, "counter, gauge, rate or watermark."),
        Column("value", pl.Float64, "Value in canonical units where it does not fit an integer.", nullable=True),
        Column("value_int", pl.Int64, "Exact integer value in canonical units.", nullable=True),
        Column("width_bits", pl.Int32, "Width of the counter.", nullable=True),
        Column("flags", pl.String, "Comma-separated flags (scaled_x4, clock_naive, ...); empty if none."),
        Column("raw_name", pl.String, "The vendor's name."),
        Column("source", pl.String, "File.", refers_to="sources.path"),
    ),
)

LINK_INTERVALS = Table(
    name="link_intervals",
    doc="Differences of successive samples of one counter.",
    key=("device", "port", "queue", "direction", "metric", "t0_ns"),
    unique=False,
    columns=(
        Column("t0_ns", pl.Int64, "Start of the interval.", unit="ns"),
        Column("t1_ns", pl.Int64, "End of the interval.", unit="ns"),
        Column("device", pl.String, "Switch or host."),
        Column("port", pl.String, "Port or NIC."),
        Column("queue", pl.String, "Queue or priority.", nullable=True),
        Column("direction", pl.String, "rx, tx or none."),
        Column("metric", pl.String, "Canonical name, or the vendor's own."),
        Column(
            "delta",
            pl.Int64,
            "Growth; null after a reset, an ambiguous wrap, saturation or conflicting duplicates.",
            nullable=True,
        ),
        Column("rate_per_s", pl.Float64, "Growth per second.", nullable=True),
        Column("utilization", pl.Float64, "Share of the port's speed; bytes only.", nullable=True),
        Column("flags", pl.String, "Comma-separated flags; empty if none."),
    ),
)

PORTS = Table(
    name="ports",
    doc="Ports of switches and NICs.",
    key=("device", "port"),
    columns=(
        Column("device", pl.String, "Switch or host."),
        Column("port", pl.String, "Port or NIC."),
        Column("speed_gbps", pl.Float64, "Speed of one direction.", unit="Gbit/s", nullable=True),
        Column("role", pl.String, "host, up, down, peer, hca, lag, vlan or mgmt.", nullable=True),
        Column("lag", pl.String, "LAG that the port belongs to.", nullable=True),
        Column("peer_device", pl.String, "Other end of the cable.", nullable=True),
        Column("peer_port", pl.String, "Port at the other end.", nullable=True),
        Column("rail", pl.String, "Rail.", nullable=True),
        Column("plane", pl.String, "Plane.", nullable=True),
        Column("host", pl.String, "Host behind the port.", nullable=True),
        Column("nic", pl.String, "NIC behind the port.", nullable=True),
    ),
)

LINKS = Table(
    name="links",
    doc="Measures of each (port, direction) over the run's window.",
    key=("device", "port", "direction"),
    columns=(
        Column("device", pl.String, "Switch or host."),
        Column("port", pl.String, "Port or NIC."),
        Column("direction", pl.String, "rx or tx."),
        Column("role", pl.String, "Role of the port.", nullable=True),
        Column("coverage", pl.Float64, "Share of the window with a known rate.", nullable=True),
        Column("window", pl.String, "run (step times known) or samples."),
        Column("utilization_mean", pl.Float64, "Time-weighted mean utilisation.", nullable=True),
        Column("utilization_peak", pl.Float64, "Highest utilisation of one interval; never over a gap.", nullable=True),
        Column(
            "resolution_ms",
            pl.Float64,
            "Median interval between polls: what the peak cannot see below.",
            unit="ms",
            nullable=True,
        ),
        Column("loss_ratio", pl.Float64, "Discards and errors over packets.", nullable=True),
        Column("pause_ratio", pl.Float64, "Share of time paused.", nullable=True),
        Column("ecn_ratio", pl.Float64, "ECN-marked packets over packets.", nullable=True),
        Column("rail", pl.String, "Rail.", nullable=True),
        Column("peer", pl.String, "device/port at the other end.", nullable=True),
        Column("ranks", pl.List(pl.Int32), "Ranks whose traffic uses the port.", nullable=True),
        Column("localised", pl.String, "no, associated or localised."),
    ),
)

COUNTER_TABLES = (COUNTERS, LINK_INTERVALS, PORTS, LINKS)
