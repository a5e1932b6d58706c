"""One look for every chart: colours, fonts, axes. A category has one colour everywhere; the palette holds for colour-blind readers."""

from __future__ import annotations

import textwrap
from typing import Any

import altair as alt

__all__ = [
    "CONFIG",
    "FONT",
    "GRID",
    "INK",
    "LAYER_COLOURS",
    "MUTED",
    "PAPER",
    "PART_COLOURS",
    "RULE",
    "WIDTH",
    "ramp",
    "titled",
]

#: Width of a chart's plotting area; with its axes it fits a column of 860 px.
WIDTH = 770

#: A chart does not break its title by itself; more characters than these would leave it.
_TITLE_CHARACTERS = 96
_SUBTITLE_CHARACTERS = 132

FONT = 'Inter, "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif'

# The page maps exactly these to its own variables, so that charts follow its dark and light dress. Change them here and nowhere else.
INK = "#1b2530"
MUTED = "#5a6673"
GRID = "#dde2e8"
RULE = "#b3261e"
#: Hairlines between bars; the page maps it to the colour of its panels.
PAPER = "#ffffff"

#: What a rank does with its time, in the order in which it is stacked. Hues from Okabe and Ito, "Color Universal Design" (2008), with
#: distinct lightness, so that they stay apart in grey print.
PART_COLOURS: dict[str, str] = {
    "compute": "#3b6fa0",
    "hidden communication": "#8cbfe6",
    "exposed transfer": "#d1495b",
    "exposed communication, split unknown": "#9c5f8f",
    "exposed wait": "#edae49",
    "memory": "#2f8f7f",
    "idle": "#c9d0d8",
}

LAYER_COLOURS: dict[str, str] = {"inter_node": "#d1495b", "intra_node": "#2f8f7f", "unplaced": "#7d8894"}

CONFIG: dict[str, Any] = {
    "background": "#ffffff",
    "font": FONT,
    "padding": {"left": 4, "right": 12, "top": 6, "bottom": 4},
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "frame": "bounds",
        "color": INK,
        "fontSize": 16,
        "fontWeight": 600,
        "subtitleColor": MUTED,
        "subtitleFontSize": 12.5,
        "subtitleLineHeight": 17,
        "subtitlePadding": 5,
        "offset": 16,
        "lineHeight": 21,
    },
    "axis": {
        "labelColor": MUTED,
        "labelFontSize": 12,
        "titleColor": MUTED,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "titlePadding": 9,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "labelPadding": 5,
        "labelLimit": 240,
        "labelSeparation": 6,
    },
    "axisBand": {"grid": False, "ticks": False, "labelOverlap": True, "labelSeparation": 5},
    "legend": {
        "orient": "top",
        "direction": "horizontal",
        "labelColor": INK,
        "titleColor": MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "symbolType": "square",
        "symbolSize": 130,
        "symbolStrokeWidth": 0,
        "columnPadding": 14,
        "labelLimit": 260,
        "offset": 12,
        "gradientLength": 220,
    },
    "header": {"labelColor": INK, "labelFontSize": 12, "labelFontWeight": 600, "titleColor": MUTED},
    "text": {"color": INK, "font": FONT, "fontSize": 12},
    "rule": {"color": MUTED},
}

#: One hue from almost transparent to full, so that the low end fades into the page in its light and its dark dress.
_RAMPS = {
    "transfer": ["rgba(209,73,91,0.06)", "rgba(209,73,91,0.5)", "rgba(200,52,72,1)"],
    "wait": ["rgba(237,174,73,0.09)", "rgba(237,174,73,0.6)", "rgba(224,150,36,1)"],
    "unknown": ["rgba(156,95,143,0.07)", "rgba(156,95,143,0.5)", "rgba(140,80,128,1)"],
    "neutral": ["rgba(76,134,184,0.09)", "rgba(76,134,184,0.5)", "rgba(62,118,170,1)"],
}


def ramp(name: str) -> list[str]:
    """A sequential ramp: ``transfer``, ``wait``, ``unknown`` or ``neutral``."""
    return _RAMPS[name]


def titled(chart: Any, name: str, title: str, subtitle: str | list[str], description: str) -> Any:
    """Give a chart its name, its finding as title, how to read it as subtitle, and its text for screen readers.

    Parameters
    ----------
    chart
        Any Altair chart.
    name
        Short name; names the PNG file and the anchor in the report.
    title
        What the chart shows, as a sentence.
    subtitle
        How to read it.
    description
        The same for those who cannot see it; the title comes first, so only what it does not say.

    Returns
    -------
    The chart with these properties.
    """
    lines = textwrap.wrap(title, _TITLE_CHARACTERS)
    below = [line for part in ([subtitle] if isinstance(subtitle, str) else subtitle) for line in textwrap.wrap(part, _SUBTITLE_CHARACTERS)]
    return chart.properties(
        title=alt.Title(lines if len(lines) > 1 else title, subtitle=below),
        description=f"{title}. {description}",
        usermeta={"netlab": {"name": name}},
    )
