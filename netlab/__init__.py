"""netlab: a training-network analysis workbook.

``open`` reads a run, ``check`` judges it, ``what_if`` answers scenarios and ``sensitivity`` says what an answer hangs on; ``capture``
records a run, ``figures`` draws.

>>> import netlab
>>> sorted(netlab.__all__)
['Run', 'Verdict', '__version__', 'capture', 'check', 'figures', 'open', 'sensitivity', 'what_if']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netlab import figures
    from netlab.pipeline.api import check, open, sensitivity, what_if
    from netlab.recording import capture
    from netlab.run import Run
    from netlab.verdict.model import Verdict

__version__ = "0.1.0"

__all__ = ["Run", "Verdict", "__version__", "capture", "check", "figures", "open", "sensitivity", "what_if"]

_HOMES = {
    "Run": "netlab.run",
    "Verdict": "netlab.verdict.model",
    "capture": "netlab.recording",
    "check": "netlab.pipeline.api",
    "open": "netlab.pipeline.api",
    "sensitivity": "netlab.pipeline.api",
    "what_if": "netlab.pipeline.api",
}


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: the command line must start fast, and most scripts use few of them."""
    if name == "figures":
        return import_module("netlab.figures")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'netlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
