"""Several Prometheus series of one counter: replicas of a server, parts of a whole, or one exporter before and after its restart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from netlab.readers.counters.meaning import first_meaning
from netlab.readers.counters.names import ALL_TABLES

__all__ = ["Merged", "Points", "Series", "merged"]

Points = list[tuple[int, Any]]

#: Labels that say who scraped or where the exporter runs, without joints and case: series that differ in them alone count the same thing.
_SCRAPED = frozenset(
    (
        *("job", "exportedjob", "instance", "exportedinstance", "replica", "prometheus", "prometheusreplica", "monitor", "receive"),
        *("tenantid", "pod", "podname", "container", "namespace", "service", "endpoint", "uid", "cluster"),
    )
)
#: A series of which more than this share lies within another's time is a second view of it, less is what a query filled in at a restart.
_SAME_TIME = 0.5


class Series(NamedTuple):
    """Labels, and (instant in ns, value as text) in the order of time."""

    labels: Mapping[str, str]
    points: Points


class Merged(NamedTuple):
    """One series for a counter; how many others count the same at the same time, and the labels by which it came in parts."""

    points: Points
    dropped: int
    parts: tuple[str, ...]


def merged(name: str, several: Sequence[Series]) -> Merged:
    """One series of a counter.

    Replicas were scraped at different moments, so on one grid their values differ; mixed they would contradict each other: the one with
    most samples is kept. Parts (a label for lane, type or reason; by Prometheus' rules a sum over labels has a meaning) are added at the
    instants that all of them have. Series that follow one another are one.

    Examples
    --------
    >>> lanes = [Series({"lane": lane}, [(0, "1"), (10, value)]) for lane, value in (("0", "4"), ("1", "7"))]
    >>> merged("symbol_errors", lanes)
    Merged(points=[(0, '2'), (10, '11')], dropped=0, parts=('lane',))
    """
    known = [series for series in several if series.points]
    labels = _differing(known)
    parts: dict[tuple[str | None, ...], list[Points]] = {}
    for series in known:
        parts.setdefault(tuple(series.labels.get(label) for label in labels), []).append(series.points)
    single = [_one_after_another(points) for points in parts.values()]
    dropped = sum(count for _, count in single)
    whole = [points for points, _ in single]
    joined, apart = _one_after_another(whole)
    if not apart:
        return Merged(joined, dropped, ())
    meaning = first_meaning(ALL_TABLES, name)
    total = _sum(whole) if meaning is not None and meaning.kind == "counter" else []
    # Parts that were not polled together, or of which one is there for a while only, have no sum.
    if len(total) < _SAME_TIME * max(map(len, whole)):
        return Merged(joined, dropped + apart, ())
    return Merged(total, dropped, labels)


def _differing(several: Sequence[Series]) -> tuple[str, ...]:
    """Labels that are not the same in all series, without those of the scrape."""
    labels = {label for series in several for label in series.labels}
    return tuple(sorted(label for label in labels if _plain(label) not in _SCRAPED and len({s.labels.get(label) for s in several}) > 1))


def _plain(label: str) -> str:
    return label.lower().replace("_", "").replace("-", "")


def _one_after_another(several: Sequence[Points]) -> tuple[Points, int]:
    """Series that follow one another as one, those that run beside another left out, and how many these are."""
    kept: list[Points] = []
    beside = 0
    for points in sorted(several, key=len, reverse=True):
        free = [point for point in points if not any(other[0][0] <= point[0] <= other[-1][0] for other in kept)]
        if len(free) < (1 - _SAME_TIME) * len(points):
            beside += 1
        else:
            kept.append(free)
    return sorted((point for points in kept for point in points), key=itemgetter(0)), beside


def _sum(parts: Sequence[Points]) -> Points:
    """The sum of the parts at the instants that all have and where all are numbers.

    Where a part falls (it was set to zero), the others start from there, too, so that the sum falls with it and is seen to be reset.
    """
    values = [{at: number for at, text in points if (number := _number(text)) is not None} for points in parts]
    zeros: list[int | float] = [0] * len(parts)
    base, last, total = zeros, zeros, list[tuple[int, Any]]()
    for at in sorted(set.intersection(*(set(part) for part in values))):
        now = [part[at] for part in values]
        fell = [new < old for new, old in zip(now, last, strict=True)]
        if any(fell):
            base = [0 if down else old for down, old in zip(fell, last, strict=True)]
        total.append((at, str(sum(new - start for new, start in zip(now, base, strict=True)))))
        last = now
    return total


def _number(text: Any) -> int | float | None:
    word = str(text)
    if word.isdigit():
        return int(word)
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
