"""The type under which charts travel; apart from the renderer, because who only reads them must not load Altair."""

from __future__ import annotations

__all__ = ["VEGA_MIME"]

#: Compiled Vega as JupyterLab 4 registers it.
VEGA_MIME = "application/vnd.vega.v5+json"
