"""Help for tests of the align room: raw frames from trace documents, and short ways to look at results."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from netlab.align import Aligned, AlignOptions, align
from netlab.errors import ParseError
from netlab.readers.kineto.reader import read_frames
from netlab.schema.traces import RAW_TABLES, TRACE_FILES

Document = dict[str, Any]


def raw_of(paths: Sequence[Path]) -> dict[str, pl.DataFrame]:
    """Raw tables of some trace files, as the pipeline puts them together; files that cannot be read are left out."""
    parts: dict[str, list[pl.DataFrame]] = {table.name: [] for table in RAW_TABLES}
    rows = []
    number = 0
    for path in paths:
        try:
            frames, parsed = read_frames(path, path.name)
        except ParseError:
            continue
        for name, frame in frames.items():
            parts[name].append(frame.with_columns(file=pl.lit(number, pl.Int32)))
        facts = dict(parsed.facts)
        rows.append({"file": number, "path": path.name, **facts})
        number += 1
    tables = {table.name: table for table in RAW_TABLES}
    found = {name: tables[name].conform(pl.concat(frames, how="diagonal")) for name, frames in parts.items() if frames}
    found["trace_files"] = TRACE_FILES.conform(pl.DataFrame(rows, schema_overrides=dict(TRACE_FILES.schema)))
    return found


def aligned(paths: Sequence[Path], **options: Any) -> Aligned:
    """Align some trace files."""
    result = align(raw_of(sorted(paths)), {}, AlignOptions(**options))
    assert isinstance(result.activities, pl.DataFrame)
    result.frames["activities"] = result.activities
    return result


def edited(source: Path, target: Path, change: Callable[[Document], None]) -> Path:
    """A changed copy of a trace file."""
    packed = source.suffix == ".gz"
    document = json.loads(gzip.decompress(source.read_bytes()) if packed else source.read_bytes())
    change(document)
    text = json.dumps(document).encode()
    target.write_bytes(gzip.compress(text, 1) if packed else text)
    return target


def codes(result: Aligned) -> set[str]:
    """Codes of all issues."""
    return {issue.code for issue in result.issues}


BASE_NS = 1_767_225_600_000_000_000
_EPOCH_US = 5_000_000_000.0
GEMM = "sm90_xmma_gemm_bf16_test"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


class Trace:
    """A trace of one rank, written down in milliseconds; every kernel gets a launch 20 us before it unless told otherwise."""

    def __init__(self, rank: int | None = 0, world: int | None = 2, *, host: str | None = None, clock_ms: float = 0.0) -> None:
        self.rank, self.world, self.host, self.clock_ms = rank, world, host, clock_ms
        self.groups: list[Document] = []
        self.events: list[Document] = []
        self.correlation = 100
        self.device = rank or 0

    def _at(self, ms: float) -> float:
        return round(_EPOCH_US + (ms + self.clock_ms) * 1000, 3)

    def add(self, category: str, name: str, start: float, end: float | None, tid: int = 4000, **args: Any) -> Trace:
        event = {"ph": "X", "cat": category, "name": name, "pid": 4000, "tid": tid, "ts": self._at(start), "args": args}
        if end is not None:
            event["dur"] = round((end - start) * 1000, 3)
        self.events.append(event)
        return self

    def group(self, name: str, members: Sequence[int], description: str = "undefined") -> Trace:
        self.groups.append({"pg_name": name, "pg_desc": description, "pg_size": len(members), "ranks": list(members)})
        return self

    def step(self, number: int, start: float, end: float | None) -> Trace:
        return self.add("user_annotation", f"ProfilerStep#{number}", start, end)

    def kernel(self, name: str, start: float, end: float, *, stream: int = 7, launch: float | None = -1.0, **args: Any) -> Trace:
        """A kernel; ``launch`` is the start of its launch, None for a kernel whose launch is not in the file."""
        self.correlation += 1
        if launch is not None:
            at = max(start - 0.02, 0.0) if launch == -1.0 else launch
            self.add("cuda_runtime", "cudaLaunchKernel", at, at + 0.005, correlation=self.correlation)
        where = {"device": self.device, "stream": stream, "correlation": self.correlation}
        return self.add("kernel", name, start, end, stream, **(where | args))

    def compute(self, start: float, end: float, **args: Any) -> Trace:
        return self.kernel(GEMM, start, end, **args)

    def collective(
        self,
        start: float,
        end: float,
        seq: int | None = None,
        members: Sequence[int] | None = None,
        *,
        op: str = "allreduce",
        name: str = "0",
        elements: int = 1 << 20,
        kernel: str = ALL_REDUCE,
        **args: Any,
    ) -> Trace:
        members = list(range(self.world or 1)) if members is None else members
        metadata: dict[str, Any] = {
            "Collective name": op,
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "Group size": len(members),
            "dtype": "Float",
            "Process Group Name": name,
            "Process Group Ranks": str(list(members)),
        }
        if seq is not None:
            metadata["Seq"] = seq
        return self.kernel(kernel, start, end, **({"stream": 20} | metadata | args))

    def message(self, op: str, peer: int, start: float, end: float, seq: int | None = 1, **args: Any) -> Trace:
        ends = {"Dst Rank": peer, "Src Rank": self.rank} if op == "send" else {"Src Rank": peer, "Dst Rank": self.rank}
        return self.collective(start, end, seq, op=op, kernel=SEND_RECV, **(ends | args))

    def document(self) -> Document:
        document: Document = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS, "displayTimeUnit": "ms", "traceEvents": self.events}
        if self.world is not None:
            document["distributedInfo"] = {"backend": "nccl", "world_size": self.world, "pg_config": self.groups}
            if self.rank is not None:
                document["distributedInfo"]["rank"] = self.rank
        if self.host is not None:
            document["host_name"] = self.host
        return document


def align_traces(folder: Path, *traces: Trace, names: Sequence[str] | None = None, **options: Any) -> Aligned:
    """Write traces to files and align them."""
    paths = []
    for number, trace in enumerate(traces):
        path = folder / (names[number] if names else f"trace{number:02d}.json")
        path.write_text(json.dumps(trace.document()))
        paths.append(path)
    return aligned(paths, **options)


def ms(frame: pl.DataFrame, column: str) -> list[float | None]:
    """A column of instants as milliseconds since the time that traces count from."""
    origin = BASE_NS + int(_EPOCH_US * 1000)
    return [None if value is None else (value - origin) / 1e6 for value in frame[column]]


def step_rows(result: Aligned, rank: int = 0) -> list[tuple[int, float, float, bool, str | None]]:
    """Number, start and end in ms, completeness and reason of a rank's steps."""
    steps = result.frames["steps"].filter(pl.col("rank") == rank)
    return list(zip(steps["step"], ms(steps, "start_ns"), ms(steps, "end_ns"), steps["complete"], steps["reason"], strict=True))  # type: ignore[arg-type]
