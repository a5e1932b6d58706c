"""Unit constants, exact thresholds, and the formatters of every number that people see."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from netlab.errors import ConfigError

__all__ = [
    "DTYPE_BYTES",
    "NS_PER_MS",
    "NS_PER_S",
    "NS_PER_US",
    "dtype_bytes",
    "format_bytes",
    "format_ms",
    "format_numbers",
    "format_percent",
    "ms_from_ns",
    "parse_share",
    "plural",
    "share_above",
]

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

# Names as c10::toString and as the profiler's "dtype"/"Input type" print them, lower-cased without a "c10::" or "torch." prefix.
# Source: c10/core/ScalarType.h.
DTYPE_BYTES: dict[str, int] = {
    **dict.fromkeys(("byte", "char", "uint8", "int8", "bool", "qint8", "quint8", "unsigned char", "signed char"), 1),
    **dict.fromkeys(
        (
            "float8_e5m2",
            "float8_e4m3fn",
            "float8_e5m2fnuz",
            "float8_e4m3fnuz",
            "float8_e8m0fnu",
            "fp8_e4m3",
            "fp8_e5m2",
        ),
        1,
    ),
    **dict.fromkeys(("short", "half", "bfloat16", "float16", "int16", "uint16", "bf16", "fp16"), 2),
    **dict.fromkeys(("int", "float", "float32", "int32", "uint32", "qint32", "unsigned int", "complexhalf"), 4),
    **dict.fromkeys(("long", "double", "float64", "int64", "uint64", "long int", "complexfloat"), 8),
    **dict.fromkeys(("complexdouble",), 16),
}


def dtype_bytes(dtype: str | None) -> int | None:
    """Bytes of one element of a dtype as PyTorch prints it; None for an unknown name.

    >>> dtype_bytes("c10::BFloat16"), dtype_bytes("Float"), dtype_bytes("Float8_e4m3fn"), dtype_bytes("mystery")
    (2, 4, 1, None)
    """
    if dtype is None:
        return None
    name = dtype.strip().lower().removeprefix("c10::").removeprefix("torch.")
    return DTYPE_BYTES.get(name)


def ms_from_ns(ns: float | None) -> float | None:
    """Milliseconds of a number of nanoseconds; None stays None.

    >>> ms_from_ns(1_500_000)
    1.5
    """
    return None if ns is None else ns / NS_PER_MS


def parse_share(text: str, name: str = "threshold") -> Fraction:
    """Read a share written as decimal text exactly; ``0.25`` is 1/4, never a rounded float.

    Raises
    ------
    ConfigError
        If the text is no plain decimal between 0 and 1; ``25`` and ``25%`` are refused, not converted.

    >>> parse_share("0.25")
    Fraction(1, 4)
    """
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or not 0 <= value <= 1:
        raise ConfigError(f"{name} is {text!r}; expected a share from 0 to 1 written as decimal text, such as 0.25 for 25 percent.")
    return Fraction(value)


def share_above(part_ns: int, whole_ns: int, threshold: Fraction) -> bool:
    """Whether part / whole is strictly above the threshold, decided in integers.

    >>> share_above(20_000_000, 80_000_000, Fraction(1, 4)), share_above(20_001_000, 80_000_000, Fraction(1, 4))
    (False, True)
    """
    return int(part_ns) * threshold.denominator > int(whole_ns) * threshold.numerator


def format_percent(share: float | None, digits: int = 1) -> str:
    """A share as text for people; ``-`` when unknown.

    >>> format_percent(0.3), format_percent(None)
    ('30.0 %', '-')
    """
    return "-" if share is None else f"{100 * share:.{digits}f} %"


def format_ms(ms: float | None) -> str:
    """A duration in milliseconds as text with a fitting unit; ``-`` when unknown.

    >>> format_ms(0.225), format_ms(12.5), format_ms(12_500.0), format_ms(3_600_000.0)
    ('225 us', '12.5 ms', '12.5 s', '3,600 s')
    """
    if ms is None:
        return "-"
    if abs(ms) >= 1_000_000:
        return f"{ms / 1_000:,.0f} s"
    if abs(ms) >= 1_000:
        return f"{ms / 1_000:.3g} s"
    if abs(ms) >= 1 or ms == 0:
        return f"{ms:.3g} ms"
    return f"{ms * 1_000:.3g} us"


def format_bytes(size_bytes: int | None) -> str:
    """A size as decimal text (1 MB is 1,000,000 bytes, as nccl-tests counts); ``-`` when unknown.

    >>> format_bytes(8_196_000), format_bytes(512)
    ('8.2 MB', '512 B')
    """
    if size_bytes is None:
        return "-"
    value, units = float(size_bytes), ["B", "kB", "MB", "GB", "TB"]
    while abs(value) >= 1_000 and len(units) > 1:
        value, units = value / 1_000, units[1:]
    return f"{value:.3g} {units[0]}"


def format_numbers(numbers: Iterable[int]) -> str:
    """Ranks, steps or other numbers as text, runs of them shortened.

    >>> format_numbers([7, 0, 1, 2, 3]), format_numbers([4, 5])
    ('0-3, 7', '4, 5')
    """
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in parts)


def plural(count: int, word: str) -> str:
    """A count with its noun.

    >>> plural(1, "step"), plural(1200, "rank")
    ('1 step', '1,200 ranks')
    """
    return f"{count:,} {word}" + ("" if count == 1 else "s")
