"""Tables about traffic on links: by class, over time, against what the collectives should have sent, and how well it was counted."""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = ["COUNTER_COVERAGE", "HOST_TRAFFIC", "LINK_QUEUES", "LINK_TRAFFIC", "TRAFFIC_TABLES"]

_DEVICE = Column("device", pl.String, "Switch or host.")
_PORT = Column("port", pl.String, "Port or NIC.")
_DIRECTION = Column("direction", pl.String, "rx or tx; the owner's direction.")

LINK_QUEUES = Table(
    name="link_queues",
    doc="What each queue, priority or traffic class of a port carried in the window. Rings of a NIC's driver are no classes and left out.",
    key=("device", "port", "direction", "queue"),
    columns=(
        _DEVICE,
        _PORT,
        Column("direction", pl.String, "rx, tx or none; the owner's direction."),
        Column("queue", pl.String, "Queue as the source names it."),
        Column("traffic_class", pl.Int32, "Its number, which PFC priority and queue share; null if it has none.", nullable=True),
        Column("bytes", pl.Int64, "Bytes of the queue in the window.", unit="B", nullable=True),
        Column("share", pl.Float64, "Of the bytes that all queues of the port's direction carried.", nullable=True),
        Column("packets", pl.Int64, "Packets of the queue.", nullable=True),
        Column("discards", pl.Int64, "Packets that the queue discarded.", nullable=True),
        Column("loss_ratio", pl.Float64, "Discards over packets and discards.", nullable=True),
        Column("ecn_ratio", pl.Float64, "Marked packets over packets.", nullable=True),
        Column("pause_ratio", pl.Float64, "Share of time for which the priority was paused.", nullable=True),
        Column("pause_frames", pl.Int64, "Pause frames of the priority.", nullable=True),
        Column("watermark_bytes", pl.Float64, "Highest level that the queue's watermark shows.", unit="B", nullable=True),
        Column("watermark_us", pl.Float64, "The time in which the port sends so much.", unit="us", nullable=True),
        Column(
            "watermark_moved",
            pl.Boolean,
            "Whether the watermark changed between samples; one that stands was reached at an unknown time since it was cleared.",
            nullable=True,
        ),
    ),
)

LINK_TRAFFIC = Table(
    name="link_traffic",
    doc="The course of each link's byte rate, as far as its polls show it.",
    key=("device", "port", "direction"),
    columns=(
        _DEVICE,
        _PORT,
        _DIRECTION,
        Column("polls", pl.Int64, "Intervals with a known rate."),
        Column("poll_ms", pl.Float64, "Median length of an interval; what is shorter cannot be seen.", unit="ms"),
        Column(
            "period_ms",
            pl.Float64,
            "Time after which the traffic repeats itself; null if it does not, or faster than polled.",
            unit="ms",
            nullable=True,
        ),
        Column("period_strength", pl.Float64, "Autocorrelation at the period.", nullable=True),
        Column("step_ms", pl.Float64, "Median step of the run; null without traces.", unit="ms", nullable=True),
        Column("peak_to_mean", pl.Float64, "Highest rate of an interval over the mean rate.", nullable=True),
        Column("bursts", pl.Int64, "Stretches of intervals at more than twice the mean rate."),
        Column("longest_burst_ms", pl.Float64, "The longest of them.", unit="ms", nullable=True),
        Column("burst_bytes_share", pl.Float64, "Share of all bytes that moved in them.", nullable=True),
        Column("anomalies", pl.Int64, "Intervals whose rate leaves the course of its surroundings by far."),
        Column("anomaly_ns", pl.Int64, "Start of the one farthest off.", unit="ns", nullable=True),
        Column("anomaly_ratio", pl.Float64, "Its rate over the usual rate around it.", nullable=True),
    ),
)

HOST_TRAFFIC = Table(
    name="host_traffic",
    doc="Bytes that each host's network ports sent in the window against those that the traced collectives and messages ask for.",
    key=("host",),
    columns=(
        Column("host", pl.String, "Host."),
        Column("counted_bytes", pl.Int64, "Sent by its NICs, or received from it by the switch ports they hang on.", unit="B"),
        Column("counted_by", pl.String, "nic or switch: whose counters these are."),
        Column("ports", pl.Int32, "Ports summed."),
        Column("coverage", pl.Float64, "Smallest share of the window for which a port's rate is known."),
        Column(
            "header_bytes", pl.Int64, "Estimated headers in the counted bytes (62 a packet); null without packets.", unit="B", nullable=True
        ),
        Column("expected_low_bytes", pl.Int64, "If every collective crosses the network as rarely as it can (hierarchical).", unit="B"),
        Column("expected_high_bytes", pl.Int64, "If rings run through all ranks.", unit="B"),
        Column("complete", pl.Boolean, "Whether all ranks of the host were traced and all members' hosts are known; else more may be due."),
        Column("retransmits", pl.Int64, "Retransmissions and lost packets that the host's NICs counted.", nullable=True),
    ),
)

COUNTER_COVERAGE = Table(
    name="counter_coverage",
    doc="How well each device was counted: read this before any figure about its links.",
    key=("device",),
    columns=(
        _DEVICE,
        Column("ports", pl.Int32, "Physical ports with counters."),
        Column("ports_with_speed", pl.Int32, "Of these, ports whose speed is known."),
        Column("ports_cabled", pl.Int32, "Of these, ports whose other end is known."),
        Column("first_ns", pl.Int64, "First timed sample.", unit="ns", nullable=True),
        Column("last_ns", pl.Int64, "Last timed sample.", unit="ns", nullable=True),
        Column("poll_ms", pl.Float64, "Median interval between polls; null for a single reading.", unit="ms", nullable=True),
        Column("poll_p95_ms", pl.Float64, "95th percentile of the intervals.", unit="ms", nullable=True),
        Column("gaps", pl.Int64, "Holes longer than three polls."),
        Column("gap_share", pl.Float64, "Share of the time that lies in holes.", nullable=True),
        Column("resets", pl.Int64, "Instants at which counters began anew."),
        Column("stale_polls", pl.Int64, "Polls that repeated old values."),
        Column("unknown_share", pl.Float64, "Share of the intervals whose growth is unknown.", nullable=True),
        Column("single_readings", pl.Int64, "Counters that were read once: totals without rates."),
        Column("absent", pl.String, "Kinds of counters that no port of the device has."),
        Column("ts_source", pl.String, "Whose clock the times are.", nullable=True),
        Column("clock_offset_ms", pl.Float64, "How far its clock is ahead, from bytes against communication.", unit="ms", nullable=True),
        Column("clock_low_ms", pl.Float64, "Low end of the offset's range.", unit="ms", nullable=True),
        Column("clock_high_ms", pl.Float64, "High end of the offset's range.", unit="ms", nullable=True),
    ),
)

TRAFFIC_TABLES = (LINK_QUEUES, LINK_TRAFFIC, HOST_TRAFFIC, COUNTER_COVERAGE)
