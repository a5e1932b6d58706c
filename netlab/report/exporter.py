"""The nbconvert exporter of our page, for those who convert notebooks themselves."""

from __future__ import annotations

from typing import Any

from nbconvert.exporters import Exporter
from nbformat import NotebookNode

from netlab.report.page import page_html

__all__ = ["ReportExporter"]


class ReportExporter(Exporter):  # type: ignore[misc]
    """nbconvert exporter of netlab's notebooks; code cells' sources are left out, their outputs make the page.

    Works by itself, too: ``jupyter nbconvert --to netlab.report.exporter.ReportExporter report.ipynb``.
    """

    file_extension = ".html"
    output_mimetype = "text/html"
    export_from_notebook = "netlab report"

    def _file_extension_default(self) -> str:
        return ".html"

    def from_notebook_node(self, nb: NotebookNode, resources: Any = None, **kw: Any) -> tuple[str, dict[str, Any]]:
        """The page of an executed notebook, and nbconvert's resources."""
        nb, resources = super().from_notebook_node(nb, resources, **kw)
        return page_html(nb), resources
