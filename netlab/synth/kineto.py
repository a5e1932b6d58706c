"""A simulated rank as a profiler trace, in the layout of libkineto's JSON writer (output_json.cpp) as PyTorch 2.7 and later exports it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from netlab.synth.nccl import process_id
from netlab.synth.program import COMPUTE_STREAM, Op
from netlab.synth.simulate import CALL_NS, LAUNCH_NS, Simulation
from netlab.synth.spec import Group, Spec
from netlab.synth.truth import clock_offsets_ns, sequence_numbers
from netlab.units import dtype_bytes

__all__ = ["BASE_TIME_NS", "CAPTURE_START_NS", "trace_json"]

#: baseTimeNanoseconds: trace times count from here. 2026-11-01 00:00 UTC.
BASE_TIME_NS = 1_793_491_200_000_000_000
#: The capture starts this long after it.
CAPTURE_START_NS = 3_723_000_000_000
_RUNTIME_CBID = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
    "cudaEventSynchronize": 137,
    "cudaDeviceSynchronize": 165,
}
_COLLECTIVE_SHAPE = (24, 544, 96, 82_240)
_KERNEL_SHAPES = ((132, 384, 168, 214_016), (1_024, 256, 64, 16_384), (2_048, 128, 40, 1_024))
#: PyTorch cuts the list of ranks here (torch/csrc/profiler/util.cpp, kTruncatLength).
_RANKS_SHOWN = 30
_INPUT_TYPES = {"Float": "float", "BFloat16": "c10::BFloat16"}


def trace_json(simulation: Simulation, rank: int) -> str:
    """The trace file of one rank as text; times are on the clock of the rank's host.

    Examples
    --------
    >>> from netlab.synth.plants import spec_for
    >>> from netlab.synth.simulate import simulate
    >>> text = trace_json(simulate(spec_for("none", ranks=2, steps=1, layers=1)), 0)
    >>> sorted(json.loads(text)["distributedInfo"])
    ['backend', 'nccl_version', 'pg_config', 'pg_count', 'rank', 'world_size']
    """
    writer = _Trace(simulation, rank)
    events = ",\n".join(writer.events())
    return f'{_header(simulation.spec, rank)}  "traceEvents": [\n{events}\n  ],\n  "traceName": "rank{rank}.pt.trace.json"\n}}\n'


def _header(spec: Spec, rank: int) -> str:
    devices = [
        {
            "id": device,
            "name": "NVIDIA H100 80GB HBM3",
            "totalGlobalMem": 84_942_979_072,
            "computeMajor": 9,
            "computeMinor": 0,
            "maxThreadsPerBlock": 1024,
            "maxThreadsPerMultiprocessor": 2048,
            "regsPerBlock": 65536,
            "warpSize": 32,
            "sharedMemPerBlock": 49152,
            "numSms": 132,
            "regsPerMultiprocessor": 65536,
            "sharedMemPerBlockOptin": 232448,
            "sharedMemPerMultiprocessor": 233472,
        }
        for device in range(spec.gpus_per_node)
    ]
    mine = [group for group in spec.groups if rank in group.ranks]
    distributed = {
        "backend": "nccl",
        "rank": rank,
        "world_size": spec.ranks,
        "pg_count": len(mine),
        "pg_config": [
            {
                "pg_name": group.name,
                "pg_desc": group.description,
                "backend_config": "cuda:nccl",
                "pg_size": len(group.ranks),
                "ranks": list(group.ranks),
            }
            for group in mine
        ],
        "nccl_version": spec.nccl_version,
    }
    trace_id = np.random.default_rng([spec.seed, 11, rank]).bytes(16).hex().upper()
    fields = (
        ("schemaVersion", 1),
        ("deviceProperties", devices),
        ("cupti_version", 26),
        ("cuda_runtime_version", 12080),
        ("cuda_driver_version", 12080),
        ("distributedInfo", distributed),
        ("trace_id", trace_id),
        ("host_name", spec.hosts[spec.node_of(rank)]),
        ("displayTimeUnit", "ms"),
        ("baseTimeNanoseconds", BASE_TIME_NS),
    )
    return "{\n" + "".join(f'  "{name}": {json.dumps(value)},\n' for name, value in fields)


def _us(instant_ns: int) -> str:
    """Microseconds with exactly three decimals: nanoseconds survive."""
    return f"{instant_ns // 1000}.{instant_ns % 1000:03d}"


class _Trace:
    """Events of one rank, in the order in which its host issued them."""

    def __init__(self, simulation: Simulation, rank: int) -> None:
        spec = simulation.spec
        self.simulation, self.spec, self.rank = simulation, spec, rank
        self.device = spec.local_rank(rank)
        self.process = process_id(spec, rank)
        self.backward_thread = self.process + 137
        self.shift_ns = CAPTURE_START_NS + clock_offsets_ns(spec)[spec.hosts[spec.node_of(rank)]]
        self.sequence = sequence_numbers(simulation)
        self.groups = {group.kind: group for group in spec.groups if rank in group.ranks}
        self.correlation = 1_000
        self.external = 0
        self.event_id = 8
        self.flow = 0
        #: Last record of each awaited operation: CUDA event id and correlation of its cudaEventRecord.
        self.records: dict[tuple[int, int], tuple[int, int]] = {}
        self.open_flows: list[int] = []

    def time(self, instant_ns: int) -> str:
        return _us(int(instant_ns) + self.shift_ns)

    def events(self) -> Iterator[str]:
        yield from self._metadata()
        simulation, rank = self.simulation, self.rank
        for step in range(self.spec.steps):
            yield from self._marks(step)
            for position, op in enumerate(simulation.program):
                yield from self._operation(step, position, op)
            yield from self._step_end(step)
        end = int(simulation.step_start_ns[-1, rank]) + 40_000
        drained = max(end, int(simulation.end_ns[-1, :, rank].max())) + 8_000
        yield from self._runtime("cudaDeviceSynchronize", end, drained - end, self.process, 0)
        yield self._sync_event("Context Sync", end + 500, drained - end - 1_000, -1, self.correlation, 0, "")
        yield (
            f'  {{\n    "ph": "X", "cat": "Trace", "ts": {self.time(0)}, "dur": {_us(drained)},\n'
            '    "pid": "Spans", "tid": "PyTorch Profiler",\n    "name": "PyTorch Profiler (0)",\n'
            '    "args": {\n      "Op count": 0\n    }\n  }'
        )
        yield self._instant("Iteration Start: PyTorch Profiler", '"Traces", "tid": "Trace PyTorch Profiler"', 0)
        yield self._instant("Record Window End", '"", "tid": ""', drained + 2_000)

    def _metadata(self) -> Iterator[str]:
        streams = sorted({op.stream for op in self.simulation.program})
        names = [
            ("process_name", self.process, 0, '"name": "python"'),
            ("process_labels", self.process, 0, '"labels": "CPU"'),
            ("process_sort_index", self.process, 0, f'"sort_index": {self.process}'),
            ("process_name", self.device, 0, '"name": "python"'),
            ("process_labels", self.device, 0, f'"labels": "GPU {self.device}"'),
            ("process_sort_index", self.device, 0, f'"sort_index": {5_000_000 + self.device}'),
            ("thread_name", self.process, self.process, f'"name": "thread {self.process} (python)"'),
            ("thread_name", self.process, self.backward_thread, f'"name": "thread {self.backward_thread} (pt_autograd_0)"'),
            *(("thread_name", self.device, stream, f'"name": "stream {stream} "') for stream in streams),
        ]
        for name, process, thread, args in names:
            yield (
                f'  {{\n    "name": "{name}", "ph": "M", "ts": {self.time(0)}, "pid": {process}, "tid": {thread},\n'
                f'    "args": {{\n      {args}\n    }}\n  }}'
            )

    def _marks(self, step: int) -> Iterator[str]:
        """ProfilerStep and the ranges of the training loop, on the host and as their shadows on the device."""
        simulation, rank = self.simulation, self.rank
        start, end = int(simulation.step_start_ns[step, rank]), int(simulation.step_start_ns[step + 1, rank]) - 3_000
        name = f"ProfilerStep#{self.spec.first_step + step}"
        yield self._annotation(name, start, end)
        computing = [position for position, op in enumerate(simulation.program) if op.kind == "kernel"]
        yield self._device_annotation(
            name,
            int(simulation.start_ns[step, computing[0], rank]),
            int(simulation.end_ns[step, computing[-1], rank]),
            COMPUTE_STREAM,
        )
        for phase, text in (("forward", "DistributedDataParallel.forward"), ("optimizer", "Optimizer.step#AdamW.step")):
            positions = [position for position, op in enumerate(simulation.program) if op.phase == phase]
            yield self._annotation(
                text,
                int(simulation.host_start_ns[step, positions[0], rank]) - 4_000,
                int(simulation.host_end_ns[step, positions[-1], rank]),
            )

    def _operation(self, step: int, position: int, op: Op) -> Iterator[str]:
        simulation, rank = self.simulation, self.rank
        thread = self.backward_thread if op.phase == "backward" else self.process
        start, end = int(simulation.host_start_ns[step, position, rank]), int(simulation.host_end_ns[step, position, rank])
        launch = int(simulation.launch_start_ns[step, position, rank])
        self.external += 1
        operator = self.external
        yield self._host_op(op, operator, start, end, thread)
        if op.phase == "forward" and op.host_op == "aten::mm":
            self.flow += 1
            self.open_flows.append(self.flow)
            yield self._flow("s", self.flow, self.process, thread, start + 500, "fwdbwd")
        elif op.phase == "backward" and op.host_op.endswith("_backward") and self.open_flows:
            yield self._flow("f", self.open_flows.pop(), self.process, thread, start + 500, "fwdbwd")
        collective = ""
        if op.kind == "collective":
            group = self.groups[op.group or ""]
            collective = self._collective_args(op, group, self.sequence[step, position])
            self.external += 1
            yield self._param_comms(op, self.external, start + 12_000, launch + LAUNCH_NS + 500, thread, collective)
            operator = self.external
            yield self._annotation("nccl:all_reduce", start + 20_000, launch + LAUNCH_NS + 400, thread)
        waits_from = launch - 2 * CALL_NS * len(op.after)
        for number, awaited in enumerate(op.after):
            yield from self._wait(step, awaited, op, waits_from + 2 * CALL_NS * number, thread, operator)
        call = {"kernel": "cudaLaunchKernel", "collective": "cudaLaunchKernelExC", "memcpy": "cudaMemcpyAsync", "memset": "cudaMemsetAsync"}
        yield from self._runtime(call[op.kind], launch, LAUNCH_NS, thread, operator)
        yield self._flow("s", self.correlation, self.process, thread, launch, "ac2g")
        device_start, device_end = int(simulation.start_ns[step, position, rank]), int(simulation.end_ns[step, position, rank])
        yield self._device_event(op, device_start, device_end, operator, collective)
        yield self._flow("f", self.correlation, self.device, op.stream, device_start, "ac2g")
        if op.kind == "collective":
            yield self._device_annotation("nccl:all_reduce", device_start, device_end, op.stream)

    def _complete(self, category: str, name: str, where: tuple[int, int], start: int, duration: int, args: str) -> str:
        """A complete ("X") event at a (process, thread)."""
        return (
            f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {where[0]}, "tid": {where[1]},\n'
            f'    "ts": {self.time(start)}, "dur": {_us(max(duration, 0))},\n    "args": {{\n      {args}\n    }}\n  }}'
        )

    def _instant(self, name: str, where: str, at: int) -> str:
        return f'  {{\n    "name": "{name}", "ph": "i", "s": "g",\n    "pid": {where}, "ts": {self.time(at)}\n  }}'

    def _host_op(self, op: Op, external: int, start: int, end: int, thread: int) -> str:
        args = f'"External id": {external},"Record function id": 0, "Ev Idx": {external}'
        return self._complete("cpu_op", op.host_op, (self.process, thread), start, end - start, args)

    def _param_comms(self, op: Op, external: int, start: int, end: int, thread: int, collective: str) -> str:
        elements = op.size_bytes // (dtype_bytes(op.dtype) or 1)
        args = (
            f'"External id": {external},"Record function id": 0, {collective}, "Rank": {self.rank}, '
            f'"Input Dims": [[[{elements}]], [], [], [], [], [], [], [], []], '
            f'"Input type": ["GenericList[{_INPUT_TYPES[op.dtype]}]", "", "", "", "", "", "", "", ""], "Ev Idx": {external}'
        )
        return self._complete("cpu_op", "record_param_comms", (self.process, thread), start, end - start, args)

    def _collective_args(self, op: Op, group: Group, sequence: int) -> str:
        elements = op.size_bytes // (dtype_bytes(op.dtype) or 1)
        shown = ", ".join(str(rank) for rank in group.ranks[:_RANKS_SHOWN])
        ranks = f"[{shown}, ...]" if len(group.ranks) > _RANKS_SHOWN else f"[{shown}]"
        return (
            f'"Collective name": "allreduce", "In msg nelems": {elements}, "Out msg nelems": {elements}, "Group size": {len(group.ranks)}, '
            f'"dtype": "{op.dtype}", "In split size": "[]", "Out split size": "[]", "Process Group Name": "{group.name}", '
            f'"Process Group Description": "{group.description}", "Process Group Ranks": "{ranks}", "Seq": {sequence}'
        )

    def _wait(self, step: int, awaited: int, op: Op, at: int, thread: int, external: int) -> Iterator[str]:
        """Record an event behind an operation (once) and let a stream wait for it."""
        source = self.simulation.program[awaited].stream
        if (step, awaited) not in self.records:
            self.event_id += 1
            yield from self._runtime("cudaEventRecord", at, CALL_NS, thread, external)
            self.records[step, awaited] = (self.event_id, self.correlation)
        event, record = self.records[step, awaited]
        yield from self._runtime("cudaStreamWaitEvent", at + CALL_NS, CALL_NS, thread, external)
        details = f'"wait_on_stream": {source},      "wait_on_cuda_event_record_corr_id": {record},      "wait_on_cuda_event_id": {event},'
        yield self._sync_event("Stream Wait Event", at + CALL_NS + 300, CALL_NS - 600, op.stream, self.correlation, external, details)

    def _step_end(self, step: int) -> Iterator[str]:
        """The loop waits for the step before; without one it just goes on."""
        simulation, rank = self.simulation, self.rank
        last = len(simulation.program) - 1
        begin, end = int(simulation.host_end_ns[step, last, rank]) + 500, int(simulation.step_start_ns[step + 1, rank]) - 18_000
        if step == 0 or end <= begin:
            return
        yield from self._runtime("cudaEventSynchronize", begin, end - begin, self.process, 0)
        details = '"wait_on_stream": -1,      "wait_on_cuda_event_record_corr_id": -1,      "wait_on_cuda_event_id": 7,'
        yield self._sync_event("Event Sync", begin + 300, end - begin - 600, -1, self.correlation, 0, details)

    def _runtime(self, name: str, start: int, duration: int, thread: int, external: int) -> Iterator[str]:
        self.correlation += 1
        args = f'"External id": {external},      "cbid": {_RUNTIME_CBID[name]}, "correlation": {self.correlation}'
        yield self._complete("cuda_runtime", name, (self.process, thread), start, duration, args)

    def _sync_event(self, kind: str, start: int, duration: int, stream: int, correlation: int, external: int, details: str) -> str:
        args = (
            f'"External id": {external},      "cuda_sync_kind": "{kind}",      {details}      "stream": {stream}, '
            f'"correlation": {correlation},      "device": {self.device}, "context": 1'
        )
        return self._complete("cuda_sync", kind, (self.device, stream), start, duration, args)

    def _device_event(self, op: Op, start: int, end: int, external: int, collective: str) -> str:
        category = {"memcpy": "gpu_memcpy", "memset": "gpu_memset"}.get(op.kind, "kernel")
        args = f'"External id": {external},      "device": {self.device}, "context": 1,      "stream": {op.stream}, '
        args += f'"correlation": {self.correlation}'
        if category == "kernel":
            matrix = 0 if op.host_op == "aten::mm" else 1 + len(op.name) % 2
            blocks, threads, registers, shared = _COLLECTIVE_SHAPE if collective else _KERNEL_SHAPES[matrix]
            args += (
                f',      "registers per thread": {registers},      "shared memory": {shared},      '
                f'"blocks per SM": {blocks / 132:.6f},      "warps per SM": {blocks * threads / 32 / 132:.6f},      '
                f'"grid": [{blocks}, 1, 1],      '
                f'"block": [{threads}, 1, 1],      '
                f'"est. achieved occupancy %": {min(100, threads * 100 // 2048)}'
            )
            args += f", {collective}" if collective else ""
        else:
            args += f',      "bytes": {op.size_bytes}, "memory bandwidth (GB/s)": {op.size_bytes / max(end - start, 1):.6f}'
        return self._complete(category, op.name, (self.device, op.stream), start, end - start, args)

    def _annotation(self, name: str, start: int, end: int, thread: int | None = None) -> str:
        self.external += 1
        args = f'"External id": {self.external},"Record function id": 0, "Ev Idx": {self.external}'
        return self._complete("user_annotation", name, (self.process, thread or self.process), start, end - start, args)

    def _device_annotation(self, name: str, start: int, end: int, stream: int) -> str:
        return self._complete("gpu_user_annotation", name, (self.device, stream), start, end - start, f'"External id": {self.external}')

    def _flow(self, phase: str, number: int, process: int, thread: int, at: int, category: str) -> str:
        end = ', "bp": "e"' if phase == "f" else ""
        return (
            f'  {{\n    "ph": "{phase}", "id": {number}, "pid": {process}, "tid": {thread}, "ts": {self.time(at)},\n'
            f'    "cat": "{category}", "name": "{category}"{end}\n  }}'
        )
