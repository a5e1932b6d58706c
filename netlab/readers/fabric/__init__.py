"""Readers of topology: which port is cabled to which, and where the ranks are."""

from __future__ import annotations

from netlab.readers.base import Reader
from netlab.readers.fabric.tables import LinksCsv, PortsCsv, RanksCsv

__all__ = ["READERS"]

READERS: tuple[Reader, ...] = (PortsCsv(), LinksCsv(), RanksCsv())
