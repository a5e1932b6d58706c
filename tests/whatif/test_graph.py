"""Edges of the graph: what waits for what, by hand."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.run import Run
from netlab.whatif import Compression, Scenario, what_if
from netlab.whatif.build import build_model
from netlab.whatif.graph import EdgeKind
from netlab.whatif.replay import replay
from tests.whatif.makers import MS, Kernel, late_rank, make_run, overlapped

_HALF = Scenario(name="half", changes=(Compression(ratio=2.0, codec_ms=0.0),))


def _half(run: Run) -> float | None:
    return what_if(run, [_HALF]).scenarios[0].predicted_ms


def _both(*kernels: Kernel, end: float) -> Run:
    """The same kernels on ranks 0 and 1."""
    every = [Kernel(**{**vars(kernel), "rank": rank}) for rank in (0, 1) for kernel in kernels]
    return make_run(every, [(0, 1, 0.0, end), (1, 1, 0.0, end)])


def test_every_graph_replays_its_own_instants() -> None:
    for run in (overlapped(), late_rank()):
        graph = build_model(run).graph
        assert replay(graph.pointer, graph.predecessor, graph.cost_ns).tolist() == graph.end_ns.tolist()


def test_one_join_per_collective_over_all_ranks() -> None:
    model = build_model(late_rank())
    releases = set(model.release_node[model.communication].tolist())
    assert len(releases) == 1
    join = releases.pop()
    assert model.graph.pointer[join + 1] - model.graph.pointer[join] == 2
    assert model.graph.edge_kind[model.graph.pointer[join]] == EdgeKind.COLLECTIVE


def test_compute_that_starts_where_a_collective_ends_waited_for_it() -> None:
    run = _both(
        Kernel(0, 0, 10, launch=0.1),
        Kernel(0, 10, 30, stream=20, instance=0, bytes=2**24, launch=0.2),
        Kernel(0, 30, 40, launch=0.3),
        end=40,
    )
    assert _half(run) == pytest.approx(30)


def test_compute_that_was_launched_before_a_collective_did_not_wait_for_it() -> None:
    # The last kernel starts where the all-reduce ends, but was launched before it, on a stream that was busy until then.
    run = _both(
        Kernel(0, 0, 30, launch=0.1),
        Kernel(0, 30, 40, launch=0.15),
        Kernel(0, 10, 30, stream=20, instance=0, bytes=2**24, launch=0.2),
        end=40,
    )
    assert _half(run) == pytest.approx(40)


def test_a_host_gap_between_launches_stays() -> None:
    # The last kernel is launched 5 ms after the all-reduce ended: the host was busy, not waiting.
    run = _both(
        Kernel(0, 0, 10),
        Kernel(0, 10, 30, stream=20, instance=0, bytes=2**24),
        Kernel(0, 35.01, 40, launch=35),
        end=40,
    )
    assert _half(run) == pytest.approx(40)


def test_a_send_that_left_before_its_receiver_came_did_not_wait() -> None:
    kernels = [
        Kernel(0, 0, 5),
        Kernel(0, 5, 8, stream=20, instance=0, op="send", bytes=2**20),
        Kernel(0, 8, 12),
        Kernel(1, 0, 20),
        Kernel(1, 20, 21, stream=20, instance=0, op="recv", bytes=2**20),
        Kernel(1, 21, 30),
    ]
    model = build_model(make_run(kernels, [(0, 1, 0.0, 30.0), (1, 1, 0.0, 30.0)]))
    send = next(row for row in model.communication.tolist() if model.activities.rank[row] == 0)
    assert model.release_node[send] == model.arrival_node[send]


def test_a_hidden_collective_delays_the_optimizer_once_it_is_slow_enough() -> None:
    # The all-reduce ends at 30 under compute that lasts until 40; ten times slower it ends at 210 and the optimizer waits.
    run = _both(
        Kernel(0, 0, 10, launch=0.1),
        Kernel(0, 10, 30, stream=20, instance=0, bytes=2**24, launch=0.2),
        Kernel(0, 10, 40, launch=0.3),
        Kernel(0, 40, 50, launch=0.4),
        end=50,
    )
    slow = Scenario(name="slow", changes=(Compression(ratio=0.1, codec_ms=0.0),))
    assert what_if(run, [slow]).scenarios[0].predicted_ms == pytest.approx(10 + 200 + 10)


def test_a_launch_blocked_by_a_full_queue_returns_when_the_device_gets_on() -> None:
    kernels = [
        Kernel(0, 0, 10, launch=0.1),
        Kernel(0, 10, 30, stream=20, instance=0, bytes=2**24, launch=0.2),
        Kernel(0, 30, 40, launch=0.3),
        Kernel(0, 40, 50, launch=0.4),
    ]
    run = _both(*kernels, end=50)
    frame = run.frame("activities")
    # The launch of the last kernel returns only as the all-reduce ends; the next call is the step's mark.
    blocked = (pl.col("start_ns") == 40 * MS) & (pl.col("kind") == "compute")
    run = run.with_frames(
        {"activities": frame.with_columns(pl.when(blocked).then(30 * MS + 1_000).otherwise("launch_end_ns").alias("launch_end_ns"))}
    )
    assert what_if(run, []).baseline.replay_error == 0.0
    assert _half(run) == pytest.approx(40)


def test_windows_of_one_rank_do_not_depend_on_each_other() -> None:
    one = make_run([Kernel(rank, 0, 10) for rank in (0, 1)], [(0, 1, 0.0, 10.0), (1, 1, 0.0, 10.0)])
    frame = one.frame("activities")
    later = frame.with_columns(
        (pl.col("start_ns") + 100 * MS).alias("start_ns"),
        (pl.col("end_ns") + 100 * MS).alias("end_ns"),
        (pl.col("launch_start_ns") + 100 * MS).alias("launch_start_ns"),
        (pl.col("activity") + 2).alias("activity"),
        pl.lit(1, pl.Int32).alias("window"),
        pl.lit(2, pl.Int32).alias("step"),
    )
    steps = one.frame("steps")
    second = steps.with_columns(
        pl.lit(1, pl.Int32).alias("window"),
        pl.lit(2, pl.Int32).alias("step"),
        *((pl.col(name) + 100 * MS).alias(name) for name in ("start_ns", "end_ns", "mark_start_ns", "mark_end_ns")),
    )
    from netlab.schema.timeline import ACTIVITIES, STEPS

    run = one.with_frames({"activities": ACTIVITIES.conform(pl.concat([frame, later])), "steps": STEPS.conform(pl.concat([steps, second]))})
    document = what_if(run, [])
    assert document.baseline.measured_ms == document.baseline.replayed_ms == 10.0
    assert document.baseline.steps == 2
