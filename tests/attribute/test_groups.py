"""Groups by members, their rooflines, and traffic between ranks."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.attribute import attribution, compute_slowdown, traffic
from tests.timelines import Timelines


def _two_groups() -> Timelines:
    made = Timelines(["a", "a", "b", "b"])
    made.step(1, 0, 100)
    made.kernel(0, 0, 15)
    made.collective({0: 10, 1: 12}, 22, size=8_000_000, name="tp", description="tensor parallel")
    made.collective({0: 30, 2: 33}, 40, size=70_000_000, name="dp")
    made.collective({0: 50, 2: 50}, 57, size=70_000_000, name="dp")
    return made


def test_group_rows_sum_instances_and_members() -> None:
    rows = {tuple(row["group"]): row for row in _two_groups().figures().group_rows()}
    tensor, data = rows[0, 1], rows[0, 2]
    assert (tensor["layer"], tensor["name"], tensor["description"]) == ("intra_node", "tp", "tensor parallel")
    assert (tensor["transfer_ms"], tensor["wait_ms"]) == (10, 2)
    assert tensor["exposed_transfer_ms"] == 8.5  # rank 0: 7 of 10 beside its compute, rank 1: 10
    assert (data["layer"], data["transfer_ms"], data["wait_ms"], data["bytes"]) == ("inter_node", 14, 3, 140_000_000)
    assert data["busbw_gb_per_s"] == pytest.approx(10)


def test_efficiency_is_against_the_declared_rate_of_the_groups_nics() -> None:
    rows = {tuple(row["group"]): row for row in _two_groups().figures(declared_gbps={"inter_node": 160}).group_rows()}
    assert rows[0, 2]["roofline_gb_per_s"] == 20
    assert rows[0, 2]["efficiency"] == pytest.approx(0.5)
    assert rows[0, 1]["roofline_gb_per_s"] == pytest.approx(rows[0, 1]["busbw_gb_per_s"])  # the best it reached itself


def test_a_ring_over_two_hosts_uses_a_nic_for_each_of_its_members_there() -> None:
    made = Timelines(["a", "a", "b", "b"])
    made.collective(dict.fromkeys(range(4), 0.0), 1, size=1_000_000)
    limits = made.figures(window="capture", declared_gbps={"inter_node": 100, "intra_node": 400}).rooflines
    assert limits.rows() == [("0,1,2,3", "inter_node", 25.0, "declared")]
    narrow = made.figures(window="capture", declared_gbps={"inter_node": 100, "intra_node": 120}).rooflines
    assert narrow["roofline_gb_per_s"][0] == 15


def test_unknown_split_leaves_a_groups_times_null() -> None:
    made = Timelines(["a"], world=2)
    made.collective({0: 0}, 8, members=[0, 1])
    row = made.figures(window="capture").group_rows()[0]
    assert (row["transfer_ms"], row["wait_ms"], row["exposed_transfer_ms"], row["busbw_gb_per_s"]) == (None, None, None, None)
    assert row["bytes"] == 1_000_000


def test_names_that_share_their_members_share_a_row() -> None:
    made = Timelines(["a", "a"])
    made.collective({0: 0, 1: 0}, 1, name="3")
    made.collective({0: 2, 1: 2}, 3, name="7")
    assert len(made.figures(window="capture").group_rows()) == 1


def test_steps_that_are_not_selected_count_in_no_group_collective_instance_or_message() -> None:
    made = Timelines(["a", "b"])
    made.step(1, 0, 50)
    made.step(2, 50, 100)
    made.collective({0: 10, 1: 12}, 22)
    made.message(0, 1, 30, 30, 31)
    made.collective({0: 60, 1: 61}, 64)
    made.message(0, 1, 70, 70, 72)
    frames = made.frames()
    left_out = pl.col("step") == 1
    reason = pl.when(left_out).then(pl.lit("not selected")).otherwise("reason")
    frames["steps"] = frames["steps"].with_columns(complete=~left_out, reason=reason)
    figures = attribution(frames)
    assert [(row["transfer_ms"], row["wait_ms"]) for row in figures.group_rows()] == [(5, 1)]
    assert {row["op"]: row["count"] for row in figures.collective_rows()} == {"all_reduce": 1, "send": 1}
    assert {row["step"] for row in figures.instance_rows()} == {2}
    assert [row["transfer_ms"] for row in figures.p2p_rows()] == [2]


def test_a_step_that_one_rank_is_selected_in_keeps_its_collectives() -> None:
    made = Timelines(["a", "b"])
    made.step(1, 0, 50)
    made.collective({0: 10, 1: 12}, 22)
    frames = made.frames()
    other = pl.col("rank") == 1
    reason = pl.when(other).then(pl.lit("not selected")).otherwise("reason")
    frames["steps"] = frames["steps"].with_columns(complete=~other, reason=reason)
    assert [row["transfer_ms"] for row in attribution(frames).group_rows()] == [10]


def test_traffic_follows_the_ring_the_pairs_and_the_messages() -> None:
    made = Timelines(["a", "a", "b"])
    made.collective({0: 0, 1: 0, 2: 0}, 1, size=300)
    made.collective({0: 2, 1: 2, 2: 2}, 3, op="all_to_all", size=30)
    made.message(0, 2, 4, 4, 5, size=7)
    figures = made.figures(window="capture")
    rows = {(src, dst): (size, layer) for src, dst, size, layer in traffic(figures.instances, figures.p2p, figures.ranks).iter_rows()}
    assert rows[0, 1] == (400 + 10, "intra_node")
    assert rows[1, 2] == (400 + 10, "inter_node")
    assert rows[0, 2] == (10 + 7, "inter_node")


def test_the_same_kernel_is_compared_with_and_without_communication() -> None:
    made = Timelines(["a", "a"])
    for k in range(3):
        made.kernel(0, 20 * k, 20 * k + 4, grid="[8,1,1]")
        made.kernel(0, 20 * k + 10, 20 * k + 15, grid="[8,1,1]")
        made.kernel(0, 20 * k + 5, 20 * k + 9, grid="[9,1,1]")
        made.collective({0: 20 * k + 9.5, 1: 20 * k + 9.5}, 20 * k + 16)
    rows = compute_slowdown(made.figures(window="capture").activities)
    assert rows.select("grid", "overlapped", "free", "slowdown").rows() == [("[8,1,1]", 3, 3, 1.25)]


def test_every_table_of_attribution_has_its_declared_shape() -> None:
    figures = _two_groups().figures()
    names = {"breakdown", "spans", "delays", "stragglers", "traffic", "transfer_tails", "bandwidth_fits", "compute_slowdown"}
    assert set(figures.tables) == names
    assert set(Timelines([]).figures().tables) == names
