"""Counters of hosts: /sys/class/infiniband (files, ``grep -r .`` text, ttar), ``ethtool -S``, ``rdma statistic``, /sys/class/net."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from netlab.errors import ParseError
from netlab.readers.counters.account import ASSUMED
from netlab.readers.counters.files import decoded_json, text_of
from netlab.readers.counters.gathering import Gathered, GatheringReader
from netlab.readers.counters.meaning import Meaning, NameTable
from netlab.readers.counters.names import ETHTOOL, INFINIBAND, RDMA

__all__ = ["VARIABLE_MAP", "EthtoolStatistics", "RdmaStatistic", "SysfsFile", "SysfsTexts"]

#: Files of a port that are no counters.
VARIABLE_MAP: dict[str, Meaning] = {
    "state": Meaning("oper_up", kind="gauge", overflow=None, equals=4),
    "phys_state": Meaning("physical_up", kind="gauge", overflow=None, equals=5),
}
_IB = re.compile(r"(?:^|.*/)([^/\s]+)/ports/(\d+)/((?:hw_)?counters/)?(\w+)$")
_NET = re.compile(r"(?:^|.*/)net/([^/]+)/(?:statistics/)?(\w+)$")
#: The folder above a copied tree: the host, if anything says it.
_ABOVE = re.compile(r"([^/]+)/(?:sys/)?(?:class/)?(?:infiniband/[^/]+|net/[^/]+|[^/]+)/(?:ports/\d+/|statistics/)")
_FILES = ("rate", "state", "phys_state", "link_layer")
_RATE = re.compile(r"([\d.]+) Gb/sec")
_IB_TABLES = (NameTable(VARIABLE_MAP), INFINIBAND, RDMA)
_RDMA_JSON = re.compile(rb'\s*\[\s*\{\s*"(?:ifindex|ifname|dev)"\s*:')
_RDMA_KEYS = ("ifindex", "ifname", "dev", "port")
_DRIVERS = re.compile(r"^\s*(?:(?:NIC|Port) statistics:|(?:[rt]x|queue_\d+_[rt]x)_\w+: \d+\s*$)", re.M)


def _sysfs(found: Gathered, path: str, value: str, flags: str = "") -> bool:
    """Add the value of one file below /sys; False if it is none of a port."""
    port, net = _IB.fullmatch(path), _NET.fullmatch(path)
    if port is not None and (port[3] or port[4] in _FILES):
        name = f"{port[1]}/{port[2]}"
        if port[4] == "rate":
            rate = _RATE.match(value)
            if rate:
                found.fact(name, speed_gbps=float(rate[1]), role="hca")
        elif port[4] in VARIABLE_MAP:
            found.add(name, port[4], value.split(":")[0], flags=flags)
        elif port[3]:
            # "N/A (no PMA)" and the like are missing, not zero.
            found.add(name, port[4], value if value[:1].isdigit() else None, flags=flags)
        return True
    if net is not None and value.lstrip("-").isdigit():
        found.add(net[1], net[2], value if value != "-1" else None, flags=flags)
        return True
    return False


class SysfsFile(GatheringReader):
    """One file of a copied tree: ``.../mlx5_0/ports/1/counters/port_xmit_data`` holding a number, or the port's rate, state or layer."""

    name = "sysfs_file"
    tables = (*_IB_TABLES, ETHTOOL)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A path as below /sys, and one short line."""
        port = _IB.fullmatch(path.as_posix())
        net = _NET.fullmatch(path.as_posix())
        named = (port is not None and bool(port[3] or port[4] in _FILES)) or (net is not None and "/statistics/" in path.as_posix())
        return named and len(head) < 256 and head.count(b"\n") <= 1

    def gather(self, found: Gathered) -> None:
        """The file's value. The host is the folder above the tree, where the path shows one."""
        path = found.path.as_posix()
        above = _ABOVE.search(path)
        found.device = above[1] if above and above[1] not in ("sys", "class", "infiniband", "net") else "host"
        _sysfs(found, path, text_of(found.path).strip(), ASSUMED)
        if not found.rows and not found.facts:
            port = _IB.fullmatch(path)
            if port:
                found.fact(f"{port[1]}/{port[2]}", role="hca")


