"""Bandwidth, tails, waiting, pairs, clocks, scenarios, links: frames by hand, titles that say what they show."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from netlab import figures
from netlab.figures.frames import members_text, rows_frame
from netlab.verdict.rows import CollectiveRow, GroupRow, LinkRow

_MS = 1_000_000


def _text(chart: Any) -> str:
    return str(chart.to_dict()["title"]["text"])


def _instance(
    number: int, starts_ms: list[float], end_ms: float, size: int = 1_000_000, split: str = "measured"
) -> list[dict[str, object]]:
    last = max(starts_ms)
    return [
        {
            "instance": number,
            "group": ",".join(map(str, range(len(starts_ms)))),
            "op": "all_reduce",
            "bytes": size,
            "rank": rank,
            "start_ns": int(start * _MS),
            "end_ns": int(end_ms * _MS),
            "wait_ns": int((last - start) * _MS) if split == "measured" else None,
            "transfer_ns": int((end_ms - last) * _MS) if split != "unknown" else None,
            "split": split,
            "error_ns": 1_000,
        }
        for rank, start in enumerate(starts_ms)
    ]


def test_efficiency_stands_beside_the_roofline_of_the_group() -> None:
    collectives = rows_frame(
        [CollectiveRow(group=[0, 8], op="all_reduce", bytes=100, count=2, busbw_gb_per_s=5.0, transfer_ms_median=1.0, split="measured")]
    )
    groups = rows_frame([GroupRow(group=[0, 8], layer="inter_node", roofline_gb_per_s=20.0)])
    frame = figures.bus_bandwidth_frame(collectives, groups)
    assert frame.select("efficiency", "layer", "members").row(0) == (0.25, "inter_node", "0, 8")
    assert _text(figures.bus_bandwidth(frame)) == "all_reduce of 100 B reaches 5 GB/s, 25 % of what its link can do"


def test_layers_a_hundredfold_apart_are_drawn_on_a_logarithmic_axis() -> None:
    rows = [
        CollectiveRow(group=[0, 1], op="all_reduce", bytes=10**8, count=9, busbw_gb_per_s=300.0, transfer_ms_median=2.0, split="measured"),
        CollectiveRow(group=[0, 8], op="all_reduce", bytes=10**8, count=9, busbw_gb_per_s=5.0, transfer_ms_median=9.0, split="measured"),
    ]
    groups = [
        GroupRow(group=[0, 1], layer="intra_node", roofline_gb_per_s=400.0),
        GroupRow(group=[0, 8], layer="inter_node", roofline_gb_per_s=6.0),
    ]
    spec = figures.bus_bandwidth(figures.bus_bandwidth_frame(rows_frame(rows), rows_frame(groups))).to_dict()
    assert spec["layer"][0]["encoding"]["y"]["scale"]["type"] == "log"


def test_transfer_counts_from_the_last_arrival() -> None:
    rows = [row for number, end in enumerate((12, 12, 12, 12, 12, 12, 12, 12, 12, 30)) for row in _instance(number, [0, 8], end)]
    tails = figures.tails_frame(pl.DataFrame(rows))
    assert tails.select("count", "median_ms", "max_ms").row(0) == (10, 4.0, 22.0)
    assert "times its median" in _text(figures.transfer_tails(tails)) or "no long tail" in _text(figures.transfer_tails(tails))


def test_unknown_transfers_have_no_tail() -> None:
    assert figures.tails_frame(pl.DataFrame(_instance(0, [0, 8], 12, split="unknown"))).height == 0


def test_wait_belongs_to_the_member_that_came_last() -> None:
    rows = _instance(0, [0, 8, 2], 12) + _instance(1, [20, 20, 20.0005], 22)
    waits = figures.waiting_frame(pl.DataFrame(rows), steps=2)
    # The half microsecond of the second instance is within its clock error.
    assert waits.rows() == [(0, 1, 4.0, 1), (2, 1, 3.0, 1)]
    assert _text(figures.waiting_matrix(waits, [0, 1, 2])) == "100 % of all waiting is for rank 1: 3.5 ms a step on 2 ranks"


def test_nobody_waiting_is_said() -> None:
    waits = figures.waiting_frame(pl.DataFrame(_instance(0, [0, 0], 4)))
    assert _text(figures.waiting_matrix(waits, [0, 1])) == "No rank waits for another beyond the clock error"


def test_slowest_pair_is_named() -> None:
    messages = [
        {"src": 0, "dst": 1, "bytes": 8_000_000, "transfer_ns": _MS, "wait_src_ns": 0, "wait_dst_ns": 0},
        {"src": 1, "dst": 2, "bytes": 8_000_000, "transfer_ns": _MS, "wait_src_ns": 0, "wait_dst_ns": 0},
        {"src": 2, "dst": 3, "bytes": 8_000_000, "transfer_ns": 4 * _MS, "wait_src_ns": 0, "wait_dst_ns": 0},
    ]
    pairs = figures.pairs_frame(pl.DataFrame(messages))
    assert pairs.select("src", "dst", "gb_per_s").row(0) == (2, 3, 2.0)
    assert _text(figures.rank_pairs(pairs)) == "Rank 2 to rank 3 is the slowest pair: 2 GB/s against a median of 8"


def test_messages_without_a_size_are_shown_by_time() -> None:
    pairs = figures.pairs_frame(
        pl.DataFrame(
            [{"src": 0, "dst": 1, "bytes": None, "transfer_ns": 2 * _MS, "wait_src_ns": 0, "wait_dst_ns": 0}],
            schema_overrides={"bytes": pl.Int64},
        )
    )
    assert "2 ms" in _text(figures.rank_pairs(pairs))


def test_clock_title_tells_offset_and_error() -> None:
    clocks = pl.DataFrame(
        {
            "domain": ["a", "b"],
            "rank": [0, 1],
            "offset_ns": [0, -3 * _MS],
            "error_ns": [12_000, 10_000],
            "samples": [5, 5],
            "drift_ppm": [None, None],
        },
        schema_overrides={"drift_ppm": pl.Float64},
    )
    assert _text(figures.clock_quality(figures.clock_frame(clocks))) == "b was 3 ms behind; after correction they agree within 12 us"


@pytest.mark.parametrize(
    ("high", "words"),
    [
        (9.5, "“x” would make training 1.11 times as fast: 9 ms instead of 10 ms"),
        (10.5, "“x” would make training 1.11 times as fast: 9 ms instead of 10 ms, within its error not at all"),
    ],
)
def test_scenario_within_its_error_promises_nothing(high: float, words: str) -> None:
    answers: list[dict[str, Any]] = [
        {
            "name": "x",
            "predicted_ms": 9.0,
            "speedup": 10 / 9,
            "interval80_ms": [8.8, 9.2],
            "interval95_ms": [8.5, high],
            "confidence": "measured",
            "network_share": 0.2,
        },
        {"name": "refused", "predicted_ms": None, "refused": "no bytes"},
    ]
    frame = figures.scenario_frame(answers)
    assert frame["name"].to_list() == ["x"]
    assert _text(figures.scenario_chart(frame, 10.0, 0.25)) == words


def test_localised_link_stands_above_a_busier_one() -> None:
    links = [
        LinkRow(device="leaf1", port="Eth1", direction="tx", utilization_mean=0.5, utilization_peak=0.9, resolution_ms=5_000.0),
        LinkRow(
            device="leaf1",
            port="Eth2",
            direction="rx",
            utilization_mean=0.1,
            utilization_peak=0.2,
            loss_ratio=0.004,
            resolution_ms=5_000.0,
            localised="localised",
        ),
    ]
    frame = figures.link_use_frame(rows_frame(links))
    assert frame.select("link", "words").rows() == [("leaf1/Eth2 rx", "loses 0.4 %"), ("leaf1/Eth1 tx", "")]
    assert _text(figures.link_use(frame)) == "The evidence points at leaf1/Eth2"
    assert "polled every 5 s" in figures.link_use(frame).to_dict()["title"]["subtitle"][0]


def test_use_over_time_leaves_gaps_out() -> None:
    rows = [
        {
            "t0_ns": t * 10**9,
            "t1_ns": (t + 1) * 10**9,
            "device": "d",
            "port": "p",
            "direction": "tx",
            "metric": "bytes",
            "utilization": u,
            "delta": 1,
            "flags": f,
        }
        for t, u, f in ((0, 0.2, ""), (1, 0.9, "gap"), (2, 0.4, ""))
    ]
    frame = figures.link_use_over_time_frame(pl.DataFrame(rows))
    assert frame["utilization"].to_list() == [0.2, 0.4]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ("0,1,2,3,8", "0-3, 8"),
        ("5", "5"),
        ("0,1", "0, 1"),
        (",".join(map(str, range(0, 64, 2))), "0, 2, 4, 6, 8, 10, 12 ... 62 (32 ranks)"),
    ],
)
def test_members_are_shortened_for_people(members: str, text: str) -> None:
    assert members_text(members) == text


def test_longer_step_that_does_more_work_is_drawn_for_todays_work() -> None:
    answers: list[dict[str, Any]] = [
        {"name": "4 micro-batches", "predicted_ms": 20.0, "interval95_ms": [18.0, 22.0], "speedup": 2.0, "confidence": "measured"}
    ]
    spec = figures.scenario_chart(figures.scenario_frame(answers), 10.0, 0.25).to_dict()
    row = next(row for values in spec["datasets"].values() for row in values if row.get("name") == "4 micro-batches")
    assert (row["predicted_ms"], row["low95_ms"], row["high95_ms"]) == (5.0, 4.5, 5.5)


def test_mere_bound_is_not_the_best_scenario() -> None:
    answers: list[dict[str, Any]] = [{"name": "bound", "predicted_ms": 5.0, "speedup": 2.0, "confidence": "bound-only"}]
    assert figures.best_scenario(figures.scenario_frame(answers)) is None


@pytest.mark.parametrize(
    ("significant", "words"),
    [
        (True, "The step became 3.5 ms longer, most of it exposed wait; cause: straggler (90 % of the change)"),
        (False, "No difference beyond noise: 3.5 ms a step"),
    ],
)
def test_comparison_says_what_grew_or_that_it_is_noise(significant: bool, words: str) -> None:
    changes = figures.changes_frame({"compute": 0.5, "exposed_wait": 3.0, "idle": None})
    chart = figures.change_of_parts(changes, "good", significant=significant, cause="straggler", share_of_delta=0.9)
    assert _text(chart) == words
