"""Make data/gpu-16rank: a run of 16 GPUs on two hosts whose fabric is slow. Nothing in it was measured.

Run from the project's folder: python data/make_gpu_16rank.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

from netlab.synth import write_run

#: Few, heavy layers keep the sample below a megabyte; a layer's cost is three times the default's.
SIZES = {"layers": 2, "block_forward_ns": 8_700_000, "block_backward_ns": 17_400_000, "layer_gradient_bytes": 310 << 20}


def main() -> None:
    """Write the sample, by default beside this script."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "gpu-16rank"
    truth = write_run(folder, plant="slow-fabric", ranks=16, steps=4, seed=7, **SIZES)
    sys.stdout.write(f"{folder}: {truth.iteration_ms:.1f} ms a step, network share {truth.network_share:.3f}\n")


if __name__ == "__main__":
    main()
