"""Names and sizes that NCCL's numbers stand for, and netlab's own names of operations."""

from __future__ import annotations

__all__ = [
    "ALGORITHMS",
    "DTYPES",
    "PROTOCOLS",
    "buffer_bytes",
    "dtype_name",
    "dtype_size",
    "op_name",
]

#: ncclDataType_t in nccl.h: name as netlab prints it, bytes of one element.
DTYPES: dict[int, tuple[str, int]] = {
    0: ("int8", 1),
    1: ("uint8", 1),
    2: ("int32", 4),
    3: ("uint32", 4),
    4: ("int64", 8),
    5: ("uint64", 8),
    6: ("float16", 2),
    7: ("float32", 4),
    8: ("float64", 8),
    9: ("bfloat16", 2),
    10: ("float8_e4m3", 1),
    11: ("float8_e5m2", 1),
}

#: NCCL_ALGO_* and NCCL_PROTO_* in nccl_common.h.
ALGORITHMS = {"0": "Tree", "1": "Ring", "2": "CollNetDirect", "3": "CollNetChain", "4": "NVLS", "5": "NVLSTree", "6": "PAT"}
PROTOCOLS = {"0": "LL", "1": "LL128", "2": "Simple"}

_OPS = {
    "allreduce": "all_reduce",
    "allreducecoalesced": "all_reduce",
    "allgather": "all_gather",
    "allgatherbase": "all_gather",
    "allgatherintotensor": "all_gather",
    "allgatherintotensorcoalesced": "all_gather",
    "allgatherv": "all_gather",
    "reducescatter": "reduce_scatter",
    "reducescatterbase": "reduce_scatter",
    "reducescattertensor": "reduce_scatter",
    "reducescattertensorcoalesced": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallbase": "all_to_all",
    "alltoallv": "all_to_all",
    "broadcast": "broadcast",
    "broadcastoop": "broadcast",
    "bcast": "broadcast",
    "reduce": "reduce",
    "reduceoop": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send",
    "sendrecv": "send",
    "recv": "recv",
    "recvanysource": "recv",
    "barrier": "barrier",
    "allreducebarrier": "barrier",
}


def op_name(text: str) -> str:
    """netlab's name of an operation, from any spelling that NCCL or PyTorch prints; ``unknown`` where there is none.

    >>> op_name("AllReduce"), op_name("nccl:_reduce_scatter_base"), op_name("ALLTOALL_BASE"), op_name("COALESCED")
    ('all_reduce', 'reduce_scatter', 'all_to_all', 'unknown')
    """
    word = text.rpartition(":")[2].strip().split(" ")[0]
    return _OPS.get(word.replace("_", "").lower(), "unknown")


def dtype_name(code: int) -> str | None:
    """Name of an ncclDataType_t, or None for a number that no version defines."""
    return DTYPES[code][0] if code in DTYPES else None


def dtype_size(code: int) -> int | None:
    """Bytes of one element of an ncclDataType_t."""
    return DTYPES[code][1] if code in DTYPES else None


def buffer_bytes(op: str, count: int, size: int | None, nranks: int | None) -> int | None:
    """Bytes of the larger buffer of a call, as nccl-tests counts a message: the whole of what all_gather and reduce_scatter move.

    >>> buffer_bytes("all_gather", 1024, 2, 8), buffer_bytes("all_reduce", 1024, 4, 8)
    (16384, 4096)
    """
    if size is None:
        return None
    if op in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        return None if nranks is None else count * size * nranks
    return count * size
