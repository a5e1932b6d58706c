"""A piece of a large log into a collector: calls as columns, equal records once, everything else line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netlab.readers.nccl import scan

if TYPE_CHECKING:
    from netlab.readers.nccl.collect import LogCollector

__all__ = ["feed_large"]


#: Lines that go on in the next one, and pointers that get a new meaning, have to be taken in order.
_IN_ORDER = (" stdout P ", " stderr P ", " - Destroy COMPLETE", " - Abort COMPLETE")


def feed_large(collector: LogCollector, data: bytes) -> bool:
    """Same result as ``collector.feed``, many times as fast. False, and nothing done, where lines must be taken in order."""
    found = scan.scan_lines(data)
    first, kinds = collector.lines, found.kind
    look = (kinds == scan.UNUSUAL) | (kinds == scan.PLAIN)
    plain = np.flatnonzero(kinds == scan.PLAIN)
    digests, inverse, counts = np.unique(found.digest[plain], return_inverse=True, return_counts=True)
    known = np.array([collector.knows(digest) for digest in digests.tolist()], dtype=bool)
    look[plain[known[inverse]]] = False
    chosen = np.flatnonzero(look)
    begins, ends, digests_of = found.start[chosen].tolist(), found.end[chosen].tolist(), found.digest[chosen].tolist()
    texts = [collector.decode(data[begin:end], first + index + 1) for begin, end, index in zip(begins, ends, chosen.tolist(), strict=True)]
    if any(mark in text for text in texts for mark in _IN_ORDER):
        return False
    collector.foreign += int((kinds == scan.FOREIGN).sum())
    for digest, count in zip(digests[known].tolist(), counts[known].tolist(), strict=True):
        collector.count_known(digest, count)
    for text in texts:
        if " NCCL " in text:
            collector.learn(text)
    for text, index, digest in zip(texts, chosen.tolist(), digests_of, strict=True):
        if not (digest and collector.count_known(digest, 1)):
            collector.line(text, first + index + 1, digest)
    _calls(collector, data, found, first)
    collector.lines = first + len(kinds)
    return True


def _calls(collector: LogCollector, data: bytes, found: scan.Scan, first: int) -> None:
    """COLL lines: identities once per (host, process, communicator), the rest as columns."""
    calls = found.calls
    if not len(calls):
        return
    lines = np.flatnonzero(found.kind == scan.CALL) + first + 1
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
