"""Numbers and instants as people and tools write them, read exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

__all__ = ["Instant", "number_columns", "parse_instant", "time_column"]

_EPOCH = re.compile(r"(\d{9,19})(?:\.(\d+))?")
_ISO = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9})\d*)?)?\s*(Z|z|UTC|GMT|[+-]\d\d:?\d\d|[+-]\d\d)?"
    # Go prints the zone's name behind its offset.
    r"(?: [A-Z]{3,5})?",
)
_US = re.compile(r"(\d\d?)/(\d\d?)/(\d{4}),? (\d\d?):(\d\d):(\d\d)")
_HALF_DAY = re.compile(r"(?i)(.*[ T])(\d\d?)(:\d\d.*?)\s*([ap])\.?m\.?(.*)")
#: Digits before the decimal point of an epoch time, to nanoseconds per unit: seconds until the year 2286.
_UNIT_NS = {9: 10**9, 10: 10**9, 12: 10**6, 13: 10**6, 15: 10**3, 16: 10**3, 18: 1, 19: 1}
_MISSING = ("", "n/a", "na", "-", "--", "null", "none", "nan", "+inf", "-inf", "inf")


@dataclass(frozen=True)
class Instant:
    """One parsed time. ``unit`` is iso, s, ms, us or ns; ``naive`` if the text names no zone (then read as UTC)."""

    ns: int
    unit: str
    naive: bool = False


def parse_instant(text: str) -> Instant | None:
    """Nanoseconds since the Unix epoch of a time as text; None if it is none.

    >>> parse_instant("2026-01-01T00:00:00.5Z").ns == parse_instant("1767225600.5").ns
    True
    >>> parse_instant("2026-01-01 00:00:00").naive, parse_instant("1767225600137").unit
    (True, 'ms')
    >>> parse_instant("1/2/2026, 1:00:10 PM") == parse_instant("2026-01-02 13:00:10")
    True
    """
    text = _whole_day(text.strip())
    epoch = _EPOCH.fullmatch(text)
    if epoch:
        unit_ns = _UNIT_NS.get(len(epoch[1]))
        if unit_ns is None:
            return None
        fraction = (epoch[2] or "").ljust(9, "0")[:9]
        unit = {10**9: "s", 10**6: "ms", 10**3: "us", 1: "ns"}[unit_ns]
        return Instant(int(epoch[1]) * unit_ns + int(fraction) * unit_ns // 10**9, unit)
    iso = _ISO.fullmatch(text)
    if iso:
        year, month, day, hour, minute, second = (int(part or 0) for part in iso.groups()[:6])
        return _calendar((year, month, day, hour, minute, second), int((iso[7] or "").ljust(9, "0")), iso[8])
    us = _US.fullmatch(text)
    if us:
        return _calendar((int(us[3]), int(us[1]), int(us[2]), int(us[4]), int(us[5]), int(us[6])), 0, None)
    return None


def _whole_day(text: str) -> str:
    """A time with AM or PM on the clock of 24 hours.

    >>> _whole_day("2026-01-01 12:30:00 AM UTC"), _whole_day("2026-01-01 00:30:00")
    ('2026-01-01 00:30:00 UTC', '2026-01-01 00:30:00')
    """
    half = _HALF_DAY.fullmatch(text)
    if half is None or not 1 <= int(half[2]) <= 12:
        return text
    hour = int(half[2]) % 12 + (12 if half[4] in "pP" else 0)
    return f"{half[1]}{hour:02d}{half[3]}{half[5]}"


def _calendar(parts: tuple[int, int, int, int, int, int], fraction_ns: int, zone: str | None) -> Instant | None:
    try:
        seconds = int(datetime(*parts, tzinfo=UTC).timestamp())
    except ValueError:
        return None
    if zone and zone[0] in "+-":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        shift_s = int(digits[:2]) * 3600 + int(digits[2:]) * 60
        seconds -= shift_s if zone[0] == "+" else -shift_s
    return Instant(seconds * 10**9 + fraction_ns, "iso", naive=zone is None)


def time_column(texts: pl.Series) -> pl.DataFrame:
    """Columns ``ts_ns``, ``unit`` and ``naive`` of a column of times; each different text is parsed once.

    >>> time_column(pl.Series(["1767225600", "soon"]))["ts_ns"].to_list()
    [1767225600000000000, None]
    """
    unique = texts.unique()
    parsed = [parse_instant(text) if text is not None else None for text in unique]
    table = pl.DataFrame(
        {
            "text": unique,
            "ts_ns": pl.Series([p.ns if p else None for p in parsed], dtype=pl.Int64),
            "unit": pl.Series([p.unit if p else None for p in parsed], dtype=pl.String),
            "naive": pl.Series([p.naive if p else False for p in parsed], dtype=pl.Boolean),
        }
    )
    wanted = texts.alias("text").to_frame().with_row_index("row")
    return wanted.join(table, on="text", how="left", nulls_equal=True).sort("row").select("ts_ns", "unit", "naive")


def number_columns(text: str = "text") -> list[pl.Expr]:
    """Expressions that read numbers from a text column: ``value_int`` (UInt64, exact), ``value`` (Float64) and ``missing``.

    Separators of thousands and 0x-hexadecimal are understood; ``N/A``, ``-``, ``NaN`` and the infinities are missing, not zero. A whole
    number in exponent form (``1.8e+07``, as Prometheus prints it) is an integer while a float holds it exactly.
    """
    # Separators of thousands: comma, apostrophe, underscore, plain and narrow spaces.
    clean = pl.col(text).str.strip_chars().str.replace_all(r"[,'’_ \u{a0}\u{202f}]", "")
    hexadecimal = clean.str.starts_with("0x") | clean.str.starts_with("0X")
    whole = clean.str.replace(r"^\+", "").str.replace(r"\.0+$", "").cast(pl.UInt64, strict=False)
    whole = (
        pl.when(hexadecimal).then(clean.str.slice(2).str.to_integer(base=16, strict=False).cast(pl.UInt64, strict=False)).otherwise(whole)
    )
    real = pl.when(hexadecimal).then(None).otherwise(clean).cast(pl.Float64, strict=False)
    real = pl.when(real.is_finite()).then(real)
    rounded = pl.when(real.is_between(0, 2.0**53) & (real == real.round())).then(real).cast(pl.UInt64, strict=False)
    exact = pl.coalesce(whole, rounded)
    return [
        exact.alias("value_int"),
        pl.coalesce(real, exact.cast(pl.Float64)).alias("value"),
        (clean.is_null() | clean.str.to_lowercase().is_in(list(_MISSING))).alias("missing"),
    ]
