"""``via`` lines in columns, and the communicator of each once the whole file has been read."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.readers.nccl.patterns import PATH
from netlab.readers.nccl.state import Communicator, LogState, Process, thread_owners
from netlab.schema import TABLES

__all__ = ["SIDES", "Connections"]

Ints = NDArray[np.int64]

#: Number of a side: neither is printed by the earliest versions and for connections inside a host.
SIDES = (None, "send", "receive")
#: Names under which the libfabric plugin has appeared.
_OFI_NAMES = frozenset({"AWS Libfabric", "Libfabric", "OFI"})
_PATH = re.compile(PATH)
_ROWS = 50_000
_PART_ROWS = 100_000


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
    tid: NDArray[np.int32]
    line: NDArray[np.int32]
    channel: NDArray[np.int32]
    number: NDArray[np.int16]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    side: NDArray[np.int8]
    path: NDArray[np.int32]
    owner: NDArray[np.int32]


_TYPES = (np.int32, np.int32, np.int32, np.int32, np.int16, np.int32, np.int32, np.int8, np.int32, np.int32)


class Connections:
    """The connections of a file."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._blocks: list[_Block] = []
        self._paths: list[_Path] = []
        self._path_of: dict[str, int] = {}
        self._owners: list[Communicator] = []
        self._owner_of: dict[int, int] = {}

    def owner(self, communicator: Communicator | None) -> int:
        """The number that stands for a communicator; -1 for none."""
        if communicator is None:
            return -1
        number = self._owner_of.setdefault(id(communicator), len(self._owners))
        if number == len(self._owners):
            self._owners.append(communicator)
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
        channel, src, dst = (int(parts[name] or 0) for name in ("channel", "src", "dst"))
        connection = -1 if parts["connection"] is None else int(parts["connection"])
        side, path = SIDES.index(parts["side"]), self.path(parts["path"] or "")
        # Thread ids wider than 32 bits are torn numbers.
        thread = tid if tid < 2**31 else -1
        self._rows.append((process.number, thread, line, channel, connection, src, dst, side, path, self.owner(owner)))
        if len(self._rows) >= _ROWS:
            self._seal()

    def add_columns(self, columns: tuple[NDArray[Any], ...]) -> None:
        """Many connections, in order: the columns of a block."""
        self._seal()
        self._blocks.append(_block(columns))

    def _seal(self) -> None:
        if self._rows:
            rows, self._rows = np.array(self._rows, dtype=np.int64), []
            self._blocks.append(_block(tuple(rows[:, i] for i in range(rows.shape[1]))))

    def frames(self, state: LogState, source: str) -> Iterator[pl.DataFrame]:
        """``connections`` in parts, in the order of lines; what was handed out is forgotten."""
        self._seal()
        context = _Context.of(state)
        while self._blocks:
            taken: list[_Block] = []
            while self._blocks and sum(len(block.line) for block in taken) < _PART_ROWS:
                taken.append(self._blocks.pop(0))
            columns = [np.concatenate(column) for column in zip(*taken, strict=True)]
            order = np.argsort(columns[2], kind="stable")
            yield self._frame(_Block(*(column[order] for column in columns)), context, source)

    def _frame(self, block: _Block, context: _Context, source: str) -> pl.DataFrame:
        owner = self._settle(block, context)
        owners, processes, paths = self._owners, context.processes, self._paths
        networks = self._networks(block, context)
        src, dst = block.src.astype(np.int64), block.dst.astype(np.int64)

        def gather(values: list[object], index: NDArray[np.integer], dtype: type[pl.DataType]) -> pl.Series:
            return pl.Series(values, dtype=dtype)[index]

        frame = pl.DataFrame({
            "comm_id": gather([*(o.comm_id for o in owners), None], np.where(owner < 0, len(owners), owner), pl.String),
            "channel": block.channel,
            "src_rank": src,
            "dst_rank": dst,
            "src_global": _globals(owner, src, owners, context),
            "dst_global": _globals(owner, dst, owners, context),
            "side": gather(list(SIDES), block.side, pl.String),
            "host": gather([p.host for p in processes], block.process, pl.String),
            "transport": gather([p.transport for p in paths], block.path, pl.String),
            **networks,
            "pid": gather([p.pid for p in processes], block.process, pl.Int64),
            "connection": pl.Series(block.number.astype(np.int64)).set(pl.Series(block.number < 0), None),
            "proxy_rank": gather([p.proxy for p in paths], block.path, pl.Int64),
            "path": gather([p.text for p in paths], block.path, pl.String),
            "source": pl.Series([source]).new_from_index(0, len(src)),
            "line": block.line,
        })  # fmt: skip
        # In the order of lines: sorting millions of rows is left to those who put files together.
        return frame.select(pl.col(name).cast(dtype) for name, dtype in TABLES["connections"].schema.items())

    def _settle(self, block: _Block, context: _Context) -> Ints:
        """The communicator of each connection: the one that the line names, that its thread was initialising, or whose rank it names."""
        owner = block.owner.astype(np.int64)
        open_ = np.flatnonzero(owner < 0)
        process, tid, line = (column[open_].astype(np.int64) for column in (block.process, block.tid, block.line))
        owner[open_] = thread_owners(context.processes, process, tid, line, self.owner, afterwards=False)
        late = np.flatnonzero(owner < 0)
        if not len(late):
            return owner
        keys = np.stack([column[late].astype(np.int64) for column in (block.process, block.src, block.dst, block.side)], axis=1)
        mixed = ((keys[:, 0] * 10_000_019 + keys[:, 1]) * 10_000_019 + keys[:, 2]) * 3 + keys[:, 3]
        _, at, place = np.unique(mixed, return_index=True, return_inverse=True)
        fits = [_fitting(context.processes[p], s, d, SIDES[side]) for p, s, d, side in keys[at].tolist()]
        sole = np.array([self.owner(found[0]) if len(found) == 1 else -1 for found in fits], dtype=np.int64)
        place = place.reshape(-1)
        owner[late] = sole[place]
        several = np.array([len(found) > 1 for found in fits])
        for row, of in zip(late[several[place]].tolist(), place[several[place]].tolist(), strict=True):
            owner[row] = self.owner(_choose(fits[of], int(block.line[row])))
        return owner

    def _networks(self, block: _Block, context: _Context) -> dict[str, pl.Series]:
        """Network, NIC, its index and GPUDirect. An index is named by what this process listed, else by another one of its host."""
        # Most processes list the same NICs, so what a transport means is worked out once for each different list.
        lists = np.array(context.listed, dtype=np.int64)
        pairs, at, place = np.unique(lists[block.process] * (len(self._paths) + 1) + block.path, return_index=True, return_inverse=True)
        rows = []
        for pair, first in zip(pairs.tolist(), block.process[at].tolist(), strict=True):
            rows.append(_network(context.processes[first], self._paths[pair % (len(self._paths) + 1)], context.listing))
        columns = list(zip(*rows, strict=True))
        kinds = (("network", pl.String), ("nic", pl.String), ("gdr", pl.Boolean), ("nic_index", pl.Int64))
        return {
            name: pl.Series(name, list(values), dtype=kind)[place.reshape(-1)] for (name, kind), values in zip(kinds, columns, strict=True)
        }


