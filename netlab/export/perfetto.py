"""The worst step as a small trace for the Perfetto UI: ranks as processes, streams as threads, waits and transfers as slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from netlab.errors import RunError
from netlab.export.files import claimed, write_bytes
from netlab.run import Run
from netlab.units import NS_PER_US

__all__ = ["export_perfetto", "worst_step"]

_COUNTED = ("bytes", "pause_frames", "ecn_marked", "discards", "errors")


def worst_step(run: Run) -> int | None:
    """The step with the most exposed communication per (rank, step); None without steps.

    >>> from netlab.run import RunFacts
    >>> worst_step(Run.from_frames({}, RunFacts(name="empty"))) is None
    True
    """
    breakdown = run.frame("breakdown")
    if breakdown.is_empty():
        return None
    by_step = breakdown.group_by("step").agg(pl.col("exposed_comm_ns").mean()).sort("exposed_comm_ns", "step", descending=[True, False])
    return int(by_step["step"][0])


def export_perfetto(run: Run, folder: Path, step: int | None = None) -> list[Path]:
    """Write ``<run>-step-<n>.json`` in the Chrome trace event format, which ui.perfetto.dev opens.

    Without steps the whole capture is written. Counters of ports become counter tracks over the same time.
    """
    chosen = worst_step(run) if step is None else step
    activities = run.frame("activities")
    if activities.is_empty():
        raise RunError(f"{run.name} has no device activity; there is no step to draw.")
    steps = run.frame("steps")
    if chosen is not None:
        steps = steps.filter(pl.col("step") == chosen)
        bounds = steps.select("rank", "window", border_start="start_ns", border_end="end_ns")
        inside = (pl.col("end_ns") > pl.col("border_start")) & (pl.col("start_ns") < pl.col("border_end"))
        activities = activities.join(bounds, on=["rank", "window"], how="inner").filter(inside).select(activities.columns)
    first_ns, last_ns = activities["start_ns"].min(), activities["end_ns"].max()
    assert isinstance(first_ns, int)
    assert isinstance(last_ns, int)
    first_ns = min([first_ns, *steps["start_ns"].to_list()])
    events = [*_slices(activities, first_ns), *_marks(steps, first_ns), *_counters(run.frame("link_intervals"), first_ns, last_ns)]
    events = [*_names(run, events), *events]
    label = "capture" if chosen is None else f"step-{chosen}"
    (path,) = claimed(folder, [f"{''.join(c if c.isalnum() or c in '-_.' else '_' for c in run.name)}-{label}.json"])
    write_bytes(path, msgspec.json.encode({"displayTimeUnit": "ns", "traceEvents": events}))
    return [path]


def _us(at_ns: int, first_ns: int) -> float:
    return (at_ns - first_ns) / NS_PER_US


#: Perfetto takes process and thread 0 for the idle one, and refuses negative numbers: ranks begin at 1, threads too.
_FIRST = 1
#: Ports stand below all ranks.
_PORTS = 10_000_000
_STEPS = 1


def _names(run: Run, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Names and order of every process and thread that has an event; the events' own ``thread`` and ``process`` are taken off."""
    hosts = {row["rank"]: row["host"] for row in run.frame("ranks").iter_rows(named=True)}
    named: list[dict[str, Any]] = []
    seen: set[tuple[int, int | None]] = set()
    for event in events:
        pid, tid = event["pid"], event.get("tid")
        process, thread = event.pop("process", None), event.pop("thread", None)
        if (pid, None) not in seen:
            seen.add((pid, None))
            rank = pid - _FIRST
            where = f" on {hosts[rank]}" if hosts.get(rank) else ""
            named.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": process or f"rank {rank}{where}"}})
            named.append({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}})
        if tid is not None and (pid, tid) not in seen:
            seen.add((pid, tid))
            named.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}})
            named.append({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}})
    return named


def _slices(activities: pl.DataFrame, first_ns: int) -> list[dict[str, Any]]:
    """One slice per activity; inside a communication slice its wait and its transfer."""
    events: list[dict[str, Any]] = []
    tracks: dict[tuple[int, int, int], int] = {}
    lanes = _lanes(activities)
    for row, lane in lanes:
        track = (row["rank"], row["stream"] or 0, lane)
        tid = tracks.setdefault(track, _STEPS + 1 + len(tracks))
        thread = f"stream {track[1]}" + (f" ({lane + 1})" if lane else "")
        place = {"ph": "X", "pid": row["rank"] + _FIRST, "tid": tid, "thread": thread}
        args = {key: row[key] for key in ("group", "seq", "bytes", "split", "layer", "step") if row[key] is not None}
        start, end = row["start_ns"], row["end_ns"]
        name = row["op"] or row["name"]
        events.append({**place, "cat": row["kind"], "name": name, "ts": _us(start, first_ns), "dur": _us(end, start), "args": args})
        moved = row["transfer_start_ns"]
        if moved is not None:
            for part, a, b in (("wait", start, moved), ("transfer", moved, end)):
                if b > a:
                    events.append({**place, "cat": part, "name": part, "ts": _us(a, first_ns), "dur": _us(b, a)})
    return events


def _lanes(activities: pl.DataFrame) -> list[tuple[dict[str, Any], int]]:
    """Each activity with its lane: slices of a thread must nest, so what overlaps another one in part goes into a lane beside it."""
    found = []
    open_ends: dict[tuple[int, int], list[list[int]]] = {}
    order = activities.sort("rank", "stream", "start_ns", pl.col("end_ns") - pl.col("start_ns"), descending=[False, False, False, True])
    for row in order.iter_rows(named=True):
        stacks = open_ends.setdefault((row["rank"], row["stream"] or 0), [])
        lane = next((number for number, stack in enumerate(stacks) if _fits(stack, row["start_ns"], row["end_ns"])), len(stacks))
        if lane == len(stacks):
            stacks.append([])
        stacks[lane].append(row["end_ns"])
        found.append((row, lane))
    return found


def _fits(stack: list[int], start: int, end: int) -> bool:
    """Whether a slice lies within the innermost one that is still open, or behind all; closed ones are taken off."""
    while stack and stack[-1] <= start:
        stack.pop()
    return not stack or end <= stack[-1]


def _marks(steps: pl.DataFrame, first_ns: int) -> list[dict[str, Any]]:
    return [
        {
            "ph": "X", "cat": "step", "name": f"step {row['step']}", "pid": row["rank"] + _FIRST, "tid": _STEPS, "thread": "steps",
            "ts": _us(row["start_ns"], first_ns), "dur": _us(row["end_ns"], row["start_ns"]),
        }
        for row in steps.iter_rows(named=True)
    ]  # fmt: skip


def _counters(intervals: pl.DataFrame, first_ns: int, last_ns: int) -> list[dict[str, Any]]:
    chosen = intervals.filter(
        pl.col("metric").is_in(_COUNTED) & pl.col("rate_per_s").is_not_null() & (pl.col("t1_ns") > first_ns) & (pl.col("t0_ns") < last_ns)
    )
    ports: dict[str, int] = {}
    events = []
    for row in chosen.iter_rows(named=True):
        port = f"{row['device']}/{row['port']}"
        queue = f" queue {row['queue']}" if row["queue"] is not None else ""
        events.append(
            {
                "ph": "C", "pid": ports.setdefault(port, _PORTS + len(ports)), "process": port,
                "name": f"{row['metric']} {row['direction']}{queue} per s",
                "ts": _us(max(row["t0_ns"], first_ns), first_ns), "args": {"value": row["rate_per_s"]},
            }
        )  # fmt: skip
    return events
