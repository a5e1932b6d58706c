"""Where the time went: pure functions from aligned tables to figures."""

from netlab.attribute.arrivals import instance_rows, instances, p2p_rows
from netlab.attribute.bandwidth import Roofline, bus_factor, collective_rows, fits, tails, with_bandwidth
from netlab.attribute.breakdown import breakdown, spans
from netlab.attribute.groups import exposed_members, group_rows, rooflines, traffic
from netlab.attribute.pool import pool, pooled_rows

__all__ = [
    "Roofline",
    "breakdown",
    "bus_factor",
    "collective_rows",
    "exposed_members",
    "fits",
    "group_rows",
    "instance_rows",
    "instances",
    "p2p_rows",
    "pool",
    "pooled_rows",
    "rooflines",
    "spans",
    "tails",
    "traffic",
    "with_bandwidth",
]