class SysfsTexts(GatheringReader):
    """``path:value`` lines of ``grep -r .``, or a ttar archive (``Path:``, ``Lines:``, content)."""

    name = "sysfs_text"
    tables = (*_IB_TABLES, ETHTOOL)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Paths of ports with values."""
        text = head[:16_384].decode("utf-8", "replace")
        grep = re.search(r"^\S*/ports/\d+/\S+:\S", text, re.M) or re.search(r"^\S*net/\S+/statistics/\w+:\d+$", text, re.M)
        ttar = text.startswith(("Directory: ", "Path: ", "# ttar")) and "/infiniband" in text
        return bool(grep) or ttar

    def gather(self, found: Gathered) -> None:
        """All values of ports."""
        text = text_of(found.path)
        for path, value in _ttar(text) if "# ttar" in text[:4096] else _grep(text):
            _sysfs(found, path, value)


def _grep(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        path, separator, value = line.partition(":")
        if separator:
            yield path.strip(), value.strip()


def _ttar(text: str) -> Iterator[tuple[str, str]]:
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("Path: "):
            path, count = line[6:], re.match(r"Lines: (\d+)", next(lines, ""))
            content = [next(lines, "") for _ in range(int(count[1]) if count else 0)]
            yield path, " ".join(content).strip().removesuffix("EOF")


class EthtoolStatistics(GatheringReader):
    """``name: value`` lines of ``ethtool -S``. The interface stands in the command line or the file's name, else nowhere."""

    name = "ethtool_statistics"
    tables = (ETHTOOL,)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """The tool's title, or several driver counters."""
        text = head[:8192].decode("utf-8", "replace")
        return text.lstrip()[:1] not in ("{", "[", "<") and ("NIC statistics:" in text or len(_DRIVERS.findall(text)) >= 3)

    def gather(self, found: Gathered) -> None:
        """All counters of the file; per-queue ones become queues of the port."""
        text = text_of(found.path)
        command = re.search(r"ethtool\s+-S\s+(\S+)", text) or re.search(
            r"ethtool[-_ ]+(?:S[-_ ]+)?([A-Za-z]\w*?)(?:_statistics)?(?:\.|$)", found.path.name
        )
        port = command[1] if command else "nic"
        for number, line in enumerate(text.splitlines(), 1):
            name, separator, value = line.strip().rpartition(": ")
            if separator and re.fullmatch(r"-?\d+", value.strip()):
                found.add(port, name.strip(), value.strip())
            elif line.strip() and not line.lstrip().startswith("#") and not line.strip().endswith(":") and "ethtool" not in line:
                found.lost(number, f"{line.strip()[:40]!r} is no counter")


class RdmaStatistic(GatheringReader):
    """``link mlx5_0/1 name value name value ...`` in one line or (with -p) one pair a line; with -j a list of objects.

    In JSON (iproute2, rdma/stat.c) each object has ``ifname``, ``port`` and the counters. Objects of single QPs (``lqpn``) or counter
    sets (``cntn``) are parts of those and would count twice.
    """

    name = "rdma_statistic"
    tables = (RDMA,)
    ts_source = "file"

    def sniff(self, head: bytes, path: Path) -> bool:
        """A link line with RDMA counters, or the list of objects."""
        if head.lstrip()[:1] == b"[":
            return _RDMA_JSON.match(head) is not None and any(f'"{name}"'.encode() in head for name in RDMA.exact)
        return re.search(rb"^link \S+/\d+\s+\w+ \d+", head[:8192], re.M) is not None

    def gather(self, found: Gathered) -> None:
        """All pairs of every link."""
        text = text_of(found.path)
        if text.lstrip().startswith("["):
            _rdma_json(found)
            return
        port, words = "", iter(text.split())
        for word in words:
            value = next(words, None)
            if value is None:
                found.lost(1, f"{word!r} has no value")
            elif word == "link":
                port = value
            else:
                found.add(port, word, value)


def _rdma_json(found: Gathered) -> None:
    document = decoded_json(found.path, found.source)
    for item in document if isinstance(document, list) else ():
        if not isinstance(item, dict) or "lqpn" in item or "cntn" in item:
            continue
        name, number = item.get("ifname") or item.get("dev"), item.get("port", 1)
        # Some releases nest the counters in an object of their own.
        for key, value in {**item, **(item.get("counters") or item.get("hw_counters") or {})}.items():
            if name and key not in _RDMA_KEYS and isinstance(value, (int, str)) and not isinstance(value, bool):
                found.add(f"{name}/{number}", key, value)
    if not found.rows:
        raise ParseError(f"NO_SERIES: {found.source} has no counters of a link; run rdma -j statistic show link.")
