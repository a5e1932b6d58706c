"""Counters to intervals: what is known, and why something is not."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from netlab.align.counters import align_counters
from netlab.attribute.links import link_intervals
from netlab.issues import Issue
from netlab.readers.base import Sink
from netlab.readers.counters.prometheus_json import PrometheusJson
from netlab.schema.counters import COUNTERS, LINK_INTERVALS, PORTS

S = 1_000_000_000
START = 1_767_225_600 * S


def ports(speed_gbps: float | None = 100.0, device: str = "leaf1", port: str = "e0") -> pl.DataFrame:
    return PORTS.conform(
        pl.DataFrame(
            {"device": [device], "port": [port], "speed_gbps": [speed_gbps], "role": ["down"]}, schema_overrides={"speed_gbps": pl.Float64}
        )
    )


def samples(values: list[tuple[float, int]], metric: str = "bytes", port: str = "e0", **columns: object) -> pl.DataFrame:
    """Samples (second, value) of one counter of leaf1."""
    frame = pl.DataFrame(
        {"ts_ns": [round(at * S) + START for at, _ in values], "value_int": [v for _, v in values]},
        schema_overrides={"value_int": pl.UInt64},
    )
    fill = {
        "device": "leaf1",
        "port": port,
        "queue": None,
        "direction": "rx",
        "metric": metric,
        "kind": "counter",
        "width_bits": 64,
        "overflow": "wrap",
        "flags": "",
        "raw_name": metric,
        "ts_source": "collector",
        "source": "c.csv",
    }
    fill |= columns
    frame = frame.with_columns(pl.col("value_int").cast(pl.Float64).alias("value"))
    return COUNTERS.conform(frame, **{name: value for name, value in fill.items() if name not in frame.columns})


def run(*parts: pl.DataFrame, speed_gbps: float | None = 100.0) -> tuple[pl.DataFrame, list[Issue]]:
    frame, issues = align_counters(pl.concat(parts))
    intervals, more = link_intervals(COUNTERS.validate(frame), ports(speed_gbps))
    return LINK_INTERVALS.validate(intervals), issues + more


def deltas(frame: pl.DataFrame, metric: str = "bytes") -> list[int | None]:
    return frame.filter(pl.col("metric") == metric)["delta"].to_list()


def flags(frame: pl.DataFrame, metric: str = "bytes") -> list[str]:
    return frame.filter(pl.col("metric") == metric)["flags"].cast(pl.String).to_list()


def codes(issues: list[Issue]) -> set[str]:
    return {issue.code for issue in issues}


NARROW = {"width_bits": 32}


def test_a_32_bit_counter_that_can_have_wrapped_only_once_has_wrapped() -> None:
    frame, issues = run(samples([(0, 2**32 - 500), (10, 500), (20, 1500)], **NARROW), speed_gbps=1.0)
    assert deltas(frame) == [1000, 1000]
    assert flags(frame) == ["wrap", ""]
    assert codes(issues) == {"COUNTER_WRAP"}


def test_a_32_bit_counter_of_a_fast_port_is_unknown_also_where_it_grew() -> None:
    frame, _ = run(samples([(0, 0), (10, 4_000), (20, 3_000)], **NARROW), speed_gbps=10.0)
    assert deltas(frame) == [None, None]
    assert flags(frame) == ["wrap_ambiguous", "wrap_ambiguous"]


def test_a_fall_beyond_the_line_rate_is_no_wrap() -> None:
    frame, issues = run(samples([(0, 1_000_000), (1, 10)], **NARROW), speed_gbps=1.0)
    assert deltas(frame) == [None]
    assert flags(frame) == ["reset"]
    assert "COUNTER_RESET" in codes(issues)


def test_a_poll_longer_than_half_the_wrap_time_leaves_a_wrap_in_doubt() -> None:
    frame, _ = run(samples([(0, 2**32 - 500), (20, 500)], **NARROW), speed_gbps=1.0)
    assert deltas(frame) == [None]
    assert flags(frame) == ["wrap_ambiguous"]


def test_without_a_speed_a_narrow_counter_of_bytes_is_unknown() -> None:
    frame, _ = run(samples([(0, 100), (10, 50)], **NARROW), speed_gbps=None)
    assert deltas(frame) == [None]


def test_a_narrow_error_counter_far_from_its_end_was_reset() -> None:
    frame, _ = run(samples([(0, 500), (10, 3), (20, 5)], "errors", **NARROW))
    assert deltas(frame, "errors") == [None, 2]
    assert flags(frame, "errors") == ["reset", ""]


def test_a_64_bit_counter_that_falls_was_reset_and_goes_on_after_it() -> None:
    frame, issues = run(samples([(0, 10**15), (10, 10**15 + 7), (20, 250), (30, 257)]))
    assert deltas(frame) == [7, None, 7]
    assert flags(frame) == ["", "reset", ""]
    assert "COUNTER_RESET" in codes(issues)


def test_a_restart_that_ends_above_the_old_value_is_seen_by_the_uptime() -> None:
    clock = {"metric": "uptime_ticks", "port": "", "kind": "gauge", "direction": "none"}
    frame, issues = run(samples([(0, 100), (10, 110), (20, 5_000)]), samples([(0, 90_000), (10, 91_000), (20, 400)], **clock))
    assert deltas(frame) == [10, None]
    assert any("restarted" in issue.message for issue in issues if issue.code == "COUNTER_RESET")


def test_an_uptime_that_ran_out_of_its_32_bits_is_no_restart() -> None:
    clock = {"metric": "uptime_ticks", "port": "", "kind": "gauge", "direction": "none"}
    frame, _ = run(samples([(0, 100), (10, 110)]), samples([(0, 2**32 - 500), (10, 500)], **clock))
    assert deltas(frame) == [10]


def test_a_counter_at_its_end_says_nothing() -> None:
    stuck = {"width_bits": 16, "overflow": "stick", "direction": "none"}
    frame, issues = run(samples([(0, 65_530), (10, 65_535), (20, 65_535), (30, 4)], "symbol_errors", **stuck))
    assert deltas(frame, "symbol_errors") == [None, None, None]
    assert all("saturated" in text for text in flags(frame, "symbol_errors"))
    assert "COUNTER_SATURATED" in codes(issues)


def test_scaled_words_stick_at_four_times_the_register() -> None:
    words = {"width_bits": 32, "overflow": "stick", "flags": "scaled_x4"}
    frame, _ = run(samples([(0, 4 * (2**32 - 5)), (10, 4 * (2**32 - 1))], **words), speed_gbps=None)
    assert flags(frame) == ["saturated"]


def test_the_difference_over_a_gap_is_kept_and_flagged() -> None:
    frame, issues = run(samples([(0, 0), (10, 10), (20, 20), (320, 95), (330, 105)]))
    assert deltas(frame) == [10, 10, 75, 10]
    assert flags(frame) == ["", "", "gap", ""]
    assert "COUNTER_GAP" in codes(issues)


def test_uneven_polls_use_their_own_length() -> None:
    frame, _ = run(samples([(0, 0), (10, 100), (25, 400)]))
    assert frame["rate_per_s"].to_list() == [10.0, 20.0]


def test_equal_repeats_of_one_instant_count_once() -> None:
    frame, issues = run(samples([(0, 0), (10, 10), (10, 10), (20, 30)]))
    assert deltas(frame) == [10, 20]
    assert "DUPLICATE_SAMPLE" in codes(issues)


def test_conflicting_repeats_make_both_neighbours_unknown() -> None:
    frame, issues = run(samples([(0, 0), (10, 10), (10, 12), (20, 30), (30, 40)]))
    assert deltas(frame) == [None, None, 10]
    assert flags(frame) == ["duplicate", "duplicate", ""]
    assert "DUPLICATE_SAMPLE" in codes(issues)


def test_the_order_of_rows_changes_nothing() -> None:
    rows = [(float(at), at * at * 7) for at in range(0, 200, 10)]
    shuffled = rows.copy()
    random.Random(1).shuffle(shuffled)
    assert deltas(run(samples(rows))[0]) == deltas(run(samples(shuffled))[0])


def test_counters_above_two_to_the_53_keep_every_byte() -> None:
    frame, _ = run(samples([(0, 2**53 + 1), (10, 2**53 + 2), (20, 2**64 - 2**20)]), speed_gbps=None)
    assert deltas(frame)[0] == 1


def test_a_stale_poll_is_merged_with_the_next() -> None:
    frame, issues = run(samples([(0, 0), (10, 100), (20, 200), (30, 200), (40, 400), (50, 500)]))
    assert deltas(frame) == [100, 100, 200, 100]
    assert flags(frame) == ["", "", "stale_repeat", ""]
    assert "STALE_REPEAT" in codes(issues)


def test_an_idle_interval_without_a_catch_up_is_zero() -> None:
    frame, _ = run(samples([(0, 0), (10, 100), (20, 200), (30, 200), (40, 300), (50, 400)]))
    assert deltas(frame) == [100, 100, 0, 100, 100]


def test_another_counter_of_the_device_that_moved_shows_that_the_poll_was_real() -> None:
    still = samples([(0, 0), (10, 100), (20, 200), (30, 200), (40, 400)])
    frame, _ = run(still, samples([(0, 0), (10, 100), (20, 200), (30, 300), (40, 400)], port="e1"))
    assert frame.filter(pl.col("port") == "e0")["delta"].to_list() == [100, 100, 0, 200]


def test_on_the_grid_of_a_query_a_single_repeat_is_a_missed_scrape() -> None:
    frame, _ = run(samples([(0, 0), (30, 100), (60, 200), (90, 200), (120, 310), (150, 400)], ts_source="query_grid"))
    assert deltas(frame) == [100, 100, 110, 90]


def test_more_than_line_rate_is_a_hidden_reset() -> None:
    gig = 125_000_000
    frame, issues = run(samples([(0, 0), (1, gig), (2, 2 * gig), (3, 40 * gig), (4, 41 * gig)]), speed_gbps=1.0)
    assert deltas(frame) == [gig, gig, None, gig]
    assert flags(frame)[2] == "reset"
    assert "COUNTER_RESET" in codes(issues)


def test_if_most_intervals_exceed_the_line_rate_the_speed_is_doubted() -> None:
    gig = 125_000_000
    frame, issues = run(samples([(0, 0), (1, 4 * gig), (2, 8 * gig)]), speed_gbps=1.0)
    assert deltas(frame) == [4 * gig, 4 * gig]
    assert frame["utilization"].to_list() == [None, None]
    assert "ABOVE_LINE_RATE" in codes(issues)


@pytest.mark.parametrize("seed", range(3))
def test_deltas_of_a_clean_counter_add_up(seed: int) -> None:
    chance = random.Random(seed)
    rows, value = [], chance.randrange(2**40)
    for at in range(0, 300, 10):
        rows.append((float(at), value))
        value += chance.randrange(1, 10**9)
    frame, issues = run(samples(rows))
    assert sum(delta for delta in deltas(frame) if delta is not None) == rows[-1][1] - rows[0][1]
    assert not issues


def _prometheus(shared_data: Path, name: str) -> tuple[pl.DataFrame, list[Issue]]:
    sink = Sink()
    PrometheusJson().read(shared_data / "counters" / "prometheus" / name, sink, name)
    counters, _ = align_counters(sink.collect("counters"))
    both = pl.concat([ports(400.0, "leaf01", "Ethernet1/1"), ports(400.0, "leaf01", "Ethernet1/2")])
    return link_intervals(counters, both)


def test_the_missed_scrape_of_a_real_reply_shows_no_stall_and_no_burst(shared_data: Path) -> None:
    frame, _ = _prometheus(shared_data, "query_range_ifHCInOctets_step30.json")
    used = frame["utilization"].drop_nulls()
    assert 0.36 < used.min() < used.max() < 0.95  # type: ignore[operator]
    assert frame["delta"].null_count() == 1


def test_an_oversampled_reply_collapses_to_its_39_scrapes(shared_data: Path) -> None:
    frame, _ = _prometheus(shared_data, "query_range_ifHCInOctets_step10_oversampled.json")
    assert frame.height == 38
    assert frame.filter(pl.col("delta") == 0).is_empty()


def _pair(sent: int, received: int) -> list[Issue]:
    ends = PORTS.conform(
        pl.DataFrame(
            {"device": ["leaf1", "nodea"], "port": ["e0", "mlx5_0"], "peer_device": ["nodea", "leaf1"], "peer_port": ["mlx5_0", "e0"]}
        )
    )
    switch = samples([(at, at * sent) for at in (0, 60, 120)], direction="tx")
    host = samples([(at, at * received) for at in (0, 60, 120)], port="mlx5_0").with_columns(
        pl.lit("nodea").cast(pl.Categorical).alias("device")
    )
    counters, _ = align_counters(pl.concat([switch, host]))
    return link_intervals(counters, ends)[1]


def test_words_that_pass_for_bytes_show_at_the_other_end() -> None:
    (issue,) = _pair(4_000_000, 1_000_000)
    assert issue.code == "SCALE_MISMATCH"
    assert "4-byte words" in issue.message


def test_ends_that_agree_raise_no_doubt() -> None:
    assert _pair(4_000_000, 4_040_000) == []
