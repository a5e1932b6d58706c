"""Readers of what NCCL itself says: debug logs, flight recorder, inspector, profiler plugin, RAS, nccl-tests, topology and graph files."""

from __future__ import annotations

from netlab.readers.base import Reader
from netlab.readers.nccl.flight import FlightReader
from netlab.readers.nccl.log import LogReader

__all__ = ["READERS"]

READERS: tuple[Reader, ...] = (FlightReader(), LogReader())
