"""Making a report: the notebook is run on a stored copy of the tables and the verdict, its page and sidecars are written beside it."""

from __future__ import annotations

import base64
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from netlab.errors import ConfigError, ReportError
from netlab.export.notebooks import notebooks_folder
from netlab.ownership import LISTING, claim, listed_files, locked, refuse_foreign, remove_own, write_listing
from netlab.report.failure import failure_page
from netlab.report.kernel import run_notebook
from netlab.report.notebooks import declared_parameters, refuse_unknown
from netlab.report.sidecars import append_step_summary, prometheus_text, summary_markdown, write_junit
from netlab.report.slack import write_slack
from netlab.run import Run
from netlab.verdict.model import Verdict

__all__ = ["default_folder", "write_page", "write_report"]

#: What a report puts into its folder, beside the folders ``tables`` and ``charts``.
_PLACES = ("verdict.json", "summary.md", "report.html", "report.ipynb", "netlab.prom", LISTING)
_MADE_BY, _NO_REPORT = "report", "no report of netlab left there"


def default_folder(name: str, now: datetime, root: Path = Path("reports")) -> Path:
    """``reports/<run>/<UTC time>``; signs that do not belong into a file name become a hyphen.

    >>> default_folder("llama 70b/x", datetime(2026, 11, 30, 12, 5, 9, tzinfo=UTC)).as_posix()
    'reports/llama-70b-x/20261130T120509Z'
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"
    return root / safe[:80] / f"{now:%Y%m%dT%H%M%SZ}"


def write_report(
    run: Run,
    verdict: Verdict,
    out_dir: Path | None = None,
    parameters: Mapping[str, Any] | None = None,
    *,
    notebook: str = "run_report",
    junit: Path | None = None,
    slack: Path | None = None,
) -> Path:
    """Write the report of a run: report.html, report.ipynb, verdict.json, summary.md, netlab.prom, tables/, charts/, files.json.

    The notebook takes tables and verdict from the report's own folder, so nothing is analysed twice, and the executed notebook can be run
    again from there. The files appear together once all are made; files.json lists them.

    Parameters
    ----------
    run, verdict
        What the report is about.
    out_dir
        Folder for the files; by default ``reports/<run>/<UTC time>`` in the working directory. Files that an earlier report
        listed there are replaced.
    parameters
        What the notebook is told and shows: ``run`` (where the inputs are), ``threshold``, ...
    notebook
        Name of the notebook in ``notebooks/``.
    junit, slack
        Also write a JUnit file, or a Slack message, there; also if the notebook failed.

    Returns
    -------
    The folder.

    Raises
    ------
    ConfigError
        A parameter is not one of the notebook's, or the folder holds files of these names that no report left; nothing was written.
    ReportError
        The notebook failed or its kernel died. The folder then holds verdict.json, summary.md, the tables, the notebook as far as it came,
        and a report.html that says what failed. Or the folder cannot be written, or the disk is full: then nothing is there.
    """
    began = time.monotonic()
    source = notebooks_folder() / f"{notebook}.ipynb"
    given = {"run": verdict.run.name, "threshold": repr(verdict.threshold), **(parameters or {})}
    refuse_unknown(given, declared_parameters(source))
    target = out_dir if out_dir is not None else default_folder(verdict.run.name, datetime.now(UTC))
    if target.is_dir():
        _check_own(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise ReportError(f"{target} cannot be written: {error.strerror}; choose another folder with --out.") from error
    try:
        draft.chmod(0o755)
        failure = _fill(draft, run, verdict, source, given, began)
        _publish(draft, target)
    except OSError as error:
        raise ReportError(
            f"The report could not be written to {target}: {error.strerror or error}; free some space or choose another folder with --out."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    append_step_summary(summary_markdown(verdict))
    if junit is not None:
        write_junit(verdict, junit)
    if slack is not None:
        write_slack(verdict, slack, str(target / "report.html"), failure)
    if failure is not None:
        raise ReportError(f"The report notebook failed: {failure} See {target / 'report.html'} and {target / 'report.ipynb'}.")
    return target


def _check_own(target: Path) -> None:
    """Refuse a folder with something in the places of a report's that no report of netlab left: it would be replaced."""
    listed = listed_files(target, _MADE_BY)
    for name in ("charts", "tables"):
        place = target / name
        if place.is_symlink() or (place.exists() and not (listed and place.is_dir())):
            raise ConfigError(f"{target} holds {name}, which {_NO_REPORT}; give it a folder of its own.")
    tables = [path.relative_to(target).as_posix() for path in (target / "tables").glob("*")]
    refuse_foreign(target, [*_PLACES, *sorted(tables)], listed, _NO_REPORT)


