"""`make bench`: every benchmark in turn, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = ("ingest", "read_back", "intervals", "matching", "counters", "nccl_log", "whatif_replay")


def main() -> int:
    """Run all; the exit code counts those that failed."""
    commands = [*([name] for name in BENCHMARKS), ["scale", "--ranks", "8", "64"], ["peers"]]
    failed = 0
    for name, *arguments in commands:
        print(f"\n== {name}", flush=True)
        failed += subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
