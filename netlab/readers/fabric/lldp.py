"""LLDP neighbours as switches print them: SONiC ``show lldp table``, EOS and NX-OS ``show lldp neighbors``."""

from __future__ import annotations

import json
import re
from pathlib import Path

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.counters.account import device_from_path
from netlab.readers.fabric.cables import CableReader, Cables, text_of
from netlab.units import plural

__all__ = ["LldpJson", "LldpTables"]

_PROMPT = re.compile(r"(?:[\w.-]+@)?([\w.-]+)(?::[~/\w.-]*)?[#$>] ?show lldp")
_MANAGEMENT = re.compile(r"(?:eth0|ma\d|mgmt|management)", re.I)
_SHORT = {
    "Et": "Ethernet",
    "Eth": "Ethernet",
    "Ma": "Management",
    "Po": "Port-Channel",
    "Gi": "GigabitEthernet",
    "Te": "TenGigabitEthernet",
    "Hu": "HundredGigE",
}
_LONG = re.compile(r"(Et|Eth|Ma|Po|Gi|Te|Hu)(\d[\d/.]*)$")


def _full(port: str) -> str:
    match = _LONG.match(port)
    return f"{_SHORT[match[1]]}{match[2]}" if match else port


def _owner(cables: Cables, text: str) -> str:
    """The switch that printed the table: its prompt, else the file's name."""
    prompt = _PROMPT.search(text)
    if prompt:
        return prompt[1]
    name = device_from_path(cables.path)
    message = f"{cables.source} does not name the switch that printed it; {name!r} was taken from the file's name."
    cables.issues.append(Issue(code="DEVICE_ASSUMED", severity="info", source=cables.source, message=message))
    return name


class LldpTables(CableReader):
    """Tables of neighbours. Management ports are left out. Which neighbour is a host, the table does not say."""

    name = "lldp_tables"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Headers of the three systems."""
        text = head[:16_384].decode("utf-8", "replace")
        sonic = re.search(r"^LocalPort\s+RemoteDevice\s+RemotePortID", text, re.M)
        eos = re.search(r"^Port\s+Neighbor Device ID\s+Neighbor Port ID", text, re.M)
        detail = re.search(r"^\s*Chassis id: ", text, re.M) and re.search(r"^\s*Local Port id: ", text, re.M)
        brief = re.search(r"^\s*Device ID\s+Local Intf\s+Hold-time\s+Capability\s+Port ID", text, re.M)
        return bool(sonic or eos or detail or brief)

    def gather(self, cables: Cables) -> None:
        """Neighbours of every port."""
        text = text_of(cables.path)
        device = _owner(cables, text)
        rows = _detail(text) if "Chassis id:" in text else _table(cables, text)
        cabled = [row for row in rows if not _MANAGEMENT.match(row[0])]
        nameless = [local for local, remote, port in cabled if not remote or not port]
        for local, remote, port in cabled:
            if remote and port:
                cables.add((device, _full(local)), (remote, _full(port)))
        if nameless:
            cables.unparsed += len(nameless)
            message = (
                f"{cables.source}: the neighbours at {', '.join(nameless[:4])} advertise no name or no port; their cables are not known."
            )
            cables.issues.append(Issue(code="UNREADABLE_LINE", severity="info", source=cables.source, message=message))


#: A rule, a total, a legend or the next prompt.
_RULE_OR_END = re.compile(r"[-\s]+$|Total|Capability|\S+[#>$]")
#: Headers of the columns that are read, in their order, and which of them are local port, neighbour and its port.
_HEADERS: tuple[tuple[tuple[str, ...], tuple[int, int, int]], ...] = (
    (("LocalPort", "RemoteDevice", "RemotePortID", "Capability"), (0, 1, 2)),
    (("Port", "Neighbor Device", "Neighbor Port", "TTL"), (0, 1, 2)),
    (("Device ID", "Local Intf", "Hold-time", "Capability", "Port ID"), (1, 0, 4)),
)


def _table(cables: Cables, text: str) -> list[tuple[str, str, str]]:
    """(local port, neighbour, its port): columns by the positions of their headers, or by gaps where a paste lost the alignment."""
    rows: list[tuple[str, str, str]] = []
    starts: list[int] = []
    order, columns = (0, 1, 2), 0
    for number, line in enumerate(text.splitlines(), 1):
        known = next((known for known in _HEADERS if re.match(r"\s*" + r".*(?:\s{2,}|\t)".join(known[0][:2]), line)), None)
        if known is not None and all(word in line for word in known[0]):
            starts, order = [line.index(word) for word in known[0]], known[1]
            columns = len(_by_gaps(line))
        elif starts and line.strip() and not _RULE_OR_END.match(line):
            cells = _by_gaps(line)
            if len(cells) != columns and _fits(line, starts):
                cells = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], len(line)], strict=True)]
            # Cells at the end may be empty; before the last that is read, an empty one without alignment shifts the others.
            if len(cells) <= max(order) or not cells[order[0]]:
                cables.lost(number, f"it has {plural(len(cells), 'cell')} and no alignment under the header's {columns}")
            else:
                rows.append((cells[order[0]], cells[order[1]], cells[order[2]]))
    return rows


def _by_gaps(line: str) -> list[str]:
    return re.split(r"\s{2,}|\t", line.strip())


def _fits(line: str, starts: list[int]) -> bool:
    """Whether no word crosses a border between columns."""
    return all(start >= len(line) or not (line[start - 1 : start].strip() and line[start].strip()) for start in starts)


def _detail(text: str) -> list[tuple[str, str, str]]:
    """NX-OS detail: one block per neighbour."""
    rows = []
    for block in re.split(r"(?=Chassis id:)", text)[1:]:
        fields = dict(re.findall(r"^\s*(Port id|Local Port id|System Name):\s*(.*?)\s*$", block, re.M))
        name = fields.get("System Name", "")
        if name and name != "not advertised":
            rows.append((fields.get("Local Port id", ""), name.split(".")[0], fields.get("Port id", "")))
    return rows


class LldpJson(CableReader):
    """EOS ``show lldp neighbors`` as JSON: ``lldpNeighbors[] = {port, neighborDevice, neighborPort}``."""

    name = "lldp_json"

    def sniff(self, head: bytes, path: Path) -> bool:
        """The list of neighbours."""
        return b'"lldpNeighbors"' in head and b'"neighborDevice"' in head

    def gather(self, cables: Cables) -> None:
        """Neighbours of every port."""
        text = text_of(cables.path)
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            raise ParseError(f"TRUNCATED_JSON: {cables.source} is no complete JSON ({error}); export it again.") from error
        device = _owner(cables, "")
        results = document if isinstance(document, list) else document.get("result", [document])
        for result in results:
            for item in result.get("lldpNeighbors", []) if isinstance(result, dict) else []:
                if not _MANAGEMENT.match(str(item.get("port", ""))):
                    cables.add((device, str(item["port"])), (str(item["neighborDevice"]), str(item["neighborPort"])))