def write_page(notebook: str | Path, folder: Path, parameters: Mapping[str, Any], title: str = "", *, cwd: Path | None = None) -> Path:
    """Run a notebook and write it into a folder as ``report.ipynb`` and ``report.html``.

    Parameters
    ----------
    notebook
        Its name in ``notebooks/``, or the path of another one.
    folder
        Where both files appear at the end.
    parameters
        For the notebook.
    title
        Of the page; by default the notebook's heading.
    cwd
        Working directory of the kernel; by default the folder.

    Raises
    ------
    ConfigError
        A parameter is not one of the notebook's.
    ReportError
        The notebook failed; it stands there as far as it came, and the page says what failed.
    """
    from netlab.report.page import page_html

    source = notebook if isinstance(notebook, Path) else notebooks_folder() / f"{notebook}.ipynb"
    refuse_unknown(parameters, declared_parameters(source))
    try:
        with tempfile.TemporaryDirectory(prefix=".page-", dir=folder) as text:
            draft = Path(text)
            executed, failure = run_notebook(source, draft / "report.ipynb", parameters, cwd if cwd is not None else folder)
            page = page_html(executed, title=title) if failure is None else failure_page(None, failure, executed, title or source.stem)
            (draft / "report.html").write_text(page, "utf-8")
            for part in sorted(draft.iterdir(), key=lambda path: path.name == "report.html"):
                part.replace(folder / part.name)
    except OSError as error:
        raise ReportError(
            f"The report could not be written to {folder}: {error.strerror or error}; free some space or choose another folder."
        ) from error
    if failure is not None:
        raise ReportError(f"The notebook {source.stem} failed: {failure} See {folder / 'report.html'} and {folder / 'report.ipynb'}.")
    return folder / "report.html"


def _fill(draft: Path, run: Run, verdict: Verdict, source: Path, given: Mapping[str, Any], began: float) -> str | None:
    """Write every file into the draft; returns what failed in the notebook, or None."""
    # Imports and the bundle take as long as the kernel needs to start; it is another process.
    exporter = threading.Thread(target=_load_exporter, daemon=True)
    exporter.start()
    run.save(draft / "tables")
    (draft / "verdict.json").write_text(verdict.json(), "utf-8")
    (draft / "summary.md").write_text(summary_markdown(verdict), "utf-8")
    (draft / "charts").mkdir()
    executed, failure = run_notebook(source, draft / "report.ipynb", {**given, "stored": ".", "png": True}, draft)
    exporter.join()
    if failure is None:
        from netlab.report.page import page_html

        for name, picture in _pictures(executed):
            (draft / "charts" / f"{name}.png").write_bytes(picture)
        (draft / "report.html").write_text(page_html(executed, title=f"{verdict.run.name}: {verdict.headline}"), "utf-8")
    else:
        (draft / "report.html").write_text(failure_page(verdict, failure, executed), "utf-8")
    (draft / "netlab.prom").write_text(
        prometheus_text(verdict, datetime.now(UTC), time.monotonic() - began, success=failure is None), "utf-8"
    )
    return failure


def _load_exporter() -> None:
    from netlab.report.page import warm_up

    warm_up()


def _pictures(notebook: Any) -> list[tuple[str, bytes]]:
    """The PNG of every chart that the notebook drew, by the chart's name."""
    from netlab.figures.mime import VEGA_MIME

    found: list[tuple[str, bytes]] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if VEGA_MIME in data and "image/png" in data:
                name = data[VEGA_MIME].get("usermeta", {}).get("netlab", {}).get("name") or f"chart-{len(found) + 1}"
                found.append((str(name), base64.b64decode(data["image/png"])))
    return found


def _publish(draft: Path, target: Path) -> None:
    """Put the finished files in their place. Into a folder that exists they go one by one, report.html last: it is what people look for."""
    names = sorted(path.relative_to(draft).as_posix() for path in draft.rglob("*") if path.is_file())
    if not target.exists():
        write_listing(draft, _MADE_BY, names)
        try:
            draft.rename(target)
        except OSError:
            if not target.is_dir():
                raise
        else:
            return
    # It was there, or another report has just come.
    with locked(target):
        _check_own(target)
        before = claim(target, _MADE_BY, names, _NO_REPORT)
        _replace_tables(draft / "tables", target / "tables")
        (target / "charts").mkdir(exist_ok=True)
        for name in sorted(names, key=lambda name: (name == "report.html", name)):
            if not name.startswith("tables/"):
                (draft / name).replace(target / name)
        remove_own(target, before - set(names) - {LISTING}, before)
        write_listing(target, _MADE_BY, names)


def _replace_tables(new: Path, place: Path) -> None:
    """All tables at once: a reader finds those of one report."""
    if not place.exists():
        new.rename(place)
        return
    aside = Path(tempfile.mkdtemp(prefix=".tables-", dir=place.parent))
    place.rename(aside / "old")
    new.rename(place)
    shutil.rmtree(aside, ignore_errors=True)
