"""Backward waits for its forward across threads, where the profiler recorded the flow."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.run import Run
from netlab.schema.traces import FLOWS, TRACE_FILES
from netlab.whatif import Compute, Scenario, what_if
from tests.whatif.makers import MS, Kernel, make_run


def threads_run(flow: bool) -> Run:
    """Forward on thread 1 for 0-10 ms; on thread 2 backward for 12-30, after 0.5 ms of work of its own at 11.4."""
    kernels = [Kernel(0, 0, 10, stream=1), Kernel(0, 11.4, 11.9, stream=2), Kernel(0, 12, 30, stream=2)]
    run = make_run(kernels, [(0, 1, 0.0, 30.0)], backend="cpu")
    rows = [
        {"file": 0, "flow": 1, "phase": phase, "process": 1, "thread": thread, "at_ns": round(at * MS)}
        for phase, thread, at in (("s", 1, 0.0), ("f", 2, 11.95))
    ]
    file = {"file": 0, "path": "a.json", "rank": 0, "base_time_ns": 0, "complete": True, "device_event_count": 0}
    frames = {"trace_files": TRACE_FILES.conform(pl.DataFrame([file]))}
    return run.with_frames(frames | ({"flows": FLOWS.conform(pl.DataFrame(rows))} if flow else {}))


def test_a_flow_to_another_thread_is_an_edge_and_the_unchanged_run_stays() -> None:
    from netlab.whatif.build import build_model
    from netlab.whatif.replay import replay

    without, with_flow = (build_model(threads_run(flow)).graph for flow in (False, True))
    assert len(with_flow.predecessor) == len(without.predecessor) + 1
    assert replay(with_flow.pointer, with_flow.predecessor, with_flow.cost_ns).tolist() == with_flow.end_ns.tolist()


def test_a_slower_forward_delays_the_backward_that_it_hands_over_to() -> None:
    halved = Scenario(name="half as fast", changes=(Compute(speedup=0.5),))
    (answer,) = what_if(threads_run(flow=True), [halved]).scenarios
    # 20 ms of forward, the 2 ms until backward began, 36 ms of backward.
    assert answer.predicted_ms == pytest.approx(58, abs=1.5)
