"""Thresholds of timeline findings, each with its source."""

from __future__ import annotations

__all__ = [
    "EFFICIENCY_LOW",
    "HOST_COPY_SHARE",
    "IDLE_SHARE",
    "LARGE_MESSAGE_NS",
    "LINE_RATE_TOLERANCE",
    "OPEN_TRANSFER_SHARE",
    "OVERLAP_LOW",
    "OWN_DESIGN",
    "PEER_MESSAGE_BYTES",
    "P_VALUE",
    "WEIGHT_SHARE",
]

OWN_DESIGN = "netlab docs/methods.md"

#: Idle time with nothing queued above this share of the step: the host is the limit. DESIGN, cause (3).
IDLE_SHARE = 0.25
#: Copies between host and device above this share of a step. DESIGN, activity classes.
HOST_COPY_SHARE = 0.10
#: A straggler, a bubble, a slow pair or uncovered transfer below this share of pooled step time is not worth a finding. DESIGN, straggler.
WEIGHT_SHARE = 0.05
#: Family-wise level at which being last is no chance. DESIGN, straggler.
P_VALUE = 0.001
#: Transfer in the open that compute could cover, from which it is worth a finding; below it even a perfect overlap gains little.
OPEN_TRANSFER_SHARE = 0.15
#: Hidden part of transfer below which nothing overlaps to speak of.
OVERLAP_LOW = 0.10
#: Bus bandwidth below this part of what the link or its peers reach is low. nccl-tests reaches 80 to 95 % of the line rate on healthy
#: fabrics at large sizes; half of it leaves room for topology and protocol.
EFFICIENCY_LOW = 0.5
#: Only a message that needs this long at the line rate can be expected to fill it (16 MB at 400 Gbit/s); below, latency takes a growing
#: part and nccl-tests curves bend (doc/PERFORMANCE.md: "large sizes").
LARGE_MESSAGE_NS = 300_000
#: Between groups of one kind, which share their latency, messages from this size on are compared.
PEER_MESSAGE_BYTES = 1_000_000
#: A busbw may exceed the line rate by this much through the error of clocks and of rounded rates.
LINE_RATE_TOLERANCE = 1.02
