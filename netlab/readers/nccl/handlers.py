"""What each kind of message changes in the state of a log, beyond being an event."""

from __future__ import annotations

import re
from collections.abc import Callable

from netlab.readers.nccl.connections import Connections
from netlab.readers.nccl.host_topology import TopologyLines
from netlab.readers.nccl.messages import Message
from netlab.readers.nccl.operations import Operations
from netlab.readers.nccl.records import Record, timestamp_ns
from netlab.readers.nccl.rings import RingLines
from netlab.readers.nccl.state import Communicator, InitLine, LogState, Process
from netlab.readers.nccl.tuning import TuningTable

__all__ = ["Handlers"]

_VERBS_NIC = re.compile(r"\[(\d+)\]([A-Za-z][\w.-]*):(\d+)/(\w+)")
_MERGED_NIC = re.compile(r"\[(\d+)\]=?\{([^}]*)\}")
_SOCKET_NIC = re.compile(r"\[(\d+)\]([A-Za-z][\w.@-]*):")

Handler = Callable[[Process, Record, Message], None]


class Handlers:
    """``by_kind`` maps kinds of messages to what they do."""

    def __init__(
        self,
        state: LogState,
        operations: Operations,
        connections: Connections,
        rings: RingLines,
        tuning: TuningTable,
        topology: TopologyLines,
    ) -> None:
        self.state = state
        self.operations = operations
        self._connections = connections
        self._rings = rings
        self._tuning = tuning
        self._topology = topology
        self.by_kind: dict[str, Handler] = {
            "init": self._init,
            "layout": self._layout,
            "timings": self._timings,
            "channels": self._channels,
            "via": self._via,
            "nics": self._nics,
            "nics_socket": self._socket_nics,
            "virtual_nic": self._virtual_nic,
            "network": self._network,
            "operation": self._operation,
            "version": self._version,
            "ring_order": self._edges,
            "trees": self._edges,
            "graph_ring": self._edges,
            "graph_tree": self._edges,
            "nvls_trees": self._edges,
            "table_algorithms": self._tuning_line,
            "table_protocols": self._tuning_line,
            "table_row": self._tuning_line,
            "topology": self._topology_line,
            "paths": self._topology_line,
            "system": self._topology_line,
        }

    def _init(self, process: Process, record: Record, message: Message) -> None:
        parts = message.parts
        said = InitLine(
            pointer=parts["comm"] or "",
            what=parts["what"] or "",
            rank=int(parts["rank"] or 0),
            nranks=int(parts["nranks"] or 0),
            device=None if parts["device"] is None else int(parts["device"]),
            nvml_device=None if parts["nvml"] is None else int(parts["nvml"]),
            bus_id=parts["bus"],
            unique_id=parts["id"],
            parent=parts["parent"],
            split=parts["split"],
            color=parts["color"],
        )
        self.state.init(process, record.tid, record.line, said, timestamp_ns(record.prefix) if record.prefix else None)

    def _layout(self, process: Process, record: Record, message: Message) -> None:
        rank, nranks, nodes, local_rank = (int(message.parts[name] or 0) for name in ("rank", "nranks", "nodes", "local_rank"))
        self.state.layout(process, message.parts["comm"] or "", record.line, rank, nranks, nodes, local_rank)

    def _timings(self, process: Process, record: Record, message: Message) -> None:
        found = self.state.thread(process, record.tid)
        if found is not None and found.rank == int(message.parts["rank"] or 0) and found.nranks == int(message.parts["nranks"] or 0):
            found.init_ms = float(message.parts["total"] or 0) * 1e3

    def _channels(self, process: Process, record: Record, message: Message) -> None:
        found = self.state.thread(process, record.tid)
        if found is not None:
            found.coll_channels = int(message.parts["coll"] or 0)
            found.nvls_channels = None if message.parts["nvls"] is None else int(message.parts["nvls"] or 0)
            found.p2p_channels = int(message.parts["p2p"] or 0)

    def _via(self, process: Process, record: Record, message: Message) -> None:
        parts = message.parts
        pointer = parts["comm"]
        owner = self.state.pointer(process, pointer, record.line) if pointer else None
        self._connections.add(process, owner, record.tid, record.line, parts)

    def _nics(self, process: Process, record: Record, message: Message) -> None:
        text = message.parts["list"] or ""
        merged = _MERGED_NIC.findall(text)
        for device, members in merged:
            names = _VERBS_NIC.findall(members)
            process.ib_nics[int(device)] = ("+".join(name for _, name, _, _ in names), names[0][3] if names else "IB")
        if not merged:
            for device, name, _, link in _VERBS_NIC.findall(text):
                process.ib_nics[int(device)] = (name, link)

    def _socket_nics(self, process: Process, record: Record, message: Message) -> None:
        for device, name in _SOCKET_NIC.findall(message.parts["list"] or ""):
            process.socket_nics[int(device)] = (name, "Socket")

    def _virtual_nic(self, process: Process, record: Record, message: Message) -> None:
        name = message.parts["name"] or ""
        link = next((link for nic, link in process.ib_nics.values() if nic == name.split("+")[0]), "IB")
        process.ib_nics[int(message.parts["device"] or 0)] = (name, link)

    def _network(self, process: Process, record: Record, message: Message) -> None:
        process.network = message.parts["name"]

    def _version(self, process: Process, record: Record, message: Message) -> None:
        found = re.match(r"\d+\.\d+\.\d+", message.parts["version"] or "")
        if found:
            self.state.version(found[0], record.line, process)

    def _operation(self, process: Process, record: Record, message: Message) -> None:
        owner = self.state.pointer(process, message.parts["comm"] or "", record.line)
        if owner.first_operation is None:
            owner.first_operation = record.line
        owner.nranks = owner.nranks or int(message.parts["nranks"] or 0)
        self.operations.add(owner, message.parts, record.line)

    def _edges(self, process: Process, record: Record, message: Message) -> None:
        pointer = message.parts.get("comm")
        owner = self.state.pointer(process, pointer, record.line) if pointer else None
        nranks = (owner or self.state.thread(process, record.tid) or Communicator(process, "", 0)).nranks
        self._rings.add(process, record.tid, owner, message, record.line, nranks)

    def _tuning_line(self, process: Process, record: Record, message: Message) -> None:
        self._tuning.add(process, self.state.thread(process, record.tid), message, record.line)

    def _topology_line(self, process: Process, record: Record, message: Message) -> None:
        self._topology.add(process, message)
