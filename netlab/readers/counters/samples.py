"""From named numbers to samples in canonical units: what every counter reader does after it has read its format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from netlab.issues import Issue
from netlab.readers.counters.meaning import Meaning, NameTable, first_meaning
from netlab.readers.counters.texts import number_columns
from netlab.schema.counters import COUNTERS

__all__ = ["RAW_SCHEMA", "Interpreted", "interpret", "raw_frame"]

#: What a reader hands over: one row per number, in the order of the file. ``direction`` and ``queue`` win over those of the name.
RAW_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "ts_ns": pl.Int64,
    "device": pl.String,
    "port": pl.String,
    "queue": pl.String,
    "direction": pl.String,
    "raw_name": pl.String,
    "text": pl.String,
    "flags": pl.String,
}

_GAUGE_WORDS = (
    "temp",
    "util",
    "pct",
    "percent",
    "ratio",
    "speed",
    "state",
    "status",
    "rate",
    "watermark",
    "volt",
    "current",
    "power",
    "mtu",
    "ber",
    "max",
    "avg",
    "bps",
    "pps",
    "ifindex",
)
_WIDER = 64
_TEXTS = ("device", "port", "queue", "direction", "raw_name", "flags")


@dataclass(frozen=True)
class Interpreted:
    """Samples of one file with what was odd about them."""

    counters: pl.DataFrame
    unparsed: int
    issues: tuple[Issue, ...]


def raw_frame(
    rows: Sequence[Sequence[object]],
    columns: Sequence[str] = ("ts_ns", "device", "port", "queue", "direction", "raw_name", "text", "flags"),
) -> pl.DataFrame:
    """Rows of a small format as a frame of ``RAW_SCHEMA``; columns left out are null."""
    frame = pl.DataFrame(rows, schema={name: RAW_SCHEMA[name] for name in columns}, orient="row")
    return frame.select((pl.col(name) if name in columns else pl.lit(None, dtype=dtype).alias(name)) for name, dtype in RAW_SCHEMA.items())


def interpret(
    raw: pl.DataFrame,
    source: str,
    tables: Sequence[NameTable],
    *,
    ts_source: str | None = None,
    adjust: Callable[[str, Meaning | None], Meaning | None] | None = None,
) -> Interpreted:
    """Samples of the ``counters`` table from rows of ``RAW_SCHEMA``.

    Names that ``tables`` do not know keep their own name and are counted as one issue. A number that is missing (``N/A``) gives no row;
    text that is no number gives no row either and counts as unparsed. Where one port has several counters for one metric, the most
    preferred keeps the canonical name. Rows that come before an earlier one of their series are flagged ``out_of_order``.
    """
    if raw.is_empty():
        return Interpreted(COUNTERS.empty(), 0, ())
    names = raw["raw_name"].unique().sort().to_list()
    meanings, unknown = _meanings(names, tables, adjust)
    # Categories instead of text: grouping a million rows by five names costs a tenth.
    lines = _with_numbers(raw.with_row_index("row")).with_columns(pl.col(_TEXTS).cast(pl.Categorical))
    unparsed = int(lines.select((pl.col("value").is_null() & ~pl.col("missing")).sum()).item())
    lines = lines.filter(pl.col("value").is_not_null()).drop("missing", "text")
    lines = lines.rename({"direction": "given_direction", "queue": "given_queue"})
    frame = lines.join(meanings, on="raw_name", how="left", maintain_order="left").with_columns(
        pl.coalesce(pl.col("given_direction"), pl.col("direction")).alias("direction"),
        pl.coalesce(pl.col("given_queue"), pl.col("queue")).alias("queue"),
    )
    frame = _flagged(_widths(_canonical_names(_scaled(frame))).sort("row"))
    issues = []
    if unknown:
        named = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
        message = f"{source}: {len(unknown)} counters have no canonical name and keep their own ({named})."
        issues.append(Issue(code="UNKNOWN_COUNTER", severity="info", source=source, message=message))
    fill = {"ts_source": ts_source, "source": source}
    frame = frame.with_columns(pl.lit(value, dtype=pl.String).cast(pl.Categorical).alias(name) for name, value in fill.items())
    shaped = frame.select(pl.col(column.name).cast(column.dtype) for column in COUNTERS.columns)
    return Interpreted(shaped, unparsed, tuple(issues))


def _with_numbers(lines: pl.DataFrame) -> pl.DataFrame:
    """Columns ``value_int``, ``value`` and ``missing`` read from ``text``; only texts that are no plain digits take the careful way."""
    plain = lines.with_columns(pl.col("text").cast(pl.UInt64, strict=False).alias("value_int"))
    odd = plain["value_int"].is_null()
    done = plain.with_columns(pl.col("value_int").cast(pl.Float64).alias("value"), pl.lit(False).alias("missing"))
    if not odd.any():
        return done
    careful = lines.filter(odd).with_columns(number_columns())
    return pl.concat([done.filter(~odd), careful.select(done.columns)]).sort("row")


def _flagged(frame: pl.DataFrame) -> pl.DataFrame:
    """Add scaled_x4 and out_of_order to the flags that the reader gave."""
    latest = pl.col("ts_ns").cum_max()
    earlier = pl.col("ts_ns") < latest
    # A second pass over the same times (a clock put back) also meets the old maximum again.
    late = earlier | ((pl.col("ts_ns") == latest) & earlier.shift(1, fill_value=False))
    marked = frame.with_columns(
        late.over("device", "port", "queue", "direction", "metric").fill_null(False).alias("late"), (pl.col("scale") == 4).alias("scaled")
    )
    kinds = marked.select("flags", "scaled", "late").unique()
    texts = [
        ",".join(part for part in (flags or "", "scaled_x4" if scaled else "", "out_of_order" if late else "") if part)
        for flags, scaled, late in kinds.iter_rows()
    ]
    named = kinds.with_columns(pl.Series("text", texts, dtype=pl.Categorical))
    joined = marked.join(named, on=["flags", "scaled", "late"], how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.col("text").alias("flags")).drop("text")


def _meanings(
    names: list[str], tables: Sequence[NameTable], adjust: Callable[[str, Meaning | None], Meaning | None] | None
) -> tuple[pl.DataFrame, list[str]]:
    rows, unknown = [], []
    for name in names:
        meaning = first_meaning(tables, name)
        if adjust is not None:
            meaning = adjust(name, meaning)
        if meaning is None:
            unknown.append(name)
            meaning = _guess(name)
        rows.append(
            {
                "raw_name": name,
                "metric": meaning.metric,
                "direction": meaning.direction,
                "queue": meaning.queue,
                "kind": meaning.kind,
                "scale": float(meaning.scale),
                "width_bits": meaning.width_bits,
                "overflow": meaning.overflow,
                "preference": meaning.preference,
                "otherwise": meaning.otherwise or name,
                "equals": meaning.equals,
            }
        )
    schema = {
        "raw_name": pl.Categorical,
        "metric": pl.Categorical,
        "direction": pl.Categorical,
        "queue": pl.Categorical,
        "kind": pl.Categorical,
        "scale": pl.Float64,
        "width_bits": pl.Int32,
        "overflow": pl.Categorical,
        "preference": pl.Int32,
        "otherwise": pl.Categorical,
        "equals": pl.UInt64,
    }
    return pl.DataFrame(rows, schema=schema), unknown


def _guess(name: str) -> Meaning:
    """An unknown name: its direction if it says so, and no belief about its width. A word for a level makes it a gauge."""
    lower = name.lower()
    words = lower.replace("-", "_").split("_")
    direction = (
        "rx"
        if {"rx", "in", "rcv", "receive", "received"} & set(words)
        else "tx"
        if {"tx", "out", "xmit", "transmit", "transmitted"} & set(words)
        else "none"
    )
    kind = "gauge" if any(word in lower for word in _GAUGE_WORDS) else "counter"
    return Meaning(name, direction, kind=kind, width_bits=None, overflow=None)


def _scaled(frame: pl.DataFrame) -> pl.DataFrame:
    """Numbers in canonical units; whole scales keep integers exact, a product beyond 64 bits becomes a float only."""
    whole = pl.col("scale") == pl.col("scale").round()
    factor = pl.when(whole & (pl.col("scale") >= 1)).then(pl.col("scale")).otherwise(1).cast(pl.UInt64)
    fits = pl.col("value_int") <= pl.lit(2**64 - 1, dtype=pl.UInt64) // factor
    # A state number becomes 1 or 0; ifSpeed at its end says nothing about the speed.
    state = (pl.col("value_int") == pl.col("equals")).cast(pl.UInt64)
    topped = (pl.col("raw_name") == "ifSpeed") & (pl.col("value_int") == 2**32 - 1)
    exact: pl.Expr = pl.when(whole & fits & ~topped.fill_null(False)).then(pl.col("value_int") * factor)
    exact = pl.when(pl.col("equals").is_not_null()).then(state).otherwise(exact)
    real = pl.when(pl.col("equals").is_not_null()).then(state.cast(pl.Float64)).otherwise(pl.col("value") * pl.col("scale"))
    return frame.with_columns(exact.alias("value_int"), pl.when(~topped.fill_null(False)).then(real).alias("value"))


def _canonical_names(frame: pl.DataFrame) -> pl.DataFrame:
    """One source counter per (port, queue, direction, metric): the most preferred that has numbers; others keep their own name."""
    keys = ["device", "port", "queue", "direction", "metric"]
    names = frame.select(*keys, "raw_name", "preference").unique()
    if not names.select(keys).is_duplicated().any():
        return frame
    best = names.sort("preference", "raw_name").group_by(keys, maintain_order=True).agg(pl.col("raw_name").first().alias("best"))
    frame = frame.join(best, on=keys, how="left", nulls_equal=True)
    own = pl.when(pl.col("raw_name") == pl.col("best")).then(pl.col("metric")).otherwise(pl.col("otherwise"))
    return frame.with_columns(own.alias("metric")).drop("best")


def _widths(frame: pl.DataFrame) -> pl.DataFrame:
    """Narrow registers that stick have wide twins of the same name: a value beyond the narrow range shows the wide one."""
    narrow = (pl.col("overflow") == "stick") & (pl.col("width_bits") < _WIDER)
    if not frame.select(narrow.fill_null(False).any()).item():
        return frame
    largest = (pl.lit(2, dtype=pl.UInt64).pow(pl.col("width_bits").clip(0, 32)).cast(pl.UInt64) - 1) * pl.col("scale").clip(1, 4).cast(
        pl.UInt64
    )
    beyond = (pl.col("value_int") > largest).fill_null(False).any().over("device", "port", "raw_name")
    wide = narrow & beyond
    return frame.with_columns(
        pl.when(wide).then(_WIDER).otherwise(pl.col("width_bits")).cast(pl.Int32).alias("width_bits"),
        pl.when(wide).then(pl.lit("wrap").cast(pl.Categorical)).otherwise(pl.col("overflow")).alias("overflow"),
    )
