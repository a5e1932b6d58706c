"""Speed and memory of the NCCL log reader on generated logs.

    python benchmarks/nccl_log.py [--mb 500] [--kind calls|mixed|lifecycle|all]

A log is that of a whole job on one pipe. ``calls``: initialisation of 64 ranks, then steps of COLL lines, tuning choices, progress bars
and the application's own lines. ``mixed``: initialisations, channels, rings, trees and connections of four communicators of each of 1024
ranks, processes speaking in turns, then COLL, CALL and TRACE records; some lines torn. ``lifecycle``: only such initialisations, of as many
ranks as the size needs, so that nearly every record is different. Goal for the first two: 100 MB per CPU second, 400 MB at most.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

_OPS = (("AllReduce", 67108864, 9), ("AllGather", 4194304, 9), ("ReduceScatter", 4194304, 7), ("AllReduce", 512, 7), ("Send", 1048576, 9))
_ENV = (("NCCL_IB_HCA", "mlx5"), ("NCCL_SOCKET_IFNAME", "eth0"), ("NCCL_IB_GID_INDEX", "3"), ("NCCL_DEBUG_SUBSYS", "INIT,NET,ENV,COLL"))
_NICS = " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(8))
_CHANNELS = 16
_TORN = 0.0005


def _head(rank: int, thread: int) -> str:
    return f"gpu-a{rank // 8:04d}:{40000 + rank}:{thread + rank} [{rank % 8}] NCCL INFO "


def calls_only(out: TextIO, size_bytes: int, ranks: int = 64, seed: int = 1) -> None:
    """Mostly COLL lines."""
    random_ = random.Random(seed)
    pointers = [0x7F0000000000 + 0x100 * random_.randrange(1 << 28) for _ in range(ranks)]
    out.write("NCCL version 2.21.5+cuda12.4\n")
    for rank, pointer in enumerate(pointers):
        head = _head(rank, 61000)
        who = f"comm 0x{pointer:x} rank {rank} nranks {ranks} cudaDev {rank % 8} nvmlDev {rank % 8} busId {rank % 8 + 1}b000"
        out.write(f"{head}NET/IB : Using {_NICS} [RO]; OOB eth0:10.0.0.{rank}<0>\n")
        out.write(f"{head}Using network IB\n{head}ncclCommInitRank {who} commId 0x5a5a000000000001 - Init START\n")
        for channel in range(_CHANNELS):
            edge = f"{rank}[{rank % 8}] -> {(rank + 1) % ranks}[{(rank + 1) % 8}] [send]"
            out.write(f"{head}Channel {channel:02d}/0 : {edge} via NET/IB/{rank % 8}/GDRDMA\n")
        out.write(f"{head}ncclCommInitRank {who} commId 0x5a5a000000000001 - Init COMPLETE\n")
    step = count = 0
    while out.tell() < size_bytes:
        lines = []
        for name, elements, dtype in _OPS:
            count += 1
            for rank, pointer in enumerate(pointers):
                lines.append(_call(random_, rank, ranks, pointer, name, count, elements, dtype))
            choice = f"{elements * 2} Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..23}}"
            lines.append(f"{_head(0, 40000)}{name}: {choice}")
        lines.append(f"step {step} loss {random_.random():.4f} lr 3.0e-04")
        lines.append(f"\x1b[36mepoch 1:  {step % 100}%|###       | {step}/9999 [00:12<00:20]\x1b[0m")
        if step % 10 == 0:
            lines[random_.randrange(len(lines))] += lines[0][:60]
        out.write("\n".join(lines) + "\n")
        step += 1


def _call(random_: random.Random, rank: int, nranks: int, pointer: int, name: str, seq: int, elements: int, dtype: int) -> str:
    buffers = f"sendbuff 0x{random_.randrange(1 << 44):x} recvbuff 0x{random_.randrange(1 << 44):x}"
    rest = f"datatype {dtype} op 0 root 0 comm 0x{pointer:x} [nranks={nranks}] stream 0x5581{rank:04x}"
    return f"{_head(rank, 40000)}{name}: opCount {seq:x} {buffers} count {elements} {rest}"


def _communicators(rank: int, ranks: int) -> Iterator[tuple[int, int, int, bool]]:
    """Size, own rank, identity, and whether neighbours are on one host: world, tensor, data and pipeline parallel."""
    yield ranks, rank, 1, True
    yield 8, rank % 8, 0x1000 + rank // 8, True
    yield ranks // 8, rank // 8, 0x900000 + rank % 8, False
    yield 16, rank // 64 % 16, 0x700000 + rank % 64 + rank // 1024 * 64, False


def _lifecycle(rank: int, ranks: int, random_: random.Random, pointers: dict[tuple[int, int], int]) -> Iterator[str]:
    """What one process prints until its communicators are connected."""
    head, device = _head(rank, 61000), rank % 8
    yield f"{_head(rank, 40000)}Bootstrap : Using eth0:10.{rank >> 16 & 255}.{rank >> 8 & 255}.{rank & 255}<0>"
    yield f"{_head(rank, 40000)}cudaDriverVersion 12040"
    yield from (f"{head}{name} set by environment to {value}." for name, value in _ENV)
    yield f"{head}NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin."
    yield f"{head}NET/IB : Using {_NICS} [RO]; OOB eth0:10.0.{rank >> 8 & 255}.{rank & 255}<0>"
    for number, (size, own, identity, local) in enumerate(_communicators(rank, ranks)):
        pointer = pointers[rank, number] = 0x7F0000000000 + 0x100 * random_.randrange(1 << 28)
        who = f"comm 0x{pointer:x} rank {own} nranks {size} cudaDev {device} nvmlDev {device} busId {device + 1}b000"
        after, before = (own + 1) % size, (own - 1) % size
        yield f"{head}Using network IB"
        yield f"{head}ncclCommInitRank {who} commId 0x5a5a0000{identity:08x} - Init START"
        yield f"{head}Setting affinity for GPU {device} to ffffffff,ffffffff"
        yield f"{head}NVLS multicast support is available on dev {device}"
        hosts = max(size // 8, 1) if local else size
        yield f"{head}comm 0x{pointer:x} rank {own} nRanks {size} nNodes {hosts} localRanks {size // hosts} localRank {own % 8} MNNVL 0"
        if own == 0:
            order = " ".join(f"{other:>3}" for other in range(min(size, 20)))
            yield from (f"{head}Channel {channel:02d}/{_CHANNELS} : {order}" for channel in range(_CHANNELS))
        yield f"{head}Trees " + " ".join(f"[{channel}] {after}/-1/-1->{own}->{before}" for channel in range(_CHANNELS))
        yield f"{head}P2P Chunksize set to 131072"
        for channel in range(_CHANNELS):
            inside = local and size == 8
            if inside or (local and own % 8 != 7):
                yield f"{head}Channel {channel:02d}/0 : {own}[{device}] -> {after}[{(device + 1) % 8}] via P2P/IPC"
            else:
                yield f"{head}Channel {channel:02d}/0 : {own}[{device}] -> {after}[{device}] [send] via NET/IB/{channel % 8}/GDRDMA"
            if not inside and (not local or own % 8 == 0):
                yield f"{head}Channel {channel:02d}/0 : {before}[{device}] -> {own}[{device}] [receive] via NET/IB/{channel % 8}/GDRDMA"
        yield f"{head}Connected all rings"
        for channel in range(_CHANNELS):
            yield f"{head}Channel {channel:02d}/0 : {own}[{device}] -> {before}[{(device - 1) % 8}] via P2P/IPC/read"
        yield f"{head}Connected all trees"
        yield f"{head}threadThresholds 8/8/64 | {8 * size}/8/64 | 512 | 512"
        yield f"{head}16 coll channels, 0 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer"
        yield f"{head}ncclCommInitRank {who} commId 0x5a5a0000{identity:08x} - Init COMPLETE"
        parts = (
            f"kernels 0.21, bootstrap 1.{random_.randrange(100):02d}, allgathers 0.01, topo 0.05, graphs 0.02, connections 0.11, rest 0.01"
        )
        yield f"{head}Init timings: rank {own} nranks {size} total {random_.random() * 3 + 0.5:.2f} ({parts})"


def _begin(out: TextIO, size_bytes: int, ranks: int, random_: random.Random) -> dict[tuple[int, int], int]:
    """Initialise 64 processes at a time, which speak in turns, until all have or the size is reached."""
    pointers: dict[tuple[int, int], int] = {}
    out.write("NCCL version 2.21.5+cuda12.4\n")
    for first in range(0, ranks, 64):
        if out.tell() >= size_bytes:
            break
        speaking = [_lifecycle(rank, ranks, random_, pointers) for rank in range(first, min(first + 64, ranks))]
        while speaking:
            process = random_.choice(speaking)
            for _ in range(random_.randrange(1, 12)):
                line = next(process, None)
                if line is None:
                    speaking.remove(process)
                    break
                out.write((line[: random_.randrange(20, len(line))] if random_.random() < _TORN else line) + "\n")
    return pointers


def mixed(out: TextIO, size_bytes: int, ranks: int = 1024, seed: int = 1) -> None:
    """Initialisations of many ranks, then calls."""
    random_ = random.Random(seed)
    pointers = _begin(out, size_bytes, ranks, random_)
    sizes = [[size for size, *_ in _communicators(rank, ranks)] for rank in range(ranks)]
    count = 0
    while out.tell() < size_bytes:
        count += 1
        name, elements, dtype = _OPS[count % 4]
        for rank in range(ranks):
            number = count % 4
            line = _call(random_, rank, sizes[rank][number], pointers[rank, number], name, count, elements, dtype)
            out.write((line[: random_.randrange(20, len(line))] if random_.random() < _TORN else line) + "\n")
            if rank % 8 == 0 and number == 0:
                start = f"gpu-a{rank // 8:04d}:{40000 + rank}:{40000 + rank}"
                out.write(f"{start} NCCL CALL ncclAllReduce({random_.randrange(1 << 44):x},0,{elements},9,0,0,0x7f01,0x5581)\n")
                out.write(
                    f"{start} [0] {random_.random() * 1e5:.6f} enqueue.cc:1234 NCCL TRACE sendbuff 0x{random_.randrange(1 << 44):x}\n"
                )
        out.write(f"step {count} loss {random_.random():.4f} lr 3.0e-04\n")


def lifecycle(out: TextIO, size_bytes: int, seed: int = 1) -> None:
    """Nothing but initialisations."""
    _begin(out, size_bytes, 1 << 16, random.Random(seed))


_KINDS: dict[str, Callable[[TextIO, int], None]] = {"calls": calls_only, "mixed": mixed, "lifecycle": lifecycle}


def main() -> None:
    """Generate, read in a process of its own, print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=500)
    parser.add_argument("--kind", choices=[*_KINDS, "all"], default="all")
    parser.add_argument("--read", type=Path)
    arguments = parser.parse_args()
    if arguments.read is not None:
        _read(arguments.read)
        return
    for kind in _KINDS if arguments.kind == "all" else [arguments.kind]:
        with tempfile.TemporaryDirectory() as folder:
            log, small = Path(folder) / "job.log", Path(folder) / "small.log"
            for path, size in ((log, arguments.mb * 1_000_000), (small, 8_000_000)):
                with path.open("w", encoding="utf-8") as out:
                    _KINDS[kind](out, size)
            _measure(small)  # compiled code comes into the cache
            base, _, _ = _measure(small)
            cpu_s, wall_s, peak_mb = _measure(log)
            size_mb = log.stat().st_size / 1e6
            sys.stdout.write(
                f"{kind}: {size_mb:.0f} MB, {cpu_s:.2f} s CPU, {wall_s:.2f} s wall, peak {peak_mb:.0f} MB; "
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
