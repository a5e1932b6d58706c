"""``via`` lines in columns, and the communicator of each once the whole file has been read."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.readers.nccl.patterns import PATH
from netlab.readers.nccl.state import Communicator, LogState, Process
from netlab.schema import TABLES

__all__ = ["SIDES", "Connections"]

Ints = NDArray[np.int64]

#: Number of a side: neither is printed by the earliest versions and for connections inside a host.
SIDES = (None, "send", "receive")
#: Names under which the libfabric plugin has appeared.
_OFI_NAMES = frozenset({"AWS Libfabric", "Libfabric", "OFI"})
_PATH = re.compile(PATH)
_ROWS = 100_000


class _Path(NamedTuple):
    """A transport as printed; ``name``, ``device`` and ``proxy`` are of network connections only."""

    text: str
    transport: str
    name: str | None
    device: int | None
    proxy: int | None
    gdr: bool


class _Block(NamedTuple):
    """Columns; -1 stands for none. ``owner`` is the communicator that the line itself names (RCCL)."""

    process: NDArray[np.int32]
    tid: Ints
    line: Ints
    channel: NDArray[np.int32]
    number: NDArray[np.int16]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    side: NDArray[np.int8]
    path: NDArray[np.int32]
    owner: NDArray[np.int32]


class Connections:
    """The connections of a file."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._blocks: list[_Block] = []
        self._processes: list[Process] = []
        self._number_of: dict[int, int] = {}
        self._paths: list[_Path] = []
        self._path_of: dict[str, int] = {}
        self._owners: list[Communicator] = []
        self._owner_of: dict[int, int] = {}

    def process(self, process: Process) -> int:
        """The number that stands for a process."""
        number = self._number_of.get(id(process))
        if number is None:
            number = self._number_of[id(process)] = len(self._processes)
            self._processes.append(process)
        return number

    def path(self, text: str) -> int:
        """The number that stands for a transport; -1 if it is of no known form (a torn line)."""
        number = self._path_of.get(text)
        if number is None:
            found = _PATH.fullmatch(text)
            if found is None:
                return -1
            number = self._path_of[text] = len(self._paths)
            transport = "SHM" if text.startswith(("SHM", "direct")) else text.split("/")[0]
            device, proxy = (None if part is None else int(part) for part in (found["device"], found["proxy"]))
            self._paths.append(_Path(text, transport, found["name"], device, proxy, found["gdr"] is not None))
        return number

    def add(self, process: Process, owner: Communicator | None, tid: int, line: int, parts: dict[str, str | None]) -> None:
        """One connection."""
        number = -1
        if owner is not None:
            number = self._owner_of.setdefault(id(owner), len(self._owners))
            if number == len(self._owners):
                self._owners.append(owner)
        channel, src, dst = (int(parts[name] or 0) for name in ("channel", "src", "dst"))
        connection = -1 if parts["connection"] is None else int(parts["connection"])
        side, path = SIDES.index(parts["side"]), self.path(parts["path"] or "")
        self._rows.append((self.process(process), tid, line, channel, connection, src, dst, side, path, number))
        if len(self._rows) >= _ROWS:
            self._seal()

    def add_columns(self, columns: tuple[Ints, ...]) -> None:
        """Many connections, in order: the columns up to ``path``; the lines name no communicator."""
        self._seal()
        self._blocks.append(_block((*columns, np.full(len(columns[0]), -1))))

    def _seal(self) -> None:
        if self._rows:
            rows, self._rows = np.array(self._rows, dtype=np.int64), []
            self._blocks.append(_block(tuple(rows[:, i] for i in range(rows.shape[1]))))

    def frame(self, state: LogState, source: str) -> pl.DataFrame:
        """``connections``."""
        self._seal()
        table = TABLES["connections"]
        if not self._blocks:
            return table.empty()
        block = _Block(*(np.concatenate(column) for column in zip(*self._blocks, strict=True)))
        order = np.argsort(block.line, kind="stable")
        block = _block(tuple(column[order] for column in block))
        owners = [*self._owners]
        owner = self._settle(block, owners)
        networks = self._networks(block, state)
        place = owner.clip(0)
        src, dst = block.src.astype(np.int64), block.dst.astype(np.int64)

        def gather(values: list[object], index: NDArray[np.integer], dtype: type[pl.DataType]) -> pl.Series:
            return pl.Series(values, dtype=dtype)[index]

        paths = self._paths
        frame = pl.DataFrame({
            "comm_id": gather([*(o.comm_id for o in owners), None], np.where(owner < 0, len(owners), place), pl.String),
            "channel": block.channel,
            "src_rank": src,
            "dst_rank": dst,
            "src_global": _globals(owner, src, owners, state),
            "dst_global": _globals(owner, dst, owners, state),
            "side": gather(list(SIDES), block.side, pl.String),
            "host": gather([p.host for p in self._processes], block.process, pl.String),
            "transport": gather([p.transport for p in paths], block.path, pl.String),
            **networks,
            "pid": gather([p.pid for p in self._processes], block.process, pl.Int64),
            "connection": pl.Series(block.number.astype(np.int64)).set(pl.Series(block.number < 0), None),
            "proxy_rank": gather([p.proxy for p in paths], block.path, pl.Int64),
            "path": gather([p.text for p in paths], block.path, pl.String),
            "source": pl.Series([source]).new_from_index(0, len(src)),
            "line": block.line,
        })  # fmt: skip
        return table.conform(frame)

    def _settle(self, block: _Block, owners: list[Communicator]) -> NDArray[np.int64]:
        """The communicator of each connection: the one that the line names, that its thread was initialising, or whose rank it names."""
        owner = block.owner.astype(np.int64)
        number_of = {id(o): number for number, o in enumerate(owners)}

        def number(communicator: Communicator | None) -> int:
            if communicator is None:
                return -1
            if id(communicator) not in number_of:
                number_of[id(communicator)] = len(owners)
                owners.append(communicator)
            return number_of[id(communicator)]

        open_ = np.flatnonzero(owner < 0)
        order = open_[np.lexsort((block.line[open_], block.tid[open_], block.process[open_]))]
        changes = np.diff(block.process[order], prepend=-1).astype(bool) | np.diff(block.tid[order], prepend=-1).astype(bool)
        threads = np.flatnonzero(changes).tolist()
        for start, stop in zip(threads, [*threads[1:], len(order)][: len(threads)], strict=True):
            rows = order[start:stop]
            process = self._processes[block.process[rows[0]]]
            windows = process.windows.get(int(block.tid[rows[0]]), [])
            begins = np.array([begin for begin, _, _ in windows], dtype=np.int64)
            ends = np.array([2**62 if end is None else end for _, end, _ in windows], dtype=np.int64)
            numbers = np.array([number(c) for _, _, c in windows], dtype=np.int64)
            if len(begins):
                at = np.searchsorted(begins, block.line[rows], side="right") - 1
                inside = (at >= 0) & (block.line[rows] <= ends[at.clip(0)])
                owner[rows[inside]] = numbers[at[inside]]
        fits: dict[tuple[int, int, int, int], list[Communicator]] = {}
        for row in np.flatnonzero(owner < 0).tolist():
            key = (int(block.process[row]), int(block.src[row]), int(block.dst[row]), int(block.side[row]))
            if key not in fits:
                fits[key] = _fitting(self._processes[key[0]], key[1], key[2], SIDES[key[3]])
            owner[row] = number(_choose(fits[key], int(block.line[row])))
        return owner

    def _networks(self, block: _Block, state: LogState) -> dict[str, pl.Series]:
        """Network, NIC, its index and GPUDirect. An index is named by what this process listed, else by another one of its host."""
        listing: dict[str | None, Process] = {}
        for process in state.processes.values():
            if process.ib_nics or process.socket_nics:
                listing.setdefault(process.host, process)
        pairs, place = np.unique(block.process.astype(np.int64) * (len(self._paths) + 1) + block.path, return_inverse=True)
        rows = []
        for pair in pairs.tolist():
            number, path = divmod(pair, len(self._paths) + 1)
            rows.append(_network(self._processes[number], self._paths[path], listing))
        columns = list(zip(*rows, strict=True))
        kinds = (("network", pl.String), ("nic", pl.String), ("gdr", pl.Boolean), ("nic_index", pl.Int64))
        return {
            name: pl.Series(name, list(values), dtype=kind)[place.reshape(-1)] for (name, kind), values in zip(kinds, columns, strict=True)
        }


