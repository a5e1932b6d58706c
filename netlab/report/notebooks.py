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

__all__ = ["check_parameters", "declared_parameters", "parsed_parameters", "refuse_unknown"]


def declared_parameters(notebook: Path) -> list[str]:
    """Names that the cell tagged ``parameters`` of a notebook assigns.

    Raises
    ------
    ReportError
        If the file is no notebook or has no such cell.
    """
    return _assigned(_parameters_cell(notebook))


def _parameters_cell(notebook: Path) -> str:
    try:
        cells = msgspec.json.decode(notebook.read_bytes())["cells"]
    except (OSError, msgspec.DecodeError, KeyError, TypeError) as error:
        raise ReportError(f"{notebook} is no notebook ({error}); install netlab again or copy it with netlab notebooks DIR.") from error
    for cell in cells:
        if "parameters" in cell.get("metadata", {}).get("tags", []):
            return "".join(cell["source"])
    raise ReportError(f"{notebook} has no cell tagged parameters; tag the cell that holds them.")


def parsed_parameters(notebook: Path, words: Sequence[str]) -> dict[str, Any]:
    """Parameters given as ``name=value``, each of the type of the notebook's default.

    Raises
    ------
    ConfigError
        A word without a value, a name that the notebook does not declare (with the nearest one), or a value of another type.
    """
    defaults = _defaults(_parameters_cell(notebook))
    given: dict[str, Any] = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign:
            raise ConfigError(f"--set {word}: give a parameter and its value, such as run=PATH.")
        refuse_unknown([name], list(defaults))
        given[name] = text if isinstance(defaults[name], str) else _parsed(name, text, defaults[name])
    return given


def _parsed(name: str, text: str, default: Any) -> Any:
    try:
        value = ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (ValueError, SyntaxError):
        value = text
    if default is None or type(value) is type(default) or (isinstance(default, float) and type(value) is int):
        return value
    raise ConfigError(f"--set {name}={text}: the notebook wants a value such as {default!r}.")


def _defaults(source: str) -> dict[str, Any]:
    """Names of a parameters cell and their values; None where a value is no plain one."""
    found: dict[str, Any] = {}
    for names, value in _assignments(source):
        try:
            plain = None if value is None else ast.literal_eval(value)
        except ValueError:
            plain = None
        found.update(dict.fromkeys(names, plain))
    return found


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
    return [name for names, _ in _assignments(source) for name in names]


def _assignments(source: str) -> list[tuple[list[str], ast.expr | None]]:
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return []
    found = []
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if isinstance(node, ast.Assign | ast.AnnAssign):
            found.append(([target.id for target in targets if isinstance(target, ast.Name)], node.value))
    return found
