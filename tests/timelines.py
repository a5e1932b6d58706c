"""Aligned runs written by hand: kernels and collectives in milliseconds become the tables of the timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import polars as pl

from netlab.attribute import Attribution, attribution
from netlab.schema.timeline import ACTIVITIES, COLLECTIVES, GROUPS, P2P, RANKS, STEPS

__all__ = ["Timelines"]

MS = 1_000_000


def _ns(ms: float) -> int:
    return round(ms * MS)


class Timelines:
    """Collects activities; `frames` gives the tables and `figures` their attribution. Splits follow docs/methods.md by hand."""

    def __init__(self, hosts: Sequence[str | None], *, world: int | None = None) -> None:
        self.hosts = list(hosts)
        self.world = world or len(self.hosts)
        self._activities: list[dict[str, Any]] = []
        self._collectives: list[dict[str, Any]] = []
        self._messages: list[dict[str, Any]] = []
        self._steps: list[dict[str, Any]] = []
        self._groups: dict[str, dict[str, Any]] = {}
        self._instances = 0

    def step(
        self, step: int, start: float, end: float, ranks: Sequence[int] | None = None, *, complete: bool = True, window: int = 0
    ) -> None:
        """A step of all ranks, or of some."""
        for rank in range(len(self.hosts)) if ranks is None else ranks:
            bounds = {"start_ns": _ns(start), "end_ns": _ns(end), "mark_start_ns": _ns(start), "mark_end_ns": _ns(end)}
            self._steps.append({"rank": rank, "window": window, "step": step, "complete": complete, **bounds})

    def kernel(
        self, rank: int, start: float, end: float, *, kind: str = "compute", name: str = "gemm", launch: float | None = None, **more: Any
    ) -> int:
        """One device activity, launched (return of the call) at ``launch``."""
        number = len(self._activities)
        row: dict[str, Any] = {"rank": rank, "activity": number, "kind": kind, "name": name, "window": 0, "stream": 7, "device": 0}
        row |= {"start_ns": _ns(start), "end_ns": _ns(end)}
        if launch is not None:
            row |= {"launch_end_ns": _ns(launch), "launch_start_ns": _ns(launch) - 5_000}
        self._activities.append(row | more)
        return number

    def collective(
        self,
        starts: Mapping[int, float],
        end: float | Mapping[int, float],
        *,
        members: Sequence[int] | None = None,
        op: str = "all_reduce",
        size: int | None = 1_000_000,
        name: str = "0",
        description: str | None = None,
        parallelism: str | None = None,
        error: float | None = None,
        stream: int = 20,
        split: str | None = None,
        low: float | None = None,
        high: float | None = None,
    ) -> int:
        """One collective: arrival of each member that was seen, and the common end."""
        group = sorted(starts if members is None else members)
        text = ",".join(map(str, group))
        hosts = {self.hosts[rank] if rank < len(self.hosts) else None for rank in group}
        layer = "unplaced" if None in hosts else "intra_node" if len(hosts) == 1 else "inter_node"
        about = {"group": text, "name": name, "size": len(group), "members": group, "layer": layer}
        self._groups.setdefault(text, about | {"description": description, "parallelism": parallelism})
        split = split or ("measured" if len(starts) == len(group) else "bounded" if len(starts) > 1 else "unknown")
        last = max(starts.values())
        number, self._instances = self._instances, self._instances + 1
        for rank, start in starts.items():
            until = end[rank] if isinstance(end, Mapping) else end
            shared = {"group": text, "group_name": name, "seq": number, "op": op, "bytes": size, "layer": layer, "split": split}
            shared |= {"step": self._step_at(rank, start), "instance": number}
            known = split != "unknown"
            begin = last if known else start
            bounds = {"transfer_start_low_ns": _ns(begin if low is None else max(begin, until - low)) if known else _ns(until)}
            if split == "bounded":
                bounds["transfer_start_low_ns"] = _ns(until)
            bounds["transfer_start_high_ns"] = _ns(begin if high is None else high) if known else _ns(start)
            moving = {"transfer_start_ns": _ns(min(begin, until))} if known else {}
            activity = self.kernel(
                rank, start, until, kind="communication", name="ncclDevKernel", **(shared | bounds | moving | {"stream": stream})
            )
            row = shared | {"rank": rank, "activity": activity, "window": 0, "start_ns": _ns(start), "end_ns": _ns(until)}
            row |= {"members": len(group), "seen": len(starts), "error_ns": None if error is None else _ns(error)}
            if known:
                row |= {"wait_ns": _ns(last) - _ns(start), "transfer_ns": _ns(until) - _ns(last)}
            self._collectives.append(row)
        return number

    def message(self, src: int, dst: int, src_start: float, dst_start: float, end: float, size: int = 4_194_304) -> int:
        """One send with its receive."""
        number = self.collective({src: src_start, dst: dst_start}, end, op="send", size=size, name="p2p")
        last = max(src_start, dst_start)
        waits = {"wait_src_ns": _ns(last) - _ns(src_start), "wait_dst_ns": _ns(last) - _ns(dst_start), "split": "measured"}
        about = {"instance": number, "src": src, "dst": dst, "bytes": size, "start_ns": _ns(last), "transfer_ns": _ns(end) - _ns(last)}
        self._messages.append(about | waits | {"step": self._step_at(src, src_start)})
        return number

    def _step_at(self, rank: int, at: float) -> int | None:
        for row in self._steps:
            if row["rank"] == rank and row["start_ns"] <= _ns(at) < row["end_ns"]:
                return int(row["step"])
        return None

    def frames(self) -> dict[str, pl.DataFrame]:
        """The tables of the timeline."""

        def made(table: Any, rows: list[dict[str, Any]]) -> pl.DataFrame:
            return table.validate(table.conform(pl.DataFrame(rows, infer_schema_length=None)) if rows else table.empty())

        ranks = [{"rank": rank, "host": host, "device": 0} for rank, host in enumerate(self.hosts)]
        return {
            "activities": made(ACTIVITIES, self._activities),
            "steps": made(STEPS, self._steps),
            "collectives": made(COLLECTIVES, self._collectives),
            "p2p": made(P2P, self._messages),
            "groups": made(GROUPS, list(self._groups.values())),
            "ranks": made(RANKS, ranks),
        }

    def figures(self, **options: Any) -> Attribution:
        """Attribution of these tables."""
        return attribution(self.frames(), **({"threshold": Fraction(1, 4)} | options))
