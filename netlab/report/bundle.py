"""The library that draws charts in the page: one script, made by vl-convert from its own copy without a network, and kept."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

import netlab

__all__ = ["vega_bundle"]


@cache
def vega_bundle() -> str:
    """Vega and its embedding as one script that can stand inside a page.

    Making it takes two seconds, so it is kept beside the package if that is writable, else in the user's cache, else not at all.
    """
    name = f"vega-bundle-{version('vl-convert-python')}.js"
    for folder in _folders():
        try:
            text = (folder / name).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if len(text) > 500_000 and "vegaEmbed" in text:
            return text
    import vl_convert

    made: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # the stub forgets the default
    text = made.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    for folder in _folders():
        if _kept(text, folder / name):
            break
    return text


def _folders() -> list[Path]:
    beside = Path(netlab.__file__).resolve().parent / "__pycache__"
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return [beside, cache_home / "netlab"]


def _kept(text: str, path: Path) -> bool:
    """Write it by way of a temporary file; a folder that cannot be written is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(draft, path)
    except (OSError, RuntimeError):
        return False
    return True
