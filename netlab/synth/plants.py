"""The faults that a made run can carry, and what a correct analysis says about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from netlab.errors import ConfigError
from netlab.synth.fabric import nic_of, ports, stalled_port
from netlab.synth.spec import MIB, Spec, default_gpus_per_node

__all__ = ["LINK_PLANTS", "PLANTS", "Expectation", "expectation", "spec_for"]

PLANTS: Mapping[str, str] = {
    "none": "nothing is wrong",
    "straggler": "one rank computes 60 % slower",
    "slow-pair": "the NICs of one pair of ranks run at a fifth of their speed, so one data-parallel group is slow",
    "slow-fabric": "every NIC runs at an eighth of its speed",
    "no-overlap": "gradients are averaged only after the whole backward",
    "small-buckets": "gradient buckets of 3 MiB instead of 50 MiB",
    "lossy-link": "one NIC's cable corrupts packets now and then; its transfers stall on retransmission",
    "slow-receiver": "one host's NIC cannot take its packets now and then and pauses its switch",
    "oversubscribed": "leaf switches have an eighth of their host bandwidth as uplinks",
    "socket-fallback": "NCCL found no RDMA device and talks TCP",
    "old-nccl": "an old NCCL reaches a third of the bus bandwidth, with longer hops",
}

#: Plants that show in the counters of links; their runs come with counters and cables.
LINK_PLANTS = ("lossy-link", "slow-receiver", "oversubscribed")
_STEPS_OF_LINK_FAULTS = 80
_FEW_LAYERS: dict[str, Any] = {
    "layers": 2,
    "block_forward_ns": 8_700_000,
    "block_backward_ns": 17_400_000,
    "layer_gradient_bytes": 480 * MIB,
    "bucket_bytes": 150 * MIB,
}


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a correct analysis of a planted run finds: cause as in the verdict, finding code and its subject."""

    cause: str
    finding: str | None
    ranks: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()


def spec_for(plant: str = "none", *, ranks: int = 8, steps: int | None = None, seed: int = 0, **overrides: Any) -> Spec:
    """A job with one planted fault; who is hit follows from the seed.

    Parameters
    ----------
    plant
        One of ``PLANTS``.
    ranks, steps, seed
        Size of the job, and the seed of all its noise. Six steps if left out; 80 for faults that only statistics over many steps can pin on
        a link. Runs of more than 20 steps have few, heavy layers, which keeps their files small.
    overrides
        Further fields of ``Spec``. A rate between hosts given here is what the cables are made for; a fault leaves them at 400 Gbit/s.

    Raises
    ------
    ConfigError
        If there is no such plant or field, or the ranks cannot be laid out.

    Examples
    --------
    >>> spec_for("slow-fabric").inter_node_gbps, spec_for("none").inter_node_gbps
    (50.0, 400.0)
    """
    if plant not in PLANTS:
        near = get_close_matches(plant, PLANTS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"There is no plant {plant!r}; {hint}plants are {', '.join(PLANTS)}.")
    unknown = sorted(set(overrides) - set(Spec.__dataclass_fields__))
    if unknown:
        raise ConfigError(f"A made run has no parameter {unknown[0]!r}; parameters are {', '.join(Spec.__dataclass_fields__)}.")
    per_node = overrides.pop("gpus_per_node", None) or (default_gpus_per_node(ranks) if ranks >= 2 else 1)
    tensor = overrides.pop("tensor_parallel", None) or per_node
    if "inter_node_gbps" in overrides:
        overrides.setdefault("cable_gbps", overrides["inter_node_gbps"])
    count = steps if steps is not None else _STEPS_OF_LINK_FAULTS if plant in LINK_PLANTS else 6
    sizes: dict[str, Any] = _FEW_LAYERS if count > 20 else {}
    healthy = Spec(plant=plant, ranks=ranks, steps=count, seed=seed, gpus_per_node=per_node, tensor_parallel=tensor, **sizes)
    return replace(healthy, **(_faults(healthy) | overrides))


