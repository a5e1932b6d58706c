"""What the rules about NCCL look at: the tables of logs and dumps, with repeated rows dropped and hosts put to ranks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from netlab.findings import Finding, Subject
from netlab.run import Run

__all__ = ["Evidence", "Row", "finding", "hosts_of", "joined", "majority", "quotes"]

Row = dict[str, Any]
_QUOTES = 8


@dataclass(frozen=True)
class Evidence:
    """Rows of a run's NCCL tables. ``host_of`` maps (communicator, rank) to the host."""

    communicators: list[Row]
    connections: list[Row]
    events: list[Row]
    flight: pl.DataFrame
    hangs: list[Row]
    profiler: pl.DataFrame
    paths: list[Row]
    nodes: list[Row]
    gpu_names: frozenset[str]
    arrivals: pl.DataFrame
    speed_tests: pl.DataFrame
    host_of: dict[tuple[str, int], str] = field(default_factory=dict)
    has_timeline: bool = False
    _by_code: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        """Sort the events by code once: every rule asks for some."""
        for event in self.events:
            self._by_code[event["code"]].append(event)

    @classmethod
    def of(cls, run: Run, hangs: pl.DataFrame | None = None) -> Evidence:
        """The evidence of a run. Tee'd logs tell the same thing twice: equal rows of two files count once."""
        communicators = _once(run.frame("communicators"), ["comm_id", "host", "pid", "rank", "pointer"])
        connections = _once(
            run.frame("connections"), ["comm_id", "host", "pid", "channel", "connection", "src_rank", "dst_rank", "side", "path"]
        )
        events = run.frame("nccl_events")
        ranks = run.frame("ranks")
        return cls(
            communicators=communicators,
            connections=connections,
            events=events.to_dicts(),
            flight=run.frame("flight"),
            hangs=(hangs if hangs is not None else run.frame("hangs")).to_dicts(),
            profiler=run.frame("profiler_events"),
            paths=run.frame("topology_paths").to_dicts(),
            nodes=run.frame("topology_nodes").to_dicts(),
            arrivals=run.frame("flight_arrivals"),
            speed_tests=run.frame("link_speed_tests"),
            gpu_names=frozenset(ranks["gpu_name"].drop_nulls().to_list()),
            host_of={(c["comm_id"], c["rank"]): c["host"] for c in communicators if c["host"] and c["rank"] is not None and c["comm_id"]},
            has_timeline=not run.frame("collectives").is_empty(),
        )

    def of_code(self, *codes: str) -> list[Row]:
        """Events of some codes, in file order inside each code."""
        return [event for code in codes for event in self._by_code.get(code, ())]

    def env(self, *names: str) -> list[Row]:
        """Lines that set one of these variables."""
        return [event for event in self.of_code("env") if event["key"] in names]

    def address_host(self, address: str) -> str:
        """The host of an address, by what hosts say of their bootstrap interface; a name loses its domain, an unknown address stays."""
        if re.fullmatch(r"[\d.]+|[0-9a-fA-F:]+", address) is None:
            return address.split(".")[0]
        told = {e["host"] for e in self.of_code("bootstrap", "nics") if e["host"] and f":{address}<" in (e["message"] or "")}
        return told.pop() if len(told) == 1 else address

    def hosts(self) -> list[str]:
        """Every host that an NCCL log names."""
        return sorted({row["host"] for row in (*self.communicators, *self.events) if row["host"]})

    def ends(self, connection: Row) -> tuple[str | None, str | None]:
        """Hosts of the sender and the receiver. The side that printed the line is on its host whatever the communicator."""
        comm = connection["comm_id"]
        src = self.host_of.get((comm, connection["src_rank"])) if comm else None
        dst = self.host_of.get((comm, connection["dst_rank"])) if comm else None
        if connection["side"] == "send":
            src = src or connection["host"]
        elif connection["side"] == "receive":
            dst = dst or connection["host"]
        return src, dst

    def between_hosts(self, connection: Row) -> bool:
        """Whether a network connection leaves its host; a NET connection with an unknown end is taken to."""
        src, dst = self.ends(connection)
        return bool(connection["transport"] == "NET" and (src is None or dst is None or src != dst))

    def rank_of(self, connection: Row) -> int | None:
        """Global rank of the process that printed a connection, else its rank in the communicator."""
        side = "dst" if connection["side"] == "receive" else "src"
        rank: int | None = connection[f"{side}_global"]
        own: int | None = connection[f"{side}_rank"]
        return own if rank is None else rank

    def by_host(self, rows: Iterable[Row]) -> Iterator[tuple[str, list[Row]]]:
        """Rows of each host, hosts in order."""
        groups: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if row["host"]:
                groups[row["host"]].append(row)
        yield from sorted(groups.items())


