"""The fast way without a compiler: pieces of valid JSON are decoded by msgspec, everything else goes through the plain scanner.

A piece ends where ``}, {`` stands. If that is no border between two events the piece is no valid JSON, and the plain scanner reads it.
Values are taken as raw bytes and converted by the rules of the scanner, so that both ways give the same rows; a test compares them on every
sample.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from netlab.readers.kineto import fields, layout, plain
from netlab.readers.kineto.backends import PlainBackend

__all__ = ["StrictBackend"]

_PIECE_BYTES = 1 << 16
_BORDER = re.compile(rb"\}[\x00-\x20]*,[\x00-\x20]*\{")
#: A letter, digit or sign of a key may be written as an escape; msgspec understands it, the scanner does not.
_ESCAPED_KEY = re.compile(rb"\\u00[2-7]")
_ABSENT = Raw(b"")
_X, _B, _E, _S, _F = (ord(letter) for letter in "XBEsf")


class _Event(msgspec.Struct, gc=False):
    ph: Raw = _ABSENT
    cat: Raw = _ABSENT
    name: Raw = _ABSENT
    pid: Raw = _ABSENT
    tid: Raw = _ABSENT
    ts: Raw = _ABSENT
    dur: Raw = _ABSENT
    id: Raw = _ABSENT
    args: Raw = _ABSENT


class _Arguments:
    """Decoder of the ``args`` that one kind of event needs, with the slots to which they go."""

    def __init__(self, kind: int) -> None:
        everything = kind in (fields.UNKNOWN, fields.IGNORED)
        integers = fields.INTEGERS if everything else fields.WANTED_INTEGERS.get(kind, ())
        texts = fields.TEXTS if everything else fields.WANTED_TEXTS.get(kind, ())
        slots = {fields.INTEGERS.index(name) for name in integers}, {fields.TEXTS.index(name) for name in texts}
        chosen = [
            (name, what, slot)
            for name, (what, slot) in fields.ARGUMENT_FIELDS.items()
            if slot in slots[0 if what == fields.INTEGER_FIELD else 1]
        ]
        names = {f"a{number}": name for number, (name, _, _) in enumerate(chosen)}
        struct = msgspec.defstruct("Arguments", [(key, Raw, _ABSENT) for key in names], rename=names, gc=False)
        self.decode = msgspec.json.Decoder(struct).decode
        self.integers = [(f"a{n}", slot) for n, (_, what, slot) in enumerate(chosen) if what == fields.INTEGER_FIELD]
        self.texts = [(f"a{n}", slot) for n, (_, what, slot) in enumerate(chosen) if what == fields.TEXT_FIELD]


_decode_events = msgspec.json.Decoder(list[_Event]).decode
_ARGUMENTS = [_Arguments(kind) for kind in range(fields.UNKNOWN + 1)]
_NO_INTEGERS = [layout.NULL] * layout.INTEGER_COUNT
_NO_TEXTS = [-1] * (layout.TEXT_COUNT + 2)
_TS, _DUR, _PID, _TID, _ID = (fields.INTEGERS.index(name) for name in ("ts", "dur", "pid", "tid", "id"))


class _PoolFullError(Exception):
    """No room for another text."""


class StrictBackend(PlainBackend):
    """msgspec where the bytes are valid JSON."""

    name = "strict"

    def __init__(self) -> None:
        self._kinds: dict[bytes, int] = {b"": fields.UNKNOWN}

    def scan_events(
        self, data: bytearray, at: int, end: int, row: int, integers: Any, texts: Any, pool: Any, tally: Any, keep_hosts: bool
    ) -> tuple[int, int, int]:
        """``scan_events``."""
        stop = 0
        while True:
            stop = _border(data, max(at, stop), end)
            if stop < 0:
                return super().scan_events(data, at, end, row, integers, texts, pool, tally, keep_hosts)
            begin = plain.skip_space(data, at, stop)
            if data[begin] == 44:
                begin += 1
            try:
                piece = bytes(data[begin:stop])
                events = _decode_events(b"[%b]" % piece)
            except (msgspec.MsgspecError, RecursionError):
                events = []
            if events and _is_canonical(piece, events):
                if row + len(events) > integers.shape[0]:
                    return layout.ROWS_FULL, at, row
                try:
                    row += self._take(events, row, integers, texts, pool, tally, keep_hosts)
                except _PoolFullError:
                    return layout.WORDS_FULL, at, row
                at = stop
                continue
            status, at, row = super().scan_events(data, at, stop, row, integers, texts, pool, tally, keep_hosts)
            if status != layout.NEED_MORE:
                return status, at, row
            # What is left of the piece belongs to an event that goes on behind it: it is read again with the next piece.

    def _take(self, events: list[_Event], row: int, integers: Any, texts: Any, pool: plain.WordPool, tally: Any, keep_hosts: bool) -> int:
        """Put the events that are kept into rows from ``row`` on; returns their number."""
        kept_integers: list[list[int]] = []
        kept_texts: list[list[int]] = []
        objects = phases = hosts = overflows = 0
        kinds, add = self._kinds, pool.add
        for event in events:
            objects += 1
            text = bytes(event.ph)
            if len(text) != 3 or text[0] != 34:
                continue
            phase = text[1]
            phases += 1
            text = bytes(event.cat)
            kind = kinds.get(text, -1)
            if kind < 0:
                kind = plain.category(text, 1, len(text) - 1) if text[:1] == b'"' else fields.UNKNOWN
                if len(kinds) < 1000:
                    kinds[text] = kind
            if phase == _X:
                if kind in (fields.IGNORED, fields.UNKNOWN, fields.FLOW):
                    continue
            elif phase in (_S, _F):
                if kind != fields.FLOW:
                    continue
            elif phase not in (_B, _E):
                continue
            name = bytes(event.name)
            if kind == fields.HOST_OP:
                if name and name[:4] != b"null":
                    is_text = name[0] == 34
                    kind = plain.host_kind(name, is_text, len(name) - is_text)
                if kind == fields.HOST_OP and not keep_hosts and phase in (_X, _B):
                    hosts += 1
                    if phase == _X:
                        continue
            if kind == fields.LAUNCH and phase == _X and plain.is_query(name, 1, len(name) - 1):
                continue
            numbers, codes = _NO_INTEGERS.copy(), _NO_TEXTS.copy()
            codes[layout.KIND_COLUMN], codes[layout.PHASE_COLUMN] = kind, phase
            for slot, raw, scale in (
                (_PID, event.pid, 0),
                (_TID, event.tid, 0),
                (_ID, event.id, 0),
                (_TS, event.ts, 3),
                (_DUR, event.dur, 3),
            ):
                numbers[slot], overflow = _number(bytes(raw), scale)
                if overflow and slot == _DUR:
                    numbers[slot] = layout.BEYOND * (-1 if b"-" in bytes(raw)[:2] else 1)
                else:
                    overflows += overflow
            if bytes(event.args).startswith(b"{"):
                chosen = _ARGUMENTS[kind]
                values = chosen.decode(event.args)
                for key, slot in chosen.integers:
                    raw = getattr(values, key)
                    if raw is not _ABSENT:
                        numbers[slot], overflow = _number(bytes(raw), 0)
                        overflows += overflow
                for key, slot in chosen.texts:
                    raw = getattr(values, key)
                    if raw is not _ABSENT:
                        codes[slot] = _code(bytes(raw), add)
            codes[0] = _code(name, add) if name else -1
            kept_integers.append(numbers)
            kept_texts.append(codes)
        for place, number in (
            (layout.OBJECTS, objects),
            (layout.EVENTS, phases),
            (layout.HOST_EVENTS, hosts),
            (layout.OVERFLOWS, overflows),
        ):
            tally[place] += number
        if kept_integers:
            integers[row : row + len(kept_integers)] = np.array(kept_integers, np.int64)
            texts[row : row + len(kept_texts)] = np.array(kept_texts, np.int32)
        return len(kept_integers)


def _border(data: bytearray, at: int, end: int) -> int:
    """The last comma between two objects in the next piece, or the first one behind it; -1 if there is none."""
    stop = min(end, at + _PIECE_BYTES)
    last = -1
    place = stop
    for _ in range(64):
        place = data.rfind(b"{", at, place)
        if place < 0:
            break
        found = _BORDER.search(data, max(at, place - 64), place + 1)
        if found is not None and found.end() == place + 1:
            last = data.index(b",", found.start())
            break
    if last > at:
        return last
    found = _BORDER.search(data, max(at, stop - 64), end)
    return data.index(b",", found.start()) if found is not None else -1


def _is_canonical(piece: bytes, events: list[_Event]) -> bool:
    """Whether keys mean the same to msgspec and the scanner: none is written with escapes, and those that decide early are there once."""
    if _ESCAPED_KEY.search(piece):
        return False
    phases = categories = names = 0
    for event in events:
        phases += event.ph is not _ABSENT
        categories += event.cat is not _ABSENT
        # Events about threads and processes have another name among their arguments.
        names += (event.name is not _ABSENT) + (bytes(event.ph) == b'"M"')
    return piece.count(b'"ph"') <= phases and piece.count(b'"cat"') <= categories and piece.count(b'"name"') <= names


def _number(raw: bytes, scale: int) -> tuple[int, int]:
    """``number`` of a value, null included, and whether it was too large."""
    if scale == 0:
        if raw.isdigit() and len(raw) < 19:
            return int(raw), 0
    else:
        whole, _, fraction = raw.partition(b".")
        if whole.isdigit() and len(whole) < 16 and len(fraction) < 4 and (fraction.isdigit() or not fraction):
            return int(whole) * 1000 + int(fraction.ljust(3, b"0")), 0
    if not raw or raw[0] in b"{[":
        return layout.NULL, 0
    value, status = plain.number(raw, 1, len(raw) - 1, scale) if raw[0] == 34 else plain.number(raw, 0, len(raw), scale)
    return (value if status == 0 else layout.NULL), int(status == 2)


def _code(raw: bytes, add: Any) -> int:
    """``intern`` of a value: a text, null, or anything else as it stands."""
    if raw[0] == 34:
        code = add(raw[1:-1], 0)
    elif raw[0] == 110:
        return -1
    else:
        code = add(raw, 1)
    if code == -2:
        raise _PoolFullError
    return int(code)
