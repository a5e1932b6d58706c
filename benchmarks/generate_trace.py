"""Write a Kineto trace of any size in libkineto's own layout, with known counts and sums.

    python benchmarks/generate_trace.py OUT.json 200 [--stacks] [--style ns|us|epoch]

The mix follows real traces: operators 28 %, runtime calls 26 %, launch flows 36 %, kernels 10 %; with ``--stacks`` most are Python
functions.
Styles of time: ``ns`` is relative to ``baseTimeNanoseconds`` at the end of the file with three decimals (2024 on), ``epoch`` absolute with
three decimals (early 2024), ``us`` absolute integers (before).
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

_OPERATORS = (
    "aten::linear",
    "aten::addmm",
    "aten::copy_",
    "aten::_to_copy",
    "aten::empty_strided",
    "aten::add_",
    "aten::native_layer_norm",
    "aten::_scaled_dot_product_flash_attention",
    "aten::view",
    "aten::as_strided",
    "autograd::engine::evaluate_function: AddmmBackward0",
    "torch::autograd::AccumulateGrad",
    "c10d::_allgather_base_",
)
_KERNELS = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>, false, true>(Flash_fwd_params)",
    "triton_poi_fused__to_copy_add_gelu_mul_7",
)
_COLLECTIVES = (
    ("_allgather_base", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    ("_reduce_scatter_base", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    ("allreduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
)
_DIMS = ("[[8, 4096, 1024], [1024, 4096], [1024]]", "[[8, 4096, 4096], [8, 4096, 4096], []]", "[[], [], [], [], [], []]")
_TYPES = ('["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"]', '["float", "float", "Scalar"]', '["", "Scalar", "", "", "Scalar", ""]')
_FUNCTIONS = ("torch/nn/modules/module.py(%d): _call_impl", "train.py(%d): main", r"lambda \"x\"(%d): <lambda>", "modèle.py(%d): étape")
#: libkineto's base time: the beginning of its three-month interval.
_QUARTER_S = 7_889_238
_PID = 2_910_249


@dataclass
class Truth:
    """Rows and summed durations per table, as exact integers."""

    rows: Counter[str] = field(default_factory=Counter)
    duration_ns: Counter[str] = field(default_factory=Counter)
    start_ns: Counter[str] = field(default_factory=Counter)

    def add(self, table: str, start_ns: int, duration_ns: int) -> None:
        """Count one row."""
        self.rows[table] += 1
        self.duration_ns[table] += duration_ns
        self.start_ns[table] += start_ns


@dataclass(frozen=True)
class _Style:
    text: Callable[[int], str]
    rounded: Callable[[int], int]
    base_ns: int
    first_ns: int


def _style(name: str) -> _Style:
    base = int(time.time()) // _QUARTER_S * _QUARTER_S * 10**9
    if name == "us":
        return _Style(lambda ns: str(ns // 1000), lambda ns: ns // 1000 * 1000, 0, base + 4_458_676_524_670_502)
    first = 4_458_676_524_670_502
    return _Style(lambda ns: f"{ns // 1000}.{ns % 1000:03d}", lambda ns: ns, *((base, first) if name == "ns" else (0, base + first)))


def write_trace(path: Path, megabytes: float, style: str = "ns", stacks: bool = False, seed: int = 1, rank: int = 0) -> Truth:
    """Write a trace of about ``megabytes`` and return what is in it."""
    times, truth = _style(style), Truth()
    # Steps are made until a sample of them tells how many are needed.
    sample = "".join(_host_events(0, times, Truth(), stacks, seed)) + "".join(_device_events(0, times, Truth(), seed))
    steps = max(1, round(megabytes * 1e6 / len(sample.encode())))
    with path.open("w", buffering=1 << 20) as stream:
        stream.write(_HEADER % rank)
        separator = "\n"
        for events in (_host_events, _device_events):
            for step in range(steps):
                arguments = (stacks, seed) if events is _host_events else (seed,)
                for event in events(step, times, truth, *arguments):
                    stream.write(separator + event)
                    separator = ",\n"
        _finish(stream, times)
    return truth


_HEADER = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85014478848, "computeMajor": 9, "computeMinor": 0
    }
  ],
  "distributedInfo": {"backend": "nccl", "rank": %d, "world_size": 16,
  "pg_count": 1, "pg_config": [
    {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 16, "ranks": [0, 1, 2, 3]}
  ], "nccl_version": "2.21.5"},
  "traceEvents": ["""

_CALLS, _STEP_NS, _STEPS_PER_SEED = 400, 40_000_000, 64


def _finish(stream: TextIO, times: _Style) -> None:
    stream.write('\n  ],\n  "traceName": "trace.json",\n  "displayTimeUnit": "ms"')
    stream.write(f',\n  "baseTimeNanoseconds": {times.base_ns}\n}}\n' if times.base_ns else "\n}\n")


def _complete(category: str, name: str, thread: tuple[int, int], start: str, duration: str, arguments: str) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {thread[0]}, "tid": {thread[1]},\n'
        f'    "ts": {start}, "dur": {duration},\n    "args": {{\n      {arguments}\n    }}\n  }}'
    )


