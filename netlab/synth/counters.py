"""Counters of the switches and NICs under a made run, consistent with its traffic: raw, cumulative, sampled on each device's own clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netlab.synth.fabric import Port, cables, noisy_port
from netlab.synth.simulate import Simulation, stalled_steps
from netlab.synth.spec import Group, Spec
from netlab.synth.truth import clock_offsets_ns

__all__ = ["counter_csv", "device_clocks_ns", "poll_ns"]

_MARGIN_NS = 1_000_000_000
#: RoCE v2 over 4 KiB packets: Ethernet, IP, UDP, transport headers and checksums.
_PAYLOAD_BYTES, _PACKET_BYTES = 4_096, 4_158
#: Share of packets that a corrupting cable loses, and bytes that go-back-N sends again for them.
_LOSS_RATIO, _RESENT_RATIO = 2e-3, 0.3
_MARKED_RATIO = 0.05
_PAUSES_PER_MB = 0.4
#: The longest stop that one pause frame asks for: 65,535 quanta of 512 bits at 400 Gbit/s.
_PAUSE_NS = 83_885.0
_NOISE_PER_S = 25.0
#: Mean utilisation of the ports of other jobs.
_OTHERS_UTILIZATION = 0.03

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class _Flow:
    """Growth of an amount: cumulative at instants, linear between."""

    at_ns: Floats
    total: Floats

    def at(self, instants: Floats) -> Floats:
        return np.asarray(np.interp(instants, self.at_ns, self.total), np.float64) if len(self.at_ns) else np.zeros(len(instants))

    def plus(self, other: _Flow) -> _Flow:
        at = np.union1d(self.at_ns, other.at_ns)
        return _Flow(at_ns=at, total=self.at(at) + other.at(at))


@dataclass(frozen=True, kw_only=True)
class _Load:
    """What a NIC carries: all bytes, those of the steps in which it stalls, and the time that it stands still in them."""

    carried: _Flow
    stalled: _Flow
    stall_ns: _Flow

    def plus(self, other: _Load) -> _Load:
        return _Load(
            carried=self.carried.plus(other.carried), stalled=self.stalled.plus(other.stalled), stall_ns=self.stall_ns.plus(other.stall_ns)
        )


@dataclass(frozen=True, kw_only=True)
class _Sample:
    """Cumulative amounts at a port's sampling times: bytes each way, packets lost, unrelated errors, bytes through a full leaf, pauses."""

    role: str
    received: Floats
    sent: Floats
    lost: Floats
    noise: Floats
    congested: Floats
    stops: Floats


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


def _traffic(simulation: Simulation) -> dict[int, _Load]:
    """What each rank's NIC carries between hosts: it sends as much as it receives."""
    spec = simulation.spec
    hit = stalled_steps(spec)
    found: dict[int, _Load] = {}
    for group in (*spec.groups_of("world"), *spec.groups_of("dp")):
        if spec.layer(group.ranks) != "inter_node":
            continue
        members = list(group.ranks)
        positions = [position for position, op in enumerate(simulation.program) if op.group == group.kind]
        amounts = np.array([_wire_bytes(spec, group, simulation.program[position].size_bytes) for position in positions])
        arrival = simulation.start_ns[:, positions][:, :, members].max(axis=2).astype(np.float64)
        for rank in members:
            end = simulation.end_ns[:, positions, rank].astype(np.float64)
            carried = np.broadcast_to(amounts, end.shape)
            lost_time = (end - arrival) * (1 - 1 / spec.stall_factor)
            load = _Load(
                carried=_flow(arrival, end, carried),
                stalled=_flow(arrival[hit], end[hit], carried[hit]),
                stall_ns=_flow(arrival[hit], end[hit], lost_time[hit]),
            )
            found[rank] = load.plus(found[rank]) if rank in found else load
    return found


def _wire_bytes(spec: Spec, group: Group, size_bytes: int) -> float:
    """Bytes that an all-reduce puts on the wire of each member's NIC; members on one host share the ring's way out."""
    members = len(group.ranks)
    local = members // len({spec.node_of(rank) for rank in group.ranks})
    payload = 2 * (members - 1) / members * size_bytes / local
    return payload / (spec.gradient_compression if group.kind == "dp" else 1.0) * _PACKET_BYTES / _PAYLOAD_BYTES


