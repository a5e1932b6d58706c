"""What a chart brings to Jupyter: Vega that needs no network, never HTML, never more than a page can bear."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import altair as alt
import pytest

from netlab.errors import ReportError
from netlab.figures.mime import VEGA_MIME
from netlab.figures.renderer import compile_vega, enable, mimebundle, png_wanted
from netlab.figures.theme import CONFIG, PART_COLOURS


def _chart(rows: int = 3) -> alt.Chart:
    return (
        alt.Chart(alt.InlineData(values=[{"a": number} for number in range(rows)]))
        .mark_bar()
        .encode(x="a:Q")
        .properties(description="Bars.")
    )


@pytest.fixture
def _restored() -> Iterator[None]:
    renderer, theme, transformer = alt.renderers.active, alt.theme.active, alt.data_transformers.active
    yield
    alt.renderers.enable(renderer)
    alt.theme.enable(theme)
    alt.data_transformers.enable(transformer)


def test_bundle_holds_vega_and_text_but_never_html() -> None:
    data, _ = mimebundle(_chart())
    assert set(data) == {VEGA_MIME, "text/plain"}
    assert data["text/plain"] == "Bars."


def test_picture_comes_only_when_asked_for() -> None:
    data, _ = mimebundle(_chart(), png=True)
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")


def test_compiled_chart_asks_for_nothing_outside() -> None:
    text = json.dumps({key: value for key, value in compile_vega(_chart()).items() if key != "$schema"})
    assert "http" not in text


def test_compiled_chart_has_our_theme() -> None:
    assert compile_vega(_chart())["config"]["axis"]["labelColor"] == CONFIG["axis"]["labelColor"]


def test_too_many_rows_are_refused_with_the_way_out() -> None:
    with pytest.raises(ReportError, match=r"20,001 rows.*aggregate"):
        compile_vega(_chart(20_001))


def test_too_many_bytes_are_refused() -> None:
    heavy = alt.Chart(alt.InlineData(values=[{"a": "x" * 2_000} for _ in range(600)])).mark_bar().encode(x="a:N")
    with pytest.raises(ReportError, match="bytes"):
        compile_vega(heavy)


@pytest.mark.usefixtures("_restored")
def test_enabled_renderer_shows_every_altair_chart_by_ours() -> None:
    enable(png=False)
    data: Any = _chart()._repr_mimebundle_()
    bundle = data[0] if isinstance(data, tuple) else data
    assert VEGA_MIME in bundle
    assert "text/html" not in bundle
    assert not png_wanted()
    enable(png=True)
    assert png_wanted()


def _luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_neighbouring_parts_differ_in_lightness_too() -> None:
    # Colours alone do not reach everyone: those that touch in a bar must stay apart in grey.
    for first, second in (
        ("compute", "hidden communication"),
        ("hidden communication", "exposed transfer"),
        ("exposed transfer", "exposed wait"),
    ):
        light, dark = sorted((_luminance(PART_COLOURS[first]), _luminance(PART_COLOURS[second])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 1.5
