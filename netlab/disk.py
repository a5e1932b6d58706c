"""Writing tables, with what goes wrong told as the system would tell it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

__all__ = ["disk_errors", "write_parquet"]

#: Less free space than this, and a failed write is put down to a full disk.
_FULL_BYTES = 1_000_000


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what polars says when a write fails into an OSError: it tells a full disk in words of its own, now and then in none."""
    try:
        yield
    except pl.exceptions.ComputeError as error:
        full = "No space left" in str(error) or shutil.disk_usage(path.parent).free < _FULL_BYTES
        number = errno.ENOSPC if full else errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from error


def write_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Write a table.

    Raises
    ------
    OSError
        If that fails.
    """
    with disk_errors(path):
        frame.write_parquet(path, compression="zstd", compression_level=1)