def _flow(start: Floats, end: Floats, amount: Floats) -> _Flow:
    """Each amount flows evenly from its start to its end."""
    start, end, amount = start.ravel(), end.ravel(), amount.ravel()
    at = np.concatenate((start, end))
    if not len(at):
        return _Flow(at_ns=at, total=at)
    rate = amount / np.maximum(end - start, 1)
    order = np.argsort(at, kind="stable")
    at, level = at[order], np.cumsum(np.concatenate((rate, -rate))[order])
    return _Flow(at_ns=at, total=np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(at)))))


def _port_rows(
    spec: Spec, port: Port, instants: Floats, stamps: Ints, traffic: dict[int, _Load], rng: np.random.Generator
) -> Iterator[str]:
    nothing = np.zeros(len(instants))
    loads = [traffic[rank] for rank in port.ranks if rank in traffic]
    carried = sum((load.carried.at(instants) for load in loads), nothing)
    stalled = port.ranks == (spec.stalled_rank,) and port.role in ("host", "hca")
    corrupted = loads[0].stalled.at(instants) if stalled and spec.stall_kind == "loss" else nothing
    stops = loads[0].stall_ns.at(instants) / _PAUSE_NS if stalled and spec.stall_kind == "pause" else nothing
    background = np.cumsum(rng.exponential(2_000.0 if port.ranks else _others_bytes(spec, port), len(instants)))
    sample = _Sample(
        role=port.role,
        received=carried + background + (corrupted * _RESENT_RATIO if port.role == "host" else 0),
        sent=carried + background + (corrupted * _RESENT_RATIO if port.role == "hca" else 0),
        lost=corrupted / _PACKET_BYTES * _LOSS_RATIO,
        noise=(instants - instants[0]) / 1e9 * _NOISE_PER_S if port.key == noisy_port(spec) else nothing,
        congested=carried if spec.oversubscription > 1 else nothing,
        stops=stops,
    )
    for queue, name, values in _nic_counters(sample) if port.role == "hca" else _switch_counters(sample):
        floor = int(rng.integers(10**9, 10**12)) if "OCTETS" in name or "bytes" in name else int(rng.integers(0, 200))
        counts = floor + np.floor(values).astype(np.int64)
        label = f"{port.device},{port.name},{queue},{name}"
        yield from (f"{stamp},{label},{count}\n" for stamp, count in zip(stamps.tolist(), counts.tolist(), strict=True))


def _others_bytes(spec: Spec, port: Port) -> float:
    """What another job's port carries between two samples, in the mean."""
    return _OTHERS_UTILIZATION * port.speed_gbps / 8 * poll_ns(spec)


def _switch_counters(sample: _Sample) -> Iterator[tuple[str, str, Floats]]:
    """As SONiC names them. Corrupted packets are counted where they come in; a full uplink marks packets, and its leaf stops the hosts."""
    nothing = np.zeros(len(sample.received))
    yield "", "SAI_PORT_STAT_IF_IN_OCTETS", sample.received
    yield "", "SAI_PORT_STAT_IF_OUT_OCTETS", sample.sent
    yield "", "SAI_PORT_STAT_IF_IN_UCAST_PKTS", sample.received / _PACKET_BYTES
    yield "", "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", sample.sent / _PACKET_BYTES
    yield "", "SAI_PORT_STAT_IF_IN_ERRORS", sample.lost + sample.noise
    yield "", "SAI_PORT_STAT_IF_OUT_DISCARDS", nothing
    yield "", "SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES", sample.lost + sample.noise
    yield "", "SAI_PORT_STAT_PFC_3_RX_PKTS", sample.stops
    yield "", "SAI_PORT_STAT_PFC_3_TX_PKTS", sample.congested / 1e6 * _PAUSES_PER_MB if sample.role == "host" else nothing
    marked = sample.congested / _PACKET_BYTES * _MARKED_RATIO if sample.role == "up" else nothing
    yield "3", "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS", marked


def _nic_counters(sample: _Sample) -> Iterator[tuple[str, str, Floats]]:
    """As ethtool and the RDMA statistics of an mlx5 NIC name them. The sender of lost packets is told by its peer and sends again."""
    yield "", "rx_bytes_phy", sample.received
    yield "", "tx_bytes_phy", sample.sent
    yield "", "rx_packets_phy", sample.received / _PACKET_BYTES
    yield "", "tx_packets_phy", sample.sent / _PACKET_BYTES
    yield "", "rx_discards_phy", np.zeros(len(sample.received))
    yield "", "rx_prio3_pause", sample.congested / 1e6 * _PAUSES_PER_MB
    yield "", "tx_prio3_pause", sample.stops
    yield "", "packet_seq_err", sample.lost / 8
    yield "", "rp_cnp_handled", sample.congested / _PACKET_BYTES * _MARKED_RATIO / 4
