"""Running a notebook by papermill in a kernel of this very Python, apart from what a user's own Jupyter has installed."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["CELL_TIMEOUT_S", "START_TIMEOUT_S", "run_notebook"]

CELL_TIMEOUT_S = 1_800
START_TIMEOUT_S = 180
#: Bytes of a path in sun_path of unix(7), less its end; macOS has 104.
_LONGEST_SOCKET = 103

# jsonschema, which Altair and nbformat load, tries rfc3987_syntax, which builds a grammar for 1.3 s of CPU at import. It serves only the
# check of IRIs in schemas, of which there are none here; None in sys.modules makes the import fail as if it were not installed.
_LAUNCH = """
import os, sys
log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.dup2(log, 1)
os.dup2(log, 2)
sys.modules["rfc3987_syntax"] = None
from ipykernel.kernelapp import launch_new_instance
launch_new_instance()
"""


def run_notebook(source: Path, target: Path, parameters: Mapping[str, Any], folder: Path) -> tuple[Any, str | None]:
    """Run a notebook in ``folder`` and save it, also if it fails.

    Parameters
    ----------
    source, target
        The notebook, and where the executed one is written.
    parameters
        Values for its parameters cell.
    folder
        Working directory of the kernel.

    Returns
    -------
    The executed notebook as far as it came, and one sentence about what failed, or None.
    """
    with _own_kernel() as log:
        _spare_the_grammar()
        import nbformat
        from nbclient.exceptions import CellTimeoutError, DeadKernelError
        from papermill import execute_notebook
        from papermill.exceptions import PapermillExecutionError
        from traitlets.config import Config

        failure = None
        try:
            execute_notebook(
                str(source),
                str(target),
                parameters=dict(parameters),
                kernel_name="python3",
                cwd=str(folder),
                progress_bar=False,
                start_timeout=START_TIMEOUT_S,
                execution_timeout=CELL_TIMEOUT_S,
                autosave_cell_every=0,
                config=Config(_sockets(log.parent)),
            )
        except PapermillExecutionError as error:
            failure = f"cell {error.exec_count} raised {error.ename}: {_one_line(error.evalue)}"
        except DeadKernelError:
            failure = "its kernel died, probably killed for memory; give the report more memory or fewer ranks (--ranks)."
        except CellTimeoutError:
            failure = f"a cell ran longer than {CELL_TIMEOUT_S:,} s; give fewer ranks or steps (--ranks, --steps)."
        except RuntimeError as error:
            failure = f"its kernel did not start: {_one_line(_last_words(log) or str(error))}"
        saved = target if target.exists() else source
        return nbformat.read(str(saved), as_version=4), failure


def _sockets(home: Path) -> dict[str, dict[str, str]]:
    """Talk to the kernel over files: other users of this machine cannot listen, and it works where not even loopback is up.

    The system bounds the length of a socket's path, and a long TMPDIR leaves no room: then it is TCP, as everywhere.
    """
    place = str(home / "k")
    return {"KernelManager": {"transport": "ipc", "ip": place}} if len(place) + len("-12345") < _LONGEST_SOCKET else {}


def _spare_the_grammar() -> None:
    """The same in this process, if jsonschema is not loaded yet."""
    if "jsonschema" not in sys.modules:
        sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


def _last_words(log: Path) -> str:
    """The last line that a kernel wrote before it died."""
    try:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if line.endswith(".") else f"{line}."


@contextmanager
def _own_kernel() -> Iterator[Path]:
    """Environment in which ``python3`` is this interpreter: a kernel of that name in the user's home may be a Python without netlab."""
    with tempfile.TemporaryDirectory(prefix="netlab-kernel-") as text:
        home = Path(text)
        spec = home / "data" / "kernels" / "python3"
        spec.mkdir(parents=True)
        # Frozen modules make ipykernel's debugger warn at every start. What the kernel says goes to a file, not to our terminal.
        argv = [sys.executable, "-Xfrozen_modules=off", "-c", _LAUNCH, str(home / "kernel.log"), "-f", "{connection_file}"]
        (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}), "utf-8")
        wanted = {
            "JUPYTER_PATH": os.pathsep.join([str(home / "data"), *filter(None, [os.environ.get("JUPYTER_PATH")])]),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "IPYTHONDIR": str(home / "ipython"),
            "JUPYTER_PLATFORM_DIRS": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }
        held = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield home / "kernel.log"
        finally:
            for name, value in held.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
