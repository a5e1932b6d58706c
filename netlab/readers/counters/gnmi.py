"""gNMI subscriptions with OpenConfig paths as JSON: protobuf-JSON (telegraf), gnmic's two formats; arrays or JSON Lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from netlab.errors import ParseError
from netlab.readers.counters.files import text_of
from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.names import OPENCONFIG
from netlab.readers.counters.names.openconfig import VARIABLE_MAP
from netlab.readers.counters.texts import parse_instant

__all__ = ["VARIABLE_MAP", "Gnmi"]

_KEYED = re.compile(r"([\w:.-]+)((?:\[[^\]]*\])*)")
_KEY = re.compile(r"\[([\w-]+)=([^\]]*)\]")
_VALUES = ("uintVal", "intVal", "stringVal", "jsonIetfVal", "jsonVal", "doubleVal", "floatVal")
#: Leaves that hold numbers without being counters of the port.
_NOT_COUNTED = ("id", "ifindex", "mtu", "name", "descr", "description", "index")
Elements = list[tuple[str, dict[str, str]]]


class Gnmi(GatheringReader):
    """Updates of interface and queue counters. Each leaf has its own time; a leaf sent on change is silent while it stands still."""

    name = "gnmi_json"
    tables = (OPENCONFIG,)
    ts_source = "device"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Updates with paths, or gnmic events with counter paths."""
        start = head[:32_768]
        if start.lstrip()[:1] not in (b"{", b"["):
            return False
        elements = b'"update"' in start and b'"elem"' in start
        default = b'"updates"' in start and b'"Path"' in start
        event = b'"tags"' in start and b'"values"' in start and b"/interfaces/interface" in start
        return elements or default or event

    def gather(self, found: Gathered) -> None:
        """Every numeric leaf below interfaces and their queues."""
        text = text_of(found.path)
        before = len(found.rows)
        for message in _messages(text, found):
            if "update" in message and isinstance(message["update"], dict):
                _protobuf(message["update"], found)
            elif "updates" in message:
                _gnmic(message, found)
            elif "values" in message:
                _event(message, found)
        if len(found.rows) == before:
            raise ParseError(f"NO_SERIES: {found.source} has no interface counters; subscribe to /interfaces/interface/state/counters.")


def _messages(text: str, found: Gathered) -> Iterator[dict[str, Any]]:
    """Objects of an array, of one document, or of JSON Lines; a torn line is an issue."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    item = json.loads(line)
                except json.JSONDecodeError as error:
                    found.lost(number, f"it is no complete JSON ({error.msg})")
                    continue
                yield from _objects(item)
        return
    yield from _objects(document)


def _objects(item: Any) -> Iterator[dict[str, Any]]:
    if isinstance(item, list):
        for part in item:
            yield from _objects(part)
    elif isinstance(item, dict):
        yield item


def _bare(name: str) -> str:
    """A path element without its module prefix."""
    return name.rpartition(":")[2]


def _elements(path: Any) -> Elements:
    return [
        (_bare(str(part.get("name", ""))), {str(k): str(v) for k, v in (part.get("key") or {}).items()})
        for part in (path or {}).get("elem", [])
    ]


def _from_text(path: str) -> Elements:
    return [(_bare(match[1]), dict(_KEY.findall(match[2]))) for match in _KEYED.finditer(path) if match[1].strip("/")]


def _place(elements: Elements) -> tuple[str | None, str | None]:
    """Port and queue of a path."""
    port = queue = None
    for name, keys in elements:
        if name == "interface":
            port = keys.get("name") or keys.get("interface-id") or port
        elif name == "queue":
            queue = keys.get("name") or queue
    return port, queue


def _numbers(elements: Elements, value: Any) -> Iterator[tuple[Elements, str]]:
    """Numeric leaves of a value, which may be a subtree."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _numbers([*elements, (_bare(str(key)), {})], part)
    elif isinstance(value, bool) or value is None:
        return
    elif re.fullmatch(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", str(value)):
        yield elements, str(value)


def _protobuf(update: dict[str, Any], found: Gathered) -> None:
    prefix = _elements(update.get("prefix"))
    target = (update.get("prefix") or {}).get("target")
    device = target if target and target != "subscription" else None
    instant = parse_instant(str(update.get("timestamp", "")))
    leaves: list[tuple[Elements, Any]] = []
    port_name = None
    for item in update.get("update", []):
        elements = prefix + _elements(item.get("path"))
        value = item.get("val") or {}
        plain = next((value[name] for name in _VALUES if name in value), None)
        if elements and elements[-1][0] == "name" and plain is not None:
            port_name = str(plain).strip('"')
        leaves.append((elements, plain))
    _add(leaves, device, port_name, None if instant is None else instant.ns, found)


def _gnmic(message: dict[str, Any], found: Gathered) -> None:
    instant = parse_instant(str(message.get("timestamp", "")))
    prefix = _from_text(str(message.get("prefix") or ""))
    leaves = []
    for item in message.get("updates", []):
        for path, value in (item.get("values") or {}).items():
            named, own = _from_text(str(item.get("Path") or "")), _from_text(str(path))
            # The keys stand in Path, the leaf in values.
            leaves.append((prefix + (named if len(named) >= len(own) else own), value))
    _add(leaves, _host(message.get("source")), None, None if instant is None else instant.ns, found)


def _event(message: dict[str, Any], found: Gathered) -> None:
    instant = parse_instant(str(message.get("timestamp", "")))
    tags = {str(key): str(value) for key, value in (message.get("tags") or {}).items()}
    port = tags.get("interface_name") or tags.get("interface-name") or tags.get("name")
    leaves = [(_from_text(str(path)), value) for path, value in (message.get("values") or {}).items()]
    _add(leaves, _host(tags.get("source")), port, None if instant is None else instant.ns, found, tags.get("queue_name"))


def _host(source: Any) -> str | None:
    return re.sub(r":\d+$", "", str(source)) if source else None


def _add(
    leaves: Iterable[tuple[Elements, Any]],
    device: str | None,
    port: str | None,
    ts_ns: int | None,
    found: Gathered,
    queue: str | None = None,
) -> None:
    for path, value in leaves:
        for elements, number in _numbers(path, value):
            own, lane = _place(elements)
            name = elements[-1][0] if elements else ""
            inside = any(part in ("interfaces", "interface") for part, _ in elements)
            if not inside or name.lower() in _NOT_COUNTED or (own or port) is None:
                continue
            found.add(own or port or "", name, number, device=device, ts_ns=ts_ns, queue=lane or queue)
