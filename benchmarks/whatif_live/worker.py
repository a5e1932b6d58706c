"""One rank of the live experiment: short blocks of every variant in turn, so that noise of the machine hits all of them alike.

    python -m benchmarks.whatif_live.worker SCHEDULE OUT

SCHEDULE is the JSON of `benchmarks.whatif_live.cases.schedule`. Writes OUT/times-r<rank>.json, and a trace of each profiled block.
"""

from __future__ import annotations

import copy
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.whatif_live.network import set_rate

_WARM_UP = 4


class Trainer:
    """A multilayer perceptron under DDP, once for each way of sending its gradients."""

    def __init__(self, width: int, layers: int, batch: int) -> None:
        self._model = nn.Sequential(*[layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU())])
        self._inputs = torch.randn(batch, width)
        self._variants: dict[tuple[float, str | None], tuple[Any, Any]] = {}
        self.elements = sum(parameter.numel() for parameter in self._model.parameters())

    def step(self, block: dict[str, Any]) -> None:
        """One optimizer step of a block's variant."""
        model, optimizer = self._variant(block["bucket_mb"], block["hook"])
        busy_until = time.perf_counter() + block["busy_ms"] / 1e3 * (dist.get_rank() == block["busy_rank"])
        optimizer.zero_grad(set_to_none=True)
        for number in range(block["micro_batches"]):
            last = number == block["micro_batches"] - 1
            with nullcontext() if last else model.no_sync():
                loss = model(self._inputs).square().mean()
                # Work, not sleep: a sleeping rank would lend its core to the others.
                while time.perf_counter() < busy_until:
                    pass
                loss.backward()
        optimizer.step()

    def _variant(self, bucket_mb: float, hook: str | None) -> tuple[Any, Any]:
        key = (bucket_mb, hook)
        if key not in self._variants:
            model = nn.parallel.DistributedDataParallel(copy.deepcopy(self._model), bucket_cap_mb=bucket_mb)
            if hook == "fp16":
                model.register_comm_hook(None, fp16_compress_hook)
            self._variants[key] = (model, torch.optim.SGD(model.parameters(), lr=1e-3))
        return self._variants[key]


def timed_ms(work: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def codec_ms(elements: int) -> float:
    """Casting a gradient to half precision, and back: medians of five."""
    flat, half = torch.randn(elements), torch.randn(elements).half()
    there = statistics.median(timed_ms(lambda: flat.to(torch.float16).div_(2)) for _ in range(5))
    return there + statistics.median(timed_ms(lambda: flat.copy_(half)) for _ in range(5))


def run(schedule: dict[str, Any], out: Path) -> None:
    """Warm every variant up, then go through the rounds."""
    rank = dist.get_rank()
    trainer = Trainer(**schedule["model"])

    def shape(block: dict[str, Any]) -> None:
        dist.barrier()
        if rank == 0:
            set_rate(schedule["placement"], block["host_mbit"], block["uplink_mbit"])
        dist.barrier()

    for block in schedule["blocks"]:
        shape(block | {"host_mbit": 10_000, "uplink_mbit": None})
        for _ in range(_WARM_UP):
            trainer.step(block | {"busy_ms": 0.0})
    results, number = [], 0
    for turn in range(schedule["rounds"]):
        for block in schedule["blocks"]:
            shape(block)
            trainer.step(block)
            dist.barrier()
            if not block["profiled"]:
                results.append({"case": block["case"], "ms": [timed_ms(lambda: trainer.step(block)) for _ in range(schedule["steps"])]})  # noqa: B023
                continue
            with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
                for _ in range(schedule["steps"]):
                    with record_function(f"ProfilerStep#{number}"):
                        trainer.step(block)
                    number += 1
            profiler.export_chrome_trace(str(out / f"{block['case']}-{turn}-rank{rank}.pt.trace.json"))
            results.append({"case": "codec", "ms": [codec_ms(trainer.elements)]})
    (out / f"times-r{rank}.json").write_text(json.dumps(results))


def main() -> None:
    """Join the job, run, leave."""
    schedule, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    os.sched_setaffinity(0, {int(os.environ["RANK"]) % (os.cpu_count() or 1)})
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    run(schedule, out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
