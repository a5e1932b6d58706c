"""Recording: the only place that imports torch, and only once a recording begins."""

from __future__ import annotations

from netlab.recording.capture import Capture, capture

__all__ = ["Capture", "capture"]
