"""PyTorch profiler traces: Kineto's Chrome JSON in all its dialects, damaged ones included."""

from __future__ import annotations

from netlab.readers.kineto.reader import KinetoReader, read_frames

__all__ = ["READERS", "KinetoReader", "read_frames"]

READERS: tuple[KinetoReader, ...] = (KinetoReader(),)
