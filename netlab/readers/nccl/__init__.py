"""Readers of what NCCL itself says: debug logs, flight recorder, inspector, profiler plugin, RAS, nccl-tests, topology and graph files."""

from __future__ import annotations

from netlab.readers.base import Reader
from netlab.readers.nccl.flight import FlightReader
from netlab.readers.nccl.inspector import InspectorReader, InspectorTextReader
from netlab.readers.nccl.log import LogReader
from netlab.readers.nccl.profiler import ProfilerReader
from netlab.readers.nccl.ras import RasReader
from netlab.readers.nccl.speed_tests import SpeedTestReader
from netlab.readers.nccl.topology_xml import GraphXmlReader, TopologyXmlReader

__all__ = ["READERS"]

READERS: tuple[Reader, ...] = (
    TopologyXmlReader(),
    GraphXmlReader(),
    SpeedTestReader(),
    InspectorReader(),
    InspectorTextReader(),
    RasReader(),
    ProfilerReader(),
    FlightReader(),
    LogReader(),
)
