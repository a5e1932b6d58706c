"""XML replies of routers, read without entities: a document type declaration is refused, so that no bomb can be in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring
from xml.etree.ElementTree import ParseError as XmlError

from netlab.errors import ParseError
from netlab.readers.counters.files import inflated

__all__ = ["children", "elements", "first_text"]


def elements(path: Path, source: str, name: str) -> Iterator[Element]:
    """All elements of a name, whatever their namespace.

    Raises
    ------
    ParseError
        If the file is no complete XML, or declares a document type.
    """
    content = inflated(path)
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ParseError(f"MALFORMED_XML: {source} declares a document type, which is refused; export it again without.")
    try:
        root = fromstring(content)
    except XmlError as error:
        raise ParseError(f"MALFORMED_XML: {source} is no complete XML ({error}); export it again.") from error
    return (element for element in root.iter() if element.tag.rpartition("}")[2] == name)


def children(element: Element, name: str) -> Iterator[Element]:
    """Direct children of a name."""
    return (child for child in element if child.tag.rpartition("}")[2] == name)


def first_text(element: Element, name: str) -> str | None:
    """Text of the first descendant of a name."""
    return next((found.text for found in element.iter() if found.tag.rpartition("}")[2] == name and found.text), None)
