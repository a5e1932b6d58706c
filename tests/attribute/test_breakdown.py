"""Parts of the step: by hand, and against a timeline counted instant by instant."""

from __future__ import annotations

import itertools

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from netlab.attribute import breakdown, spans
from netlab.schema.timeline import ACTIVITIES, STEPS
from tests.timelines import MS, Timelines

PARTS = ("compute", "exposed_transfer", "exposed_wait", "exposed_memory", "idle")


def _row(made: Timelines, rank: int = 0, step: int = 1) -> dict[str, float]:
    frames = made.frames()
    table = breakdown(frames["activities"], frames["steps"]).filter((pl.col("rank") == rank) & (pl.col("step") == step))
    return {
        name.removesuffix("_ns"): value / MS if isinstance(value, int) and name.endswith("_ns") else value
        for name, value in table.row(0, named=True).items()
    }


def test_hidden_communication_is_not_exposed() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 100)
    made.kernel(0, 0, 70)
    made.collective({0: 40, 1: 40}, 100)
    row = _row(made)
    assert [row[name] for name in PARTS] == [70, 30, 0, 0, 0]
    assert (row["comm"], row["hidden_comm"], row["hidden_transfer"], row["hidden_wait"]) == (60, 30, 30, 0)


def test_a_wait_under_compute_hides_no_transfer() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 100)
    made.kernel(0, 0, 60)
    made.collective({0: 40, 1: 70}, 80)
    row = _row(made)
    assert [row[name] for name in PARTS] == [60, 10, 10, 0, 20]
    assert (row["hidden_transfer"], row["hidden_wait"]) == (0, 20)


def test_transfer_on_one_stream_covers_a_wait_on_another() -> None:
    made = Timelines(["a", "a", "b"])
    made.step(1, 0, 100)
    made.collective({0: 10, 1: 50}, 60, stream=20)
    made.collective({0: 30, 2: 30}, 55, stream=21)
    row = _row(made)
    assert row["exposed_transfer"] == 30  # [30, 55) and [50, 60)
    assert row["exposed_wait"] == 20  # [10, 30)
    assert row["comm"] == 50


def test_an_instant_in_both_layers_counts_as_inter_node() -> None:
    made = Timelines(["a", "a", "b"])
    made.step(1, 0, 100)
    made.collective({0: 0, 1: 0}, 40, stream=20)
    made.collective({0: 20, 2: 20}, 50, stream=21)
    row = _row(made)
    assert (row["exposed_transfer_inter_node"], row["exposed_transfer_intra_node"], row["exposed_transfer_unplaced"]) == (30, 20, 0)
    assert row["exposed_transfer"] == 50


def test_memory_counts_only_where_nothing_else_runs() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 100)
    made.kernel(0, 0, 50)
    made.collective({0: 60, 1: 60}, 70)
    made.kernel(0, 40, 80, kind="memory", name="Memcpy HtoD (Pinned -> Device)")
    made.kernel(0, 85, 90, kind="memory", name="Memset (Device)")
    row = _row(made)
    assert [row[name] for name in PARTS] == [50, 10, 0, 25, 15]
    assert (row["host_copy"], row["exposed_host_copy"]) == (40, 20)


def test_unknown_split_is_transfer_at_most_and_nothing_at_least() -> None:
    made = Timelines(["a"], world=2)
    made.step(1, 0, 20)
    made.collective({0: 5}, 14, members=[0, 1])
    row = _row(made)
    assert (row["exposed_transfer"], row["exposed_unknown"]) == (9, 9)
    assert (row["exposed_transfer_low"], row["exposed_transfer_high"]) == (0, 9)
    assert (row["split"], row["basis"]) == ("unknown", "communication")


def test_bounds_widen_a_measured_transfer_by_the_clock_error() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 20)
    made.collective({0: 5, 1: 10}, 14, low=3, high=9)
    row = _row(made)
    assert (row["exposed_transfer_low"], row["exposed_transfer"], row["exposed_transfer_high"]) == (3, 4, 5)


def test_kernels_are_cut_at_step_borders_and_incomplete_steps_have_no_row() -> None:
    made = Timelines(["a"])
    made.step(1, 0, 10)
    made.step(2, 10, 20)
    made.step(3, 20, 30, complete=False)
    made.kernel(0, 6, 13)
    made.kernel(0, 21, 29)
    assert (_row(made, step=1)["compute"], _row(made, step=2)["compute"]) == (4, 3)
    frames = made.frames()
    assert breakdown(frames["activities"], frames["steps"])["step"].to_list() == [1, 2]


