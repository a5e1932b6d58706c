"""The operations of one training step in the order in which every rank's host issues them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from netlab.synth import kernel_names as names
from netlab.synth.spec import Spec

__all__ = ["COMPUTE_STREAM", "COPY_STREAM", "GROUP_STREAMS", "Op", "step_program"]

COMPUTE_STREAM = 7
COPY_STREAM = 23
#: NCCL gives every process group a stream of its own.
GROUP_STREAMS = {"world": 27, "tp": 31, "dp": 35}

Kind = Literal["kernel", "memcpy", "memset", "collective"]
Phase = Literal["load", "forward", "backward", "optimizer"]


@dataclass(frozen=True, kw_only=True)
class Op:
    """One device operation with the host calls around it.

    ``after`` are positions in the step whose end its stream awaits through CUDA events. ``cost_ns`` is that of an average GPU; collectives
    cost what ``simulate`` derives from ``size_bytes`` and the group.
    """

    kind: Kind
    name: str
    host_op: str
    phase: Phase
    stream: int = COMPUTE_STREAM
    cost_ns: int = 0
    size_bytes: int = 0
    group: str | None = None
    dtype: str = ""
    after: tuple[int, ...] = ()


@dataclass
class _Step:
    """Operations so far, and what the next kernel of the compute stream has to wait for."""

    nccl_version: str
    ops: list[Op] = field(default_factory=list)
    awaited: list[int] = field(default_factory=list)
    last_kernel: int = -1

    def kernel(self, name: str, host_op: str, phase: Phase, cost_ns: int) -> int:
        self.ops.append(Op(kind="kernel", name=name, host_op=host_op, phase=phase, cost_ns=cost_ns, after=tuple(self.awaited)))
        self.awaited.clear()
        self.last_kernel = len(self.ops) - 1
        return self.last_kernel

    def copy(self, kind: Kind, name: str, host_op: str, phase: Phase, cost_ns: int, size_bytes: int, stream: int = COMPUTE_STREAM) -> int:
        self.ops.append(Op(kind=kind, name=name, host_op=host_op, phase=phase, cost_ns=cost_ns, size_bytes=size_bytes, stream=stream))
        return len(self.ops) - 1

    def all_reduce(self, group: str, phase: Phase, size_bytes: int, dtype: str) -> int:
        """An all-reduce of what the compute stream has made so far; nothing waits for it yet."""
        self.ops.append(
            Op(
                kind="collective",
                name=names.all_reduce(dtype, self.nccl_version),
                host_op="c10d::allreduce_",
                phase=phase,
                stream=GROUP_STREAMS[group],
                size_bytes=size_bytes,
                group=group,
                dtype=dtype,
                after=(self.last_kernel,),
            )
        )
        return len(self.ops) - 1


def step_program(spec: Spec) -> tuple[Op, ...]:
    """The operations of one step; every rank issues the same ones in the same order.

    Examples
    --------
    >>> from netlab.synth.plants import spec_for
    >>> program = step_program(spec_for("none"))
    >>> sum(op.group == "dp" for op in program), sum(op.group == "tp" for op in program)
    (24, 24)
    """
    step = _Step(spec.nccl_version)
    tensor = spec.tensor_parallel > 1
    step.copy("memcpy", "Memcpy HtoD (Pinned -> Device)", "aten::copy_", "load", spec.batch_bytes // 25, spec.batch_bytes, COPY_STREAM)
    for _layer in range(spec.layers):
        for block in ("attention", "mlp"):
            _forward(step, spec, block)
            if tensor:
                step.awaited.append(step.all_reduce("tp", "forward", spec.activation_bytes, "BFloat16"))
    step.kernel(names.SOFTMAX, "aten::_log_softmax", "forward", spec.loss_ns // 2)
    step.copy("memcpy", "Memcpy DtoH (Device -> Pinned)", "aten::copy_", "forward", 1_600, 4)
    step.copy("memset", "Memset (Device)", "aten::zero_", "backward", 120_000, spec.layer_gradient_bytes)
    step.kernel(names.SOFTMAX_BACKWARD, "aten::_log_softmax_backward_data", "backward", spec.loss_ns - spec.loss_ns // 2)

    buckets, late = _buckets(spec), list[int]()
    reductions: list[int] = []
    for _layer in range(spec.layers):
        for block, sizes in zip(("mlp", "attention"), buckets, strict=True):
            _backward(step, spec, block, tensor)
            if spec.overlap:
                reductions += [step.all_reduce("dp", "backward", size, "Float") for size in sizes]
            else:
                late += sizes
    reductions += [step.all_reduce("dp", "backward", size, "Float") for size in late]

    step.awaited += reductions
    step.kernel(names.NORM, "aten::_foreach_norm", "optimizer", spec.optimizer_ns // 12)
    step.awaited.append(step.all_reduce("world", "optimizer", 4, "Float"))
    adam_ns = spec.optimizer_ns - spec.optimizer_ns // 12
    for _ in range(4):
        step.kernel(names.ADAM, "aten::_fused_adamw_", "optimizer", adam_ns // 4)
    return tuple(step.ops)


def _forward(step: _Step, spec: Spec, block: str) -> None:
    total = spec.block_forward_ns
    step.kernel(names.LAYER_NORM, "aten::native_layer_norm", "forward", total // 20)
    if block == "attention":
        step.kernel(names.FLASH, "aten::_scaled_dot_product_flash_attention", "forward", total * 7 // 20)
    else:
        step.kernel(names.GELU, "aten::gelu", "forward", total * 2 // 20)
    spent = total // 20 + total * (7 if block == "attention" else 2) // 20
    step.kernel(names.GEMM, "aten::mm", "forward", total - spent)


def _backward(step: _Step, spec: Spec, block: str, tensor: bool) -> None:
    """Data gradient first; its all-reduce runs beside the weight gradient, as Megatron-LM schedules it."""
    total = spec.block_backward_ns
    if block == "attention":
        first = total * 6 // 20
        step.kernel(names.FLASH_BACKWARD, "aten::_scaled_dot_product_flash_attention_backward", "backward", first)
    else:
        first = total * 2 // 20
        step.kernel(names.GELU_BACKWARD, "aten::gelu_backward", "backward", first)
    data = (total - first) // 2
    step.kernel(names.GEMM_DATA, "aten::mm", "backward", data)
    reduced = step.all_reduce("tp", "backward", spec.activation_bytes, "BFloat16") if tensor else None
    norm = total // 40
    step.kernel(names.GEMM_WEIGHT, "aten::mm", "backward", total - first - data - norm)
    if reduced is not None:
        step.awaited.append(reduced)
    step.kernel(names.LAYER_NORM_BACKWARD, "aten::native_layer_norm_backward", "backward", norm)


def _buckets(spec: Spec) -> tuple[list[int], list[int]]:
    """Sizes of a layer's gradient buckets that are full after its first and after its second block: all of the cap, the last the rest."""
    full, rest = divmod(spec.layer_gradient_bytes, spec.bucket_bytes)
    sizes = [spec.bucket_bytes] * full + ([rest] if rest else [])
    early = len(sizes) // 2
    return sizes[:early], sizes[early:]
