"""Replies of the Prometheus HTTP API: range queries, instant queries and raw range selectors (Thanos, Mimir, VictoriaMetrics alike)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.counters.files import text_of
from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.names import ALL_TABLES
from netlab.readers.counters.owners import VARIABLE_MAP, direction_of, owner_of
from netlab.readers.counters.series import Points, Series, merged
from netlab.readers.counters.texts import parse_instant
from netlab.units import plural

__all__ = ["VARIABLE_MAP", "PrometheusJson"]


_Counter = tuple[str | None, str, str | None, str | None, str]


class PrometheusJson(GatheringReader):
    """``{"status": ..., "data": {"resultType": "matrix" | "vector", "result": [...]}}``.

    Times of a range query lie on its grid, not where the target was scraped, and a missed scrape is filled with the last value: such
    samples carry ``ts_source`` query_grid. The raw selector (``metric[20m]`` as instant query) has true scrape times and is better.
    """

    name = "prometheus_json"
    tables = ALL_TABLES

    def sniff(self, head: bytes, path: Path) -> bool:
        """The envelope of the API."""
        start = head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
        return start.startswith(b"{") and b'"status"' in start and (b'"resultType"' in start or b'"errorType"' in start)

    def gather(self, found: Gathered) -> None:
        """All series that say which counter they are."""
        document = _document(found)
        unnamed = 0
        self._grid = _on_grid(series for series in document)
        indexes: dict[tuple[str | None, str], set[str]] = {}
        counters: dict[_Counter, list[Series]] = {}
        for series in document:
            labels = {str(key): str(value) for key, value in series.get("metric", {}).items()}
            name = labels.get("__name__")
            values = series.get("values") or ([series["value"]] if "value" in series else [])
            if name is None:
                unnamed += 1
                continue
            device, port, queue = owner_of(labels)
            if "ifIndex" in labels:
                indexes.setdefault((device, labels["ifIndex"]), set()).add(port)
            points = []
            for at, value in values:
                instant = parse_instant(str(at))
                if instant is None:
                    found.unparsed += 1
                else:
                    points.append((instant.ns, value))
            counters.setdefault((device, port, queue, direction_of(labels), name), []).append(
                Series(labels, sorted(points, key=itemgetter(0)))
            )
        for (device, port, queue, way, name), points in _once(counters, found).items():
            for at_ns, value in points:
                found.add(port, name, value, device=device, queue=queue, direction=way, ts_ns=at_ns)
        if unnamed and not found.rows:
            raise ParseError(
                f"NO_SERIES: {found.source}: its {unnamed} series have no metric name: they are results of an expression "
                "(a rate, a ratio), "
                "averaged by the server over windows that nobody can tell; export the raw counter, best as metric[20m]."
            )
        if unnamed:
            message = (
                f"{found.source}: {unnamed} series without a metric name (results of an expression) were left out; export raw counters."
            )
            found.issues.append(Issue(code="NO_SERIES", source=found.source, message=message))
        for (device, index), names in sorted(indexes.items(), key=str):
            if len(names) > 1:
                message = f"{device}: interface index {index} was {' and then '.join(sorted(names))}; the ports are kept apart."
                found.issues.append(Issue(code="PORT_RENAMED", source=found.source, message=message))

    def _ts_source(self, found: Gathered) -> str | None:
        return "query_grid" if self._grid else "exporter"


def _once(counters: dict[_Counter, list[Series]], found: Gathered) -> dict[_Counter, Points]:
    """One series for each counter of a port, and what was left out or added up for it."""
    kept: dict[_Counter, Points] = {}
    dropped: list[str] = []
    added: dict[tuple[str, ...], int] = {}
    for counter, several in counters.items():
        whole = merged(counter[4], several)
        kept[counter] = whole.points
        dropped += [f"{counter[0] or found.path.stem}/{counter[1]} {counter[4]}"] * whole.dropped
        if whole.parts:
            added[whole.parts] = added.get(whole.parts, 0) + 1
    if dropped:
        message = (
            f"{found.source}: {len(dropped)} series count what another one counts at the same time (first: {dropped[0]}; replicas, or two "
            "jobs); the one with most samples was kept."
        )
        found.issues.append(Issue(code="DUPLICATE_SAMPLE", severity="info", source=found.source, message=message))
    for labels, count in added.items():
        message = f"{found.source}: {plural(count, 'counter')} came in parts by {' and '.join(labels)}; the parts were added up."
        found.issues.append(Issue(code="PARTS_ADDED", severity="info", source=found.source, message=message))
    return kept


def _document(found: Gathered) -> list[dict[str, Any]]:
    """The series of a reply.

    Raises
    ------
    ParseError
        If the reply is an error, has no series, or a type without series.
    """
    try:
        # Numbers stay text: a float would round both instants and counters.
        reply = json.loads(text_of(found.path), parse_float=str, parse_int=str)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ParseError(f"TRUNCATED_JSON: {found.source} is no complete JSON ({error}); run the query again.") from error
    if reply.get("status") != "success":
        raise ParseError(
            f"QUERY_ERROR: {found.source} is the error answer of a query ({reply.get('errorType')}: "
            f"{reply.get('error')}); correct the query and run it again."
        )
    for warning in reply.get("warnings") or []:
        found.issues.append(Issue(code="QUERY_ERROR", source=found.source, message=f"{found.source}: the server warns: {warning}."))
    data = reply.get("data") or {}
    result = data.get("result")
    if data.get("resultType") not in ("matrix", "vector") or not result:
        raise ParseError(f"NO_SERIES: {found.source}: the query returned no series; check metric name, labels and time range.")
    return [series for series in result if isinstance(series, dict)]


def _on_grid(document: Iterable[dict[str, Any]]) -> bool:
    """Whether all times are whole seconds on one grid: then they are the query's, not the scrapes'."""
    times: set[str] = set()
    for series in document:
        times.update(str(at) for at, _ in series.get("values", ()))
    if len(times) < 3 or any("." in at and at.split(".")[1].strip("0") for at in times):
        return False
    seconds = sorted(int(at.split(".")[0]) for at in times)
    step = min(b - a for a, b in pairwise(seconds))
    return all((at - seconds[0]) % step == 0 for at in seconds)
