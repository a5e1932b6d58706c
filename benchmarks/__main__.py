"""`make bench`: every benchmark in turn, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = ("ingest", "intervals", "matching", "counters", "nccl_log", "whatif_replay")
#: A real trace of 53.7 MB; the peers are left out where the shared samples are not there.
TRACE = Path(__file__).resolve().parents[2] / "shared/data/traces/hta/ddp_v100_w2_rank1_nometa.json.gz"


def main() -> int:
    """Run all; the exit code counts those that failed."""
    commands = [*([name] for name in BENCHMARKS), ["scale", "--ranks", "8", "64"]] + ([["peers", str(TRACE)]] if TRACE.is_file() else [])
    failed = 0
    for name, *arguments in commands:
        print(f"\n== {name}", flush=True)
        failed += subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
