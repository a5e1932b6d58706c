"""Encode and decode time of gradient compression on this device; what `netlab calibrate` runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from netlab.errors import ConfigError
from netlab.whatif.codec_costs import CodecCosts

if TYPE_CHECKING:
    import torch

__all__ = ["calibrate"]

#: 25 MiB of fp32: DDP's default bucket.
_ELEMENTS = 6_553_600
_DENSITY = 0.01
_BLOCK = 256
_EDGE = 1_024


def calibrate(device: str | None = None, *, elements: int = _ELEMENTS, repeats: int = 5) -> CodecCosts:
    """Time encoding and decoding of fp16, bf16, fp8, int8, 1-bit, top-k and PowerSGD.

    Parameters
    ----------
    device
        A torch device; by default the GPU if there is one, else the CPU.
    elements
        fp32 elements of the gradient.
    repeats
        Runs of each; the median counts, after one that does not.

    Raises
    ------
    ConfigError
        If torch is not installed, or the device is not there.
    """
    try:
        import torch
    except ImportError as error:
        raise ConfigError("Calibration needs torch; install netlab[torch].") from error
    try:
        where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        gradient = torch.randn(elements // (_EDGE * _BLOCK) * _EDGE * _BLOCK or _EDGE * _BLOCK, device=where)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"Device {device!r} cannot be used ({error}); give cpu or a device that torch sees.") from error
    gpu = where.type == "cuda"
    encode, decode = {}, {}
    for method, (pack, unpack) in _codecs(torch, gradient).items():
        packed = pack()
        encode[method] = _median_ns(pack, torch, gpu, repeats) / gradient.numel()
        decode[method] = _median_ns(partial(unpack, packed), torch, gpu, repeats) / gradient.numel()
    return CodecCosts(
        device=torch.cuda.get_device_name(where) if gpu else "CPU",
        gpu=gpu,
        elements=gradient.numel(),
        encode_ns_per_element=encode,
        decode_ns_per_element=decode,
        torch_version=str(torch.__version__),
    )


def _codecs(torch: Any, gradient: torch.Tensor) -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Plain torch versions of what the communication hooks do."""
    blocks, matrix = gradient.view(-1, _BLOCK), gradient.view(-1, _EDGE)
    weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=gradient.device)
    kept = max(1, int(gradient.numel() * _DENSITY))
    seed = torch.randn(matrix.shape[1], 1, device=gradient.device)

    def quantise(limit: float, dtype: Any) -> Any:
        scale = blocks.abs().amax(1, keepdim=True).clamp_min(1e-30) / limit
        scaled = blocks / scale
        return (scaled.round() if dtype == torch.int8 else scaled).to(dtype), scale

    def restore(packed: Any) -> Any:
        values, scale = packed
        return values.to(torch.float32) * scale

    def signs() -> Any:
        return ((gradient > 0).view(-1, 8).to(torch.uint8) * weights).sum(1, dtype=torch.uint8)

    def top() -> Any:
        _, index = torch.topk(gradient.abs(), kept, sorted=False)
        return gradient[index], index

    def power() -> Any:
        left, _ = torch.linalg.qr(matrix @ seed)
        return left, matrix.T @ left

    codecs: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
        "fp16": (lambda: gradient.to(torch.float16), lambda packed: packed.to(torch.float32)),
        "bf16": (lambda: gradient.to(torch.bfloat16), lambda packed: packed.to(torch.float32)),
        "int8": (lambda: quantise(127.0, torch.int8), restore),
        "onebit": (signs, lambda packed: ((packed.unsqueeze(1) & weights) > 0).to(torch.float32).mul_(2).sub_(1)),
        "topk": (top, lambda packed: torch.zeros_like(gradient).scatter_add_(0, packed[1], packed[0])),
        "powersgd": (power, lambda packed: packed[0] @ packed[1].T),
    }
    if hasattr(torch, "float8_e4m3fn"):
        codecs["fp8"] = (lambda: quantise(448.0, torch.float8_e4m3fn), restore)
    return codecs


def _median_ns(call: Callable[[], Any], torch: Any, gpu: bool, repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):
        if gpu:
            torch.cuda.synchronize()
        began = time.perf_counter_ns()
        call()
        if gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter_ns() - began)
    return float(statistics.median(times[1:]))
