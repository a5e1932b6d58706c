"""Readers of switch, NIC and GPU counters, one module per format."""

from __future__ import annotations

from netlab.readers.base import Reader
from netlab.readers.counters.csv_files import PlainCsv

__all__ = ["READERS"]

READERS: tuple[Reader, ...] = (PlainCsv(),)
