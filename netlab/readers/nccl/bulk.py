"""A piece of a large log into a collector: calls as columns, equal records once, everything else line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netlab.readers.nccl import scan
from netlab.readers.nccl.records import Record

if TYPE_CHECKING:
    from netlab.readers.nccl.collect import LogCollector

__all__ = ["feed_large"]


def feed_large(collector: LogCollector, data: bytes) -> bool:
    """Same result as ``collector.feed``, many times as fast. False, and nothing done, where a line goes on in the next one."""
    found = scan.scan_lines(data)
    kinds = found.kind
    if (kinds == scan.PARTIAL).any():
        return False
    first = collector.lines
    vias, via_lines = _known_paths(collector, data, found)
    collector.foreign += int((kinds == scan.FOREIGN).sum())
    call_lines = np.flatnonzero(kinds == scan.CALL)
    # Behind a barrier an address may mean another communicator, so what is in front of it is taken first.
    borders = [*np.flatnonzero(kinds == scan.BARRIER).tolist(), len(kinds)]
    begin = done = 0
    for border in borders:
        _records(collector, data, found, first, begin, border)
        until = int(np.searchsorted(call_lines, border))
        _calls(collector, data, found.calls[done:until], call_lines[done:until] + first + 1)
        begin, done = border, until
    _connections(collector, data, found, vias, via_lines, first)
    collector.lines = first + len(kinds)
    return True


def _known_paths(collector: LogCollector, data: bytes, found: scan.Scan) -> tuple[scan.Int64s, scan.Int64s]:
    """Connections whose transport is of a known form, with its number in place of its hash; the others become ordinary lines."""
    lines = np.flatnonzero(found.kind == scan.VIA)
    if not len(lines):
        return found.vias, lines
    _, at, place = np.unique(found.vias[:, scan.PATH_HASH], return_index=True, return_inverse=True)
    texts = [data[found.vias[row, scan.PATH_START] : found.end[lines[row]]].rstrip() for row in at]
    numbers = np.array([collector.connections.path(text.decode("utf-8", "replace")) for text in texts], dtype=np.int64)[place.reshape(-1)]
    found.kind[lines[numbers < 0]] = scan.PLAIN
    vias = found.vias.copy()
    vias[:, scan.PATH_HASH] = numbers
    return vias[numbers >= 0], lines[numbers >= 0]


def _connections(collector: LogCollector, data: bytes, found: scan.Scan, vias: scan.Int64s, lines: scan.Int64s, first: int) -> None:
    """``via`` lines as columns. To which communicator each belongs is settled at the end of the file."""
    if not len(lines):
        return
    parts = found.parts[lines]
    _, at, place = np.unique(vias[:, scan.VIA_HOST_HASH] * 1_000_003 + parts[:, 2], return_index=True, return_inverse=True)
    numbers = np.empty(len(at), np.int64)
    for number in np.argsort(at):
        row = parts[at[number]]
        process = collector.state.process(data[row[0] : row[1]].decode().split(".")[0], int(row[2]))
        numbers[number] = collector.connections.process(process)
    columns = (scan.VIA_CHANNEL, scan.VIA_NUMBER, scan.VIA_SRC, scan.VIA_DST, scan.VIA_SIDE, scan.PATH_HASH)
    collector.connections.add_columns(
        (numbers[place.reshape(-1)], parts[:, 3], lines + first + 1, *(vias[:, column] for column in columns))
    )
    collector.records += len(lines)


def _records(collector: LogCollector, data: bytes, found: scan.Scan, first: int, begin: int, end: int) -> None:
    """The lines of a stretch that are no calls, in order; records that were met before are only counted."""
    kinds = found.kind[begin:end]
    look = (kinds == scan.UNUSUAL) | (kinds == scan.PLAIN) | (kinds == scan.BARRIER)
    plain = np.flatnonzero(kinds == scan.PLAIN)
    if len(plain) > 64:
        digests, inverse, counts = np.unique(found.digest[begin:end][plain], return_inverse=True, return_counts=True)
        known = np.array(
            [collector.count_known(digest, int(count)) for digest, count in zip(digests.tolist(), counts.tolist(), strict=True)]
        )
        look[plain[known[inverse]]] = False
    chosen = np.flatnonzero(look) + begin
    rows = zip(
        chosen.tolist(),
        found.start[chosen].tolist(),
        found.end[chosen].tolist(),
        found.digest[chosen].tolist(),
        (found.kind[chosen] != scan.UNUSUAL).tolist(),
        found.parts[chosen].tolist(),
        strict=True,
    )
    for index, start, stop, digest, has_header, (host, host_end, pid, tid, body) in rows:
        number = first + index + 1
        if has_header and (collector.count_known(digest, 1) or collector.count_inside(digest, tid)):
            continue
        text = collector.decode(data[start:stop], number)
        if not has_header or not text.isascii():
            # Offsets are of bytes, so a record with other than ASCII in it is taken the long way, too.
            collector.learn(text)
            collector.line(text, number)
            continue
        message = text[body - start :].rstrip()
        name = text[host - start : host_end - start]
        collector.record(Record(number, name, pid, tid, "INFO", message, text[: host - start], None), digest)


def _calls(collector: LogCollector, data: bytes, calls: scan.Int64s, lines: scan.Int64s) -> None:
    """COLL lines: identities once per (host, process, communicator), the rest as columns."""
    if not len(calls):
        return
    mixed = calls[:, scan.HOST_HASH] * 1_000_003 + calls[:, scan.PID]
    mixed = mixed * 1_000_033 + calls[:, scan.COMM]
    _, at, place = np.unique(mixed, return_index=True, return_inverse=True)
    owners = np.empty(len(at), np.int64)
    for number in np.argsort(at):
        row = calls[at[number]]
        host = data[row[scan.HOST_START] : row[scan.HOST_END]].decode()
        owners[number] = collector.owner_of_call(
            host, int(row[scan.PID]), f"0x{int(row[scan.COMM]):x}", int(row[scan.NRANKS]), int(lines[at[number]])
        )
    _, at_name, name_place = np.unique(calls[:, scan.NAME_HASH], return_index=True, return_inverse=True)
    names = np.array([collector.operations.function(data[calls[i, scan.NAME_START] : calls[i, scan.NAME_END]].decode()) for i in at_name])
    collector.records += len(calls)
    collector.operations.add_columns(
        owners[place.reshape(-1)],
        names[name_place.reshape(-1)],
        calls[:, scan.SEQ],
        calls[:, scan.COUNT],
        calls[:, scan.DTYPE],
        calls[:, scan.ROOT],
        calls[:, scan.STREAM],
        lines,
    )
