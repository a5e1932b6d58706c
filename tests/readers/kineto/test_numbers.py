"""Decimal text becomes exact integers."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.readers.kineto import plain

_DIGITS = st.text("0123456789", min_size=1, max_size=22)
_NUMBERS = st.builds(
    lambda sign, whole, fraction, exponent: f"{sign}{whole}{fraction}{exponent}",
    st.sampled_from(["", "-"]),
    _DIGITS,
    st.one_of(st.just(""), _DIGITS.map(lambda digits: "." + digits)),
    st.one_of(st.just(""), st.integers(-25, 25).map(lambda power: f"e{power}"), st.integers(0, 20).map(lambda power: f"E+{power}")),
)


def exact(text: str, scale: int) -> int | None:
    """The same by ``Decimal``; None for what does not fit."""
    with localcontext() as context:
        context.prec = 100
        value = Decimal(text).scaleb(scale)
        if scale == 0 and value != value.to_integral_value():
            return None
        whole = int(value.quantize(Decimal(1), ROUND_HALF_UP)) if abs(value) < Decimal(10) ** 30 else 2**64
    return whole if -(2**63) < whole < 2**63 else None


@given(_NUMBERS)
def test_microseconds_become_nanoseconds_as_decimal_does_it(text: str) -> None:
    value, status = plain.number(text.encode(), 0, len(text), 3)
    assert (value if status == 0 else None) == exact(text, 3)


@given(_NUMBERS)
def test_integers_are_exact_or_missing(text: str) -> None:
    value, status = plain.number(text.encode(), 0, len(text), 0)
    assert (value if status == 0 else None) == exact(text, 0)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1000.123", 1_000_123),
        ("1.000123E3", 1_000_123),
        ("1712195495519689.047", 1_712_195_495_519_689_047),
        ("1623142623460111", 1_623_142_623_460_111_000),
        ("0.0005", 1),
        ("-0.0005", -1),
        ("0.00049999999999999999999", 0),
        ("5e-20", 0),
        ("9223372036854775.807", 2**63 - 1),
    ],
)
def test_times_of_all_styles(text: str, ns: int) -> None:
    assert plain.number(text.encode(), 0, len(text), 3) == (ns, 0)


@pytest.mark.parametrize("text", ["", "-", ".5", "1e", "1e+", "NaN", "12abc", "1.2.3", "0x10", "1 2"])
def test_what_is_no_number_is_missing(text: str) -> None:
    assert plain.number(text.encode(), 0, len(text), 3) == (0, 1)


@pytest.mark.parametrize("text", ["9223372036854775808", "18446744073709551615", "1e19", "-9223372036854775809", "9" * 400])
def test_integers_beyond_64_bits_are_told_from_bad_ones(text: str) -> None:
    assert plain.number(text.encode(), 0, len(text), 0) == (-1 if text.startswith("-") else 1, 2)


def test_a_duration_beyond_64_bits_is_longest_and_never_missing(read: Callable[..., Any]) -> None:
    # A duration below zero that the profiler wrote without its sign.
    durations = ["18446744073709551.615", "1e300", '"99999999999999999999"', "-1e300"]
    events = [f'{{"ph": "X", "cat": "kernel", "name": "k{place}", "ts": 5, "dur": {text}}}' for place, text in enumerate(durations)]
    events.append('{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 5, "dur": 1e300, "args": {"correlation": 1}}')
    frames, parsed = read(('{"traceEvents": [' + ",".join(events) + "]}").encode())
    kept = frames["device_events"]
    assert kept["name"].to_list() == ["k0", "k1", "k2"]
    assert (kept["end_ns"] - kept["start_ns"]).unique().to_list() == [2**61]
    said = {issue.code: issue.message for issue in parsed.issues}
    assert set(said) == {"NEGATIVE_DURATION", "MISSING_DURATION"}
    assert "'k3' at 5.000 us" in said["NEGATIVE_DURATION"]
    assert "'cudaLaunchKernel' at 5.000 us" in said["MISSING_DURATION"]


def test_every_way_reads_times_exactly(read: Callable[..., Any]) -> None:
    texts = ["1000.123", "1.000123E3", "1712195495519689.047", "4458676522690.6555", '"77.5"', "12", "0.1", "1e3", "1712195495519689.0"]
    events = [f'{{"ph": "X", "cat": "kernel", "name": "k", "ts": {text}, "dur": {text}, "args": {{}}}}' for text in texts]
    frames, _ = read(('{"traceEvents": [' + ",".join(events) + "]}").encode())
    expected = [exact(text.strip('"'), 3) for text in texts]
    assert frames["device_events"]["start_ns"].to_list() == expected
    assert (frames["device_events"]["end_ns"] - frames["device_events"]["start_ns"]).to_list() == expected
