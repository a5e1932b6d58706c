"""Small pieces of HTML. Everything that comes from an input is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import polars as pl

from netlab.units import format_bytes

__all__ = ["Html", "box", "chips", "details", "table"]

#: Rows of a table in the page; the rest is in the Parquet tables.
_ROWS_SHOWN = 200


class Html:
    """Markup that displays itself in Jupyter.

    >>> Html("<b>x</b>")._repr_html_()
    '<b>x</b>'
    """

    def __init__(self, markup: str, text: str = "") -> None:
        self.markup = markup
        self.text = text

    def _repr_html_(self) -> str:
        return self.markup

    def __repr__(self) -> str:
        return self.text or "<Html>"


def table(frame: pl.DataFrame, labels: Mapping[str, str] | None = None, *, rows: int = _ROWS_SHOWN, whole: str = "") -> str:
    """A frame as an HTML table, numbers right-aligned, null as an en dash, at most ``rows`` rows.

    Parameters
    ----------
    frame
        Any frame. ``_share`` columns print as percent, ``bytes`` as sizes, other floats with four significant digits.
    labels
        Column name to heading; only these columns are shown, in this order. Without it all columns under their names.
    rows
        Most rows to show.
    whole
        Where the rows are that it was made of, for the note below.

    Examples
    --------
    >>> "<td>&lt;b&gt;</td>" in table(pl.DataFrame({"name": ["<b>"]}))
    True
    """
    names = list(labels) if labels else frame.columns
    heads = labels or {name: name for name in names}
    numeric = {name: frame.schema[name].is_numeric() for name in names}
    head = "".join(f'<th scope="col"{_right(numeric[name])}>{escape(heads[name])}</th>' for name in names)
    body = []
    for row in frame.select(names).head(rows).iter_rows(named=True):
        cells = "".join(f"<td{_right(numeric[name])}>{_cell(name, row[name])}</td>" for name in names)
        body.append(f"<tr>{cells}</tr>")
    source = f"in {escape(whole)}" if whole else ""
    note = f'<p class="nl-note">Rows behind it {source}.</p>' if source else ""
    if frame.height > rows:
        note = f'<p class="nl-note">First {rows:,} of {frame.height:,} rows{f"; all {source}" if source else ""}.</p>'
    inner = f'<table class="nl-table"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'
    return f'<div class="nl-scroll" tabindex="0">{inner}</div>{note}'


def _right(numeric: bool) -> str:
    return ' class="nl-num"' if numeric else ""


def _cell(name: str, value: Any) -> str:
    if value is None:
        return '<span class="nl-null" title="unknown">–</span>'
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "bytes":
        return escape(format_bytes(int(value)))
    if name.endswith(("_share", "_ratio", "share", "efficiency", "coverage")) or name.startswith("utilization"):
        return f"{100 * value:.1f} %" if isinstance(value, float) else escape(str(value))
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int):
        return str(value) if name in {"rank", "step", "seq", "src", "dst", "line"} else f"{value:,}"
    if isinstance(value, list):
        return escape(", ".join(map(str, value)))
    return escape(str(value))


def _number(value: float) -> str:
    """Four significant digits, without an exponent where people would have to count zeros.

    >>> _number(5.87e-05), _number(0.25), _number(123456.7), _number(3.2e-09)
    ('0.000059', '0.25', '123,457', '3.2e-09')
    """
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    if 1e-6 <= abs(value) < 1e-3:
        return f"{value:.6f}".rstrip("0")
    return f"{value:,.4g}"


def details(summary: str, body: str, *, opened: bool = False, anchor: str = "") -> str:
    """A part that opens on demand. ``summary`` is text, ``body`` markup."""
    name = f' id="{escape(anchor)}"' if anchor else ""
    return f'<details class="nl-details"{name}{" open" if opened else ""}><summary>{escape(summary)}</summary>{body}</details>'


def box(title: str, sentences: Iterable[str], *, kind: str = "info", command: str = "", below: str = "") -> str:
    """A box with a title, sentences, and the command to run, all text; ``below`` is markup."""
    text = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    code = f'<pre class="nl-command"><code>{escape(command)}</code></pre>' if command else ""
    return f'<div class="nl-box nl-{escape(kind)}" role="note"><p class="nl-box-title">{escape(title)}</p>{text}{code}{below}</div>'


def chips(pairs: Sequence[tuple[str, str, str]]) -> str:
    """Facts side by side: (label, value, kind); kind is ok, warning, error or plain."""
    cells = "".join(
        f'<div class="nl-chip nl-chip-{escape(kind)}"><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>'
        for label, value, kind in pairs
    )
    return f'<dl class="nl-chips">{cells}</dl>'
