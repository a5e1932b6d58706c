"""How well the clocks of the ranks agree."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.theme import INK, MUTED, PART_COLOURS, WIDTH, titled
from netlab.units import NS_PER_MS, format_ms, plural

__all__ = ["clock_frame", "clock_quality"]

_DOMAINS_SHOWN = 40


def clock_frame(clocks: pl.DataFrame) -> pl.DataFrame:
    """One row per clock domain.

    Parameters
    ----------
    clocks
        ``CLOCKS``.

    Returns
    -------
    Columns ``domain``, ``ranks``, ``offset_ms`` (null if not measured), ``error_ms`` (null if not known), ``low_ms``, ``high_ms``,
    ``samples``, ``drift_ppm``; the largest offset first.
    """
    grouped = clocks.group_by("domain", maintain_order=True).agg(
        pl.col("rank").n_unique().alias("ranks"),
        (pl.col("offset_ns").first() / NS_PER_MS).alias("offset_ms"),
        (pl.col("error_ns").max() / NS_PER_MS).alias("error_ms"),
        pl.col("samples").max(),
        pl.col("drift_ppm").first(),
    )
    error = pl.col("error_ms").fill_null(0.0)
    return grouped.with_columns((pl.col("offset_ms") - error).alias("low_ms"), (pl.col("offset_ms") + error).alias("high_ms")).sort(
        pl.col("offset_ms").abs(), "domain", descending=[True, False], nulls_last=True
    )


def clock_quality(frame: pl.DataFrame) -> Any:
    """Offset of each clock domain with its error.

    Parameters
    ----------
    frame
        Result of ``clock_frame``; of more than 40 domains those with the largest offsets.
    """
    shown = frame.filter(pl.col("offset_ms").is_not_null()).head(_DOMAINS_SHOWN)
    base = alt.Chart(alt.InlineData(values=records(shown, 6)))
    y = alt.Y("domain:N", title=None, sort=shown["domain"].to_list(), axis=alt.Axis(labelColor=INK))
    tooltip = [
        alt.Tooltip("domain:N", title="clock of"),
        alt.Tooltip("ranks:Q", title="ranks"),
        alt.Tooltip("offset_ms:Q", title="ahead by (ms)", format=".4~g"),
        alt.Tooltip("error_ms:Q", title="error (ms)", format=".3~g"),
        alt.Tooltip("samples:Q", title="collectives used"),
    ]
    x = alt.X("low_ms:Q", title="ahead of the lowest rank's clock (ms)", axis=alt.Axis(format=",~f", tickCount=8))
    zero = alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color=MUTED).encode(x="zero:Q")
    chart = alt.layer(
        zero,
        base.mark_bar(height=10, opacity=0.35, color=PART_COLOURS["compute"]).encode(x=x, x2="high_ms:Q", y=y, tooltip=tooltip),
        base.mark_point(filled=True, size=90, color=PART_COLOURS["compute"]).encode(x="offset_ms:Q", y=y, tooltip=tooltip),
    ).properties(width=WIDTH - 90, height=alt.Step(24))
    subtitle = (
        "Offsets come from the common ends of collectives and were taken off every instant above. Bars: what remains, the clock error."
    )
    return titled(chart, "clocks", _title(frame), subtitle, f"Offsets of {plural(shown.height, 'clock')}.")


def _title(frame: pl.DataFrame) -> str:
    known = frame.filter(pl.col("offset_ms").is_not_null())
    errors = known["error_ms"].drop_nulls()
    if not known.height:
        return "The clocks could not be compared"
    rest = f"after correction they agree within {format_ms(float(errors.max()))}" if len(errors) else "how well they agree now is not known"  # type: ignore[arg-type]
    row = known.row(0, named=True)
    if abs(row["offset_ms"]) < 1e-9:
        return f"No clock was off; {rest.replace('after correction they', 'they')}"
    return f"{row['domain']} was {format_ms(abs(row['offset_ms']))} {'ahead' if row['offset_ms'] > 0 else 'behind'}; {rest}"
