"""The content of an input, plain or compressed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from netlab.errors import ParseError
from netlab.readers.streams import read_all

__all__ = ["decoded_json", "inflated", "text_of"]

#: Counter exports are read whole; a larger one should be cut by time or port.
_LIMIT_BYTES = 4 << 30


def inflated(path: Path) -> bytes:
    """All bytes; of a compressed stream that ends early, what could be inflated.

    Raises
    ------
    ParseError
        If nothing at all is in the file.
    """
    content, damage = read_all(path, _LIMIT_BYTES)
    if not content.strip():
        code = damage.code if damage else "EMPTY_FILE"
        raise ParseError(f"{code}: {path.name} holds nothing that can be read; record it again.")
    return content


def text_of(path: Path) -> str:
    """The content as text; bytes that are no UTF-8 are replaced."""
    return inflated(path).decode("utf-8-sig", "replace")


def decoded_json(path: Path, source: str) -> Any:
    """The JSON document of a file.

    Raises
    ------
    ParseError
        If it is no JSON, or ends in the middle.
    """
    try:
        return json.loads(text_of(path))
    except json.JSONDecodeError as error:
        raise ParseError(f"MALFORMED_JSON: {source}: {error.msg} at byte {error.pos}; export it again.") from error
    except RecursionError as error:
        raise ParseError(f"MALFORMED_JSON: {source} is nested too deeply; it is no counter export.") from error
