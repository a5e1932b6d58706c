"""The base time of a trace before it is read.

Kineto writes ``baseTimeNanoseconds`` behind the events, yet instants are written to Parquet while they are scanned. So the base is guessed
first; a wrong guess costs one more pass over what was written and never a wrong instant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from netlab.readers.kineto.header import RELATIVE_BELOW_NS, base_time_ns

__all__ = ["BaseGuess"]

_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,19})\b')
_TAIL_BYTES = 1 << 16
#: libkineto's base time is the beginning of an interval of three mean months (``ChromeTraceBaseTime`` in its output_json.cpp).
_INTERVAL_NS = 7_889_238 * 10**9


class BaseGuess:
    """Guesses from the header read so far, the tail of an uncompressed file, or the interval in which the file was written."""

    def __init__(self, path: Path, compressed: bool) -> None:
        self._path, self._compressed = path, compressed

    def guess(self, header: Mapping[str, bytes], first_ns: int) -> int:
        """The likely base time of a trace whose first event starts at ``first_ns``; 0 for absolute times."""
        known = base_time_ns(header)
        if known is not None:
            return known
        if not 0 <= first_ns < RELATIVE_BELOW_NS:
            return 0
        if not self._compressed:
            return self._tail()
        return self._path.stat().st_mtime_ns // _INTERVAL_NS * _INTERVAL_NS

    def _tail(self) -> int:
        with self._path.open("rb") as stream:
            stream.seek(max(0, self._path.stat().st_size - _TAIL_BYTES))
            found = _BASE.findall(stream.read(_TAIL_BYTES))
        return int(found[-1]) if found and int(found[-1]) < 2**62 else 0
