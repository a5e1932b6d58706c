"""Charts: one result frame in, one Altair chart out. ``enable()`` makes them show in JupyterLab without a network.

The names below load on first use, because Altair takes a second.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netlab.figures.accused import accused_link, accused_link_frame
    from netlab.figures.beside import ranks_beside, ranks_beside_frame, steps_beside, steps_beside_frame
    from netlab.figures.beside_collectives import collectives_beside, collectives_beside_frame
    from netlab.figures.clocks import clock_frame, clock_quality
    from netlab.figures.collectives import bus_bandwidth, bus_bandwidth_frame, tails_frame, transfer_tails
    from netlab.figures.communicators import communicator_map, communicator_map_frame
    from netlab.figures.comparison import change_of_parts, changes_frame
    from netlab.figures.counting import (
        class_shares,
        class_shares_frame,
        course_frame,
        course_title,
        coverage_frame,
        coverage_title,
        traffic_frame,
        traffic_title,
    )
    from netlab.figures.explorer import rank_step_explorer
    from netlab.figures.fabric import fabric_frame, fabric_picture
    from netlab.figures.frames import rows_frame
    from netlab.figures.gantt import gantt_frame, worst_step, worst_step_gantt
    from netlab.figures.link_time_frames import collective_band_frame, link_use_over_time_frame, step_band_frame
    from netlab.figures.link_times import link_use_over_time
    from netlab.figures.links import link_use, link_use_frame
    from netlab.figures.nccl import error_timeline, error_timeline_frame, nic_use, nic_use_frame
    from netlab.figures.operations import compute_frame, compute_map
    from netlab.figures.outlook import best_scenario, scenario_frame
    from netlab.figures.parts import attribution
    from netlab.figures.renderer import compile_vega, enable
    from netlab.figures.scenarios import scenario_chart
    from netlab.figures.shares import share_per_step
    from netlab.figures.strip import heat_strip, strip_frame
    from netlab.figures.tornado import tornado
    from netlab.figures.trend import cluster_days, over_time
    from netlab.figures.waiting import pairs_frame, rank_pairs, waiting_frame, waiting_matrix

_HOMES = {
    "accused_link": "accused",
    "accused_link_frame": "accused",
    "attribution": "parts",
    "best_scenario": "outlook",
    "bus_bandwidth": "collectives",
    "bus_bandwidth_frame": "collectives",
    "change_of_parts": "comparison",
    "changes_frame": "comparison",
    "class_shares": "counting",
    "class_shares_frame": "counting",
    "clock_frame": "clocks",
    "clock_quality": "clocks",
    "cluster_days": "trend",
    "collective_band_frame": "link_time_frames",
    "collectives_beside": "beside_collectives",
    "collectives_beside_frame": "beside_collectives",
    "communicator_map": "communicators",
    "communicator_map_frame": "communicators",
    "compile_vega": "renderer",
    "compute_frame": "operations",
    "compute_map": "operations",
    "course_frame": "counting",
    "course_title": "counting",
    "coverage_frame": "counting",
    "coverage_title": "counting",
    "enable": "renderer",
    "error_timeline": "nccl",
    "error_timeline_frame": "nccl",
    "fabric_frame": "fabric",
    "fabric_picture": "fabric",
    "gantt_frame": "gantt",
    "heat_strip": "strip",
    "link_use": "links",
    "link_use_frame": "links",
    "link_use_over_time": "link_times",
    "link_use_over_time_frame": "link_time_frames",
    "nic_use": "nccl",
    "nic_use_frame": "nccl",
    "over_time": "trend",
    "pairs_frame": "waiting",
    "rank_pairs": "waiting",
    "rank_step_explorer": "explorer",
    "ranks_beside": "beside",
    "ranks_beside_frame": "beside",
    "rows_frame": "frames",
    "scenario_chart": "scenarios",
    "scenario_frame": "outlook",
    "share_per_step": "shares",
    "step_band_frame": "link_time_frames",
    "steps_beside": "beside",
    "steps_beside_frame": "beside",
    "strip_frame": "strip",
    "tails_frame": "collectives",
    "tornado": "tornado",
    "traffic_frame": "counting",
    "traffic_title": "counting",
    "transfer_tails": "collectives",
    "waiting_frame": "waiting",
    "waiting_matrix": "waiting",
    "worst_step": "gantt",
    "worst_step_gantt": "gantt",
}

__all__ = [
    "accused_link",
    "accused_link_frame",
    "attribution",
    "best_scenario",
    "bus_bandwidth",
    "bus_bandwidth_frame",
    "change_of_parts",
    "changes_frame",
    "class_shares",
    "class_shares_frame",
    "clock_frame",
    "clock_quality",
    "cluster_days",
    "collective_band_frame",
    "collectives_beside",
    "collectives_beside_frame",
    "communicator_map",
    "communicator_map_frame",
    "compile_vega",
    "compute_frame",
    "compute_map",
    "course_frame",
    "course_title",
    "coverage_frame",
    "coverage_title",
    "enable",
    "error_timeline",
    "error_timeline_frame",
    "fabric_frame",
    "fabric_picture",
    "gantt_frame",
    "heat_strip",
    "link_use",
    "link_use_frame",
    "link_use_over_time",
    "link_use_over_time_frame",
    "nic_use",
    "nic_use_frame",
    "over_time",
    "pairs_frame",
    "rank_pairs",
    "rank_step_explorer",
    "ranks_beside",
    "ranks_beside_frame",
    "rows_frame",
    "scenario_chart",
    "scenario_frame",
    "share_per_step",
    "step_band_frame",
    "steps_beside",
    "steps_beside_frame",
    "strip_frame",
    "tails_frame",
    "tornado",
    "traffic_frame",
    "traffic_title",
    "transfer_tails",
    "waiting_frame",
    "waiting_matrix",
    "worst_step",
    "worst_step_gantt",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'netlab.figures' has no attribute {name!r}")
    return getattr(importlib.import_module(f"netlab.figures.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
