"""CSV with one column per series, headed by its name in Prometheus (``ifHCInOctets{ifName="e0",instance="leaf1"}``): panels of Grafana.

A panel with legends of its own (``leaf1 e0 in``) does not say which counter a column is; such a file is not claimed.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from netlab.readers.counters.files import text_of
from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.names import ALL_TABLES
from netlab.readers.counters.owners import VARIABLE_MAP, direction_of, owner_of
from netlab.readers.counters.texts import parse_instant

__all__ = ["VARIABLE_MAP", "SeriesCsv"]

_SERIES = re.compile(r"([A-Za-z_:][\w:]*)\{(.*)\}")
_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_TIMES = ("time", "timestamp", "datetime", "ts")


def _separator(line: str) -> str:
    """What parts the cells; labels hold commas of their own, so the mark after the word for time counts."""
    match = re.match(r'\s*"?\w+"?\s*([,;\t])', line)
    return match[1] if match else ","


class SeriesCsv(GatheringReader):
    """A column of times and columns headed by series."""

    name = "series_csv"
    tables = ALL_TABLES
    ts_source = "query_grid"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A time and nothing but series."""
        lines = head.decode("utf-8-sig", "replace").splitlines()
        # Excel is told the separator in a line of its own.
        line = next((line for line in lines if line.strip() and not line.startswith(("#", "sep="))), "")
        cells = next(csv.reader([line], delimiter=_separator(line)), [])
        return len(cells) > 1 and cells[0].strip().lower() in _TIMES and all(_SERIES.fullmatch(cell.strip()) for cell in cells[1:])

    def gather(self, found: Gathered) -> None:
        """Every value under its series; empty cells are missing."""
        lines = [line for line in text_of(found.path).splitlines() if line.strip() and not line.startswith(("#", "sep="))]
        reader = csv.reader(lines, delimiter=_separator(lines[0]))
        series = [_SERIES.fullmatch(cell.strip()) for cell in next(reader)[1:]]
        labels = [dict(_LABEL.findall(match[2])) if match else {} for match in series]
        owners = [(*owner_of(own), direction_of(own)) for own in labels]
        for number, cells in enumerate(reader, 2):
            instant = parse_instant(cells[0])
            if instant is None:
                found.lost(number, f"{cells[0][:40]!r} is no time")
                continue
            flags = "clock_naive" if instant.naive else ""
            for match, (device, port, queue, way), value in zip(series, owners, cells[1:], strict=False):
                if match is not None:
                    cell = value.strip() or None
                    found.add(port, match[1], cell, device=device, queue=queue, direction=way, ts_ns=instant.ns, flags=flags)
