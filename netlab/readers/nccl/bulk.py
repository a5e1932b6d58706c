"""Pieces of a large log into a collector: what makes up such a log as columns, equal messages once, everything else line by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from netlab.readers.nccl import compiled_messages as fields
from netlab.readers.nccl import scan
from netlab.readers.nccl.piece import Piece
from netlab.readers.nccl.records import prefix_rank, timestamp_ns
from netlab.readers.nccl.rings import CUT_LENGTH
from netlab.readers.nccl.state import InitLine

if TYPE_CHECKING:
    from netlab.readers.nccl.collect import LogCollector, Understood

__all__ = ["Bulk"]

Ints = NDArray[np.int64]

_WHAT = ("Init START", "Init COMPLETE", "Destroy COMPLETE", "Abort COMPLETE")
#: Fates of messages: only counted, handled once per process, handled each time, of no known form, torn.
_COUNTED, _ONCE, _EACH, _UNKNOWN, _TORN = range(5)
_MOST_MESSAGES = 1 << 20


_number = cast("Callable[[Ints, Ints, Ints, int, Ints], int]", scan.number_hashes)


class _Numbers:
    """Hashes to numbers by first appearance, kept between pieces."""

    def __init__(self) -> None:
        self.count = 0
        self._keys, self._numbers = np.zeros(1 << 12, np.int64), np.zeros(1 << 12, np.int64)

    def of(self, hashes: Ints) -> tuple[Ints, Ints]:
        """Number of each hash, and the places where a new one appears first."""
        while 2 * (self.count + len(hashes)) > len(self._keys):
            old_keys, old_numbers = self._keys, self._numbers
            self._keys, self._numbers = np.zeros(2 * len(old_keys), np.int64), np.zeros(2 * len(old_keys), np.int64)
            held = np.flatnonzero(old_keys)
            order = held[np.argsort(old_numbers[held])]
            _number(old_keys[order], self._keys, self._numbers, 0, np.empty(len(order), np.int64))
        found = np.empty(len(hashes), np.int64)
        before = self.count
        self.count = _number(hashes, self._keys, self._numbers, before, found)
        if self.count == before:
            return found, np.empty(0, np.int64)
        # Numbers grow, so a new one is where the largest so far is beaten.
        best = np.maximum.accumulate(np.concatenate([[before - 1], found]))
        return found, np.flatnonzero(found > best[:-1])


class Bulk:
    """Feeds a collector with pieces of a log, many times as fast as line by line and with the same result."""

    def __init__(self, collector: LogCollector) -> None:
        self._collector = collector
        self._process_numbers = _Numbers()
        self._process_of = np.empty(0, np.int64)
        self._call_numbers, self._owner_of_call, self._inits = _Numbers(), np.empty(0, np.int64), 0
        self._forget_messages()

    def _forget_messages(self) -> None:
        self._message_numbers = _Numbers()
        self._understood: list[Understood | None] = []
        self._fate = np.zeros(1 << 12, np.int8)
        self._saying = np.full(1 << 12, -1, np.int64)

    def feed(self, data: bytes) -> bool:
        """Take whole lines. False, and nothing done, where a line goes on in the next one."""
        found = scan.scan_lines(data)
        if (found.kind == scan.PARTIAL).any():
            return False
        piece = Piece(self._collector, data, found)
        piece.who[piece.headed] = self._processes(piece, piece.headed)
        vias = self._known_paths(piece)
        self._edges(piece)
        self._in_order(piece, self._messages(piece))
        self._connections(piece, *vias)
        kinds = found.kind
        self._collector.records += int(np.isin(kinds, (scan.NOTED, scan.EDGES, scan.INIT, scan.LAYOUT)).sum())
        self._collector.foreign += int((kinds == scan.FOREIGN).sum())
        self._collector.lines += len(kinds)
        return True

    def _processes(self, piece: Piece, headed: Ints) -> Ints:
        """The number of each line's process."""
        found, new = self._process_numbers.of(piece.found.process[headed])
        fresh = []
        first, splitter = headed[new], self._collector.splitter
        for line in first[piece.found.parts[first, 0] == piece.found.start[first]].tolist():
            splitter.remember(piece.host(line), piece.pid(line))
        for line in first.tolist():
            host, pid = piece.host(line), piece.pid(line)
            # Behind other text a name may begin with the end of that text.
            host = splitter.known_host(host, pid) if piece.prefix(line) else host
            splitter.remember(host, pid)
            fresh.append(self._collector.state.process(host, pid).number)
        self._process_of = np.concatenate([self._process_of, np.array(fresh, dtype=np.int64)])
        who = self._process_of[found]
        prefixed = np.flatnonzero(piece.found.parts[headed, 0] > piece.found.start[headed])
        if len(prefixed):
            mixed = piece.found.prefix[headed[prefixed]] * 1_000_003 + who[prefixed]
            _, at, counts = np.unique(mixed, return_index=True, return_counts=True)
            for place, count in zip(prefixed[at].tolist(), counts.tolist(), strict=True):
                rank = prefix_rank(piece.prefix(int(headed[place])))
                if rank is not None:
                    self._collector.state.in_order[who[place]].prefix_ranks[rank] += count
        return who

    def _known_paths(self, piece: Piece) -> tuple[Ints, Ints, Ints]:
        """Connections whose transport is of a known form: lines, columns, number of the transport; the others become unusual lines."""
        found, vias = piece.found, piece.found.vias
        lines = np.flatnonzero(found.kind == scan.VIA)
        _, at, place = np.unique(vias[:, fields.PATH_HASH], return_index=True, return_inverse=True)
        texts = [piece.text(int(vias[row, fields.PATH_START]), int(vias[row, fields.PATH_END]), int(lines[row])) for row in at]
        numbers = np.array([self._collector.connections.path(text) for text in texts], dtype=np.int64)
        path = numbers[place.reshape(-1)] if len(lines) else np.empty(0, np.int64)
        found.kind[lines[path < 0]] = scan.UNUSUAL
        return lines[path >= 0], vias[path >= 0], path[path >= 0]

    def _connections(self, piece: Piece, lines: Ints, vias: Ints, path: Ints) -> None:
        """``via`` lines as columns. Unless a line names its communicator (RCCL), that is settled at the end of the file."""
        if not len(lines):
            return
        found, connections, state = piece.found, self._collector.connections, self._collector.state
        owner = np.full(len(lines), -1, np.int64)
        named = np.flatnonzero(vias[:, fields.VIA_COMM])
        if len(named):
            mixed = piece.who[lines[named]] * 1_000_000_007 + vias[named, fields.VIA_COMM]
            _, at, place = np.unique(mixed, return_index=True, return_inverse=True)
            numbers = []
            for row in named[at].tolist():
                process, pointer = state.in_order[piece.who[lines[row]]], f"0x{vias[row, fields.VIA_COMM]:x}"
                numbers.append(connections.owner(state.pointer(process, pointer, piece.first + int(lines[row]) + 1)))
            owner[named] = np.array(numbers, dtype=np.int64)[place.reshape(-1)]
        columns = (fields.VIA_CHANNEL, fields.VIA_NUMBER, fields.VIA_SRC, fields.VIA_DST, fields.VIA_SIDE)
        tid = found.parts[lines, 3]
        place_of = (piece.who[lines], np.where(tid < 2**31, tid, -1), lines + piece.first + 1)
        connections.add_columns((*place_of, *(vias[:, column] for column in columns), path, owner))
        self._collector.records += len(lines)

    def _edges(self, piece: Piece) -> None:
        """Rings and trees as columns."""
        edges = piece.found.edges
        if not len(edges):
            return
        lines = edges[:, fields.EDGE_LINE].astype(np.int64)
        parts = piece.found.parts[lines]
        long = parts[:, 5] - parts[:, 4] - len("Trees ") > CUT_LENGTH
        tid = np.where(parts[:, 3] < 2**31, parts[:, 3], -1)
        none = np.full(len(lines), -1)
        columns = (fields.EDGE_PATTERN, fields.EDGE_BASIS, fields.EDGE_CHANNEL, fields.EDGE_SRC, fields.EDGE_DST)
        cut = long & (edges[:, fields.EDGE_BASIS] == 2)
        self._collector.rings.add_columns(
            (piece.who[lines], tid, lines + piece.first + 1, none, *(edges[:, column] for column in columns), cut)
        )

    def _messages(self, piece: Piece) -> dict[int, Understood]:
        """Every other message: new ones are understood, equal ones counted. Lines that have to be taken in their order are returned."""
        found, collector = piece.found, self._collector
        lines = np.flatnonzero((found.kind == scan.PLAIN) | (found.kind == scan.BARRIER))
        if self._message_numbers.count > _MOST_MESSAGES:
            self._forget_messages()
        numbers, new = self._message_numbers.of(found.message[lines])
        own: dict[int, Understood] = {}
        for line, number in zip(lines[new].tolist(), numbers[new].tolist(), strict=True):
            own[line] = self._understand(piece, line, number)
        fate = self._fate[numbers]
        collector.records += int((fate <= _EACH).sum())
        unknown = lines[fate == _UNKNOWN]
        if len(unknown):
            collector.miss(piece.first + int(unknown[0]) + 1, len(unknown))
        self._said(piece, lines, numbers)
        once = np.flatnonzero(fate == _ONCE)
        if len(once):
            # The last of equal ones, so that of different lists of NICs the last one holds.
            _, at = np.unique((piece.who[lines[once]] * (1 << 32) + numbers[once])[::-1], return_index=True)
            for place in np.sort(once[len(once) - 1 - at]).tolist():
                line = int(lines[place])
                found_message = self._understood[numbers[place]] or own[line]
                collector.handle(collector.state.in_order[piece.who[line]], piece.record(line), found_message)
        each = np.flatnonzero((fate == _EACH) | (fate == _TORN))
        return {
            line: own.get(line) or self._understood[number] or collector.understand("INFO", piece.message(line))
            for line, number in zip(lines[each].tolist(), numbers[each].tolist(), strict=True)
        }

    def _understand(self, piece: Piece, line: int, number: int) -> Understood:
        text = piece.message(line)
        found = self._collector.understand("INFO", text)
        if number >= len(self._fate):
            self._fate = np.concatenate([self._fate, np.zeros_like(self._fate)])
            self._saying = np.concatenate([self._saying, np.full_like(self._saying, -1)])
        fates = {"records": _COUNTED if not found.handled else _ONCE if found.repeatable else _EACH, "unknown": _UNKNOWN, "torn": _TORN}
        self._fate[number] = fates[found.fate]
        if found.event is not None:
            self._saying[number] = self._collector.sayings.number("INFO", found.event, text)
        # A message that is handled each time and hardly ever repeats is not worth its memory.
        self._understood.append(found if found.fate == "records" and (found.repeatable or len(text) < 100) else None)
        return found

    def _said(self, piece: Piece, lines: Ints, numbers: Ints) -> None:
        """Events as columns, one row per process and saying of the piece."""
        saying = self._saying[numbers]
        telling = np.flatnonzero(saying >= 0)
        if not len(telling):
            return
        rows, said = lines[telling], saying[telling]
        pairs, at, counts = np.unique(piece.who[rows] * (1 << 32) + said, return_index=True, return_counts=True)
        ts_ns = np.full(len(at), -1, np.int64)
        prefixed = piece.found.parts[rows[at], 0] > piece.found.start[rows[at]]
        for place in np.flatnonzero(prefixed).tolist():
            stamp = timestamp_ns(piece.prefix(int(rows[at[place]])))
            ts_ns[place] = -1 if stamp is None else stamp
        self._collector.sayings.add_columns(pairs >> 32, pairs & (2**32 - 1), rows[at] + piece.first + 1, counts.astype(np.int64), ts_ns)

    def _in_order(self, piece: Piece, ordered: dict[int, Understood]) -> None:
        """Lines that change who is who, in order; calls in front of the end of a communicator are taken before it."""
        collector, found, kinds = self._collector, piece.found, piece.found.kind
        inits, layouts = np.flatnonzero(kinds == scan.INIT), np.flatnonzero(kinds == scan.LAYOUT)
        rows: list[tuple[int, int, Understood | list[int] | None]] = [(line, scan.PLAIN, said) for line, said in ordered.items()]
        rows += [(line, scan.UNUSUAL, None) for line in np.flatnonzero(kinds == scan.UNUSUAL).tolist()]
        rows += zip(inits.tolist(), [scan.INIT] * len(inits), found.inits.tolist(), strict=True)
        rows += zip(layouts.tolist(), [scan.LAYOUT] * len(layouts), found.layouts.tolist(), strict=True)
        rows.sort(key=lambda row: row[0])
        ends = [*np.flatnonzero(kinds == scan.BARRIER).tolist(), *inits[found.inits[:, fields.INIT_WHAT] >= 2].tolist(), len(kinds)]
        calls, done, at = np.flatnonzero(kinds == scan.CALL), 0, 0
        for border in sorted(ends):
            while at < len(rows) and rows[at][0] < border:
                self._take(piece, *rows[at])
                at += 1
            if collector.state.inits != self._inits:  # an address may mean another communicator now
                self._inits = collector.state.inits
                self._call_numbers, self._owner_of_call = _Numbers(), np.empty(0, np.int64)
            until = int(np.searchsorted(calls, border))
            self._calls(piece, found.calls[done:until], calls[done:until])
            done = until

    def _take(self, piece: Piece, line: int, kind: int, said: Understood | list[int] | None) -> None:
        collector, number = self._collector, piece.first + line + 1
        if kind == scan.UNUSUAL:
            collector.line(piece.line(line), number)
            if collector.state.awaits_speaker:
                silent = (p for p in map(collector.state.in_order.__getitem__, piece.speakers(line)) if p.version is None)
                heard = next(silent, None)
                if heard is not None:
                    collector.state.process(heard.host, heard.pid)
            return
        process = collector.state.in_order[piece.who[line]]
        if kind == scan.INIT:
            what, comm, rank, nranks, device, nvml, bus, has_id, identity = cast("list[int]", said)
            named = InitLine(
                pointer=f"0x{comm:x}",
                what=_WHAT[what],
                rank=rank,
                nranks=nranks,
                device=device,
                nvml_device=nvml if nvml >= 0 else None,
                bus_id=f"{bus:x}" if bus >= 0 else None,
                unique_id=f"0x{identity & (2**64 - 1):x}" if has_id else None,
            )
            prefix = piece.prefix(line)
            collector.state.init(process, piece.tid(line), number, named, timestamp_ns(prefix) if prefix else None)
        elif kind == scan.LAYOUT:
            comm, rank, nranks, nodes, local_rank = cast("list[int]", said)
            collector.state.layout(process, f"0x{comm:x}", number, rank, nranks, nodes, local_rank)
        elif cast("Understood", said).fate == "torn":
            collector.tear(number, piece.message(line) or f"{process.host}:{process.pid}:{piece.tid(line)} NCCL INFO")
        else:
            collector.handle(process, piece.record(line), cast("Understood", said))

    def _calls(self, piece: Piece, calls: Ints, lines: Ints) -> None:
        """COLL lines: identities once per (process, communicator), the rest as columns."""
        if not len(calls):
            return
        collector = self._collector
        numbers, new = self._call_numbers.of(piece.who[lines] * 1_000_000_007 + calls[:, fields.COMM])
        owners = []
        for place in new.tolist():
            row, line = calls[place], int(lines[place])
            pointer, nranks = f"0x{int(row[fields.COMM]):x}", int(row[fields.NRANKS])
            owners.append(collector.owner_of_call(collector.state.in_order[piece.who[line]], pointer, nranks, piece.first + line + 1))
        self._owner_of_call = np.concatenate([self._owner_of_call, np.array(owners, dtype=np.int64)])
        _, at_name, name_place = np.unique(calls[:, fields.NAME_HASH], return_index=True, return_inverse=True)
        names = [piece.text(int(calls[i, fields.NAME_START]), int(calls[i, fields.NAME_END]), int(lines[i])) for i in at_name]
        functions = np.array([collector.operations.function(name) for name in names])
        collector.records += len(calls)
        collector.operations.add_columns(
            self._owner_of_call[numbers],
            functions[name_place.reshape(-1)],
            calls[:, fields.SEQ],
            calls[:, fields.COUNT],
            calls[:, fields.DTYPE],
            calls[:, fields.ROOT],
            calls[:, fields.STREAM],
            lines + piece.first + 1,
        )
