"""The readers, most specific first. The first that claims a file reads it.

Most files are profiler traces, which their content tells for certain; the other rooms are imported when a file comes that is none.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from netlab.readers.base import Reader
from netlab.readers.kineto import READERS as KINETO_READERS

__all__ = ["claim"]


@lru_cache(maxsize=1)
def _readers() -> tuple[Reader, ...]:
    from netlab.readers.bytedance import READERS as OPERATION_READERS
    from netlab.readers.counters import READERS as COUNTER_READERS
    from netlab.readers.fabric import READERS as FABRIC_READERS
    from netlab.readers.nccl import READERS as NCCL_READERS

    return (*NCCL_READERS, *COUNTER_READERS, *FABRIC_READERS, *OPERATION_READERS, *KINETO_READERS)


def claim(head: bytes, path: Path) -> Reader | None:
    """The first reader whose ``sniff`` accepts the beginning of a file, or None."""
    for reader in KINETO_READERS:
        if reader.is_certain(head):
            return reader
    return next((reader for reader in _readers() if reader.sniff(head, path)), None)


def __getattr__(name: str) -> Any:
    if name == "READERS":
        return _readers()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
