"""More than the line carries: a burst between blurred stamps, a reset, or a wrong unit. 100 Gbit/s are 12.5e9 bytes a second."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.attribute.links import links
from tests.attribute.test_link_intervals import ports, run, samples

LINE = 12_500_000_000


def totals(rates: list[float], poll_s: float, offset_s: float = 0.0) -> list[tuple[float, int]]:
    """Samples of a counter that moves at shares of the line, from poll to poll."""
    values, found = 1_000, [(offset_s, 1_000)]
    for number, rate in enumerate(rates, 1):
        values += round(rate * LINE * poll_s)
        found.append((offset_s + number * poll_s, values))
    return found


def test_a_full_line_between_whole_seconds_is_full_and_no_reset() -> None:
    frame, issues = run(samples(totals([0.5, 1.08, 0.9, 0.5], 10)))
    assert frame["utilization"].to_list() == [0.5, 1.0, 0.9, 0.5]
    assert frame["delta"].null_count() == 0
    assert issues == []


def test_stamps_with_milliseconds_leave_no_such_excuse() -> None:
    frame, issues = run(samples(totals([0.5, 1.08, 0.9, 0.5], 10, 0.137)))
    assert frame["delta"].is_null().to_list() == [False, True, False, False]
    assert [issue.code for issue in issues] == ["COUNTER_RESET"]


@pytest.mark.parametrize(("rate", "source", "kept"), [(1.005, "device", True), (1.02, "device", False), (1.009, "collector", True)])
def test_a_device_stamps_its_counters_itself(rate: float, source: str, kept: bool) -> None:
    frame, _ = run(samples(totals([0.5, rate, 0.5, 0.5], 1 if source == "device" else 10, 0.137), ts_source=source))
    assert (frame["delta"][1] is not None) is kept


def test_far_more_than_the_error_allows_is_a_reset_that_ended_higher() -> None:
    frame, _ = run(samples(totals([0.1, 1.3, 0.1, 0.1], 10)))
    assert frame["flags"].cast(pl.String).to_list() == ["", "reset", "", ""]


def test_a_wrong_unit_shows_over_the_whole_series_where_no_single_poll_proves_it() -> None:
    # A quarter of the true speed was declared: 30 % look like 120 %, less than the error of a poll of one second.
    frame, issues = run(samples(totals([0.3] * 30, 1)), speed_gbps=25.0)
    assert frame["utilization"].null_count() == 30
    assert [issue.code for issue in issues] == ["ABOVE_LINE_RATE"]


def test_means_and_peaks_never_exceed_the_line() -> None:
    frame, _ = run(samples(totals([1.02] * 3, 10)))
    (row,) = links(frame, ports()).to_dicts()
    assert (row["utilization_mean"], row["utilization_peak"]) == (1.0, 1.0)


def test_a_32_bit_wrap_is_judged_with_the_error_of_its_interval() -> None:
    # 1 Gbit/s, 10 s: 1.25e9 bytes fit, 1.375e9 within the error of a second, 2e9 do not: that was a reset.
    top = 2**32
    for growth, flags in ((1_250_000_000, "wrap"), (1_330_000_000, "wrap"), (2_000_000_000, "reset")):
        start = top - 1_000_000_000
        frame, _ = run(samples([(0, start), (10, (start + growth) % top)], width_bits=32), speed_gbps=1.0)
        assert frame["flags"].cast(pl.String).to_list() == [flags], growth
        assert frame["delta"].to_list() == [growth if flags == "wrap" else None]


def test_on_a_fine_grid_a_new_value_may_show_up_a_step_late() -> None:
    # Scraped every 30 s, asked for every 10 s: changes show up after 30, 40 and 20 s although the rate is even and 95 % of the line.
    scrape = round(0.95 * LINE * 30)
    seen = [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7]
    frame, _ = run(samples([(10 * number, 1_000 + scrape * count) for number, count in enumerate(seen)], ts_source="query_grid"))
    used = frame["utilization"].drop_nulls()
    assert used.max() <= 1.0  # type: ignore[operator]
    assert used.min() > 0.6  # type: ignore[operator]
    assert "reset" not in ",".join(frame["flags"].cast(pl.String))
