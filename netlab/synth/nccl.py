"""NCCL_DEBUG=INFO logs of a made run, one file per process, in the wording of NCCL 2.27, 2.18 or 2.17.

Connections stand inside each communicator's initialisation: since 2.22 that is so with ``NCCL_RUNTIME_CONNECT=0``, which the logs name.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netlab.synth.spec import Group, Spec

__all__ = ["BUS_IDS", "log_name", "nccl_log", "process_id", "ring_orders"]

BUS_IDS = ("1b000", "2c000", "3d000", "4e000", "9a000", "ab000", "bc000", "cd000")


def process_id(spec: Spec, rank: int) -> int:
    """Process of a rank on its host; the same in traces and logs."""
    return 4_100 + 10 * spec.local_rank(rank)


def log_name(spec: Spec, rank: int) -> str:
    """What ``NCCL_DEBUG_FILE=nccl.%h.%p.log`` gives for a rank."""
    return f"nccl.{spec.hosts[spec.node_of(rank)]}.{process_id(spec, rank)}.log"


def ring_orders(spec: Spec, group: Group) -> list[tuple[int, ...]]:
    """Order of a group's members in the ring of each channel.

    Every host is entered and left through another GPU on each channel, so its NICs share the load. Neighbouring hosts are passed in
    opposite order, so a ring leaves and arrives on NICs of one index.

    >>> from netlab.synth.plants import spec_for
    >>> spec = spec_for("none", ranks=4)
    >>> ring_orders(spec, spec.groups[0])[:2]
    [(0, 1, 3, 2), (1, 0, 2, 3)]
    """
    by_node: dict[int, list[int]] = {}
    for rank in group.ranks:
        by_node.setdefault(spec.node_of(rank), []).append(rank)
    local = max(len(ranks) for ranks in by_node.values())
    channels = local * -(-(16 if len(by_node) == 1 else 8) // local)
    orders: list[tuple[int, ...]] = []
    for channel in range(channels):
        order: list[int] = []
        for place, ranks in enumerate(by_node.values()):
            turned = ranks[channel % len(ranks) :] + ranks[: channel % len(ranks)]
            order += turned if place % 2 == 0 else turned[::-1]
        orders.append(tuple(order))
    return orders


def nccl_log(spec: Spec, rank: int) -> str:
    """The log of one rank's process.

    >>> from netlab.synth.plants import spec_for
    >>> "via NET/Socket" in nccl_log(spec_for("socket-fallback"), 0), "via NET/IB" in nccl_log(spec_for("none"), 0)
    (True, True)
    """
    host, process, device = spec.hosts[spec.node_of(rank)], process_id(spec, rank), spec.local_rank(rank)
    lines: list[str] = [f"{host}:{process}:{process} [{device}] NCCL INFO {text}" for text in _process_lines(spec, rank)]
    for number, group in enumerate(group for group in spec.groups if rank in group.ranks and len(group.ranks) > 1):
        thread = process + 60 + 2 * number
        lines += [f"{host}:{process}:{thread} [{device}] NCCL INFO {text}" for text in _communicator_lines(spec, rank, group)]
    return "\n".join(lines) + "\n"


def _since(spec: Spec, *version: int) -> bool:
    return tuple(int(part) for part in spec.nccl_version.split(".")[:2]) >= version


def _is_current(spec: Spec) -> bool:
    return _since(spec, 2, 22)


def _process_lines(spec: Spec, rank: int) -> Iterator[str]:
    address = f"10.20.0.{10 + spec.node_of(rank)}"
    current = _is_current(spec)
    yield f"Bootstrap{'' if current else ' '}: Using eth0:{address}<0>"
    yield "cudaDriverVersion 12080"
    yield f"NCCL version {spec.nccl_version}+cuda12.8"
    if current:
        yield "NCCL_RUNTIME_CONNECT set by environment to 0."


def _network_lines(spec: Spec, rank: int) -> Iterator[str]:
    address = f"10.20.0.{10 + spec.node_of(rank)}"
    current = _is_current(spec)
    if spec.transport == "IB":
        nics = " ".join(f"[{device}]mlx5_{device}:1/RoCE" for device in range(spec.gpus_per_node))
        yield f"NET/IB : Using {nics} [RO]; OOB eth0:{address}<0>"
    else:
        yield "NET/IB : No device found."
        yield f"NET/Socket : Using [0]eth0:{address}<0>"
    if current:
        yield f"Initialized NET plugin {spec.transport}"
        yield f"Assigned NET plugin {spec.transport} to comm"
    yield f"Using network {spec.transport}"


def _communicator_lines(spec: Spec, rank: int, group: Group) -> Iterator[str]:
    current = _is_current(spec)
    members, own, device = group.ranks, group.ranks.index(rank), spec.local_rank(rank)
    nodes = {spec.node_of(member) for member in members}
    local = [member for member in members if spec.node_of(member) == spec.node_of(rank)]
    pointer, identity = _identities(spec, rank, group)
    management = f"nvmlDev {device} " if _since(spec, 2, 18) else ""
    head = f"comm {pointer} rank {own} nranks {len(members)} cudaDev {device} {management}busId {BUS_IDS[device]} commId {identity}"
    function = "ncclCommInitRankConfig " if current else ""
    yield from _network_lines(spec, rank)
    if _since(spec, 2, 18):
        yield f"{function}{head} - Init START"
    yield f"NVLS multicast support is available on dev {device}{' (NVLS_NCHANNELS 16)' if current else ''}"
    if current:
        place = f"localRanks {len(local)} localRank {local.index(rank)}"
        yield f"comm {pointer} rank {own} nRanks {len(members)} nNodes {len(nodes)} {place} MNNVL 0"
    rings = ring_orders(spec, group)
    if own == 0:
        for channel, order in enumerate(rings):
            numbers = " ".join(f"{members.index(member):>{3 if not current else len(str(len(members) - 1))}}" for member in order[:20])
            yield f"Channel {channel:02d}/{len(rings):02d} : {numbers}"
    yield "Trees " + " ".join(f"[{channel}] {_tree(spec, group, rank)}" for channel in range(len(rings)))
    yield f"P2P Chunksize set to {524_288 if len(nodes) == 1 else 131_072}"
    yield from _connections(spec, rank, group, rings)
    gdr = 1 if spec.transport == "IB" else 0
    yield f"Connected all rings, use ring PXN 0 GDR {gdr}" if current else "Connected all rings"
    yield "threadThresholds 8/8/64 | 64/8/64 | 512 | 512"
    channels = f"{len(rings)} coll channels, {f'{len(rings)} collnet channels, ' if current else ''}16 nvls channels"
    yield f"{channels}, {len(rings)} p2p channels, 2 p2p channels per peer"
    yield f"{function}{head} - Init COMPLETE"
    if current:
        parts = "(kernels 0.21, alloc 0.02, bootstrap 0.05, allgathers 0.01, topo 0.09, graphs 0.02, connections 0.11, rest 0.01)"
        yield f"Init timings - ncclCommInitRankConfig: rank {own} nranks {len(members)} total 0.52 {parts}"


def _identities(spec: Spec, rank: int, group: Group) -> tuple[str, str]:
    """Address of the communicator in this process, and its hash, which all members share."""
    number = int(group.name)
    address = 0x7F00_0000_0000 + int(np.random.default_rng([spec.seed, 12, rank, number]).integers(1 << 28)) * 0x100
    identity = int(np.random.default_rng([spec.seed, 13, number]).integers(1 << 60, 1 << 63))
    return f"{address:#x}", f"{identity:#x}"


def _tree(spec: Spec, group: Group, rank: int) -> str:
    """Children, self and parent in a tree: a chain inside each host, a binary tree over the hosts' first members."""
    members = group.ranks
    heads = [next(member for member in members if spec.node_of(member) == node) for node in sorted({spec.node_of(m) for m in members})]
    local = [member for member in members if spec.node_of(member) == spec.node_of(rank)]
    place = local.index(rank)
    down = [members.index(local[place + 1])] if place + 1 < len(local) else []
    up = members.index(local[place - 1]) if place else -1
    if rank in heads:
        node = heads.index(rank)
        down += [members.index(heads[child]) for child in (2 * node + 1, 2 * node + 2) if child < len(heads)]
        up = members.index(heads[(node - 1) // 2]) if node else -1
    children = "/".join(str(child) for child in [*down, -1, -1, -1][:3])
    return f"{children}->{members.index(rank)}->{up}"


def _connections(spec: Spec, rank: int, group: Group, rings: list[tuple[int, ...]]) -> Iterator[str]:
    """Edges of this rank's rings: NVLink to a neighbour on the same host, its NIC or the socket to one on another."""
    members = group.ranks
    local_path = "P2P/CUMEM" if _is_current(spec) else "P2P/IPC"
    for channel, order in enumerate(rings):
        place = order.index(rank)
        for source, target, side in ((order[place - 1], rank, "receive"), (rank, order[(place + 1) % len(order)], "send")):
            edge = f"{members.index(source)}[{_bracket(spec, source)}] -> {members.index(target)}[{_bracket(spec, target)}]"
            if spec.node_of(source) != spec.node_of(target):
                path = f"NET/IB/{spec.local_rank(rank)}/GDRDMA" if spec.transport == "IB" else "NET/Socket/0"
                yield f"Channel {channel:02d}/0 : {edge} [{side}] via {path}"
            elif side == "send":
                yield f"Channel {channel:02d}/0 : {edge} via {local_path}"


def _bracket(spec: Spec, rank: int) -> str:
    """The device of a rank as connection lines name it: its bus id before 2.18, its number since."""
    local = spec.local_rank(rank)
    return str(local) if _since(spec, 2, 18) else BUS_IDS[local]
