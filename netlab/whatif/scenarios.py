"""Scenarios: what a user may ask. Files of them are read by `netlab.whatif.scenario_files`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from netlab.whatif.layouts import LayoutKind
from netlab.whatif.load_balance import Balancing

__all__ = [
    "KINDS",
    "Accumulation",
    "Change",
    "Compression",
    "Compute",
    "Overlap",
    "Scenario",
    "Straggler",
    "Topology",
    "default_scenarios",
]

Method = Literal["fp16", "bf16", "fp8", "int8", "onebit", "topk", "powersgd"]


class Compression(msgspec.Struct, frozen=True, kw_only=True):
    """Fewer bytes on the wire: a ``method``, or a ``ratio``.

    ``codec_ms`` is encoding plus decoding of one collective; left out, a reference cost of the method is used.
    ``groups`` selects process groups by members (``"0,1"``, ``[0, 1]`` or ``[[0, 1], [2, 3]]``), name or parallelism (``"DP"``).
    """

    method: Method | None = None
    ratio: float | None = None
    codec_ms: float | None = None
    groups: str | list[str | int | list[int]] | None = None
    #: topk: share of elements that are sent.
    density: float | None = None
    #: powersgd: rank of the factors.
    rank: int | None = None
    #: fp8, int8: elements that share a 4-byte scale.
    block: int | None = None


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """When communication may run: DDP bucket size in MiB, FSDP prefetch depth, or a bound."""

    bucket_mb: float | None = None
    prefetch: int | None = None
    bound: Literal["perfect", "none"] | None = None


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """Another network: link rates per GPU and direction, oversubscription, algorithm, NVLink domain, fabric, layout, rank order."""

    inter_node_gbps: float | None = None
    intra_node_gbps: float | None = None
    oversubscription: float | None = None
    algorithm: Literal["ring", "tree", "hierarchical", "sharp", "nvls", "pat"] | None = None
    nvlink_domain: int | None = None
    fabric: Literal["ib", "roce"] | None = None
    layout: LayoutKind | None = None
    #: Ranks in the order in which rings follow them, or "best" to have one proposed.
    rank_order: list[int] | Literal["best"] | None = None
    #: Hosts below one leaf switch; where cables are known, they say it. Oversubscription and rank order are exact only with it.
    hosts_per_leaf: int | None = None
    #: How flows are put on the links above the leaves; evenly unless it is ecmp.
    load_balancing: Balancing | None = None
    #: Flows of one NIC pair that are hashed apart (NCCL_IB_QPS_PER_CONNECTION x channels).
    queue_pairs: int | None = None
    #: Whether an all-to-all changes the lane over NVLink before it leaves the host.
    pxn: bool | None = None
    #: Share of the links that congestion control and loss leave, as a declared range.
    efficiency: tuple[float, float] | None = None


class Straggler(msgspec.Struct, frozen=True, kw_only=True):
    """The rank's own time between collectives becomes the median of the other ranks at the same place; ``all`` evens out every rank."""

    rank: int | Literal["all"]


class Accumulation(msgspec.Struct, frozen=True, kw_only=True):
    """Synchronise only once in ``micro_batches`` micro-batches of the present size."""

    micro_batches: int


class Compute(msgspec.Struct, frozen=True, kw_only=True):
    """Compute kernels run ``speedup`` times as fast; host time and copies stay."""

    speedup: float


Change = Compression | Overlap | Topology | Straggler | Accumulation | Compute
KINDS: dict[str, type[msgspec.Struct]] = {
    "compression": Compression,
    "overlap": Overlap,
    "topology": Topology,
    "straggler": Straggler,
    "accumulation": Accumulation,
    "compute": Compute,
}


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One question: changes that are replayed together."""

    name: str
    changes: tuple[Change, ...] = ()

    def change_dicts(self) -> list[dict[str, Any]]:
        """The changes as they stand in a scenario file.

        >>> Scenario(name="x", changes=(Compute(speedup=2.0),)).change_dicts()
        [{'kind': 'compute', 'speedup': 2.0}]
        """
        names = {kind: name for name, kind in KINDS.items()}
        return [
            {"kind": names[type(change)]} | {key: value for key, value in msgspec.to_builtins(change).items() if value is not None}
            for change in self.changes
        ]


def default_scenarios(*, inter_node_gbps: float | None = None, intra_node_gbps: float | None = None) -> tuple[Scenario, ...]:
    """The questions that are asked when nobody asks: bounds, common codecs, faster links where their rates are declared, fewer
    synchronisations, no straggler.

    >>> [scenario.name for scenario in default_scenarios(inter_node_gbps=400)][-1]
    'links between hosts at 800 Gbit/s'
    """
    asked = [
        Scenario(name="everything overlapped (bound)", changes=(Overlap(bound="perfect"),)),
        Scenario(name="nothing overlapped (bound)", changes=(Overlap(bound="none"),)),
        Scenario(name="bf16 gradients", changes=(Compression(method="bf16"),)),
        Scenario(name="8-bit gradients", changes=(Compression(method="int8"),)),
        Scenario(name="1-bit gradients", changes=(Compression(method="onebit"),)),
        Scenario(name="4 micro-batches per synchronisation", changes=(Accumulation(micro_batches=4),)),
        Scenario(name="no stragglers", changes=(Straggler(rank="all"),)),
    ]
    if intra_node_gbps:
        asked.append(
            Scenario(name=f"links in hosts at {2 * intra_node_gbps:g} Gbit/s", changes=(Topology(intra_node_gbps=2 * intra_node_gbps),))
        )
    if inter_node_gbps:
        name = f"links between hosts at {2 * inter_node_gbps:g} Gbit/s"
        asked.append(Scenario(name=name, changes=(Topology(inter_node_gbps=2 * inter_node_gbps),)))
    return tuple(asked)
