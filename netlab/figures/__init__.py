"""Charts: one result frame in, one Altair chart out. ``enable()`` makes them show in JupyterLab without a network.

The names below load on first use, because Altair takes a second.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netlab.figures.frames import rows_frame
    from netlab.figures.parts import attribution, share_per_step
    from netlab.figures.renderer import compile_vega, enable

_HOMES = {
    "attribution": "parts",
    "compile_vega": "renderer",
    "enable": "renderer",
    "rows_frame": "frames",
    "share_per_step": "parts",
}

__all__ = ["attribution", "compile_vega", "enable", "rows_frame", "share_per_step"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'netlab.figures' has no attribute {name!r}")
    return getattr(importlib.import_module(f"netlab.figures.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