def test_idle_is_unqueued_only_while_no_launched_work_is_pending() -> None:
    made = Timelines(["a"])
    made.step(1, 0, 30)
    made.kernel(0, 10, 15, launch=8)
    made.kernel(0, 20, 30, launch=12)
    row = _row(made)
    assert (row["idle"], row["idle_unqueued"]) == (15, 8)  # [0, 8) nothing queued; [8, 10) and [15, 20) pending
    unlaunched = Timelines(["a"])
    unlaunched.step(1, 0, 30)
    unlaunched.kernel(0, 10, 15)
    assert _row(unlaunched)["idle_unqueued"] is None


def test_a_rank_that_drives_two_devices_has_a_row_for_each() -> None:
    made = Timelines(["a"])
    made.step(1, 0, 10)
    made.kernel(0, 0, 6)
    made.kernel(0, 5, 10, device=1)
    frames = made.frames()
    table = breakdown(frames["activities"], frames["steps"])
    assert table.select("device", "compute_ns", "idle_ns").rows() == [(0, 6 * MS, 4 * MS), (1, 5 * MS, 5 * MS)]


def test_span_runs_from_the_first_to_the_last_device_activity() -> None:
    made = Timelines(["a", "a"])
    made.kernel(0, 3, 5)
    made.collective({0: 8, 1: 7}, 9)
    row = spans(made.frames()["activities"]).row(0, named=True)
    assert (row["start_ns"], row["step_ns"], row["idle_ns"]) == (3 * MS, 6 * MS, 3 * MS)


interval = st.tuples(st.integers(0, 40), st.integers(0, 15))
communication = st.tuples(
    interval,
    st.integers(0, 15),
    st.sampled_from(["inter_node", "intra_node", "unplaced", None]),
    st.sampled_from(["measured", "bounded", "unknown"]),
    st.integers(0, 5),
    st.integers(0, 5),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(interval, max_size=6),
    st.lists(interval, max_size=4),
    st.lists(communication, max_size=6),
    st.lists(st.integers(1, 20), min_size=1, max_size=3),
)
def test_parts_add_up_and_bounds_nest_whatever_overlaps(
    compute: list[tuple[int, int]],
    memory: list[tuple[int, int]],
    moving: list[tuple[tuple[int, int], int, str | None, str, int, int]],
    lengths: list[int],
) -> None:
    rows: list[dict[str, object]] = [{"kind": "compute", "start_ns": a, "end_ns": a + d} for a, d in compute]
    rows += [{"kind": "memory", "start_ns": a, "end_ns": a + d} for a, d in memory]
    for (a, d), wait, layer, split, low, high in moving:
        begin = min(a + wait, a + d)
        bounds = {"transfer_start_low_ns": begin + low, "transfer_start_high_ns": begin - high}
        rows.append(
            {"kind": "communication", "start_ns": a, "end_ns": a + d, "layer": layer, "split": split, "transfer_start_ns": begin, **bounds}
        )
    activities = pl.DataFrame(
        [{"rank": 0, "activity": number, "window": 0, "name": "k", **row} for number, row in enumerate(rows)], infer_schema_length=None
    )
    edges = [3]
    for length in lengths:
        edges.append(edges[-1] + length)
    steps = [
        {"rank": 0, "window": 0, "step": n, "start_ns": a, "end_ns": b, "complete": True, "mark_start_ns": a}
        for n, (a, b) in enumerate(itertools.pairwise(edges))
    ]
    table = breakdown(ACTIVITIES.conform(activities) if rows else ACTIVITIES.empty(), STEPS.conform(pl.DataFrame(steps)))
    for row, (a, b) in zip(table.iter_rows(named=True), itertools.pairwise(edges), strict=True):
        assert sum(row[f"{name}_ns"] for name in PARTS) == row["step_ns"] == b - a
        assert row["exposed_transfer_low_ns"] <= row["exposed_transfer_ns"] <= row["exposed_transfer_high_ns"] <= row["exposed_comm_ns"]
        layers = sum(row[f"exposed_transfer_{name}_ns"] for name in ("inter_node", "intra_node", "unplaced"))
        assert layers == row["exposed_transfer_ns"]
        assert row["exposed_comm_ns"] + row["hidden_comm_ns"] == row["comm_ns"]
        assert row["hidden_transfer_ns"] + row["hidden_wait_ns"] == row["hidden_comm_ns"]
        busy = {t for s, d in compute for t in range(s, s + d)}
        moved = {t for (s, d), w, _, split, _, _ in moving for t in range(s + (0 if split == "unknown" else min(w, d)), s + d)}
        assert row["exposed_transfer_ns"] == len((moved - busy) & set(range(a, b)))
