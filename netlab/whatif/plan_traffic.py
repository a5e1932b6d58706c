"""Bytes that each kind of parallelism puts on the wire, per rank and step. Every row carries its formula and source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from netlab.whatif.plan import Job

__all__ = ["Traffic", "traffic"]

_MEGATRON = "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, SC 2021, section 3"
_ZERO = "Rajbhandari et al., ZeRO, SC 2020, section 7"
_ULYSSES = "Jacobs et al., DeepSpeed Ulysses, 2023, section 3.2"
_GSHARD = "Lepikhin et al., GShard, 2020, section 2.2"
_RING = "Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 2009"
_SERVER = "Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014"


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of parallelism. ``sent_bytes_per_rank`` counts one step (of ``accumulation`` micro-steps, where that applies)."""

    parallelism: str
    op: str
    group_size: int
    sent_bytes_per_rank: float
    gb_per_s_per_rank: float | None
    formula: str
    source: str


def traffic(job: Job, gradient_bytes: float) -> list[Traffic]:
    """Rows for every parallelism that the job uses; activations need layers, hidden, batch and sequence.

    ``gradient_bytes`` are those of one rank's share of the model.
    """
    rows = []

    def add(parallelism: str, op: str, size: int, sent: float, formula: str, source: str) -> None:
        rate = None if job.step_seconds is None else sent / (job.step_seconds * job.accumulation) / 1e9
        row = Traffic(
            parallelism=parallelism,
            op=op,
            group_size=size,
            sent_bytes_per_rank=sent,
            gb_per_s_per_rank=rate,
            formula=formula,
            source=source,
        )
        rows.append(row)

    n = job.data
    if n > 1 and job.parameter_servers:
        add("parameter server", "push and pull", n, 2 * gradient_bytes, "2 S per worker; a server carries 2 n S / servers", _SERVER)
    elif n > 1 and job.sharded:
        sent = 3 * (n - 1) / n * gradient_bytes
        add("data, sharded", "all_gather x2, reduce_scatter", n, sent, "3 (n-1)/n S: two all-gathers of weights, one reduce-scatter", _ZERO)
    elif n > 1:
        add("data", "all_reduce", n, 2 * (n - 1) / n * gradient_bytes, "2 (n-1)/n S", _RING)
    activation = _activation_bytes(job)
    if activation is None:
        return rows
    layers = (job.layers or 1) / job.pipeline
    micro = job.accumulation
    if job.tensor > 1:
        t = job.tensor
        sent = 4 * layers * 2 * (t - 1) / t * activation * micro
        add("tensor", "all_reduce", t, sent, "4 l 2(t-1)/t A: two all-reduces forward, two backward in each layer", _MEGATRON)
    if job.pipeline > 1:
        add(
            "pipeline", "send, recv", 2, 2 * activation * micro, "2 A per micro-batch: activations forward, their gradients back", _MEGATRON
        )
    if job.sequence_parallel > 1:
        p = job.sequence_parallel
        sent = 2 * layers * 4 * (p - 1) / p * activation / p * micro
        add("sequence (Ulysses)", "all_to_all", p, sent, "2 l 4 (p-1)/p A/p: q, k, v and the output, forward and backward", _ULYSSES)
    if job.expert > 1:
        e = job.expert
        sent = 4 * layers * job.top_k * (e - 1) / e * activation * micro
        add("expert", "all_to_all", e, sent, "4 l k (e-1)/e A: dispatch and combine, forward and backward", _GSHARD)
    return rows


def _activation_bytes(job: Job) -> float | None:
    """Bytes of one layer's activations of a micro-batch: batch x sequence x hidden elements."""
    if job.hidden is None or job.batch is None or job.sequence is None or job.layers is None:
        return None
    return float(job.batch) * job.sequence * job.hidden * job.element_bytes
