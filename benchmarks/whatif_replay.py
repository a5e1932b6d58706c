"""Replay of a graph of one million activities: compiled, plain Python, networkx (where installed).

python benchmarks/whatif_replay.py [--nodes 1000000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from netlab.whatif.graph import csr
from netlab.whatif.replay import replay, topological_order

_RANKS = 32


def program(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """32 ranks that launch kernels, overlap them with collectives and wait for each other: predecessors and costs of ``nodes`` nodes."""
    generator = np.random.default_rng(0)
    length = nodes // _RANKS
    lane = generator.choice([0, 1, 2], p=[0.55, 0.42, 0.03], size=length)
    sources, targets = [], []
    last = [-1, -1, -1]
    ranks = np.arange(_RANKS)
    for place, own in enumerate(lane.tolist()):
        here = place * _RANKS + ranks
        for before in {last[own], last[0] if own else -1} - {-1}:
            sources.append(before * _RANKS + ranks)
            targets.append(here)
        if own == 2 and last[1] >= 0:
            # A collective: rank 0 of the place is the shared transfer that all ranks arrive at.
            sources += [last[1] * _RANKS + ranks, np.full(_RANKS - 1, here[0])]
            targets += [np.full(_RANKS, here[0]), here[1:]]
        last[own] = place
    source, target = np.concatenate(sources), np.concatenate(targets)
    pointer, predecessor, _ = csr(length * _RANKS, source, target, np.zeros(len(source), np.uint8))
    return pointer, predecessor, generator.gamma(2, 5_000, length * _RANKS)


def clock(call: Callable[[], object], repeats: int = 3) -> float:
    """Best time in ms."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1e3)
    return min(times)


def main() -> None:
    """Print one line per way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    options = parser.parse_args()
    pointer, predecessor, cost = program(options.nodes)
    print(f"{len(cost):,} nodes, {len(predecessor):,} edges")
    began = time.perf_counter()
    replay(pointer[:3], predecessor[: pointer[2]], cost[:2], compiled=True)
    replay(pointer[:3], predecessor[: pointer[2]], cost[:2, None], compiled=True)
    print(f"start-up of compiled code   {(time.perf_counter() - began) * 1e3:9.0f} ms")
    print(f"compiled, 1 scenario        {clock(lambda: replay(pointer, predecessor, cost, compiled=True), 5):9.1f} ms")
    many = cost[:, None] * np.random.default_rng(1).uniform(0.9, 1.1, (1, 16))
    print(f"compiled, 16 scenarios      {clock(lambda: replay(pointer, predecessor, many, compiled=True)):9.1f} ms")

    def sweep() -> None:
        for _ in range(13):
            replay(pointer, predecessor, many, compiled=True)

    print(f"compiled, 208 scenarios     {clock(sweep, 1):9.1f} ms")
    target = np.repeat(np.arange(len(cost)), np.diff(pointer))
    backwards = np.arange(len(cost))[::-1]
    print(f"compiled topological order  {clock(lambda: topological_order(len(cost), predecessor, target, backwards), 2):9.1f} ms")
    print(f"plain Python, 1 scenario    {clock(lambda: replay(pointer, predecessor, cost, compiled=False), 1):9.1f} ms")
    try:
        import networkx
    except ImportError:
        print("networkx is not installed")
        return
    graph = networkx.DiGraph()
    tenth = target < len(cost) // 10
    graph.add_weighted_edges_from(zip(predecessor[tenth].tolist(), target[tenth].tolist(), cost[predecessor[tenth]].tolist(), strict=True))
    tenth_ms = clock(lambda: networkx.dag_longest_path_length(graph), 1)
    print(f"networkx, a tenth of it     {tenth_ms:9.1f} ms")


if __name__ == "__main__":
    main()
