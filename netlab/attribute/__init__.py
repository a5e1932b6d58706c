"""Where the time went: pure functions from aligned tables to figures; `attribution` calls them in order."""

from netlab.attribute.arrivals import instance_rows, instances, p2p_rows
from netlab.attribute.attribution import Attribution, attribution
from netlab.attribute.bandwidth import bus_factor, collective_rows, fits, tails, with_bandwidth
from netlab.attribute.breakdown import breakdown, spans
from netlab.attribute.changes import change_points, step_series, warmup_steps
from netlab.attribute.delays import delayed_activities, delays, input_marks
from netlab.attribute.groups import exposed_members, group_rows, rooflines, traffic
from netlab.attribute.pool import pool, pooled_rows, unpooled
from netlab.attribute.slowdown import compute_slowdown
from netlab.attribute.stragglers import in_pool, straggler_rows, stragglers

__all__ = [
    "Attribution",
    "attribution",
    "breakdown",
    "bus_factor",
    "change_points",
    "collective_rows",
    "compute_slowdown",
    "delayed_activities",
    "delays",
    "exposed_members",
    "fits",
    "group_rows",
    "in_pool",
    "input_marks",
    "instance_rows",
    "instances",
    "p2p_rows",
    "pool",
    "pooled_rows",
    "rooflines",
    "spans",
    "step_series",
    "straggler_rows",
    "stragglers",
    "tails",
    "traffic",
    "unpooled",
    "warmup_steps",
    "with_bandwidth",
]