def _host_events(step: int, times: _Style, truth: Truth, stacks: bool, seed: int) -> Iterator[str]:
    chance = random.Random(f"{seed} host {step % _STEPS_PER_SEED}")
    begin = times.first_ns + step * _STEP_NS
    duration = times.rounded(_STEP_NS - 1000)
    thread = (_PID, _PID)
    truth.add("annotations", times.base_ns + times.rounded(begin), duration)
    yield _complete(
        "user_annotation", f"ProfilerStep#{step}", thread, times.text(begin), times.text(duration), f'"External id": {step}, "Ev Idx": 1'
    )
    for call in range(_CALLS):
        start = begin + call * (_STEP_NS // _CALLS)
        if stacks:
            for frame in range(chance.randrange(3, 8)):
                name = chance.choice(_FUNCTIONS) % chance.randrange(20, 900)
                arguments = f'"Python parent id": {call}, "Python id": {call + frame}, "Ev Idx": {call}'
                yield _complete(
                    "python_function", name, thread, times.text(start + frame * 100), times.text(60_000 - frame * 500), arguments
                )
        external = step * _CALLS + call + 1
        operator, shape = chance.choice(_OPERATORS), chance.randrange(3)
        length = chance.randrange(1_500, 60_000)
        arguments = (
            f'"External id": {external},"Record function id": 0, "Concrete Inputs": ["", "", ""], "Input type": {_TYPES[shape]}, '
            f'"Input Strides": {_DIMS[shape]}, "Input Dims": {_DIMS[shape]}, "Ev Idx": {call}'
        )
        yield _complete("cpu_op", operator, thread, times.text(start), times.text(length), arguments)
        if call % 20 == 19:
            truth.add("comm_calls", times.base_ns + times.rounded(start), times.rounded(length))
            yield _complete("cpu_op", "record_param_comms", thread, times.text(start), times.text(length), _metadata(call, external))


def _metadata(call: int, external: int) -> str:
    return (
        f'"External id": {external}, "Collective name": "{_COLLECTIVES[call // 20 % 3][0]}", "In msg nelems": 2049000, '
        '"Out msg nelems": 32784000, "Group size": 16, "dtype": "BFloat16", "In split size": "[]", "Out split size": "[]", '
        '"Process Group Name": "0", "Process Group Description": "default_pg", '
        f'"Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]", "Seq": {external}'
    )


def _flow(phase: str, identity: int, thread: tuple[int, int], at: str) -> str:
    binding = ', "bp": "e"' if phase == "f" else ""
    return (
        f'  {{\n    "ph": "{phase}", "id": {identity}, "pid": {thread[0]}, "tid": {thread[1]}, "ts": {at},\n'
        f'    "cat": "ac2g", "name": "ac2g"{binding}\n  }}'
    )


def _device_events(step: int, times: _Style, truth: Truth, seed: int) -> Iterator[str]:
    chance = random.Random(f"{seed} device {step % _STEPS_PER_SEED}")
    begin, thread = times.first_ns + step * _STEP_NS, (_PID, _PID)
    for call in range(_CALLS):
        start, external = begin + call * (_STEP_NS // _CALLS), step * _CALLS + call + 1
        correlation = external + 100
        length = chance.randrange(2_500, 9_000)
        is_launch = call % 3 == 2 or call % 20 == 19
        if is_launch:  # the other call asks and launches nothing
            truth.add("launches", times.base_ns + times.rounded(start), times.rounded(length))
        arguments = f'"External id": {external},\n      "cbid": 211, "correlation": {correlation}'
        name = "cudaLaunchKernel" if is_launch else "cudaStreamIsCapturing"
        yield _complete("cuda_runtime", name, thread, times.text(start), times.text(length), arguments)
        if not is_launch:
            yield _flow("f", correlation, thread, times.text(start))
            continue
        yield _flow("s", correlation, thread, times.text(start))
        is_collective = call % 20 == 19
        stream, length = (20, chance.randrange(40_000, 90_000)) if is_collective else (7, chance.randrange(1_200, 90_000))
        kernel = _COLLECTIVES[call // 20 % 3][1] if is_collective else chance.choice(_KERNELS)
        start += 9_000
        truth.add("device_events", times.base_ns + times.rounded(start), times.rounded(length))
        arguments = (
            f'"External id": {external},\n      "queued": 0, "device": 0, "context": 1,\n      "stream": {stream}, '
            f'"correlation": {correlation},\n      "registers per thread": 168,\n      "shared memory": 213248,\n'
            '      "blocks per SM": 7.757576,\n      "warps per SM": 93.090912,\n      "grid": [8, 128, 1],\n'
            '      "block": [384, 1, 1],\n      "est. achieved occupancy %": 19'
        )
        if is_collective:
            arguments += ",\n      " + _metadata(call, external).partition(", ")[2]
        yield _complete("kernel", kernel, (0, stream), times.text(start), times.text(length), arguments)
        yield _flow("f", correlation, (0, stream), times.text(start))


def main() -> None:
    """Write one trace and its truth beside it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("out", type=Path)
    parser.add_argument("megabytes", type=float)
    parser.add_argument("--style", choices=("ns", "us", "epoch"), default="ns")
    parser.add_argument("--stacks", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rank", type=int, default=0)
    given = parser.parse_args()
    truth = write_trace(given.out, given.megabytes, given.style, given.stacks, given.seed, given.rank)
    given.out.with_name(f"{given.out.name}.truth").write_text(json.dumps({"rows": truth.rows, "duration_ns": truth.duration_ns}))


if __name__ == "__main__":
    main()
