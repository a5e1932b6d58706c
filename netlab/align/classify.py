"""Which kernels communicate: the versioned rule table, and nothing else.

Rules are tried in order on the kernel's name, case ignored; the first that matches wins. They are anchored to names that communication
libraries give their kernels, because collective words alone prove nothing: inductor writes operator names into Triton kernels
(``triton_red_fused_reduce_scatter_tensor_sum_1``) and reductions inside one device are called ``blockAllReduce``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from netlab.errors import ConfigError

__all__ = ["OPS", "RULES", "RULES_VERSION", "SEND_RECV", "SYNCHRONISING", "Rule", "classify_names", "operation_of_name"]

#: Raised with every change of the table; stored runs of another version are read anew.
RULES_VERSION = 1

#: Every operation has exactly one of these names.
OPS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "send",
    "recv",
    "barrier",
    "unknown",
)

#: No member of these can end before the last one has arrived, so that they end everywhere at nearly the same moment.
SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "barrier")

#: NCCL runs all point-to-point work, and everything made of it, in one kernel; metadata tells what it was.
SEND_RECV = "send_recv"

# Order matters: "reducescatter" holds "reduce" and "scatter", "allgather" holds "gather".
_OPERATION_WORDS = (
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("sendrecv", SEND_RECV),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("reduce", "reduce"),
    ("send", "send"),
    ("recv", "recv"),
)


@dataclass(frozen=True)
class Rule:
    """A pattern of kernel names. ``op`` None: the operation is read from the words in the matched name."""

    pattern: str
    library: str
    communication: bool = True
    op: str | None = None


# Names below were seen in traces or read in the libraries' sources:
# NCCL src/device/generate.py and src/device/symmetric; NCCL 2.4 to 2.7 collectives.h; RCCL src/device; oneCCL src/coll/algorithms;
# DeepEP csrc/kernels; PyTorch CUDASymmetricMemoryOps.cu and nvshmem_extension.cu; vLLM csrc/custom_all_reduce.cuh and quickreduce;
# TensorRT-LLM kernels/customAllReduceKernels.cu and communicationKernels; TransformerEngine userbuffers.cu; MSCCL++ src.
RULES: tuple[Rule, ...] = (
    Rule(r"^triton_", "Triton (inductor)", communication=False),
    Rule(r"^gloo:(?P<op>\w+)", "Gloo (spans of the host)"),
    Rule(r"^(_z\d+)?(void )?nccl(sym\w*?|dev)?kernel_(?P<op>[a-z]+)", "NCCL"),
    Rule(r"^(_z\d+)?(void )?nccl(?P<op>allreduce|allgather|reducescatter|broadcast|reduce|sendrecv|alltoall)\w*kernel", "NCCL"),
    Rule(r"^(_z\d+)?(void )?nccl\w*kernel", "NCCL", op="unknown"),
    Rule(r"^(_z\d+)?(void )?(rccl|mscclkernel)\w*", "RCCL", op="unknown"),
    Rule(r"\boneccl_(?P<op>\w+)", "oneCCL"),
    Rule(r"^(void )?(hccl|hcom)_?(?P<op>\w+)", "HCCL"),
    Rule(r"\b(dpsk::ep|deep_ep|deepep|hybrid_ep|uccl::ep|mori::moe|pplx)::", "DeepEP family", op="all_to_all"),
    Rule(r"\bmscclpp(::|_|\b)", "MSCCL++", op="unknown"),
    Rule(r"nvshmem\w*?(?P<op>all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|barrier)", "NVSHMEM"),
    Rule(r"nvshmem", "NVSHMEM", op="unknown"),
    Rule(r"\b(multimem_)?(one|two)_shot_(?P<op>all_reduce|reduce_scatter|all_gather)\w*kernel", "symmetric memory"),
    Rule(r"\bmultimem_(?P<op>all_reduce|all_gather|reduce_scatter)\w*", "symmetric memory"),
    Rule(r"\b(all_to_all_vdev|alltoallv|exchangesplitandoffset)\w*", "symmetric memory", op="all_to_all"),
    Rule(r"\b(put|wait)_signal_kernel", "symmetric memory", op="unknown"),
    Rule(r"\bcross_device_reduce_\w+", "vLLM custom all-reduce", op="all_reduce"),
    Rule(r"\b(quickreduce::|allreduce_prototype_(one|two)shot)", "vLLM quick all-reduce", op="all_reduce"),
    Rule(r"\b(one|two)shotallreduce\w*", "TensorRT-LLM", op="all_reduce"),
    Rule(r"allreduce_fusion_kernel|\blamport\w*allreduce|\ballreduce\w*lamport", "TensorRT-LLM", op="all_reduce"),
    Rule(r"\bmoe_?alltoall\w*|\bmoe_comm::", "TensorRT-LLM", op="all_to_all"),
    Rule(r"\buserbuffers_\w+", "userbuffers", op="unknown"),
)


def operation_of_name(text: str) -> str:
    """The operation that a collective's or kernel's name speaks of: one of :data:`OPS`, or ``send_recv``.

    >>> operation_of_name("_reduce_scatter_base"), operation_of_name("recvAnySource"), operation_of_name("ncclDevKernel_SendRecv")
    ('reduce_scatter', 'recv', 'send_recv')
    """
    plain = re.sub(r"[^a-z]", "", text.lower())
    return next((op for word, op in _OPERATION_WORDS if word in plain), "unknown")


def classify_names(names: Iterable[str], extra: Sequence[tuple[str, str]] = ()) -> pl.DataFrame:
    """Classify kernel names.

    Parameters
    ----------
    names
        Distinct kernel names.
    extra
        (pattern, op) pairs of the user, tried before the built-in table.

    Returns
    -------
    One row per name: ``name``, ``communication``, ``kernel_op`` (null unless communication; ``send_recv`` where only metadata can tell).

    Raises
    ------
    ConfigError
        If a pattern is no regular expression or an op is not one of :data:`OPS`.

    Examples
    --------
    >>> classify_names(["ncclDevKernel_AllGather_RING_LL", "triton_poi_fused_all_gather_3"])["communication"].to_list()
    [True, False]
    """
    rules = [*(_own_rule(pattern, op) for pattern, op in extra), *RULES]
    compiled = [(re.compile(rule.pattern, re.IGNORECASE), rule) for rule in rules]
    rows = [(name, *_classify(name, compiled)) for name in names]
    return pl.DataFrame(rows, schema={"name": pl.String, "communication": pl.Boolean, "kernel_op": pl.String}, orient="row")


def _own_rule(pattern: str, op: str) -> Rule:
    if op not in OPS:
        raise ConfigError(f"classify: op {op!r} of pattern {pattern!r} is unknown; use one of {', '.join(OPS)}.")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"classify: pattern {pattern!r} is no regular expression ({error}).") from error
    return Rule(pattern, "netlab.toml", op=op)


def _classify(name: str, compiled: list[tuple[re.Pattern[str], Rule]]) -> tuple[bool, str | None]:
    for pattern, rule in compiled:
        match = pattern.search(name)
        if match is None:
            continue
        if not rule.communication:
            return False, None
        return True, rule.op or operation_of_name(match["op"])
    return False, None
