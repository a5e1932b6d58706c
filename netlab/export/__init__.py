"""Tables and traces for other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from netlab.export.perfetto import export_perfetto
from netlab.export.tables import export_csv, export_parquet
from netlab.run import Run

__all__ = ["EXPORTS", "export_csv", "export_parquet", "export_perfetto"]

#: Format of ``netlab export --to`` to the function that writes it.
EXPORTS: dict[str, Callable[[Run, Path], list[Path]]] = {"perfetto": export_perfetto, "parquet": export_parquet, "csv": export_csv}
