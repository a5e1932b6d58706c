"""Compression methods: bytes on the wire, the collective that each really needs, and what encoding costs.

Wire formats and collectives: notes of the PyTorch communication hooks (torch/distributed/algorithms/ddp_comm_hooks) and, for sums that
would overflow, all-to-all reduce-scatter plus all-gather.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from netlab.units import dtype_bytes
from netlab.whatif.codec_costs import CodecCosts
from netlab.whatif.scenarios import Compression

__all__ = ["Wire", "codec_ns", "reference_costs", "wire"]

#: Bytes that one codec pass over a GPU moves per second: a memory-bound kernel at about 60 % of an A100's 2.0 TB/s (A100 80GB datasheet).
_GPU_BYTES_PER_NS = 1_200.0

#: Encode plus decode of 25.2 MB of fp32 on one CPU core, ms; measured with torch 2.13 (methods as in docs/whatif.md).
_CPU_ELEMENTS = 6_297_600
_CPU_MS_PER_25MB = {"fp16": 3.7, "bf16": 3.7, "fp8": 129.0, "int8": 129.0, "onebit": 40.0, "topk": 218.0, "powersgd": 91.0}

#: Passes over the gradient that encode plus decode make, in bytes per element: read, write, and the extra reads of reductions or selection.
_GPU_BYTES_PER_ELEMENT = {"fp16": 12.0, "bf16": 12.0, "fp8": 18.0, "int8": 18.0, "onebit": 20.0, "topk": 60.0, "powersgd": 24.0}

#: A square weight of this edge stands for layers of unknown shape in PowerSGD.
_POWERSGD_EDGE = 4_096


@dataclass(frozen=True)
class Wire:
    """What a method does to one all-reduce of fp32 or narrower elements."""

    #: New over old bytes on the busiest link.
    byte_factor: float
    #: Collectives that replace the one, each with its own latency.
    rounds: int
    sentence: str


def wire(change: Compression, dtype: str | None, members: int) -> Wire:
    """Effect of a change on the wire for one element type and group size.

    >>> wire(Compression(method="bf16"), "Float", 8).byte_factor, wire(Compression(method="topk", density=0.01), "Float", 8).byte_factor
    (0.5, 0.08)
    """
    if change.ratio is not None:
        return Wire(1 / change.ratio, 1, f"Bytes shrink {change.ratio:g} times on the wire; nothing is said about what does that.")
    size = dtype_bytes(dtype) or 4
    if change.method in ("fp16", "bf16"):
        if size <= 2:
            return Wire(1.0, 1, f"The run already sends {size}-byte elements: {change.method} changes nothing.")
        return Wire(2 / size, 1, f"{change.method}: 2 bytes per element in one all-reduce.")
    if change.method in ("fp8", "int8"):
        block = change.block or 256
        sent = 1 + 4 / block
        return Wire(
            min(1.0, sent / size),
            2,
            f"{change.method}: sums would overflow, so an all-to-all and an all-gather replace the all-reduce; one 4-byte "
            f"scale per {block} elements.",
        )
    if change.method == "onebit":
        return Wire(1 / (8 * size), 2, "1-bit: all-to-all plus all-gather; warm-up steps without compression are not counted.")
    if change.method == "topk":
        density = change.density or 0.01
        # Each rank receives (n - 1) x 8 bytes x density per element, against 2 (n - 1) / n x size for a ring all-reduce.
        return Wire(
            members * density * 8 / (2 * size),
            1,
            f"top-k {density:g}: values and indices of every rank go to all (all-gather); pays only for densities below 1/{members}.",
        )
    rank = change.rank or 1
    return Wire(
        min(1.0, 2 * rank / _POWERSGD_EDGE),
        3,
        f"PowerSGD rank {rank}: two factors of a {_POWERSGD_EDGE} x {_POWERSGD_EDGE} weight (shapes unknown), three all-reduces in a row.",
    )


def codec_ns(change: Compression, size_bytes: int, dtype: str | None, *, cpu: bool, measured: CodecCosts | None = None) -> float:
    """Encode plus decode of one collective: as measured on a device of this kind, else by the shipped reference costs.

    >>> round(codec_ns(Compression(method="bf16"), 25_190_400, "Float", cpu=True) / 1e6, 1)
    3.7
    """
    if change.method is None or size_bytes <= 0:
        return 0.0
    elements = size_bytes / (dtype_bytes(dtype) or 4)
    if measured is not None and measured.gpu != cpu and (own := measured.codec_ns(change.method, elements)) is not None:
        return own
    reference = reference_costs(cpu=cpu, rank=change.rank or 1).codec_ns(change.method, elements)
    return reference or 0.0


def reference_costs(*, cpu: bool, rank: int = 1) -> CodecCosts:
    """The shipped reference figures in the form of measured ones; ``rank`` is PowerSGD's."""
    if cpu:
        cost = {method: milliseconds * 1e6 / _CPU_ELEMENTS for method, milliseconds in _CPU_MS_PER_25MB.items()}
    else:
        cost = {method: moved / _GPU_BYTES_PER_NS for method, moved in _GPU_BYTES_PER_ELEMENT.items()}
        cost["powersgd"] *= math.sqrt(rank)
    half = {method: value / 2 for method, value in cost.items()}
    return CodecCosts(device="reference", gpu=not cpu, elements=0, encode_ns_per_element=half, decode_ns_per_element=half, torch_version="")
