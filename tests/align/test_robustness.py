"""Nonsense in, tables out: whatever the metadata says, alignment ends in valid tables or in one sentence."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.align.support import ALL_REDUCE, GEMM, SEND_RECV, Trace, align_traces

_KERNELS = (ALL_REDUCE, SEND_RECV, GEMM, "ncclDevKernel_Generic_4(x)", "dpsk::ep::internode::combine", "Memcpy PtoP (a -> b)")
_VALUES: dict[str, tuple[Any, ...]] = {
    "Collective name": ("allreduce", "send", "recv", "all_to_allv", "barrier", "coalesced", "", "wait", "gather"),
    "Process Group Ranks": ("[0, 1]", "[]", "", "[0, 1, ..., ...]", "[5, 6, 7]", "garbage", "[0]", "[-1, 3]", "[0, 1, 2, 3]"),
    "Process Group Name": ("0", "1", ""),
    "Process Group Description": ("default_pg", "tp"),
    "Group size": (0, 1, 2, 4, 40, -3),
    "Seq": (0, 1, 2, 3, 3, 10**12),
    "dtype": ("Float", "", "Weird"),
    "In msg nelems": (0, 5, 2**40, 2**62, -1),
    "Src Rank": (0, 1, 9, -1),
    "Dst Rank": (0, 1, 9, -1),
    "Comms Id": ("x", "y"),
    "External id": (1, 2, 3),
}


def _nonsense(choose: random.Random, rank: int | None, world: int | None) -> Trace:
    trace = Trace(rank, world, host=choose.choice((None, "a", "b")), clock_ms=choose.choice((0, 3, -50, 100_000)))
    trace.group(choose.choice("01"), choose.choice(([0, 1], [0, 1, 2, 3], [1, 2], list(range(40)))))
    for place in range(choose.randint(0, 4)):
        at = place * 10.0
        trace.step(choose.choice((place, place + 1, 7)), at, choose.choice((None, at, at + 1, at + 10, at + 10)))
        for _ in range(choose.randint(0, 5)):
            start = at + choose.random() * 10
            said = {key: choose.choice(values) for key, values in _VALUES.items() if choose.random() < 0.6}
            if choose.random() < 0.2:
                trace.add("cpu_op", "record_param_comms", start - 0.05, start + 0.05, choose.choice((4000, 4001)), **said)
            trace.device = choose.choice((0, 0, 1))
            trace.correlation -= choose.choice((0, 0, 0, 1))
            launch = choose.choice((-1.0, None, start + 0.1, max(start - 5, 0)))
            length = choose.choice((0, 0.1, 3, 9e9))
            trace.kernel(choose.choice(_KERNELS), start, start + length, stream=choose.choice((7, 20)), launch=launch, **said)
        if choose.random() < 0.2:
            trace.add("user_annotation", "gloo:all_reduce", at, at + 3, 9, **{"Input Dims": choose.choice(("[[2]]", [[3]], "x"))})
    return trace


@pytest.mark.parametrize("seed", range(40))
def test_nonsense_gives_valid_tables(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    world = choose.choice((0, 1, 2, 4, None))
    traces = [_nonsense(choose, choose.choice((number, number, number, None)), world) for number in range(choose.randint(1, 4))]
    options: dict[str, Any] = {"inter_node_gbps": 100.0, "gpus_per_node": 2} if choose.random() < 0.5 else {}
    frames = align_traces(tmp_path, *traces, **options).frames
    order = ("start_ns", "transfer_start_high_ns", "transfer_start_ns", "transfer_start_low_ns", "end_ns")
    activities = frames["activities"]
    for place, low in enumerate(order):
        for high in order[place + 1 :]:
            assert activities.filter(pl.col(low) > pl.col(high)).is_empty(), (low, high)
    assert frames["collectives"].filter((pl.col("wait_ns") < 0) | (pl.col("transfer_ns") < 0)).is_empty()
    steps = frames["steps"].sort("rank", "window", "start_ns", "end_ns")
    assert steps.filter(pl.col("end_ns") < pl.col("start_ns")).is_empty()
    follows = steps.with_columns(before=pl.col("end_ns").shift(1).over("rank", "window"))
    assert follows.filter(pl.col("start_ns") < pl.col("before")).is_empty()