def _block(columns: tuple[NDArray[Any], ...]) -> _Block:
    kinds = (np.int32, np.int64, np.int64, np.int32, np.int16, np.int32, np.int32, np.int8, np.int32, np.int32)
    return _Block(*(column.astype(kind) for column, kind in zip(columns, kinds, strict=True)))


def _fitting(process: Process, src: int, dst: int, side: str | None) -> list[Communicator]:
    """Communicators of a process whose rank a line names, in the order of their first call."""
    mine = (dst,) if side == "receive" else (src,) if side == "send" else (src, dst)
    found = [
        c for c in process.communicators if c.rank is not None and c.nranks is not None and c.nranks > max(src, dst) and c.rank in mine
    ]
    return sorted(found, key=lambda c: -1 if c.first_operation is None else c.first_operation)


def _choose(fits: list[Communicator], line: int) -> Communicator | None:
    """The only one, or the one whose first call is nearest before the line."""
    if len(fits) <= 1:
        return fits[0] if fits else None
    used = [c for c in fits if c.first_operation is not None]
    at = bisect_right([c.first_operation or 0 for c in used], line)
    return used[at - 1] if at else None


def _globals(owner: NDArray[np.int64], rank: Ints, owners: list[Communicator], state: LogState) -> pl.Series:
    """Global ranks of members. In the world communicator they are its own ranks, also of processes that this file does not show."""
    known = {(c.comm_id, c.rank): c.global_rank for process in state.processes.values() for c in process.communicators}
    worlds = {c.comm_id for process in state.processes.values() for c in process.communicators if c.is_world}
    width = int(rank.max()) + 1
    pairs, place = np.unique(owner * width + rank, return_inverse=True)
    values = []
    for pair in pairs.tolist():
        number, of = divmod(pair, width)
        comm = owners[number].comm_id if number >= 0 else None
        value = known.get((comm, of)) if comm is not None else None
        values.append(of if value is None and comm in worlds else value)
    return pl.Series(values, dtype=pl.Int64).gather(place.reshape(-1))


def _network(process: Process, path: _Path, listing: dict[str | None, Process]) -> tuple[str | None, str | None, bool | None, int | None]:
    if path.transport not in ("NET", "COLLNET") or path.name is None:
        return None, None, None, None
    index, other = path.device or 0, listing.get(process.host)
    if path.name == "Socket":
        listed = process.socket_nics or (other.socket_nics if other else {})
        return "Socket", listed.get(index, (f"Socket/{index}", ""))[0], path.gdr, index
    if path.name.startswith("IB"):
        listed = process.ib_nics or (other.ib_nics if other else {})
        nic, link = listed.get(index, (f"{path.name}/{index}", "IB"))
        return link, nic, path.gdr, index
    return ("OFI" if path.name in _OFI_NAMES else path.name), f"{path.name}/{index}", path.gdr, index
