"""One of two Gloo ranks on this machine, recorded with netlab.capture: python two_ranks.py FOLDER RANK."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from netlab.recording import capture


def main(folder: Path, rank: int) -> None:
    """Train a small model for a few steps."""
    torch.set_num_threads(1)
    recording = capture(folder / "run", wait=1, warmup=1, active=2, counters_ms=20)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    with recording:
        for _ in range(5):
            model(torch.randn(8, 64)).sum().backward()
            recording.step()
    # torch's own threads sometimes abort a process that takes its group down or ends while the other is still connected ("terminate called
    # without an active exception"). Both wait until the other has left the barrier, and end without taking anything down.
    dist.barrier()
    time.sleep(0.5)
    print(recording.failures or "", file=sys.stderr, flush=True)
    os._exit(bool(recording.failures))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
