"""Measures of links over a window."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.attribute.links import links, physical_ports
from netlab.schema.counters import LINK_INTERVALS, PORTS

S = 1_000_000_000


def intervals(
    *rows: tuple[float, float, int | None], metric: str = "bytes", direction: str = "tx", queue: str | None = None, speed: float = 1.0
) -> pl.DataFrame:
    """Intervals (from, to, growth) of port e0 of leaf1, seconds."""
    frame = pl.DataFrame(
        {
            "t0_ns": [round(t0 * S) for t0, _, _ in rows],
            "t1_ns": [round(t1 * S) for _, t1, _ in rows],
            "delta": [delta for *_, delta in rows],
            "utilization": [
                None if delta is None or metric != "bytes" else delta * 8 / ((t1 - t0) * speed * 1e9) for t0, t1, delta in rows
            ],
            "flags": ["gap" if t1 - t0 > 50 else "" for t0, t1, _ in rows],
        },
        schema_overrides={"delta": pl.Int64, "utilization": pl.Float64},
    )
    return LINK_INTERVALS.conform(frame, device="leaf1", port="e0", direction=direction, metric=metric, queue=queue)


def ports(speed: float | None = 1.0) -> pl.DataFrame:
    return PORTS.conform(
        pl.DataFrame(
            {"device": ["leaf1"], "port": ["e0"], "speed_gbps": [speed], "role": ["up"]}, schema_overrides={"speed_gbps": pl.Float64}
        )
    )


def row(*frames: pl.DataFrame, **options: object) -> dict[str, object]:
    both = pl.concat(frames).sort(LINK_INTERVALS.key)
    result = links(both, ports(), **options)  # type: ignore[arg-type]
    assert result.height == 1
    return result.row(0, named=True)


BYTES = intervals((0, 10, 125_000_000), (10, 20, 1_000_000_000), (20, 320, 0), (320, 330, 250_000_000))


def test_the_mean_is_weighted_by_time_and_the_peak_is_no_gap() -> None:
    got = row(BYTES)
    assert got["utilization_mean"] == pytest.approx(1_375_000_000 * 8 / 330e9, abs=1e-15)
    assert got["utilization_peak"] == 0.8
    assert got["resolution_ms"] == 10_000
    assert got["bytes"] == 1_375_000_000


def test_unknown_intervals_lower_the_coverage_not_the_mean() -> None:
    got = row(intervals((0, 10, 125_000_000), (10, 20, None), (20, 30, 125_000_000)))
    assert got["coverage"] == pytest.approx(2 / 3)
    assert got["utilization_mean"] == 0.1


def test_a_window_cuts_by_share() -> None:
    got = row(BYTES, window=(5 * S, 15 * S))
    assert got["bytes"] == 62_500_000 + 500_000_000
    assert got["window"] == "run"
    assert got["coverage"] == 1.0


def test_a_window_beyond_the_samples_says_how_much_is_covered() -> None:
    assert row(intervals((0, 10, 8)), window=(0, 40 * S))["coverage"] == 0.25


def test_communication_time_alone_is_used_more() -> None:
    windows = pl.DataFrame({"start_ns": [0, 10 * S], "end_ns": [5 * S, 15 * S]})
    got = row(intervals((0, 10, 125_000_000), (10, 20, 125_000_000)), comm_windows=windows)
    assert got["utilization_mean"] == 0.1
    assert got["utilization_comm"] == 0.2


def test_polls_that_hardly_meet_communication_say_nothing_about_it() -> None:
    windows = pl.DataFrame({"start_ns": [0], "end_ns": [S]})
    assert row(intervals((0, 10, 125_000_000)), comm_windows=windows)["utilization_comm"] is None


def test_loss_counts_discards_and_errors_against_all_packets() -> None:
    got = row(
        intervals((0, 10, 900), metric="packets"),
        intervals((0, 10, 90), metric="multicast_packets"),
        intervals((0, 10, 6), metric="discards"),
        intervals((0, 10, 4), metric="errors"),
    )
    assert got["loss_ratio"] == 0.01
    assert got["discards"] == 6


def test_a_total_of_packets_is_not_increased_by_its_parts() -> None:
    got = row(
        intervals((0, 10, 990), metric="packets"),
        intervals((0, 10, 900), metric="unicast_packets"),
        intervals((0, 10, 90), metric="multicast_packets"),
        intervals((0, 10, 10), metric="discards"),
    )
    assert got["loss_ratio"] == 0.01


def test_the_longest_paused_priority_counts() -> None:
    got = row(intervals((0, 10, 1_000_000), metric="pause_us", queue="3"), intervals((0, 10, 2_000_000), metric="pause_us", queue="4"))
    assert got["pause_ratio"] == 0.2
    assert got["pause_ratio_max"] is None


def test_quanta_are_512_bit_times() -> None:
    assert row(intervals((0, 10, 1_953_125), metric="pause_quanta", queue="3"))["pause_ratio"] == pytest.approx(0.1)


def test_undirected_errors_stand_beside_the_directed_rows() -> None:
    got = row(intervals((0, 10, 8)), intervals((0, 10, 5), metric="symbol_errors", direction="none"))
    assert (got["direction"], got["errors"]) == ("tx", 5)


def test_without_a_speed_there_is_no_utilisation() -> None:
    result = links(intervals((0, 10, 8)).with_columns(pl.lit(None, dtype=pl.Float64).alias("utilization")), ports(None))
    assert result["utilization_mean"].to_list() == [None]
    assert result["bytes"].to_list() == [8]


def test_a_bundle_stands_in_for_members_that_nobody_counts() -> None:
    table = PORTS.conform(pl.DataFrame({"device": ["s", "s"], "port": ["e0", "Po1"], "role": ["up", "lag"], "lag": ["Po1", None]}))
    assert physical_ports(table, pl.DataFrame({"device": ["s"], "port": ["Po1"]}))["port"].to_list() == ["Po1"]
    assert physical_ports(table, table.select("device", "port"))["port"].to_list() == ["e0"]


def test_counters_of_another_time_are_shown_as_such() -> None:
    got = row(intervals((0, 10, 125_000_000)), window=(100 * S, 200 * S))
    assert (got["window"], got["utilization_mean"]) == ("samples", 0.1)
