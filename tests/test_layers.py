"""Who may import whom: data flows one way, and modules import only from levels below theirs."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "netlab"

LEVELS: dict[str, int] = {
    "errors": 0, "disk": 0, "units": 0, "machine_code": 0,
    "intervals": 1, "schema": 1, "issues": 1, "findings": 1, "selection": 1, "config": 1, "chance": 1, "ownership": 1, "shelf": 1,
    "run": 2, "topology": 2,
    "readers": 3, "align": 3, "attribute": 3, "diagnose": 3,
    "verdict": 4,
    "whatif": 5, "postmortem": 5, "history": 5,
    "synth": 6, "figures": 6, "export": 6,
    "pipeline": 7,
    "report": 8,
    "cli": 9, "recording": 9,
}  # fmt: skip

#: Imports inside one level that are part of the design: (importer, imported).
WITHIN = {
    ("units", "errors"),
    ("issues", "schema"),
    ("findings", "schema"),
    ("intervals", "schema"),
    ("shelf", "schema"),
    ("cli", "recording"),
}


def _rooms() -> dict[str, list[Path]]:
    rooms: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room != "__init__":
            rooms.setdefault(room, []).append(path)
    return rooms


def _imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "netlab" else [node.module]
        found |= {name.split(".")[1] for name in names if name.startswith("netlab.")}
    return found


def test_every_room_has_a_level() -> None:
    assert set(_rooms()) <= set(LEVELS)


def test_rooms_import_only_from_levels_below_theirs() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {imported}"
        for room, paths in _rooms().items()
        for path in paths
        for imported in _imported_rooms(path) & set(LEVELS)
        if imported != room and LEVELS[imported] >= LEVELS[room] and (room, imported) not in WITHIN
    ]
    assert wrong == []


def test_only_recording_imports_torch() -> None:
    everything = [path for paths in _rooms().values() for path in paths]
    users = {path.relative_to(PACKAGE).parts[0] for path in everything if "import torch" in path.read_text("utf-8")}
    assert users <= {"recording"}
