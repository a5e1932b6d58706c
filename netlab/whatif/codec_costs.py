"""What encoding and decoding cost on the user's device, as `netlab calibrate` measured it, and where that is kept."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

__all__ = ["CodecCosts", "codec_costs_path", "load_codec_costs", "save_codec_costs"]


class CodecCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Encode and decode of every compression method in ns per fp32 element, medians on one device."""

    device: str
    #: The device is a GPU: its costs hold for runs on GPUs, others for Gloo runs on CPUs.
    gpu: bool
    elements: int
    encode_ns_per_element: dict[str, float]
    decode_ns_per_element: dict[str, float]
    torch_version: str

    def codec_ns(self, method: str, elements: float) -> float | None:
        """Encode plus decode of so many elements; None for a method that was not measured.

        >>> costs = CodecCosts(device="cpu", gpu=False, elements=8, torch_version="2.13",
        ...     encode_ns_per_element={"bf16": 0.25}, decode_ns_per_element={"bf16": 0.5})
        >>> costs.codec_ns("bf16", 1000), costs.codec_ns("topk", 1000)
        (750.0, None)
        """
        if method not in self.encode_ns_per_element:
            return None
        return elements * (self.encode_ns_per_element[method] + self.decode_ns_per_element[method])

    def scaled(self, factor: float) -> CodecCosts:
        """The same device, so many times as slow."""
        encode, decode = (
            {method: cost * factor for method, cost in costs.items()} for costs in (self.encode_ns_per_element, self.decode_ns_per_element)
        )
        return msgspec.structs.replace(self, encode_ns_per_element=encode, decode_ns_per_element=decode)


def codec_costs_path() -> Path:
    """Where calibration is kept: the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "netlab" / "codec_costs.json"


def load_codec_costs(path: Path | None = None) -> CodecCosts | None:
    """Costs that were measured on this machine; None where nothing readable is there, for what-if then has its reference costs."""
    try:
        return msgspec.json.decode((path or codec_costs_path()).read_bytes(), type=CodecCosts)
    except (OSError, msgspec.MsgspecError):
        return None


def save_codec_costs(costs: CodecCosts, path: Path | None = None) -> Path:
    """Write costs whole or not at all; returns where."""
    target = path or codec_costs_path()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(".draft")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(costs), indent=1) + b"\n")
    os.replace(draft, target)
    return target
