"""Identity: from lines of processes to communicators, ranks and the communicator of every connection.

A log line has no rank. The way is (host, pid) -> Init lines -> pointer -> communicator; see docs/nccl.md, Identity.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Communicator", "InitLine", "LogState", "Process", "thread_owners"]

Ints = NDArray[np.int64]


class InitLine(NamedTuple):
    """What an Init, Destroy or Abort line says. ``what`` is its end: Init START, Init COMPLETE, Destroy COMPLETE, Abort COMPLETE."""

    pointer: str
    what: str
    rank: int
    nranks: int
    device: int | None = None
    nvml_device: int | None = None
    bus_id: str | None = None
    unique_id: str | None = None
    parent: str | None = None
    split: str | None = None
    color: str | None = None


@dataclass(eq=False, slots=True)
class Communicator:
    """One communicator as one process sees it."""

    process: Process
    pointer: str
    line: int
    rank: int | None = None
    nranks: int | None = None
    device: int | None = None
    nvml_device: int | None = None
    bus_id: str | None = None
    unique_id: str | None = None
    parent_pointer: str | None = None
    split: str | None = None
    color: str | None = None
    nodes: int | None = None
    local_rank: int | None = None
    init_ms: float | None = None
    coll_channels: int | None = None
    nvls_channels: int | None = None
    p2p_channels: int | None = None
    started: bool = False
    started_ns: int | None = None
    complete: bool = False
    ended: bool = False
    first_operation: int | None = None
    #: Filled when the whole file has been read.
    comm_id: str | None = None
    global_rank: int | None = None
    is_world: bool = False


@dataclass(eq=False, slots=True)
class Process:
    """What one (host, pid) has told about itself."""

    host: str | None
    pid: int
    #: Place in the order in which processes first spoke.
    number: int
    prefix_ranks: Counter[int] = field(default_factory=Counter)
    version: str | None = None
    network: str | None = None
    #: Plugin device index to (name, link layer) for the verbs and the socket transport.
    ib_nics: dict[int, tuple[str, str]] = field(default_factory=dict)
    socket_nics: dict[int, tuple[str, str]] = field(default_factory=dict)
    communicators: list[Communicator] = field(default_factory=list)
    by_pointer: dict[str, Communicator] = field(default_factory=dict)
    open_by_thread: dict[int, Communicator] = field(default_factory=dict)
    recent_by_thread: dict[int, Communicator] = field(default_factory=dict)
    #: Per thread the lines of each initialisation: first, last (None while open), communicator.
    windows: dict[int, list[tuple[int, int | None, Communicator]]] = field(default_factory=dict)
    global_rank: int | None = None


class LogState:
    """Everything that has to be remembered over a file to tell who is who."""

    def __init__(self) -> None:
        self.processes: dict[tuple[str | None, int], Process] = {}
        #: Processes by their numbers.
        self.in_order: list[Process] = []
        #: Init, Destroy and Abort lines so far.
        self.inits = 0
        self._waiting_versions: list[tuple[str, int]] = []
        #: Line of a version without a header to the process that printed it.
        self.speaker_of_line: dict[int, Process] = {}
        self.versions: dict[str, int] = {}
        #: Processes that cannot be told apart: line, and the two ranks.
        self.ambiguous: dict[tuple[str | None, int], tuple[int, int, int]] = {}

    def process(self, host: str | None, pid: int) -> Process:
        """The process of a record."""
        found = self.processes.get((host, pid))
        if found is None:
            found = self.processes[host, pid] = Process(host, pid, len(self.processes))
            self.in_order.append(found)
        if self._waiting_versions and found.version is None:
            found.version, line = self._waiting_versions.pop()
            self.speaker_of_line[line] = found
            self._waiting_versions.clear()
        return found

    def version(self, version: str, line: int, process: Process | None = None) -> None:
        """A version line. Without a header it belongs to the process that speaks next (a new one printed it before its first record)."""
        self.versions.setdefault(version, line)
        if process is not None:
            process.version = process.version or version
        else:
            self._waiting_versions.append((version, line))

    @property
    def awaits_speaker(self) -> bool:
        """Whether a version was printed by a process that is not known yet."""
        return bool(self._waiting_versions)

    def init(self, process: Process, tid: int, line: int, said: InitLine, ts_ns: int | None = None) -> Communicator:
        """An Init, Destroy or Abort line; with time stamps, START to COMPLETE is the time of the initialisation."""
        self.inits += 1
        pointer, what, unique, rank = said.pointer, said.what, said.unique_id, said.rank
        found = process.by_pointer.get(pointer)
        other = found is not None and found.rank is not None and found.rank != rank and found.pointer == pointer and not said.parent
        stale = found is not None and (found.ended or other or (found.unique_id and unique and found.unique_id != unique))
        if other and found is not None and found.unique_id == unique:
            # One address is two ranks: containers whose host name and process id are alike.
            self.ambiguous.setdefault((process.host, process.pid), (line, found.rank or 0, rank))
        if what == "Init COMPLETE" and found is None and said.parent:
            # The pointer of a split is printed before and after its allocation: the open window of the thread is the same communicator.
            candidate = process.open_by_thread.get(tid)
            if candidate is not None and candidate.split == said.split and candidate.color == said.color and not candidate.complete:
                found = process.by_pointer[pointer] = candidate
                candidate.pointer = pointer
        if found is None or (stale and what.startswith("Init")):
            found = process.by_pointer[pointer] = Communicator(process, pointer, line)
            process.communicators.append(found)
        _fill(found, said)
        if what == "Init START":
            found.started, found.started_ns = True, ts_ns
            process.open_by_thread[tid] = found
            windows = process.windows.setdefault(tid, [])
            if windows and windows[-1][1] is None:
                windows[-1] = (windows[-1][0], line - 1, windows[-1][2])
            windows.append((line, None, found))
        elif what == "Init COMPLETE":
            found.complete = True
            if found.init_ms is None and ts_ns is not None and found.started_ns is not None and ts_ns >= found.started_ns:
                found.init_ms = (ts_ns - found.started_ns) / 1e6
            process.open_by_thread.pop(tid, None)
            self._close(process, tid, line, found)
        else:
            found.ended = True
        process.recent_by_thread[tid] = found
        return found

    @staticmethod
    def _close(process: Process, tid: int, line: int, found: Communicator) -> None:
        """End the window of an initialisation; versions before 2.18 print no START, so theirs begins behind the one before."""
        windows = process.windows.setdefault(tid, [])
        if windows and windows[-1][2] is found and windows[-1][1] is None:
            windows[-1] = (windows[-1][0], line, found)
        else:
            windows.append(((windows[-1][1] or line) if windows else 0, line, found))

    def pointer(self, process: Process, pointer: str, line: int) -> Communicator:
        """The communicator that an address stands for; one that was never announced is made up."""
        found = process.by_pointer.get(pointer)
        if found is None:
            found = process.by_pointer[pointer] = Communicator(process, pointer, line)
            process.communicators.append(found)
        found.line = min(found.line, line)
        return found

    def thread(self, process: Process, tid: int) -> Communicator | None:
        """The communicator whose initialisation the thread is inside of, or that it last spoke of."""
        return process.open_by_thread.get(tid) or process.recent_by_thread.get(tid)

    def finish(self) -> None:
        """Settle identities once the whole file has been read."""
        communicators = [c for process in self.processes.values() for c in process.communicators]
        of_host: dict[str | None, set[str]] = defaultdict(set)
        for process in self.processes.values():
            if process.version:
                of_host[process.host].add(process.version)
        for process in self.processes.values():
            # One process of a job or of a host prints the version for all.
            told = of_host[process.host] or set(self.versions)
            if process.version is None and len(told) == 1 and (of_host[process.host] or len(self.versions) == 1):
                process.version = next(iter(told))
        _name(communicators)
        for process in self.processes.values():
            self._one_gpu_as_two_ranks(process)
        _place(list(self.processes.values()), communicators)

    def _one_gpu_as_two_ranks(self, process: Process) -> None:
        """One process may drive several GPUs, but a GPU has one rank: else two containers have one name and one process id."""
        seen: dict[tuple[str | None, str], Communicator] = {}
        for communicator in process.communicators:
            if communicator.bus_id is None or communicator.rank is None or not communicator.unique_id:
                continue
            first = seen.setdefault((communicator.comm_id, communicator.bus_id), communicator)
            if first.rank != communicator.rank:
                told = (communicator.line, first.rank or 0, communicator.rank)
                self.ambiguous.setdefault((process.host, process.pid), told)

    def layout(self, process: Process, pointer: str, line: int, rank: int, nranks: int, nodes: int, local_rank: int) -> None:
        """Hosts of a communicator and the place of the process in its own."""
        found = self.pointer(process, pointer, line)
        found.rank = rank if found.rank is None else found.rank
        found.nranks = nranks if found.nranks is None else found.nranks
        found.nodes, found.local_rank = nodes, local_rank


def _fill(communicator: Communicator, said: InitLine) -> None:
    communicator.rank, communicator.nranks = said.rank, said.nranks
    communicator.device = communicator.device if said.device is None else said.device
    communicator.nvml_device = communicator.nvml_device if said.nvml_device is None else said.nvml_device
    communicator.bus_id = said.bus_id or communicator.bus_id
    communicator.unique_id = said.unique_id or communicator.unique_id
    communicator.parent_pointer = said.parent or communicator.parent_pointer
    communicator.split = said.split or communicator.split
    communicator.color = said.color or communicator.color


def thread_owners(
    processes: Sequence[Process], process: Ints, tid: Ints, line: Ints, number: Callable[[Communicator], int], *, afterwards: bool
) -> Ints:
    """The communicator that each line of a thread was printed for: the one whose initialisation it stands in.

    Parameters
    ----------
    processes
        By their numbers.
    process, tid, line
        Of each line.
    number
        Gives a communicator its number.
    afterwards
        Whether a line behind an initialisation belongs to that one, too.

    Returns
    -------
    Numbers; -1 for none.
    """
    owner = np.full(len(line), -1, dtype=np.int64)
    order = np.lexsort((line, tid, process))
    changes = np.diff(process[order], prepend=-1).astype(bool) | np.diff(tid[order], prepend=-1).astype(bool)
    starts = np.flatnonzero(changes).tolist()
    for start, stop in zip(starts, [*starts[1:], len(order)][: len(starts)], strict=True):
        rows = order[start:stop]
        windows = processes[int(process[rows[0]])].windows.get(int(tid[rows[0]]), [])
        if not windows:
            continue
        numbers = np.array([number(communicator) for _, _, communicator in windows], dtype=np.int64)
        at = np.searchsorted(np.array([begin for begin, _, _ in windows]), line[rows], side="right") - 1
        inside = at >= 0
        if not afterwards:
            ends = np.array([2**62 if end is None else end for _, end, _ in windows], dtype=np.int64)
            inside &= line[rows] <= ends[at.clip(0)]
        owner[rows[inside]] = numbers[at[inside]]
    return owner


def _name(communicators: list[Communicator]) -> None:
    """Give each communicator an identity that its members share."""
    for communicator in communicators:
        if communicator.unique_id:
            communicator.comm_id = communicator.unique_id
    for communicator in communicators:
        parent = communicator.process.by_pointer.get(communicator.parent_pointer or "")
        if communicator.comm_id is None and parent is not None and parent.unique_id:
            communicator.comm_id = f"{parent.unique_id}/split{communicator.split or 0}/color{communicator.color}"
    # Versions without ids (before 2.16), and splits of a parent that the log does not show: the n-th communicator of a size in each process
    # is the same one, as long as no rank comes twice and no member is left over.
    groups: dict[tuple[object, ...], list[Communicator]] = defaultdict(list)
    seen: Counter[tuple[object, ...]] = Counter()
    for communicator in communicators:
        if communicator.comm_id is None and communicator.rank is not None:
            shape = (communicator.nranks, communicator.split, communicator.color)
            number = seen[(communicator.process.host, communicator.process.pid, *shape)]
            seen[(communicator.process.host, communicator.process.pid, *shape)] += 1
            groups[(*shape, number)].append(communicator)
    for members in groups.values():
        whole = len({c.rank for c in members}) == len(members) == (members[0].nranks or 0)
        leader = min(members, key=lambda c: c.rank or 0)
        for communicator in members:
            communicator.comm_id = leader.pointer if whole else communicator.pointer
    for communicator in communicators:
        communicator.comm_id = communicator.comm_id or communicator.pointer


def _place(processes: list[Process], communicators: list[Communicator]) -> None:
    """Global ranks: the rank in the largest communicator, if no two processes would share one; else what the launcher's prefix says."""
    world = max((c.nranks or 0 for c in communicators), default=0)
    taken: dict[int, set[int]] = defaultdict(set)
    for process in processes:
        ranks = {c.rank for c in process.communicators if c.nranks == world and c.rank is not None}
        prefix = next(iter(process.prefix_ranks)) if len(process.prefix_ranks) == 1 else None
        process.global_rank = ranks.pop() if len(ranks) == 1 else prefix if not ranks else None
        if process.global_rank is not None:
            taken[process.global_rank].add(id(process))
    for process in processes:
        if process.global_rank is not None and len(taken[process.global_rank]) > 1:
            process.global_rank = next(iter(process.prefix_ranks)) if len(process.prefix_ranks) == 1 else None
        for communicator in process.communicators:
            # One process may drive several GPUs: then each of its members of the world is a rank of its own.
            communicator.global_rank = (
                communicator.rank if communicator.nranks == world and process.global_rank is None else process.global_rank
            )
    for communicator in communicators:
        communicator.is_world = (
            communicator.nranks == world and communicator.rank is not None and communicator.rank == communicator.global_rank
        )
    counts = Counter(c.global_rank for c in {(c.global_rank, c.process.host, c.process.pid): c for c in communicators}.values())
    for communicator in communicators:
        if counts[communicator.global_rank] > 1:
            communicator.global_rank = None
