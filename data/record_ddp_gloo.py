"""Record data/ddp-gloo-4rank: a real 4-rank DDP run over Gloo, each rank a host of its own behind a rate-limited switch.

Hosts are network namespaces with a host name of their own; the switch is a Linux bridge in a fifth one. A token bucket on both ends of
every cable passes about 200 Mbit/s. The bridge's port counters are sampled every 10 ms. Needs root, `ip`, `tc`, and `netlab[torch]`; takes
a minute.

Run from the project's folder: sudo python data/record_ddp_gloo.py [FOLDER]
"""

from __future__ import annotations

import csv
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOSTS = ("node0", "node1", "node2", "node3")
SWITCH = "leaf1"
MBIT = 200
#: 180 Mbit/s and a bucket of 32 KiB are at most 206 Mbit/s in any 10 ms, the interval at which the ports are sampled.
SHAPE = ("root", "tbf", "rate", "180mbit", "burst", "32kb", "latency", "50ms")
STEPS = 14


def train() -> None:
    """The recorded loop, in one process per rank."""
    import torch
    import torch.distributed as dist
    from torch import nn

    import netlab.recording as recording

    torch.manual_seed(0)
    torch.set_num_threads(1)
    capture = recording.capture(os.environ["CAPTURE_FOLDER"], name="ddp-gloo-4rank", wait=2, warmup=2, active=8, counters_ms=20)
    dist.init_process_group("gloo")
    layers = [layer for _ in range(5) for layer in (nn.Linear(512, 512), nn.GELU())]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers, nn.Linear(512, 10)), bucket_cap_mb=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = nn.CrossEntropyLoss()
    with capture:
        for _ in range(STEPS):
            inputs, labels = torch.randn(256, 512), torch.randint(0, 10, (256,))
            optimizer.zero_grad()
            loss_of(model(inputs), labels).backward()
            optimizer.step()
            capture.step()
    dist.destroy_process_group()
    if capture.failures:
        raise SystemExit(f"rank {os.environ['RANK']}: {capture.failures}")


def sample(path: str, stop: str) -> None:
    """Sample the switch's ports until the file ``stop`` exists."""
    from netlab.recording.sampler import CounterSampler, find_counters

    ports = [counter for counter in find_counters() if counter.port.startswith("swp")]
    sampler = CounterSampler(Path(path), SWITCH, 0.010, ports)
    sampler.start()
    while not Path(stop).exists():
        time.sleep(0.05)
    sampler.stop()


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _inside(namespace: str, *command: str) -> list[str]:
    """A command inside a namespace with a host name of its own."""
    return ["ip", "netns", "exec", namespace, "unshare", "--uts", "sh", "-c", f'hostname {namespace}; exec "$@"', "sh", *command]


def _build() -> None:
    for namespace in (SWITCH, *HOSTS):
        _run("ip", "netns", "add", namespace)
        _run("ip", "-n", namespace, "link", "set", "lo", "up")
    _run("ip", "-n", SWITCH, "link", "add", "br0", "type", "bridge")
    _run("ip", "-n", SWITCH, "link", "set", "br0", "mtu", "9000", "up")
    for number, host in enumerate(HOSTS, start=1):
        port = f"swp{number}"
        _run("ip", "link", "add", port, "netns", SWITCH, "type", "veth", "peer", "name", "eth0", "netns", host)
        _run("ip", "-n", SWITCH, "link", "set", port, "mtu", "9000", "master", "br0", "up")
        _run("ip", "-n", host, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
        _run("ip", "-n", host, "link", "set", "eth0", "mtu", "9000", "up")
        for namespace, device in ((SWITCH, port), (host, "eth0")):
            _run("ip", "netns", "exec", namespace, "tc", "qdisc", "add", "dev", device, *SHAPE)


def _remove() -> None:
    for namespace in (*HOSTS, SWITCH):
        subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


def record(folder: Path) -> None:
    """Build the network, run the job, collect the files."""
    _remove()
    with tempfile.TemporaryDirectory() as scratch:
        work, stop = Path(scratch) / "run", Path(scratch) / "stop"
        script = [sys.executable, str(Path(__file__).resolve())]
        try:
            _build()
            sampler = subprocess.Popen(
                _inside(SWITCH, "nice", "-n", "-15", *script, "--sample", str(work / "counters" / f"{SWITCH}.csv"), str(stop))
            )
            ranks = []
            for rank, host in enumerate(HOSTS):
                place = {"RANK": str(rank), "WORLD_SIZE": str(len(HOSTS)), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
                network = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0"}
                environment = os.environ | place | network | {"CAPTURE_FOLDER": str(work), "OMP_NUM_THREADS": "1"}
                ranks.append(subprocess.Popen(_inside(host, *script, "--train"), env=environment))
            codes = [process.wait(timeout=300) for process in ranks]
            stop.touch()
            sampler.wait(timeout=30)
        finally:
            _remove()
        if any(codes):
            raise SystemExit(f"a rank failed: exit codes {codes}")
        _collect(work, folder)


def _collect(work: Path, folder: Path) -> None:
    """Copy the recording, packed reproducibly, with the temporary path of the trace writer replaced by the file's name."""
    for old in ("traces", "counters"):
        shutil.rmtree(folder / old, ignore_errors=True)
        (folder / old).mkdir(parents=True)
    for path in sorted((work / "traces").iterdir()):
        lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
        text = "".join(f'  ],"traceName": "{path.stem}" }}\n' if '"traceName"' in line else line for line in lines)
        (folder / "traces" / path.name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    for path in sorted((work / "counters").glob("*.csv")):
        (folder / "counters" / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    rows = [row for path in sorted((work / "ranks").iterdir()) for row in csv.DictReader(path.open())]
    _table(folder / "ranks.csv", list(rows[0]), [list(row.values()) for row in rows])
    cables = [[SWITCH, f"swp{number}", host, "eth0", MBIT / 1000] for number, host in enumerate(HOSTS, start=1)]
    _table(folder / "links.csv", ["a_device", "a_port", "b_device", "b_port", "speed_gbps"], cables)
    ports = [[SWITCH, f"swp{number}", MBIT / 1000, "host"] for number in range(1, len(HOSTS) + 1)]
    ports += [[host, "eth0", MBIT / 1000, "hca"] for host in HOSTS]
    _table(folder / "ports.csv", ["device", "port", "speed_gbps", "role"], ports)
    run_file = (work / "netlab.toml").read_text()
    (folder / "netlab.toml").write_text(f"{run_file}\n[links]\ninter_node_gbps = {MBIT / 1000}\n")


def _table(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--train"]:
            train()
        case ["--sample", path, stop]:
            sample(path, stop)
        case arguments:
            record(Path(arguments[0]) if arguments else Path(__file__).parent / "ddp-gloo-4rank")
