"""The readers, most specific first. The first that claims a file reads it."""

from __future__ import annotations

from pathlib import Path

from netlab.readers.base import Reader
from netlab.readers.bytedance import READERS as OPERATION_READERS
from netlab.readers.counters import READERS as COUNTER_READERS
from netlab.readers.fabric import READERS as FABRIC_READERS
from netlab.readers.kineto import READERS as KINETO_READERS
from netlab.readers.nccl import READERS as NCCL_READERS

__all__ = ["READERS", "claim"]

READERS: tuple[Reader, ...] = (*NCCL_READERS, *COUNTER_READERS, *FABRIC_READERS, *OPERATION_READERS, *KINETO_READERS)


def claim(head: bytes, path: Path) -> Reader | None:
    """The first reader whose ``sniff`` accepts the beginning of a file, or None."""
    return next((reader for reader in READERS if reader.sniff(head, path)), None)
