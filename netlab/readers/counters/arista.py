"""Arista EOS: results of eAPI commands as JSON, bare, in a list of commands, or wrapped in JSON-RPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from netlab.errors import ParseError
from netlab.readers.counters.files import decoded_json
from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.names import EOS
from netlab.readers.counters.names.switches import VARIABLE_MAP

__all__ = ["VARIABLE_MAP", "EosJson"]

Result = dict[str, Any]
_MARKS = (
    b'"interfaceCounters"',
    b'"interfaceErrorCounters"',
    b'"inDiscardsTotal"',
    b'"intfQueueCounters"',
    b'"interfacePhyStatuses"',
    b'"trafficClasses"',
    b'"nonCongestionDiscard"',
    b'"egressQueueCounters"',
    b'"ingressVoqCounters"',
)


class EosJson(GatheringReader):
    """``show interfaces`` and its counters, queue, PFC, ECN and PHY variants. ``counterRefreshTime`` is the time of a sample."""

    name = "arista_eos_json"
    tables = (EOS,)
    ts_source = "device"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Keys that only these commands have."""
        start = head.lstrip()[:1]
        return start in (b"{", b"[") and any(mark in head for mark in _MARKS) and b'"TABLE_interface"' not in head

    def gather(self, found: Gathered) -> None:
        """Every command of the file that we know."""
        for result in _results(decoded_json(found.path, found.source)):
            for key, handler in _COMMANDS.items():
                if isinstance(result.get(key), dict):
                    handler(result[key], found)
        if not found.rows:
            raise ParseError(f"NO_SERIES: {found.source} has no interface counters; export show interfaces as JSON.")


def _results(document: Any) -> Iterator[Result]:
    if isinstance(document, list):
        for part in document:
            yield from _results(part)
    elif isinstance(document, dict):
        yield from _results(document["result"]) if isinstance(document.get("result"), list) else [document]


def _numbers(port: str, fields: Result, found: Gathered, *, queue: str | None = None, ts_ns: int | None = None) -> None:
    for name, value in fields.items():
        # "-" means that the platform does not count it.
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            found.add(port, name, value, queue=queue, ts_ns=ts_ns)


def _interfaces(interfaces: Result, found: Gathered) -> None:
    for port, item in interfaces.items():
        counters = dict(item.get("interfaceCounters") or {})
        refreshed = counters.pop("counterRefreshTime", None)
        ts_ns = round(float(refreshed) * 1_000_000) * 1_000 if refreshed else None
        for details in ("inputErrorsDetail", "outputErrorsDetail"):
            _numbers(port, counters.pop(details, None) or {}, found, ts_ns=ts_ns)
        counters.pop("lastClear", None)
        _numbers(port, counters, found, ts_ns=ts_ns)
        statistics = {name: value for name, value in (item.get("interfaceStatistics") or {}).items() if name != "updateInterval"}
        _numbers(port, statistics, found, ts_ns=ts_ns)
        if item.get("bandwidth"):
            found.add(port, "bandwidth", item["bandwidth"], ts_ns=ts_ns)
        if "lineProtocolStatus" in item:
            found.add(port, "oper_up", int(item["lineProtocolStatus"] == "up"), ts_ns=ts_ns)
        for member in item.get("memberInterfaces") or {}:
            found.fact(member, lag=port)
        if "inDiscards" in item or "outDiscards" in item:
            _numbers(port, item, found)
        _classes(port, item.get("trafficClasses") or {}, found)


def _classes(port: str, classes: Result, found: Gathered, kind: str = "") -> None:
    """Drops of traffic classes, whatever lies between the class and its numbers; ingress and egress queues are kept apart."""
    for name, item in classes.items():
        for place, part in item.items():
            if place == "dropPrecedences":
                total = sum(int(level.get("droppedPackets", 0)) for level in part.values())
                found.add(port, "droppedPackets", total, queue=f"{kind}{name}")
            elif isinstance(part, dict) and "countersSum" in part:
                prefix = "voq " if "ingress" in place.lower() else kind
                _numbers(port, part["countersSum"], found, queue=f"{prefix}{name}")
            elif not isinstance(part, dict):
                _numbers(port, {place: part}, found, queue=f"{kind}{name}")


def _queues(interfaces: Result, found: Gathered, prefix: str = "") -> None:
    for port, item in interfaces.get("interfaces", {}).items():
        for place, mark in (("ucastQueues", "UC "), ("mcastQueues", "MC ")):
            _classes(port, item.get(place, {}).get("trafficClasses", {}), found, mark)
        _classes(port, item.get("trafficClasses", {}), found, prefix)


def _voqs(interfaces: Result, found: Gathered) -> None:
    _queues(interfaces, found, "voq ")


def _plain(interfaces: Result, found: Gathered) -> None:
    for port, fields in interfaces.items():
        if isinstance(fields, dict):
            _numbers(port, fields, found)


def _ecn(interfaces: Result, found: Gathered) -> None:
    for port, item in interfaces.items():
        for queue, value in item.get("queueCounters", {}).items():
            found.add(port, "ecnMarked", value, queue=str(queue))


def _phys(interfaces: Result, found: Gathered) -> None:
    """The line side of each port: FEC of the cable. System sides are inside the switch."""
    for port, item in interfaces.items():
        for index, status in enumerate(item.get("phyStatuses", [])):
            if "fec" not in status and "preFecBer" not in status:
                continue
            location = (status.get("description") or {}).get("location", "line")
            queue = (
                None
                if location == "line" and "CRT" not in (status.get("description") or {}).get("phyChipName", "")
                else f"phy {index} {location}"
            )
            for name in ("correctedCodewords", "uncorrectedCodewords"):
                if name in (status.get("fec") or {}):
                    found.add(port, name, status["fec"][name].get("value"), queue=queue)
            if "preFecBer" in status:
                found.add(port, "preFecBer", status["preFecBer"].get("value"), queue=queue)


def _ethernet(interfaces: Result, found: Gathered) -> None:
    """show platform trident counters: reasons of drops and errors, under their own names."""
    for port, item in interfaces.items():
        for group in ("drop", "error"):
            _numbers(port, (item.get("count") or {}).get(group) or {}, found)


_COMMANDS: dict[str, Callable[[Result, Gathered], None]] = {
    "interfaces": _interfaces,
    "interfaceErrorCounters": _plain,
    "interfaceCounters": _plain,
    "intfQueueCounters": _ecn,
    "interfacePhyStatuses": _phys,
    "egressQueueCounters": _queues,
    "ingressVoqCounters": _voqs,
    "ethernet": _ethernet,
}
