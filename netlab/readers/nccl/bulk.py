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
    collector.lines = first + len(kinds)
    return True


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
