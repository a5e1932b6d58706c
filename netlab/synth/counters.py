"""Counters of the switches and NICs under a made run, consistent with its traffic: raw, cumulative, sampled on each device's own clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netlab.synth.fabric import Port, cables
from netlab.synth.simulate import Simulation, lossy_steps
from netlab.synth.spec import Spec
from netlab.synth.truth import clock_offsets_ns

__all__ = ["counter_csv", "device_clocks_ns", "poll_ns"]

_MARGIN_NS = 1_000_000_000
#: RoCE v2 over 4 KiB packets: Ethernet, IP, UDP, transport headers and checksums.
_PAYLOAD_BYTES, _PACKET_BYTES = 4_096, 4_158
#: Share of packets that a corrupting cable loses, and bytes that go-back-N sends again for them.
_LOSS_RATIO, _RESENT_RATIO = 2e-3, 0.3
_MARKED_RATIO = 0.05
_PAUSES_PER_MB = 0.4

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class _Flow:
    """Growth of a byte count: cumulative bytes at instants, linear between."""

    at_ns: Floats
    total_bytes: Floats

    def bytes_at(self, instants: Floats) -> Floats:
        if not len(self.at_ns):
            return np.zeros(len(instants))
        return np.asarray(np.interp(instants, self.at_ns, self.total_bytes), np.float64)


def poll_ns(spec: Spec) -> int:
    """Interval between samples: 100 ms under a long run, 10 ms under a short one."""
    return 100_000_000 if spec.steps >= 40 else 10_000_000


def device_clocks_ns(spec: Spec) -> dict[str, int]:
    """How far each device's clock is ahead of the true one: hosts as in their traces, switches by up to 20 ms.

    >>> from netlab.synth.plants import spec_for
    >>> clocks = device_clocks_ns(spec_for("lossy-link"))
    >>> clocks["node0"], abs(clocks["leaf0"]) <= 20_000_000
    (0, True)
    """
    switches = sorted({port.device for cable in cables(spec) for port in (cable.a, cable.b) if not port.nic or port.role == "host"})
    drawn = np.random.default_rng([spec.seed, 21]).integers(-20_000_000, 20_000_001, len(switches))
    return clock_offsets_ns(spec) | {device: int(offset) for device, offset in zip(switches, drawn, strict=True)}


def counter_csv(simulation: Simulation, origin_ns: int) -> dict[str, str]:
    """One long counter CSV for each switch and host of the job, by device.

    Parameters
    ----------
    simulation
        The run.
    origin_ns
        Unix time of the simulation's zero.
    """
    spec = simulation.spec
    clocks = device_clocks_ns(spec)
    traffic = _traffic(simulation)
    by_device: dict[str, list[Port]] = {}
    for cable in cables(spec):
        for port in (cable.a, cable.b):
            if port.device in clocks:
                by_device.setdefault(port.device, []).append(port)
    files: dict[str, str] = {}
    for number, (device, own) in enumerate(sorted(by_device.items())):
        rng = np.random.default_rng([spec.seed, 22, number])
        instants = _sample_times(simulation, rng)
        stamps = origin_ns + np.rint(instants).astype(np.int64) + clocks[device]
        rows = [row for port in own for row in _port_rows(spec, port, instants, stamps, traffic, rng)]
        files[device] = "timestamp,device,port,queue,counter,value\n" + "".join(rows)
    return files


def _sample_times(simulation: Simulation, rng: np.random.Generator) -> Floats:
    interval = poll_ns(simulation.spec)
    end = int(simulation.step_start_ns[-1].max()) + _MARGIN_NS
    grid = np.arange(-_MARGIN_NS, end, interval, dtype=np.float64)
    return grid + rng.uniform(-0.02, 0.02, len(grid)) * interval


def _traffic(simulation: Simulation) -> dict[int, tuple[_Flow, _Flow]]:
    """Bytes that each rank's NIC sends, equal to those it receives: all, and those of the steps in which the lossy cable corrupts."""
    spec = simulation.spec
    hit = lossy_steps(spec)
    found: dict[int, tuple[_Flow, _Flow]] = {}
    for kind in ("world", "dp"):
        for group in spec.groups_of(kind):
            if spec.layer(group.ranks) != "inter_node":
                continue
            members = list(group.ranks)
            local = len(members) // len({spec.node_of(rank) for rank in members})
            positions = [position for position, op in enumerate(simulation.program) if op.group == kind]
            sizes = np.array([simulation.program[position].size_bytes for position in positions], np.float64)
            payload = (
                2
                * (len(members) - 1)
                / len(members)
                * sizes
                / local
                * _PACKET_BYTES
                / _PAYLOAD_BYTES
                / (spec.gradient_compression if kind == "dp" else 1.0)
            )
            arrival = simulation.start_ns[:, positions][:, :, members].max(axis=2).astype(np.float64)
            for rank in members:
                end = simulation.end_ns[:, positions, rank].astype(np.float64)
                amounts = np.broadcast_to(payload, end.shape)
                every = _flow(arrival.ravel(), end.ravel(), amounts.ravel())
                bad = _flow(arrival[hit].ravel(), end[hit].ravel(), amounts[hit].ravel())
                known = found.get(rank)
                found[rank] = (every, bad) if known is None else (_sum(known[0], every), _sum(known[1], bad))
    return found


