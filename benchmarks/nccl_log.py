"""Speed and memory of the NCCL log reader on a generated log.

    python benchmarks/nccl_log.py [--mb 500] [--ranks 64]

The log is that of a whole job on one pipe: initialisation of every rank, then steps of COLL lines, the tuning choices of rank 0, progress
bars and lines of the application, some lines torn. Goal: 100 MB per CPU second, 400 MB at most.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_OPS = (("AllReduce", 67108864, 9), ("AllGather", 4194304, 9), ("ReduceScatter", 4194304, 7), ("AllReduce", 512, 7), ("Send", 1048576, 9))


def generate(path: Path, size_bytes: int, ranks: int, seed: int = 1) -> None:
    """Write a log of about that size."""
    random_ = random.Random(seed)
    hosts = [f"gpu-a{rank // 8:03d}" for rank in range(ranks)]
    pointers = [0x7F0000000000 + 0x100 * random_.randrange(1 << 28) for _ in range(ranks)]
    with path.open("w", encoding="utf-8") as out:
        out.write("NCCL version 2.21.5+cuda12.4\n")
        for rank, (host, pointer) in enumerate(zip(hosts, pointers, strict=True)):
            head = f"{host}:{40000 + rank}:{41000 + rank} [{rank % 8}] NCCL INFO "
            who = f"comm 0x{pointer:x} rank {rank} nranks {ranks} cudaDev {rank % 8} nvmlDev {rank % 8} busId {rank % 8 + 1}b000"
            out.write(f"{head}NET/IB : Using {' '.join(f'[{i}]mlx5_{i}:1/IB' for i in range(8))} [RO]; OOB eth0:10.0.0.{rank}<0>\n")
            out.write(f"{head}Using network IB\n{head}ncclCommInitRank {who} commId 0x5a5a000000000001 - Init START\n")
            for channel in range(16):
                edge = f"{rank}[{rank % 8}] -> {(rank + 1) % ranks}[{(rank + 1) % 8}] [send]"
                out.write(f"{head}Channel {channel:02d}/0 : {edge} via NET/IB/{rank % 8}/GDRDMA\n")
            out.write(f"{head}ncclCommInitRank {who} commId 0x5a5a000000000001 - Init COMPLETE\n")
        step = count = 0
        while out.tell() < size_bytes:
            lines = []
            for name, elements, dtype in _OPS:
                count += 1
                for rank, (host, pointer) in enumerate(zip(hosts, pointers, strict=True)):
                    buffers = f"sendbuff 0x{random_.randrange(1 << 44):x} recvbuff 0x{random_.randrange(1 << 44):x}"
                    lines.append(
                        f"{host}:{40000 + rank}:{40000 + rank} [{rank % 8}] NCCL INFO {name}: opCount {count:x} {buffers} count {elements} "
                        f"datatype {dtype} op 0 root 0 comm 0x{pointer:x} [nranks={ranks}] stream 0x5581{rank:04x}"
                    )
                choice = f"{elements * 2} Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..23}}"
                lines.append(f"{hosts[0]}:40000:40000 [0] NCCL INFO {name}: {choice}")
            lines.append(f"step {step} loss {random_.random():.4f} lr 3.0e-04")
            lines.append(f"\x1b[36mepoch 1:  {step % 100}%|###       | {step}/9999 [00:12<00:20]\x1b[0m")
            if step % 10 == 0:
                lines[random_.randrange(len(lines))] += lines[0][:60]
            out.write("\n".join(lines) + "\n")
            step += 1


def main() -> None:
    """Generate, read in a process of its own, print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=500)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--read", type=Path)
    arguments = parser.parse_args()
    if arguments.read is not None:
        _read(arguments.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "job.log"
        generate(log, arguments.mb * 1_000_000, arguments.ranks)
        small = Path(folder) / "small.log"
        generate(small, 8_000_000, arguments.ranks)
        _measure(small)  # compiled code comes into the cache
        base, _, _ = _measure(small)
        cpu_s, wall_s, peak_mb = _measure(log)
        size_mb = log.stat().st_size / 1e6
        sys.stdout.write(
            f"{size_mb:.0f} MB, {arguments.ranks} ranks: {cpu_s:.2f} s CPU, {wall_s:.2f} s wall, peak {peak_mb:.0f} MB; "
            f"{size_mb / cpu_s:.0f} MB per CPU second, {(size_mb - 8) / (cpu_s - base):.0f} net of start-up ({base:.2f} s)\n"
        )


def _measure(log: Path) -> tuple[float, float, float]:
    started = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, __file__, "--read", str(log)], check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu_s, time.perf_counter() - started, float(done.stdout.split()[-1])


def _read(log: Path) -> None:
    from netlab.readers.base import Sink
    from netlab.readers.nccl.log import LogReader

    with tempfile.TemporaryDirectory(dir=os.fspath(log.parent)) as folder:
        parsed = LogReader().read(log, Sink(Path(folder)), log.name)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    sys.stdout.write(f"{parsed.rows} records, {parsed.lines_unparsed} unparsed, peak_mb {peak_mb:.0f}\n")


if __name__ == "__main__":
    main()
