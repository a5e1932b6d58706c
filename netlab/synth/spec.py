"""What a made training job is: its size, its costs, its faults. Everything that a run consists of follows from a ``Spec`` and its seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from netlab.errors import ConfigError

__all__ = ["Group", "Spec", "default_gpus_per_node"]

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Group:
    """A process group: its name in the trace, what it is for, and its members."""

    name: str
    description: str
    kind: str
    ranks: tuple[int, ...]

    @property
    def key(self) -> str:
        """Sorted member list as the tables write it."""
        return ",".join(str(rank) for rank in self.ranks)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A data- and tensor-parallel training job on several hosts.

    Costs describe one H100-class GPU with a 400 Gbit/s NIC of its own. A step is ``layers`` transformer layers forward, the loss, the same
    backward, and the optimizer. Every layer has two blocks; each block ends in a tensor-parallel all-reduce. Gradients are averaged by
    data-parallel all-reduces in buckets, which start as soon as their layer's backward is done.

    Examples
    --------
    >>> spec = Spec(ranks=8, gpus_per_node=4)
    >>> spec.hosts, [group.key for group in spec.groups if group.kind == "dp"]
    (('node0', 'node1'), ['0,4', '1,5', '2,6', '3,7'])
    """

    plant: str = "none"
    seed: int = 0
    ranks: int = 8
    gpus_per_node: int = 4
    tensor_parallel: int = 4
    steps: int = 6
    #: Number of the first profiled step; those before it trained unrecorded.
    first_step: int = 10
    layers: int = 6

    # Costs of one block on one GPU (two blocks a layer).
    block_forward_ns: int = 2_900_000
    block_backward_ns: int = 5_800_000
    loss_ns: int = 1_200_000
    optimizer_ns: int = 6_000_000
    activation_bytes: int = 80 * MIB
    layer_gradient_bytes: int = 160 * MIB
    batch_bytes: int = 16 * MIB
    #: Spread of compute and of transfers (sigma of the logarithm).
    compute_noise: float = 0.004
    transfer_noise: float = 0.01
    #: Members of a collective end within this time of each other.
    end_jitter_ns: int = 1_000
    #: Host clocks are ahead or behind by up to this much; the first host's is true.
    clock_skew_ns: int = 2_000_000

    #: What is printed on the cables between hosts, whatever they carry; netlab.toml and ports.csv declare it.
    cable_gbps: float = 400.0
    # The network: a ring moves 2(n-1)/n of the message over each link, and every hop between hosts or GPUs costs a latency.
    inter_node_gbps: float = 400.0
    intra_node_gbps: float = 3600.0
    link_efficiency: float = 0.92
    inter_node_hop_ns: int = 100_000
    intra_node_hop_ns: int = 4_000

    # The schedule.
    overlap: bool = True
    bucket_bytes: int = 50 * MIB

    # Faults.
    straggler: int | None = None
    straggler_factor: float = 1.0
    slow_group: tuple[int, ...] | None = None
    slow_group_factor: float = 1.0
    #: Rank whose NIC stalls, the share of its steps that this hits, how much longer its transfers take then, and why: its cable corrupts
    #: packets ("loss") or the NIC cannot take them and pauses its switch ("pause").
    stalled_rank: int | None = None
    stalled_step_share: float = 0.0
    stall_factor: float = 1.0
    stall_kind: str = "loss"
    #: A port of another job's host counts errors all the time, which harms nobody here.
    noisy_port: bool = False
    #: Capacity of a leaf's host ports over that of its uplinks.
    oversubscription: float = 1.0
    transport: str = "IB"
    nccl_version: str = "2.27.5"

    # Changes that a what-if may ask for.
    gradient_compression: float = 1.0

    def __post_init__(self) -> None:
        if self.ranks < 2:
            raise ConfigError(f"ranks is {self.ranks}; a made run needs at least 2, for one rank has no network.")
        if self.steps < 1 or self.layers < 1:
            raise ConfigError(f"steps is {self.steps} and layers {self.layers}; both must be at least 1.")
        if self.ranks % self.gpus_per_node or self.ranks == self.gpus_per_node:
            raise ConfigError(f"{self.ranks} ranks cannot fill two or more hosts of {self.gpus_per_node} GPUs; choose a proper divisor.")
        if self.gpus_per_node % self.tensor_parallel:
            raise ConfigError(f"A tensor-parallel group of {self.tensor_parallel} must fit {self.gpus_per_node} GPUs of a host evenly.")
        if self.straggler is not None and not 0 <= self.straggler < self.ranks:
            raise ConfigError(f"straggler is rank {self.straggler}; ranks are 0 to {self.ranks - 1}.")
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"{item.name} is {value}; expected a finite number of at least 0.")

    @property
    def nodes(self) -> int:
        """Number of hosts."""
        return self.ranks // self.gpus_per_node

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names in order of rank."""
        return tuple(f"node{node}" for node in range(self.nodes))

    def node_of(self, rank: int) -> int:
        """Position of a rank's host."""
        return rank // self.gpus_per_node

    def local_rank(self, rank: int) -> int:
        """Device index of a rank on its host."""
        return rank % self.gpus_per_node

    @property
    def groups(self) -> tuple[Group, ...]:
        """All process groups in the order in which PyTorch would number them."""
        world = Group(name="0", description="default_pg", kind="world", ranks=tuple(range(self.ranks)))
        width = self.tensor_parallel
        tensor = [tuple(range(first, first + width)) for first in range(0, self.ranks, width)] if width > 1 else []
        data = [tuple(range(offset, self.ranks, width)) for offset in range(width)]
        named = [("tp", "TENSOR_MODEL_PARALLEL_GROUP", ranks) for ranks in tensor] + [
            ("dp", "DATA_PARALLEL_GROUP", ranks) for ranks in data
        ]
        return (
            world,
            *(
                Group(name=str(number), description=description, kind=kind, ranks=ranks)
                for number, (kind, description, ranks) in enumerate(named, start=1)
            ),
        )

    def groups_of(self, kind: str) -> tuple[Group, ...]:
        """Groups of one kind: ``world``, ``tp`` or ``dp``; those of one kind share no rank."""
        return tuple(group for group in self.groups if group.kind == kind)

    def layer(self, ranks: tuple[int, ...]) -> str:
        """``intra_node`` if all members share a host, else ``inter_node``."""
        return "intra_node" if len({self.node_of(rank) for rank in ranks}) == 1 else "inter_node"


def default_gpus_per_node(ranks: int) -> int:
    """GPUs a host that make at least two hosts, at most eight a host.

    >>> [default_gpus_per_node(ranks) for ranks in (2, 6, 8, 16, 64, 7)]
    [1, 3, 4, 8, 8, 1]
    """
    return max((size for size in range(1, 9) if ranks % size == 0 and size * 2 <= ranks), default=1)
