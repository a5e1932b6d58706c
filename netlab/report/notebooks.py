"""Parameters of a notebook: those it declares, and those that somebody passed."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from netlab.config import nearest
from netlab.errors import ConfigError, ReportError

__all__ = ["check_parameters", "declared_parameters", "refuse_unknown"]


def declared_parameters(notebook: Path) -> list[str]:
    """Names that the cell tagged ``parameters`` of a notebook assigns.

    Raises
    ------
    ReportError
        If the file is no notebook or has no such cell.
    """
    try:
        cells = msgspec.json.decode(notebook.read_bytes())["cells"]
    except (OSError, msgspec.DecodeError, KeyError, TypeError) as error:
        raise ReportError(f"{notebook} is no notebook ({error}); install netlab again or copy it with netlab notebooks DIR.") from error
    for cell in cells:
        if "parameters" in cell.get("metadata", {}).get("tags", []):
            return _assigned("".join(cell["source"]))
    raise ReportError(f"{notebook} has no cell tagged parameters; tag the cell that holds them.")


def refuse_unknown(given: Mapping[str, Any] | Sequence[str], declared: Sequence[str]) -> None:
    """Raise if a parameter was given that is not declared.

    Raises
    ------
    ConfigError
        Names the parameter and the nearest declared one.

    Examples
    --------
    >>> refuse_unknown({"treshold": 0.1}, ["run", "threshold"])
    Traceback (most recent call last):
    netlab.errors.ConfigError: The notebook has no parameter 'treshold'; did you mean 'threshold'?
    """
    for name in given:
        if name not in declared:
            raise ConfigError(f"The notebook has no parameter {name!r}; {nearest(name, declared)}")


def check_parameters() -> None:
    """Refuse parameters that papermill passed and the notebook does not declare; call it in the cell after the parameters.

    papermill only notes an unknown parameter and goes on with the default, so that a report with 25 % would look as if 10 % had been asked
    for. It puts what it was given into a cell of its own, after the one that declares the defaults: the two are compared.

    Raises
    ------
    ConfigError
        Names the parameter and the nearest declared one.
    """
    from IPython import get_ipython

    shell = get_ipython()
    cells = [] if shell is None else [source for source in shell.user_ns.get("In", []) if source.strip()]
    for declaring, injected in pairwise(cells):
        # papermill's marker; a cell of a person that begins so would only be checked as well.
        if injected.startswith("# Parameters"):
            refuse_unknown(_assigned(injected), _assigned(declaring))


def _assigned(source: str) -> list[str]:
    """Names assigned at the top level of a cell; none if it is no plain Python."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return []
    names = []
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names
