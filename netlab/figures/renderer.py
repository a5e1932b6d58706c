"""Our Altair renderer: compiled Vega that JupyterLab draws without a network, and a PNG for viewers that know no Vega.

Altair's own renderers fail offline: the default one loads scripts from a CDN, and ``mimetype`` emits a Vega-Lite 6 type that JupyterLab 4
does not register. JupyterLab bundles Vega 5, and the Vega that vl-convert compiles draws there as it does in our HTML. A bundle with
``text/html`` in it would win over Vega and lose its script in an untrusted notebook, so there is none.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import altair as alt
import vl_convert

from netlab.errors import ReportError
from netlab.figures.mime import VEGA_MIME
from netlab.figures.theme import CONFIG

__all__ = ["MARK_BUDGET", "SPEC_BUDGET_BYTES", "compile_vega", "enable", "mimebundle", "png_wanted", "vega_png"]

#: What one chart may hold. More than this nobody can see in 700 px, and pages become slow: aggregate first.
MARK_BUDGET = 20_000
SPEC_BUDGET_BYTES = 1_000_000

_VEGALITE = "6.4"
_PNG_SCALE = 1.3


def compile_vega(chart: Any) -> dict[str, Any]:
    """The Vega specification of an Altair chart or a Vega-Lite specification, with our theme.

    Raises
    ------
    ReportError
        If the chart holds more rows than ``MARK_BUDGET`` or more bytes than ``SPEC_BUDGET_BYTES``.
    """
    if isinstance(chart, dict):
        spec = dict(chart)
    else:
        with alt.data_transformers.enable("default", max_rows=None):
            spec = chart.to_dict()
    spec["config"] = _merged(CONFIG, spec.get("config") or {})
    rows = sum(len(values) for values in _inline_data(spec))
    if rows > MARK_BUDGET:
        raise ReportError(f"A chart has {rows:,} rows, more than {MARK_BUDGET:,}; aggregate the frame before charting it.")
    vega: dict[str, Any] = vl_convert.vegalite_to_vega(spec, vl_version=_VEGALITE)
    size = len(json.dumps(vega))
    if size > SPEC_BUDGET_BYTES:
        raise ReportError(f"A chart has {size:,} bytes, more than {SPEC_BUDGET_BYTES:,}; aggregate the frame or round its numbers.")
    # Vega 5 and 6 read the same specification; JupyterLab warns about a newer number only.
    vega["$schema"] = "https://vega.github.io/schema/vega/v5.json"
    return vega


def vega_png(vega: dict[str, Any]) -> bytes:
    """A compiled chart as a PNG at 1.3 times its size, on white."""
    picture: bytes = vl_convert.vega_to_png(vega, scale=_PNG_SCALE)
    return picture


def mimebundle(chart: Any, *, png: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Data and metadata to display a chart with: compiled Vega, text for terminals, a PNG on demand. Never ``text/html``."""
    vega = compile_vega(chart)
    data: dict[str, Any] = {VEGA_MIME: vega, "text/plain": str(vega.get("description", "chart"))}
    if png:
        data["image/png"] = base64.b64encode(vega_png(vega)).decode("ascii")
    return data, {VEGA_MIME: {"embed_options": {"actions": False}}}


def enable(*, png: bool = False) -> None:
    """Show every Altair chart of this process by our renderer and theme.

    Parameters
    ----------
    png
        Also store a PNG in the notebook, for viewers without Vega (0.1 to 0.7 s and MB a chart).
    """

    def render(spec: dict[str, Any], **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return mimebundle(spec, png=png)

    alt.renderers.register("netlab", render)
    alt.renderers.enable("netlab", png=png)
    alt.data_transformers.disable_max_rows()

    @alt.theme.register("netlab", enable=True)  # type: ignore[untyped-decorator]
    def theme() -> alt.theme.ThemeConfig:
        return alt.theme.ThemeConfig(config=CONFIG)

    del theme


def png_wanted() -> bool:
    """Whether ``enable(png=True)`` was the last word."""
    return alt.renderers.active == "netlab" and bool(alt.renderers.options.get("png"))


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``base`` with the values of ``over``, folder by folder."""
    result = dict(base)
    for key, value in over.items():
        held = result.get(key)
        result[key] = _merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return result


def _inline_data(spec: Any) -> list[list[Any]]:
    """Every inline row list of a Vega-Lite specification."""
    if isinstance(spec, dict):
        found = [values for values in spec.get("datasets", {}).values() if isinstance(values, list)]
        data = spec.get("data")
        if isinstance(data, dict) and isinstance(data.get("values"), list):
            found.append(data["values"])
        for key in ("layer", "hconcat", "vconcat", "concat", "spec"):
            found += _inline_data(spec.get(key))
        return found
    if isinstance(spec, list):
        return [values for part in spec for values in _inline_data(part)]
    return []
