"""The course of traffic, its classes, and the bytes that collectives ask for, by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from netlab.attribute.counter_coverage import counter_coverage, with_clocks
from netlab.attribute.host_traffic import expected_factors, host_traffic
from netlab.attribute.link_queues import link_queues
from netlab.attribute.link_traffic import link_traffic, period_of
from netlab.attribute.links import link_intervals
from netlab.schema.counters import COUNTERS, PORTS
from netlab.schema.timeline import COLLECTIVES, P2P, RANKS
from tests.attribute.test_link_intervals import START, S, ports, samples


def course(rates: list[float], poll_s: float = 1.0, step_ns: float | None = None) -> dict[str, object]:
    """The row of a link of 100 Gbit/s that moves at given GB/s from poll to poll."""
    values, rows = 0, [(0.0, 0)]
    for number, rate in enumerate(rates, 1):
        values += round(rate * 1e9 * poll_s)
        rows.append((number * poll_s, values))
    intervals, _ = link_intervals(samples(rows), ports())
    (row,) = link_traffic(intervals, ports(), step_ns).to_dicts()
    return row


def test_traffic_that_repeats_every_five_polls_has_that_period() -> None:
    row = course([10, 10, 1, 1, 1] * 20, step_ns=5e9)
    assert row["period_ms"] == pytest.approx(5_000)
    assert row["step_ms"] == 5_000
    # 4.6 GB/s on average; two polls in five are above twice that, and move 20 of 23 GB.
    assert row["bursts"] == 20
    assert row["longest_burst_ms"] == 2_000
    assert row["burst_bytes_share"] == pytest.approx(20 / 23)
    assert row["peak_to_mean"] == pytest.approx(10 / 4.6)
    assert row["anomalies"] == 0


def test_noise_has_no_period() -> None:
    chance = np.random.default_rng(1)
    assert sum(period_of(chance.normal(10, 1, count)) is not None for count in (40, 100, 1_000) for _ in range(100)) <= 1


@pytest.mark.parametrize("period", [7.3, 10.7, 33.3])
def test_a_period_between_two_polls_is_found_in_noise(period: float) -> None:
    at = np.arange(400)
    found = period_of((at % period < 0.4 * period) + np.random.default_rng(2).normal(0, 0.3, 400))
    assert found is not None
    assert found[0] == pytest.approx(period, rel=0.02)


def test_an_outage_of_a_steady_link_is_an_anomaly_and_the_step_is_not() -> None:
    row = course([5.0] * 40 + [0.0] * 3 + [5.0] * 40)
    assert (row["anomalies"], row["anomaly_ns"], row["anomaly_ratio"]) == (3, START + 40 * S, 0.0)
    assert course([10, 1, 1, 1] * 25)["anomalies"] == 0


def test_an_anomaly_of_the_last_of_many_links_keeps_its_instant() -> None:
    names = [f"swp{number:03d}" for number in range(150)]
    steady, outage = [5.0] * 83, [5.0] * 40 + [0.0] * 3 + [5.0] * 40
    parts = [
        samples(
            [(at, round(moved)) for at, moved in enumerate(np.cumsum([0.0, *(outage if name == names[-1] else steady)]) * 1e9)], port=name
        )
        for name in names
    ]
    every = pl.concat([ports(port=name) for name in names])
    intervals, _ = link_intervals(COUNTERS.conform(pl.concat(parts)), every)
    last = link_traffic(intervals, every).row(-1, named=True)
    assert (last["port"], last["anomalies"], last["anomaly_ns"], last["anomaly_ratio"]) == ("swp149", 3, START + 40 * S, 0.0)


def test_a_hole_of_a_month_between_fast_polls_is_no_grid_of_its_own() -> None:
    rows = [(n / 1_000, n * 10**6) for n in range(64)] + [(30 * 86_400.0 + n / 1_000, (100 + n) * 10**6) for n in range(64)]
    intervals, _ = link_intervals(samples(rows), ports())
    (row,) = link_traffic(intervals, ports()).to_dicts()
    assert (row["polls"], row["period_ms"]) == (127, None)


def test_few_polls_have_no_course() -> None:
    intervals, _ = link_intervals(samples([(n, n) for n in range(20)]), ports())
    assert link_traffic(intervals, ports()).is_empty()


def test_classes_of_a_port_share_its_bytes() -> None:
    parts = [
        samples([(0, 0), (10, 9_000_000_000)], queue="3", direction="tx", raw_name="tx_prio3_bytes"),
        samples([(0, 0), (10, 1_000_000_000)], queue="0", direction="tx", raw_name="tx_prio0_bytes"),
        samples([(0, 0), (10, 500)], metric="discards", queue="0", direction="tx", raw_name="tx_prio0_discards"),
        samples([(0, 0), (10, 99_500)], metric="packets", queue="0", direction="tx", raw_name="tx_prio0_packets"),
        samples([(0, 0), (10, 1_000_000)], metric="pause_us", queue="3", direction="tx", raw_name="tx_prio3_pause_duration"),
        samples([(0, 0), (10, 77)], queue="7", direction="tx", raw_name="[7]: tx_ucast_bytes"),
        samples([(0, 0)], metric="queue_bytes_watermark", queue="3", direction="tx", kind="watermark", raw_name="watermark"),
        samples([(10, 2_500_000)], metric="queue_bytes_watermark", queue="3", direction="tx", kind="watermark", raw_name="watermark"),
    ]
    counters = COUNTERS.conform(pl.concat(parts))
    intervals, _ = link_intervals(counters, ports())
    rows = {row["queue"]: row for row in link_queues(counters, intervals, ports()).to_dicts()}
    assert set(rows) == {"0", "3"}
    assert (rows["3"]["share"], rows["0"]["share"]) == (0.9, 0.1)
    assert rows["0"]["loss_ratio"] == 500 / 100_000
    assert rows["3"]["pause_ratio"] == 0.1
    # 2.5 MB take 200 us at 100 Gbit/s.
    assert (rows["3"]["watermark_us"], rows["3"]["watermark_moved"]) == (200.0, True)


@pytest.mark.parametrize(
    ("op", "members", "hosts", "low", "high"),
    [
        ("all_reduce", 2, 2, 1.0, 1.0),
        ("all_reduce", 16, 2, 1.0, 1.875),
        ("reduce_scatter", 8, 8, 0.875, 0.875),
        ("all_gather", 8, 1, 0.0, 0.0),
        ("broadcast", 8, 2, 0.0, 1.0),
        ("barrier", 8, 2, 0.0, 0.0),
    ],
)
def test_bytes_that_a_host_sends_per_byte_of_a_collective(op: str, members: int, hosts: int, low: float, high: float) -> None:
    assert expected_factors(op, members, hosts) == (low, high)


def collective(instance: int, op: str, size: int, group: str = "0,1") -> pl.DataFrame:
    members = [int(part) for part in group.split(",")]
    frame = pl.DataFrame({"instance": [instance] * len(members), "rank": members, "activity": members})
    fill = {"group": group, "op": op, "bytes": size, "window": 0, "start_ns": START + S, "end_ns": START + 2 * S}
    return COLLECTIVES.conform(frame, **fill, split="measured", layer="inter_node", members=len(members), seen=len(members))


def test_counted_bytes_meet_those_of_the_collectives() -> None:
    ranks = RANKS.conform(pl.DataFrame({"rank": [0, 1], "host": ["nodea", "nodeb"]}))
    table = PORTS.conform(
        pl.DataFrame({"device": ["nodea", "nodeb"], "port": ["mlx5_0"] * 2, "role": ["hca"] * 2, "host": ["nodea", "nodeb"]})
    )
    # An all-reduce of 1 GB and an all-to-all of 2 GB between two hosts: 1 GB and 1 GB leave each.
    collectives = pl.concat([collective(0, "all_reduce", 10**9), collective(1, "all_to_all", 2 * 10**9)])
    parts = [
        samples([(0, 0), (10, size)], device=host, port="mlx5_0", direction="tx")
        for host, size in (("nodea", 2_040_000_000), ("nodeb", 10**9))
    ]
    intervals, _ = link_intervals(COUNTERS.conform(pl.concat(parts)), table)
    rows = host_traffic(collectives, P2P.empty(), ranks, intervals, table, (START, START + 10 * S)).to_dicts()
    assert [(row["host"], row["counted_bytes"], row["expected_high_bytes"]) for row in rows] == [
        ("nodea", 2_040_000_000, 2 * 10**9),
        ("nodeb", 10**9, 2 * 10**9),
    ]
    assert all(row["complete"] and row["coverage"] == 1.0 and row["expected_low_bytes"] == 2 * 10**9 for row in rows)


def test_a_switch_port_stands_in_for_a_nic_that_nobody_counts() -> None:
    ranks = RANKS.conform(pl.DataFrame({"rank": [0, 1], "host": ["nodea", "nodeb"]}))
    table = PORTS.conform(pl.DataFrame({"device": ["leaf1"], "port": ["e0"], "role": ["host"], "host": ["nodea"]}))
    intervals, _ = link_intervals(samples([(0, 0), (10, 10**9)], direction="rx"), table)
    (row,) = host_traffic(collective(0, "all_reduce", 10**9), P2P.empty(), ranks, intervals, table, (START, START + 10 * S)).to_dicts()
    assert (row["host"], row["counted_by"], row["counted_bytes"]) == ("nodea", "switch", 10**9)


def test_coverage_tells_polls_gaps_and_what_is_absent() -> None:
    counters = COUNTERS.conform(
        pl.concat([samples([(0, 0), (10, 1), (20, 2), (120, 3), (130, 4)]), samples([(0, 5)], metric="link_downed", direction="none")])
    )
    intervals, _ = link_intervals(counters, ports())
    row = with_clocks(counter_coverage(counters, intervals, ports()), {"leaf1": (2_000_000, 1_000_000, 3_000_000)}).to_dicts()[0]
    assert (row["ports"], row["ports_with_speed"], row["ports_cabled"]) == (1, 1, 0)
    assert (row["poll_ms"], row["gaps"], row["single_readings"]) == (10_000.0, 1, 1)
    assert row["gap_share"] == pytest.approx(100 / 130)
    assert row["absent"] == "packets, errors, discards, pause or credit wait, ECN marks"
    assert (row["clock_offset_ms"], row["clock_low_ms"], row["clock_high_ms"]) == (2.0, 1.0, 3.0)
