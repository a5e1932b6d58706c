"""Prometheus text exposition and OpenMetrics: scrapes, textfiles and backfill files.

prometheus-client's parser turns every value into a float and stops at the first line that breaks OpenMetrics' order; counters above 2^53
would be rounded and half-good files lost. The line grammar is short enough to read exactly (Prometheus exposition formats, version 0.0.4;
OpenMetrics 1.0).
"""

from __future__ import annotations

import re
from pathlib import Path

from netlab.readers.counters.files import text_of
from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.meaning import first_meaning
from netlab.readers.counters.names import ALL_TABLES
from netlab.readers.counters.owners import VARIABLE_MAP, direction_of, owner_of
from netlab.readers.counters.texts import parse_instant

__all__ = ["VARIABLE_MAP", "Exposition"]

_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+([\d.]+))?(?:\s+#.*)?")
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
_FAMILY = re.compile(r"(?:node_infiniband|node_network|node_ethtool|infiniband|hca|snmp|if|dot3|cpfc|DCGM_FI|interface|sonic)_?[A-Za-z]")
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def _labels(text: str | None) -> dict[str, str]:
    return {key: re.sub(r"\\.", lambda m: _ESCAPES.get(m[0], m[0]), value) for key, value in _LABEL.findall(text or "")}


class Exposition(GatheringReader):
    """``name{labels} value [time]``: integer milliseconds or float seconds.

    Without times one scrape is one instant, that of its file name.
    """

    name = "prometheus_text"
    tables = ALL_TABLES
    ts_source = "exporter"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Metric lines, most of the first ones well formed, with a type line or a known counter."""
        lines = [
            line for line in head[:16_384].decode("utf-8", "replace").splitlines()[:-1] or [head.decode("utf-8", "replace")] if line.strip()
        ]
        typed = any(line.startswith(("# TYPE ", "# HELP ")) for line in lines)
        plain = [line for line in lines if not line.startswith("#")][:20]
        fitting = [match for line in plain if (match := _LINE.fullmatch(line.strip()))]
        if not fitting or len(fitting) < 0.8 * len(plain):
            return False
        return typed or any(match[2] and first_meaning(ALL_TABLES, match[1]) for match in fitting)

    def gather(self, found: Gathered) -> None:
        """Every metric of a port; others (CPU, memory) are none of our business and are left out silently."""
        for number, line in enumerate(text_of(found.path).splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line.strip())
            if match is None:
                found.lost(number, f"{line[:40]!r} is no metric")
                continue
            name = match[1]
            meaning = first_meaning(ALL_TABLES, name)
            if meaning is None and not _FAMILY.match(name):
                continue
            instant = parse_instant(match[4]) if match[4] else None
            labels = _labels(match[2])
            device, port, queue = owner_of(labels)
            if name.endswith("_info") or (not port and meaning is None):
                continue
            at = instant.ns if instant else None
            found.add(port, name, match[3], device=device, queue=queue, direction=direction_of(labels), ts_ns=at)
