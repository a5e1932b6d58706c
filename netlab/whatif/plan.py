"""A job that has not run yet: closed forms of its traffic, of the bandwidth it needs, and of its collectives on a fabric."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from netlab.errors import ConfigError
from netlab.units import dtype_bytes
from netlab.whatif.fabric import algorithm_factor, latency_rounds
from netlab.whatif.plan_layouts import LayoutTime, layout_times
from netlab.whatif.plan_traffic import Traffic, traffic

__all__ = ["CollectiveTime", "Job", "Plan", "plan"]

#: Names of element types as people write them, beside those that PyTorch prints.
_DTYPES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "fp64": 8}
#: Latency of one network step and one NVLink step with the Simple protocol (us); NCCL src/graph/tuning.cc, v2.30.
_INTER_STEP_US, _INTRA_STEP_US = 14.0, 3.4
_SOURCE = "NCCL src/graph/tuning.cc; nccl-tests doc/PERFORMANCE.md"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is planned. Degrees of parallelism multiply with the data-parallel degree to ``ranks``."""

    params: float
    ranks: int
    dtype: str = "bf16"
    step_seconds: float | None = None
    accumulation: int = 1
    gpus_per_node: int = 8
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    sequence_parallel: int = 1
    sharded: bool = False
    parameter_servers: int = 0
    layers: int | None = None
    hidden: int | None = None
    batch: int | None = None
    sequence: int | None = None
    top_k: int = 2
    intra_node_gbps: float | None = None
    inter_node_gbps: float | None = None
    oversubscription: float = 1.0
    hosts_per_leaf: int = 32
    network_share: float = 0.25
    price_per_gpu_hour: float | None = None

    @property
    def data(self) -> int:
        """Data-parallel degree."""
        return self.ranks // (self.tensor * self.pipeline * self.sequence_parallel)

    @property
    def members_per_node(self) -> int:
        """Members of one data-parallel group on a host; each brings its own NIC to a ring."""
        return max(1, min(self.gpus_per_node // (self.tensor * self.sequence_parallel), self.data))

    @property
    def element_bytes(self) -> int:
        """Bytes of one parameter's gradient."""
        return _DTYPES.get(self.dtype.lower()) or dtype_bytes(self.dtype) or 0


class CollectiveTime(msgspec.Struct, frozen=True, kw_only=True):
    """The gradient all-reduce by one algorithm; ``time_ms`` is [best, worst]: no edge, or every edge, crosses the oversubscribed part."""

    algorithm: str
    time_ms: tuple[float, float]
    share_of_step: tuple[float, float] | None
    formula: str
    source: str = _SOURCE


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The document ``netlab.plan/1``. Sizes are of the whole model unless a name says per rank."""

    schema: str = "netlab.plan/1"
    job: Job
    gradient_bytes: float
    gradient_bytes_per_rank: float
    #: Gradient bytes of the model over the time between two synchronisations.
    gradient_gb_per_s: float | None
    gradient_tbit_per_s: float | None
    accumulation_saving_ratio: float
    traffic: list[Traffic]
    #: Rate of each GPU's NIC and direction at which a ring over all of them takes just the limit of the step, with nothing hidden.
    required_gbps_per_gpu: float | None
    #: The same if all of it could be hidden behind the step.
    required_gbps_per_gpu_hidden: float | None
    collectives: list[CollectiveTime]
    #: The same ring by layout of the fabric; none without link rates.
    layouts: list[LayoutTime]
    cost_per_1000_steps: float | None
    assumptions: list[str]

    def to_dict(self) -> dict[str, Any]:
        """The document as plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def json(self) -> str:
        """The document as JSON text, ending in a line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"


def plan(job: Job) -> Plan:
    """Traffic, required bandwidth and collective times of a planned job.

    Raises
    ------
    ConfigError
        If a value is impossible, or degrees of parallelism do not divide the ranks.

    Examples
    --------
    70e9 parameters in fp32 are 280 GB of gradients; every 2 s that is 140 GB/s.

    >>> planned = plan(Job(params=70e9, ranks=512, dtype="fp32", step_seconds=2.0))
    >>> planned.gradient_bytes, planned.gradient_gb_per_s, planned.gradient_tbit_per_s
    (280000000000.0, 140.0, 1.12)
    """
    _check(job)
    whole = job.params * job.element_bytes
    mine = whole / (job.tensor * job.pipeline)
    between_s = None if job.step_seconds is None else job.step_seconds * job.accumulation
    rate = None if between_s is None else whole / between_s / 1e9
    lanes = job.members_per_node if job.data > job.members_per_node else 1
    collectives = _collectives(job, mine, between_s)
    wire_bits = 8 * 2 * (job.data - 1) / job.data * mine / lanes
    return Plan(
        job=job,
        gradient_bytes=whole,
        gradient_bytes_per_rank=mine,
        gradient_gb_per_s=rate,
        gradient_tbit_per_s=None if rate is None else rate * 8 / 1000,
        accumulation_saving_ratio=1 - 1 / job.accumulation,
        traffic=traffic(job, mine),
        required_gbps_per_gpu=None if between_s is None else wire_bits / (job.network_share * between_s) / 1e9,
        required_gbps_per_gpu_hidden=None if between_s is None else wire_bits / between_s / 1e9,
        collectives=collectives,
        layouts=layout_times(job, collectives[0].time_ms[0]) if collectives else [],
        cost_per_1000_steps=None
        if job.price_per_gpu_hour is None or job.step_seconds is None
        else 1000 * job.step_seconds / 3600 * job.ranks * job.price_per_gpu_hour,
        assumptions=_assumptions(job),
    )


def _check(job: Job) -> None:
    for name in (
        "params",
        "ranks",
        "accumulation",
        "gpus_per_node",
        "tensor",
        "pipeline",
        "expert",
        "sequence_parallel",
        "top_k",
        "hosts_per_leaf",
    ):
        if not 1 <= getattr(job, name) < math.inf:
            raise ConfigError(f"--{name.replace('_', '-')} is {getattr(job, name)}; expected a number of at least 1.")
    for name in ("step_seconds", "intra_node_gbps", "inter_node_gbps", "layers", "hidden", "batch", "sequence", "price_per_gpu_hour"):
        value = getattr(job, name)
        if value is not None and not 0 < value < math.inf:
            raise ConfigError(f"--{name.replace('_', '-')} is {value}; expected a number above 0.")
    if not 1 <= job.oversubscription < math.inf:
        raise ConfigError(
            f"--oversubscription is {job.oversubscription}; expected at least 1 (host bandwidth over uplink bandwidth of a leaf)."
        )
    if not 0 < job.network_share <= 1:
        raise ConfigError(f"--threshold is {job.network_share}; expected a share above 0 and up to 1.")
    if not job.element_bytes:
        raise ConfigError(f"--dtype is {job.dtype!r}; known are {', '.join(_DTYPES)} and the names that PyTorch prints.")
    model = job.tensor * job.pipeline * job.sequence_parallel
    if job.ranks % model:
        raise ConfigError(f"--ranks is {job.ranks}; it must be a multiple of tensor x pipeline x sequence-parallel = {model}.")
    if job.data % job.expert:
        raise ConfigError(f"--expert is {job.expert}; it must divide the data-parallel degree {job.data}.")


def _collectives(job: Job, size: float, between_s: float | None) -> list[CollectiveTime]:
    """The gradient all-reduce of one data-parallel group by algorithm; none without link rates."""
    if job.inter_node_gbps is None or job.data < 2:
        return []
    per_node = job.members_per_node
    hosts = math.ceil(job.data / per_node)
    intra = job.intra_node_gbps or job.inter_node_gbps
    ring_gbps = (
        intra if hosts == 1 else min(intra, per_node * job.inter_node_gbps) if job.intra_node_gbps else per_node * job.inter_node_gbps
    )
    bytes_ms = 8 * 2 * (job.data - 1) / job.data * size / ring_gbps / 1e6
    step_us = _INTRA_STEP_US if hosts == 1 else _INTER_STEP_US
    found = []
    for algorithm, formula in _FORMULAS.items():
        factor = algorithm_factor(algorithm, job.data, hosts, intra_gbps=job.intra_node_gbps, inter_gbps=job.inter_node_gbps)
        if factor is None:
            continue
        latency_ms = latency_rounds(algorithm, job.data, hosts) * step_us / 1e3
        worst = job.oversubscription if hosts > 1 else 1.0
        times = (latency_ms + bytes_ms * factor, latency_ms + bytes_ms * factor * worst)
        share = None if between_s is None else (times[0] / between_s / 1e3, times[1] / between_s / 1e3)
        found.append(CollectiveTime(algorithm=algorithm, time_ms=times, share_of_step=share, formula=formula))
    return found


_FORMULAS = {
    "ring": "2(n-1) a + 2(n-1)/n S / B, B = min(intra, g x inter)",
    "tree": "2(log2 m + g - 1) a + 2 S / (0.92 B)",
    "hierarchical": "2(g-1)/g S / intra + 2(m-1)/m (S/g) / inter + latency",
    "sharp": "2 a + S / B: the switch adds, each rank sends its data once",
    "nvls": "2 a + S / (0.85 intra), inside one NVLink domain",
}


def _assumptions(job: Job) -> list[str]:
    said = [
        f"S = gradient bytes of a rank, n = {job.data} data-parallel ranks, g per node, m nodes, a = {_INTER_STEP_US} us per network step",
        "nothing hidden behind compute; compression and contention not counted",
        "gradients are sent in the given dtype",
    ]
    if job.oversubscription > 1:
        said.append("best: neighbours of a ring lie under one leaf; worst: every edge crosses the oversubscribed uplinks")
    if job.inter_node_gbps is None:
        said.append("no --inter-node-gbps: collective times are left out")
    if job.intra_node_gbps is None and job.inter_node_gbps is not None:
        said.append("no --intra-node-gbps: links inside hosts are taken as never the limit")
    return said