def _block(columns: tuple[NDArray[Any], ...]) -> _Block:
    return _Block(*(column.astype(kind) for column, kind in zip(columns, _TYPES, strict=True)))


@dataclass(frozen=True)
class _Context:
    """What is known once the whole file has been read: processes by number, global ranks, and per host one that listed its NICs."""

    processes: list[Process]
    global_of: dict[tuple[str | None, int | None], int | None]
    worlds: frozenset[str | None]
    listing: dict[str | None, Process]
    #: Number of the list of NICs that counts for each process.
    listed: list[int]

    @classmethod
    def of(cls, state: LogState) -> _Context:
        processes = list(state.processes.values())
        members = [c for process in processes for c in process.communicators]
        listing: dict[str | None, Process] = {}
        for process in processes:
            if process.ib_nics or process.socket_nics:
                listing.setdefault(process.host, process)
        numbers: dict[object, int] = {}
        listed = []
        for process in processes:
            other = listing.get(process.host, process)
            nics = (process.ib_nics or other.ib_nics, process.socket_nics or other.socket_nics)
            listed.append(numbers.setdefault(tuple(tuple(sorted(of.items())) for of in nics), len(numbers)))
        return cls(
            processes,
            {(c.comm_id, c.rank): c.global_rank for c in members},
            frozenset(c.comm_id for c in members if c.is_world),
            listing,
            listed,
        )


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


def _globals(owner: Ints, rank: Ints, owners: list[Communicator], context: _Context) -> pl.Series:
    """Global ranks of members. In the world communicator they are its own ranks, also of processes that this file does not show."""
    width = int(rank.max()) + 1
    pairs, place = np.unique(owner * width + rank, return_inverse=True)
    values = []
    for pair in pairs.tolist():
        number, of = divmod(pair, width)
        comm = owners[number].comm_id if number >= 0 else None
        value = context.global_of.get((comm, of)) if comm is not None else None
        values.append(of if value is None and comm in context.worlds else value)
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
