"""Whatever the timeline, figures and findings come out, and hold the invariants of the verdict."""

from __future__ import annotations

import json
from fractions import Fraction

import msgspec
import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netlab.attribute import attribution
from netlab.diagnose import judge
from netlab.run import RunFacts
from tests.timelines import Timelines

time = st.integers(0, 60)
kernel = st.tuples(
    st.integers(0, 3), time, st.integers(0, 25), st.sampled_from(["compute", "memory"]), st.one_of(st.none(), st.integers(-5, 60))
)
collective = st.tuples(
    st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True),
    st.lists(time, min_size=4, max_size=4),
    st.integers(0, 20),
    st.sampled_from(["all_reduce", "all_to_all", "broadcast", "barrier", "send", "unknown"]),
    st.booleans(),
    st.sampled_from([None, 0, 1_000_000, 900_000_000]),
    st.sampled_from([None, 0.0, 3.0]),
)
message = st.tuples(st.permutations([0, 1, 2, 3]), time, time, st.integers(0, 10))
PARTS = ("compute_ms", "exposed_comm_ms", "exposed_memory_ms", "idle_ms")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    st.lists(kernel, max_size=8),
    st.lists(collective, max_size=6),
    st.lists(message, max_size=3),
    st.lists(st.integers(5, 40), max_size=3),
    st.sampled_from([["a", "a", "b", "b"], [None] * 4, ["a"] * 4]),
    st.booleans(),
)
def test_figures_and_findings_hold_their_invariants(
    kernels: list[tuple[int, int, int, str, int | None]],
    collectives: list[tuple[list[int], list[int], int, str, bool, int | None, float | None]],
    messages: list[tuple[list[int], int, int, int]],
    lengths: list[int],
    hosts: list[str | None],
    capture: bool,
) -> None:
    made = Timelines(hosts)
    at = 0
    for number, length in enumerate(lengths):
        made.step(number, at, at + length)
        at += length
    for rank, start, length, kind, launch in kernels:
        made.kernel(rank, start, start + length, kind=kind, name="Memcpy HtoD" if kind == "memory" else "gemm", launch=launch)
    for members, starts, length, op, missing, size, error in collectives:
        arrivals = {rank: starts[rank] for rank in members}
        end = max(arrivals.values()) + length
        made.collective(arrivals, end, members=[*members, 9] if missing else None, op=op, size=size, error=error)
    for ranks, src_start, dst_start, length in messages:
        made.message(ranks[0], ranks[1], src_start, dst_start, max(src_start, dst_start) + length)
    frames = made.frames()
    figures = attribution(frames, threshold=Fraction(1, 4), window="capture" if capture else "step", declared_gbps={"inter_node": 100.0})
    verdict = judge(figures, RunFacts(name="any", world_size=4))
    rows = [
        figures.totals,
        *(row for frame in (figures.by_rank, figures.by_step, figures.by_rank_step, figures.span) for row in frame.to_dicts()),
    ]
    for row in rows:
        if row["iteration_ms"] is not None:
            assert abs(sum(row[name] for name in PARTS) - row["iteration_ms"]) < 2e-6
        if row["network_share"] is not None:
            assert 0 <= row["network_share_low"] <= row["network_share"] <= row["network_share_high"] <= row["comm_share"] <= 1
        if row["network_delay_share"] is not None:
            assert row["network_share"] <= row["network_delay_share"] <= row["comm_share"] + 1e-12
    assert (verdict.status == "flagged") == verdict.flagged == figures.totals["flagged"]
    assert verdict.status in ("pass", "warn", "flagged", "inconclusive")
    json.dumps(
        [figures.group_rows(), figures.collective_rows(), figures.instance_rows(), figures.p2p_rows(), figures.straggler_rows()],
        allow_nan=False,
    )
    json.dumps(msgspec.to_builtins(verdict), allow_nan=False)
    assert len({finding.id for finding in verdict.findings}) == len(verdict.findings)
    shuffled = {
        name: frame.sample(fraction=1, shuffle=True, seed=1) for name, frame in frames.items() if name not in ("activities", "steps")
    }
    again = attribution({**frames, **shuffled}, threshold=Fraction(1, 4), window="capture" if capture else "step")
    assert again.totals == figures.totals
    assert set(figures.tables) >= {"delays", "stragglers"}
    assert isinstance(figures.delays, pl.DataFrame)