def _flow(start: Floats, end: Floats, amount: Floats) -> _Flow:
    """Each amount flows evenly from its start to its end."""
    at = np.concatenate((start, end))
    rate = amount / np.maximum(end - start, 1)
    change = np.concatenate((rate, -rate))
    order = np.argsort(at, kind="stable")
    at, level = at[order], np.cumsum(change[order])
    total = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(at)))) if len(at) else at
    return _Flow(at_ns=at, total_bytes=total)


def _sum(one: _Flow, other: _Flow) -> _Flow:
    at = np.union1d(one.at_ns, other.at_ns)
    return _Flow(at_ns=at, total_bytes=one.bytes_at(at) + other.bytes_at(at))


def _port_rows(
    spec: Spec, port: Port, instants: Floats, stamps: Ints, traffic: dict[int, tuple[_Flow, _Flow]], rng: np.random.Generator
) -> Iterator[str]:
    carried = sum((traffic[rank][0].bytes_at(instants) for rank in port.ranks if rank in traffic), np.zeros(len(instants)))
    background = np.cumsum(rng.exponential(2_000.0, len(instants)))
    received = sent = carried + background
    lost = np.zeros(len(instants))
    if spec.lossy_rank is not None and port.ranks == (spec.lossy_rank,) and port.role in ("host", "hca"):
        corrupted = traffic[spec.lossy_rank][1].bytes_at(instants)
        lost = corrupted / _PACKET_BYTES * _LOSS_RATIO
        if port.role == "hca":
            sent = sent + corrupted * _RESENT_RATIO
        else:
            received = received + corrupted * _RESENT_RATIO
    congested = carried if spec.oversubscription > 1 else np.zeros(len(instants))
    columns = (
        _nic_counters(received, sent, lost, congested) if port.role == "hca" else _switch_counters(port, received, sent, lost, congested)
    )
    for queue, name, values in columns:
        floor = int(rng.integers(10**9, 10**12)) if "OCTETS" in name or "bytes" in name else int(rng.integers(0, 200))
        counts = floor + np.floor(values).astype(np.int64)
        label = f"{port.device},{port.name},{queue},{name}"
        yield from (f"{stamp},{label},{count}\n" for stamp, count in zip(stamps.tolist(), counts.tolist(), strict=True))


def _switch_counters(port: Port, received: Floats, sent: Floats, lost: Floats, congested: Floats) -> Iterator[tuple[str, str, Floats]]:
    """As SONiC names them: a cable's corrupted packets are counted where they come in; a full uplink marks packets and stops the hosts."""
    marked = congested / _PACKET_BYTES * _MARKED_RATIO if port.role == "up" else np.zeros(len(received))
    paused = congested / 1e6 * _PAUSES_PER_MB if port.role == "host" else np.zeros(len(received))
    yield "", "SAI_PORT_STAT_IF_IN_OCTETS", received
    yield "", "SAI_PORT_STAT_IF_OUT_OCTETS", sent
    yield "", "SAI_PORT_STAT_IF_IN_UCAST_PKTS", received / _PACKET_BYTES
    yield "", "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", sent / _PACKET_BYTES
    yield "", "SAI_PORT_STAT_IF_IN_ERRORS", lost
    yield "", "SAI_PORT_STAT_IF_OUT_DISCARDS", np.zeros(len(received))
    yield "", "SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES", lost
    yield "", "SAI_PORT_STAT_PFC_3_TX_PKTS", paused
    yield "3", "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS", marked


def _nic_counters(received: Floats, sent: Floats, lost: Floats, congested: Floats) -> Iterator[tuple[str, str, Floats]]:
    """As ethtool and the RDMA statistics of an mlx5 NIC name them. The sender of lost packets is told by its peer and sends again."""
    yield "", "rx_bytes_phy", received
    yield "", "tx_bytes_phy", sent
    yield "", "rx_packets_phy", received / _PACKET_BYTES
    yield "", "tx_packets_phy", sent / _PACKET_BYTES
    yield "", "rx_discards_phy", np.zeros(len(received))
    yield "", "packet_seq_err", lost / 8
    yield "", "rp_cnp_handled", congested / _PACKET_BYTES * _MARKED_RATIO / 4
