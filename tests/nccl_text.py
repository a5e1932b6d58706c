"""NCCL logs and dumps written by hand for tests, and what netlab makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from netlab.attribute.flight_arrivals import flight_arrivals
from netlab.attribute.nccl import hangs
from netlab.diagnose.nccl import nccl_findings
from netlab.findings import Finding
from netlab.readers.base import Parsed, Sink
from netlab.readers.nccl import READERS
from netlab.readers.streams import read_head
from netlab.run import Run, RunFacts
from netlab.schema import TABLES
from netlab.schema.nccl import NCCL_TABLES
from netlab.schema.nccl_structure import NCCL_STRUCTURE_TABLES

FOUR_NICS = "[0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB"


def record(host: str, rank: int, message: str, device: int | None = None) -> str:
    """One INFO record; the process of a rank is 4001 + rank."""
    return f"{host}:{4001 + rank}:{4051 + rank} [{rank % 4 if device is None else device}] NCCL INFO {message}"


def init(host: str, rank: int, nranks: int, what: str, comm: str = "0x5a5a000000000001") -> str:
    """An Init line of the world communicator."""
    device = rank % 4
    who = f"comm 0x55000000{rank:04x} rank {rank} nranks {nranks} cudaDev {device} nvmlDev {device} busId {device + 1}b000"
    return record(host, rank, f"ncclCommInitRank {who} commId {comm} - {what}")


def healthy(
    extra: Mapping[str, Sequence[str]] | None = None, *, hosts: Sequence[str] = ("nodea", "nodeb"), nics: Mapping[str, str] | None = None
) -> list[str]:
    """A job of four ranks per host over InfiniBand with GPUDirect. ``extra`` adds messages of a host before its Init lines."""
    lines, nranks = ["NCCL version 2.21.5+cuda12.4"], 4 * len(hosts)
    for number, host in enumerate(hosts):
        for local in range(4):
            rank = 4 * number + local
            lines += [record(host, rank, message) for message in (extra or {}).get(host, ())]
            lines.append(record(host, rank, f"NET/IB : Using {(nics or {}).get(host, FOUR_NICS)} [RO]; OOB eth0:10.0.0.{number + 1}<0>"))
            lines.append(record(host, rank, "Using network IB"))
            lines.append(init(host, rank, nranks, "Init START"))
            peer = (rank + 4) % nranks
            lines.append(record(host, rank, f"Channel {local:02d}/0 : {rank}[{local}] -> {peer}[{local}] [send] via NET/IB/{local}/GDRDMA"))
            lines.append(
                record(
                    host,
                    rank,
                    f"Channel {local:02d}/0 : {(rank - 4) % nranks}[{local}] -> {rank}[{local}] [receive] via NET/IB/{local}/GDRDMA",
                )
            )
            lines.append(
                record(host, rank, f"Channel 00/0 : {rank}[{local}] -> {4 * number + (local + 1) % 4}[{(local + 1) % 4}] via P2P/CUMEM")
            )
            lines.append(init(host, rank, nranks, "Init COMPLETE"))
    return lines


def dump(rank: int, entries: Sequence[Mapping[str, Any]], members: Sequence[int], **more: Any) -> dict[str, Any]:
    """A flight-recorder dump of schema 2.10 with one group."""
    ranks = "[" + ", ".join(map(str, members)) + "]"
    return {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}, "entries": list(entries), **more}


def entry(seq: int, state: str = "completed", *, op: str = "all_reduce", elements: int = 1024, **more: Any) -> dict[str, Any]:
    """An entry of the default group; the collective n was created n ms after the epoch."""
    return {
        "record_id": seq - 1, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq,
        "profiling_name": f"nccl:{op}", "time_created_ns": seq * 1_000_000, "input_sizes": [[elements]], "input_dtypes": ["Float"],
        "output_sizes": [[elements]], "output_dtypes": ["Float"], "state": state, "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "retired": state == "completed", "timeout_ms": 600000, "is_p2p": False, **more,
    }  # fmt: skip


def write_dumps(folder: Path, dumps: Mapping[int, Mapping[str, Any]]) -> list[Path]:
    """Write dumps under PyTorch's names."""
    paths = []
    for rank, content in dumps.items():
        path = folder / f"nccl_trace_rank_{rank}.json"
        path.write_text(json.dumps(content))
        paths.append(path)
    return paths


def read(path: Path) -> tuple[dict[str, pl.DataFrame], Parsed]:
    """Read one file by the reader that claims it."""
    head = read_head(path)
    reader = next(reader for reader in READERS if reader.sniff(head, path))
    sink = Sink()
    parsed = reader.read(path, sink, path.name)
    return {name: TABLES[name].validate(TABLES[name].conform(sink.collect(name))) for name in sink.frames}, parsed


def read_log(folder: Path, lines: Sequence[str] | str, name: str = "nccl.log") -> tuple[dict[str, pl.DataFrame], Parsed]:
    """Write a log and read it."""
    path = folder / name
    path.write_text(lines if isinstance(lines, str) else "\n".join(lines) + "\n")
    return read(path)


def run_of(*paths: Path) -> Run:
    """A run of NCCL files only, with its hangs."""
    found: dict[str, list[pl.DataFrame]] = {}
    for path in paths:
        for name, frame in read(path)[0].items():
            found.setdefault(name, []).append(frame)
    frames = {
        table.name: table.conform(pl.concat(found[table.name])) for table in (*NCCL_TABLES, *NCCL_STRUCTURE_TABLES) if table.name in found
    }
    run = Run.from_frames(frames, RunFacts(name="test"))
    flight = run.frame("flight")
    arrivals = flight_arrivals(flight)
    return run.with_frames({"hangs": hangs(flight, run.frame("nccl_events"), run.frame("communicators")), "flight_arrivals": arrivals})


def findings(folder: Path, lines: Sequence[str] | str) -> list[Finding]:
    """Findings of one log."""
    path = folder / "nccl.log"
    path.write_text(lines if isinstance(lines, str) else "\n".join(lines) + "\n")
    return nccl_findings(run_of(path))


def one(found: Sequence[Finding], code: str) -> Finding:
    """The only finding of a code."""
    hits = [finding for finding in found if finding.code == code]
    assert len(hits) == 1, [finding.code for finding in found]
    return hits[0]