def _faults(healthy: Spec) -> dict[str, Any]:
    victim = int(np.random.default_rng([healthy.seed, 7]).integers(healthy.ranks))
    match healthy.plant:
        case "straggler":
            return {"straggler": victim, "straggler_factor": 1.6}
        case "slow-pair":
            group = next(group for group in healthy.groups_of("dp") if victim in group.ranks)
            return {"slow_group": group.ranks, "slow_group_factor": 5.0}
        case "slow-fabric":
            return {"inter_node_gbps": healthy.inter_node_gbps / 8}
        case "no-overlap":
            return {"overlap": False}
        case "small-buckets":
            return {"bucket_bytes": 3 * MIB}
        case "lossy-link":
            return {"stalled_rank": victim, "stalled_step_share": 0.3, "stall_factor": 10.0}
        case "slow-receiver":
            return {"stalled_rank": victim, "stalled_step_share": 0.3, "stall_factor": 8.0, "stall_kind": "pause"}
        case "oversubscribed":
            return {"oversubscription": 8.0}
        case "socket-fallback":
            return {"transport": "Socket", "inter_node_gbps": 40.0, "inter_node_hop_ns": 250_000}
        case "old-nccl":
            return {"nccl_version": "2.17.1", "link_efficiency": healthy.link_efficiency / 3, "inter_node_hop_ns": 150_000}
        case _:
            return {}


def expectation(spec: Spec) -> Expectation:
    """What a correct analysis says about a job.

    >>> expectation(spec_for("straggler", seed=1)).finding
    'STRAGGLER'
    """
    match spec.plant:
        case "straggler":
            return Expectation(cause="straggler", finding="STRAGGLER", ranks=(spec.straggler,) if spec.straggler is not None else ())
        case "slow-pair":
            members = spec.slow_group or ()
            return Expectation(
                cause=_cause_of(spec.layer(members)), finding="SLOW_TRANSFER_ELSEWHERE", ranks=members, groups=(_key(members),)
            )
        case "slow-fabric" | "socket-fallback" | "oversubscribed" | "lossy-link" | "slow-receiver" | "old-nccl":
            codes = {
                "slow-fabric": "NETWORK_SHARE",
                "socket-fallback": "SOCKET_FALLBACK",
                "oversubscribed": "OVERSUBSCRIBED",
                "lossy-link": "LINK_ERRORS",
                "slow-receiver": "PFC_PAUSE",
                "old-nccl": "OLD_NCCL",
            }
            return Expectation(cause="fabric", finding=codes[spec.plant], ports=_ports(spec), hosts=_hosts(spec))
        case "no-overlap" | "small-buckets":
            return Expectation(cause="schedule", finding="NO_OVERLAP" if spec.plant == "no-overlap" else "SMALL_MESSAGES")
        case _:
            return Expectation(cause="none", finding=None)


def _ports(spec: Spec) -> tuple[str, ...]:
    """Ports that a correct analysis names: the one that counts corrupted packets, the NIC that pauses its switch, or all full uplinks."""
    stalled = stalled_port(spec)
    if spec.stalled_rank is not None and stalled is not None:
        return (stalled,) if spec.stall_kind == "loss" else ("/".join(nic_of(spec, spec.stalled_rank)),)
    return tuple(port.key for port in ports(spec) if port.role == "up") if spec.oversubscription > 1 else ()


def _hosts(spec: Spec) -> tuple[str, ...]:
    """Hosts at fault: all that fell back to sockets, or the one that cannot take its packets."""
    if spec.stalled_rank is not None and spec.stall_kind == "pause":
        return (spec.hosts[spec.node_of(spec.stalled_rank)],)
    return spec.hosts if spec.transport == "Socket" else ()


def _cause_of(layer: str) -> str:
    return "fabric" if layer == "inter_node" else "intra_node"


def _key(ranks: tuple[int, ...]) -> str:
    return ",".join(str(rank) for rank in ranks)