def _once(frame: pl.DataFrame, columns: list[str]) -> list[Row]:
    return frame.sort("source", "line", maintain_order=True).unique(columns, keep="first", maintain_order=True).to_dicts()


def quotes(rows: Sequence[Row], limit: int = _QUOTES) -> list[dict[str, Any]]:
    """Evidence rows of a finding: file, line and text of the first of some rows."""
    kept: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        text = row.get("message") or _connection_text(row)
        kept.setdefault((row.get("host"), text), {"source": row["source"], "line": row.get("line"), "text": text})
        if len(kept) >= limit:
            break
    return list(kept.values())


def _connection_text(row: Row) -> str:
    if "path" in row and row.get("channel") is not None:
        side = f" [{row['side']}]" if row["side"] else ""
        return f"Channel {row['channel']:02d} : {row['src_rank']} -> {row['dst_rank']}{side} via {row['path']} (printed by {row['host']})"
    if "op" in row:
        return f"rank {row['rank']}: {row['op']} {row['seq']} of group {row['group']} is {row['state']}"
    return f"comm {row.get('comm_id')} rank {row.get('rank')} of {row.get('nranks')} on {row.get('host')}"


def joined(items: Iterable[object], limit: int = 8) -> str:
    """A list as text: ``a, b and c``; long ones end in a count.

    >>> joined(["a", "b", "c"]), joined(range(20), 3)
    ('a, b and c', '0, 1, 2 and 17 more')
    """
    texts = [str(item) for item in items]
    if len(texts) > limit:
        return f"{', '.join(texts[:limit])} and {len(texts) - limit} more"
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def majority(values: dict[str, Any]) -> tuple[Any, list[str]] | None:
    """The value of most hosts and the hosts that deviate from it; None if all agree. Without a majority every host deviates.

    >>> majority({"a": 1, "b": 1, "c": 2}), majority({"a": 1, "b": 2}), majority({"a": 1, "b": 1})
    ((1, ['c']), (None, ['a', 'b']), None)
    """
    counts: dict[Any, list[str]] = defaultdict(list)
    for host, value in values.items():
        counts[value].append(host)
    if len(counts) < 2:
        return None
    best, hosts = max(counts.items(), key=lambda item: (len(item[1]), str(item[0])))
    if 2 * len(hosts) <= len(values):
        return None, sorted(values)
    return best, sorted(set(values) - set(hosts))


def finding(
    code: str,
    title: str,
    *,
    detail: str,
    action: str,
    source: str,
    evidence: Sequence[Row],
    hosts: Iterable[str] = (),
    ranks: Iterable[int] = (),
    ports: Iterable[str] = (),
    groups: Iterable[str] = (),
    severity: str = "warning",
    cause: str = "none",
) -> Finding:
    """A finding with its subject and quotes."""
    subject = Subject(hosts=sorted(set(hosts)), ranks=sorted(set(ranks)), ports=sorted(set(ports)), groups=sorted(set(groups)))
    return Finding(
        code=code,
        title=title,
        detail=detail,
        action=action,
        source=source,
        severity=severity,
        subject=subject,
        evidence=quotes(evidence),
        cause=cause,
    )


def hosts_of(evidence: Evidence, ranks: list[int]) -> set[str]:
    """Hosts of some ranks, by their communicators."""
    return {c["host"] for c in evidence.communicators if c["global_rank"] in ranks and c["host"]}
