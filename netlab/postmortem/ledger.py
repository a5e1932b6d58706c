"""The ledger of a comparison: everything that differs between two runs, with the time it made of a step where that is known."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from netlab.postmortem.changes import LINK_CODES, Change
from netlab.postmortem.series import LAYERS, layer_means, part_means
from netlab.run import Run
from netlab.schema.comparison import COMPARED_CHANGES
from netlab.units import NS_PER_MS, format_ms, plural
from netlab.verdict.model import FindingRow, Verdict

__all__ = ["ledger"]

#: Part of a step to the area and the words under which people look for it.
_PARTS = {
    "compute": ("compute", "compute"),
    "exposed_wait": ("waiting", "exposed waiting for late ranks"),
    "exposed_memory": ("memory", "exposed copies and memsets"),
    "idle": ("host", "idle: the GPU waits for its host"),
}
_LAYERS = {
    "inter_node": "exposed transfer between hosts",
    "intra_node": "exposed transfer inside hosts",
    "unplaced": "exposed transfer, layer unknown",
}
_UNTOLD = "exposed communication, not told from waiting"
#: Differences of a mean step below this are left out: nobody acts on a microsecond.
_SMALLEST_NS = 1_000.0
#: Ports named in a line.
_PORTS = 4

_Row = tuple[str, str, str | None, str | None, float | None, bool]


def ledger(base: Run, base_verdict: Verdict, run: Run, verdict: Verdict, differences: Iterable[Change], cause: str) -> pl.DataFrame:
    """``COMPARED_CHANGES``: parts of the step, configuration and links that differ.

    Parts and layers add up to the change of the step, but for those below a microsecond.

    Parameters
    ----------
    base, base_verdict, run, verdict
        The two sides.
    differences
        Result of ``changes``.
    cause
        What the comparison names as the cause.
    """
    rows = [
        *_parts(base, run),
        *_layers(base, run, told=base_verdict.split != "unknown" and verdict.split != "unknown"),
        *(("configuration", change.title, change.base, change.run, None, cause in change.explains) for change in differences),
        *_links(base_verdict, verdict, cause),
    ]
    frame = pl.DataFrame(rows, schema=COMPARED_CHANGES.schema, orient="row")
    return COMPARED_CHANGES.conform(frame.unique(COMPARED_CHANGES.key, keep="first", maintain_order=True))


def _parts(base: Run, run: Run) -> list[_Row]:
    means = [part_means(side).select(pl.exclude("rank").mean()).row(0, named=True) for side in (base, run)]
    found = [_change(area, what, means[0][part], means[1][part]) for part, (area, what) in _PARTS.items()]
    old, new = (side["hidden_transfer"] for side in means)
    hidden = "transfer behind compute, which costs no time"
    if old is not None and new is not None and abs(new - old) * NS_PER_MS >= _SMALLEST_NS:
        found.append(("transfer", hidden, format_ms(old), format_ms(new), None, False))
    return [row for row in found if row is not None]


def _layers(base: Run, run: Run, *, told: bool) -> list[_Row]:
    old, new = layer_means(base), layer_means(run)
    words = _LAYERS if told else _LAYERS | {"unplaced": _UNTOLD}
    found = [_change("transfer", words[name], old[name], new[name]) for name in LAYERS]
    return [row for row in found if row is not None]


def _change(area: str, what: str, old: float | None, new: float | None) -> _Row | None:
    if old is None or new is None or abs(new - old) * NS_PER_MS < _SMALLEST_NS:
        return None
    return area, what, format_ms(old), format_ms(new), (new - old) * NS_PER_MS, False


def _links(base: Verdict, verdict: Verdict, cause: str) -> list[_Row]:
    """Findings about links that one of the two lacks, or has on more ports. The same fault of some of the same ports is one fault."""
    old, new = ([row for row in side.findings if row.code in LINK_CODES] for side in (base, verdict))
    found: list[_Row] = []
    for row in new:
        before = _ports(other for other in old if _same_fault(other, row))
        if before is None:
            found.append(("links", row.title, "not there", "found", _ns(row.time_lost_ms), cause == "fabric"))
        elif more := sorted(set(row.subject.ports) - before):
            found.append(
                (
                    "links",
                    f"{row.code} on more ports: {', '.join(more[:_PORTS])}",
                    plural(len(before), "port"),
                    plural(len(row.subject.ports), "port"),
                    None,
                    cause == "fabric",
                )
            )
    for row in old:
        if not any(_same_fault(row, other) for other in new):
            time = _ns(row.time_lost_ms)
            found.append(("links", row.title, "found", "not there", None if time is None else -time, False))
    return found


def _same_fault(one: FindingRow, other: FindingRow) -> bool:
    return one.code == other.code and (one.subject.ports == other.subject.ports or bool({*one.subject.ports} & {*other.subject.ports}))


def _ports(rows: Iterable[FindingRow]) -> set[str] | None:
    """All ports of some findings; None without a finding."""
    sets = [set(row.subject.ports) for row in rows]
    return set().union(*sets) if sets else None


def _ns(time_ms: float | None) -> float | None:
    return None if time_ms is None else time_ms * NS_PER_MS
