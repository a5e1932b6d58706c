"""A thread that reads this host's network counters and appends them to a CSV file."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CounterFile", "CounterSampler", "find_counters", "find_speeds"]

_NET = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
_INFINIBAND = (
    "port_xmit_data",
    "port_rcv_data",
    "port_xmit_packets",
    "port_rcv_packets",
    "port_xmit_wait",
    "port_xmit_discards",
    "port_rcv_errors",
    "symbol_error",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
)
_INFINIBAND_HARDWARE = (
    "np_ecn_marked_roce_packets",
    "np_cnp_sent",
    "rp_cnp_handled",
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "roce_adp_retrans",
)
_READ_BYTES = 64
#: A round that took more than this share of the interval is read again, so often at most.
_LARGEST_SPREAD, _TRIES = 0.05, 3


@dataclass(frozen=True, kw_only=True)
class CounterFile:
    """One counter of one port, and where the kernel shows it."""

    port: str
    counter: str
    path: Path


def find_counters(root: Path = Path("/sys/class")) -> list[CounterFile]:
    """Counters of network interfaces (not the loopback, not those that are down) and InfiniBand/RoCE ports of this host, sorted.

    >>> find_counters(Path("/nowhere"))
    []
    """
    found: list[CounterFile] = []
    for interface in sorted((root / "net").glob("*")):
        if interface.name != "lo" and _text(interface / "operstate") != "down":
            found += _present(interface.name, interface / "statistics", _NET)
    for port in sorted((root / "infiniband").glob("*/ports/*")):
        name = _infiniband_name(port)
        found += _present(name, port / "counters", _INFINIBAND)
        found += _present(name, port / "hw_counters", _INFINIBAND_HARDWARE)
    return found


def find_speeds(root: Path = Path("/sys/class")) -> dict[str, float]:
    """Speed of this host's ports in Gbit/s, where the hardware tells one; virtual interfaces only pretend to have a speed.

    >>> find_speeds(Path("/nowhere"))
    {}
    """
    found: dict[str, float] = {}
    for interface in sorted((root / "net").glob("*")):
        text = _text(interface / "speed")
        if (interface / "device").exists() and text.isdigit() and int(text) > 0:
            found[interface.name] = int(text) / 1000
    for port in sorted((root / "infiniband").glob("*/ports/*")):
        number = _text(port / "rate").split(" ")[0]
        if number.replace(".", "", 1).isdigit():
            found[_infiniband_name(port)] = float(number)
    return found


def _infiniband_name(port: Path) -> str:
    device = port.parent.parent.name
    return device if port.name == "1" else f"{device}/{port.name}"


def _text(path: Path) -> str:
    """Content of a small file; empty where it is missing or the kernel refuses (an interface without a link has no speed)."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _present(port: str, folder: Path, names: tuple[str, ...]) -> list[CounterFile]:
    return [CounterFile(port=port, counter=name, path=folder / name) for name in names if (folder / name).is_file()]


class CounterSampler:
    """Samples counters every ``interval_s`` until stopped; the file is netlab's long counter CSV.

    All counters of a round get the time of the round's middle. A round during which this thread lost its core is read again, for at short
    intervals a time that is off by a millisecond makes a link look faster than it is.
    """

    def __init__(self, path: Path, host: str, interval_s: float, counters: list[CounterFile]) -> None:
        self.path = path
        self.host = host
        self.interval_s = interval_s
        self.counters = counters
        self.rounds = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="netlab-counters", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def stop(self) -> None:
        """Take a last sample and close the file."""
        self._stop.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        open_files: list[tuple[str, int]] = []
        try:
            for counter in self.counters:
                open_files.append((f"{self.host},{counter.port},{counter.counter}", os.open(counter.path, os.O_RDONLY)))
            with self.path.open("w", buffering=1 << 16) as stream:
                stream.write("timestamp,device,port,counter,value\n")
                following = time.monotonic()
                while True:
                    stream.write(_round(open_files, self.interval_s))
                    self.rounds += 1
                    if self._stop.is_set():
                        return
                    following = next_round(following, time.monotonic(), self.interval_s)
                    self._stop.wait(following - time.monotonic())
        finally:
            for _, handle in open_files:
                os.close(handle)


def next_round(last_s: float, now_s: float, interval_s: float) -> float:
    """When to sample next: one interval after the last round was due, or after now if that round came so late that little of it is left.

    A late round is not made up for: two samples within a fraction of a millisecond say nothing about a rate.

    >>> next_round(1.0, 1.001, 0.01), next_round(1.0, 1.25, 0.01)
    (1.01, 1.26)
    """
    due = last_s + interval_s
    return due if due >= now_s + interval_s / 2 else now_s + interval_s


def _round(open_files: list[tuple[str, int]], interval_s: float) -> str:
    """One sample of every counter; one that cannot be read at the moment (a port that went down) is left out."""
    for _ in range(_TRIES):
        before = time.time_ns()
        values: list[tuple[str, str]] = []
        for label, handle in open_files:
            try:
                values.append((label, os.pread(handle, _READ_BYTES, 0).decode("ascii").strip()))
            except OSError:
                continue
        after = time.time_ns()
        if after - before < interval_s * 1e9 * _LARGEST_SPREAD:
            break
    instant = (before + after) // 2
    return "".join(f"{instant},{label},{value}\n" for label, value in values if value.isdigit())
