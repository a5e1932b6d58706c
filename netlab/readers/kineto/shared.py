"""One source for two scanners: the functions of ``scan_values`` and ``scan_events``, bound to the primitives of whoever runs them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any

from netlab.machine_code import is_cached
from netlab.readers.kineto import scan_events, scan_values

__all__ = ["PRIMITIVES", "bind", "is_compiled", "version"]

#: Functions that whoever binds the scanner provides under these names.
PRIMITIVES = ("next_quote", "next_structural", "skip_space", "event_field", "argument_field", "category", "host_kind", "is_query", "intern")

#: In the order in which they need each other.
_FUNCTIONS = (
    *((scan_values, name) for name in ("skip_text", "skip_object", "scan_scalar", "skip_stream", "skip_value", "number")),
    *((scan_events, name) for name in ("scan_event", "scan_events")),
)


def bind(primitives: Mapping[str, Any], wrap: Callable[[str, FunctionType], Any]) -> dict[str, Any]:
    """The scanner's functions with ``primitives`` as their globals; each goes through ``wrap(name, function)``."""
    space: dict[str, Any] = {**vars(scan_values), **vars(scan_events), **primitives}
    for module, name in _FUNCTIONS:
        space[name] = wrap(name, FunctionType(getattr(module, name).__code__, space, name))
    return {name: space[name] for _, name in _FUNCTIONS}


@lru_cache(maxsize=1)
def version() -> str:
    """A short hash of everything that compiled code is made of."""
    digest = hashlib.sha256()
    for name in ("fields", "layout", "scan_values", "scan_events", "compiled_primitives", "compiled"):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.hexdigest()[:12]


def is_compiled() -> bool:
    """Whether compiled code of this version is there; told without loading numba."""
    return is_cached("scan_events", version())
