"""What one core can do at most with a trace: bring its bytes in (or inflate them) and scan the JSON without building anything.

    python -m benchmarks.limit TRACE

Needs ``pip install pysimdjson``; without it there is no limit to compare with. The scan is hot: it has seen the same bytes before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["limit_mb_per_cpu_s", "main"]

_PASSES, _CHUNK = 3, 1 << 16


def limit_mb_per_cpu_s(path: Path) -> float | None:
    """Raw MB per CPU second, measured in a process of its own; None without simdjson."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.limit", str(path)], capture_output=True, text=True, check=True)
    value = json.loads(done.stdout)
    return None if value is None else float(value)


def _cpu_s(work: Callable[[], object]) -> float:
    """The least of several passes; the first, which takes memory for the first time, does not count."""
    work()
    times = []
    for _ in range(_PASSES):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def _inflate(packed: bytes) -> int:
    from isal import isal_zlib

    stream = isal_zlib.decompressobj(31)
    return sum(len(stream.decompress(packed[at : at + _CHUNK])) for at in range(0, len(packed), _CHUNK))


def main() -> int:
    """Print the limit as JSON: a number, or null."""
    parser = argparse.ArgumentParser(description="The limit of one core on a trace.")
    parser.add_argument("trace", type=Path)
    path = parser.parse_args().trace
    try:
        import simdjson
    except ImportError:
        print("null")
        return 0
    content = path.read_bytes()
    if path.suffix == ".gz":
        from isal import isal_zlib

        raw = isal_zlib.decompress(content, 31)
        bring_s = _cpu_s(lambda: _inflate(content))
    else:
        raw = content
        bring_s = _cpu_s(path.read_bytes)
    scanner = simdjson.Parser()
    scan_s = _cpu_s(lambda: scanner.parse(raw) and None)
    print(json.dumps(len(raw) / 1e6 / (bring_s + scan_s)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
