"""Damaged files: what is complete is kept, what is wrong is told with its place, and nothing takes long."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from typing import Any

import pytest
import zstandard

from netlab.errors import ParseError
from netlab.readers.kineto import document, reader
from tests.readers.kineto.support import Read, codes, kernel, raw_trace, trace

KERNELS = [kernel(number) for number in range(5)]
WHOLE = trace(*KERNELS)


def names(frames: dict[str, Any]) -> list[str]:
    return list(frames["device_events"]["name"]) if "device_events" in frames else []


@pytest.mark.parametrize("keep", [len(WHOLE) - 1, len(WHOLE) - 10, len(WHOLE) - 60, WHOLE.rindex(b'"k4') + 2])
def test_a_cut_file_keeps_its_complete_events_and_tells_where_they_end(read: Read, keep: int) -> None:
    frames, parsed = read(WHOLE[:keep])
    complete = 5 if keep == len(WHOLE) - 1 else 4
    assert names(frames) == [f"k{number}" for number in range(complete)]
    assert codes(parsed) == ["TRUNCATED_JSON"]
    offset = parsed.issues[0].line
    assert offset is not None
    last = json.dumps(KERNELS[complete - 1]).encode()
    assert WHOLE[:offset].rstrip(b", ]").endswith(last)
    assert parsed.status == "partial"
    assert str(parsed.message).startswith("TRUNCATED_JSON: rank0.pt.trace.json is truncated")
    assert parsed.facts["complete"] is False


def test_a_file_cut_before_its_first_event_gives_nothing(read: Read) -> None:
    with pytest.raises(ParseError, match=r"^TRUNCATED_JSON: "):
        read(WHOLE[: WHOLE.index(b'"ph"') + 5])


def test_a_cut_gzip_file_keeps_what_could_be_inflated(read: Read) -> None:
    many = trace(*[kernel(number, name=f"kernel {number * 7919 % 1000}") for number in range(3000)])
    packed = gzip.compress(many)
    frames, parsed = read(packed[: len(packed) // 2], "r.json.gz")
    assert 1000 < frames["device_events"].height < 2999
    assert codes(parsed) == ["TRUNCATED_GZIP"]
    assert parsed.issues[0].line is not None
    frames, parsed = read(packed[:-4], "r.json.gz")
    assert frames["device_events"].height == 3000
    assert codes(parsed) == ["TRUNCATED_GZIP"]


def test_a_wrong_checksum_is_told_and_costs_no_event(read: Read) -> None:
    packed = bytearray(gzip.compress(WHOLE))
    packed[-8:-4] = b"\0\0\0\0"
    frames, parsed = read(bytes(packed), "r.json.gz")
    assert names(frames) == ["k0", "k1", "k2", "k3", "k4"]
    assert codes(parsed) == ["DAMAGED_COMPRESSION"]
    assert "checksum" in parsed.issues[0].message
    assert parsed.status == "partial"


def test_corrupt_gzip_data_keep_the_events_before_them(read: Read) -> None:
    many = trace(*[kernel(number, name=f"kernel {number * 7919 % 1000}") for number in range(20_000)])
    packed = bytearray(gzip.compress(many))
    middle = len(packed) // 2
    packed[middle : middle + 40] = bytes(range(200, 240))
    frames, parsed = read(bytes(packed), "r.json.gz")
    assert frames["device_events"].height > 5000
    assert codes(parsed)[0] in ("DAMAGED_COMPRESSION", "TRUNCATED_GZIP")


def test_compressed_files_of_several_parts_are_read_whole(read: Read) -> None:
    parts = WHOLE[:200], WHOLE[200:]
    for packed in (b"".join(map(gzip.compress, parts)), b"".join(map(zstandard.compress, parts)), gzip.compress(WHOLE) + b"\0" * 512):
        frames, parsed = read(packed, "r.json.gz")
        assert names(frames) == ["k0", "k1", "k2", "k3", "k4"]
        assert parsed.status == "ok"


def test_a_piece_of_another_writer_costs_at_most_the_event_that_it_cuts(read: Read) -> None:
    events = [json.dumps(event) for event in KERNELS]
    other = json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 1}, "deviceProperties": []})[:60]
    arguments = events[2].index('"args":') + len('"args":')
    kept = 0
    for cut in range(1, len(events[2])):
        broken = f"{events[2][:cut]}{other}"
        frames, parsed = read(raw_trace(*events[:2], broken, *events[3:]))
        # The time of a kernel that is cut behind its times was spent, whatever is lost of its arguments.
        kept += "k2" in names(frames)
        assert cut >= arguments or "k2" not in names(frames)
        assert [name for name in names(frames) if name != "k2"] == ["k0", "k1", "k3", "k4"]
        assert set(codes(parsed)) == {"MALFORMED_JSON"}
        assert parsed.status == "partial"
        assert "malformed" in str(parsed.message)
    assert kept > 0.8 * (len(events[2]) - arguments)


def test_a_value_that_may_have_been_cut_short_is_not_kept(read: Read) -> None:
    start = '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "args": {"stream": 7, "correlation": 12'
    for between, correlation in (("", None), (", ", 12), (', "Process Group Name": "de', 12)):
        frames, _ = read(raw_trace(f'{start}{between}{{ "schemaVersion": 1, "x": [', json.dumps(kernel(5))))
        row = frames["device_events"].row(0, named=True)
        assert (row["start_ns"], row["end_ns"], row["stream"], row["correlation"]) == (1000, 3000, 7, correlation)
        assert row["group_name"] is None
        assert names(frames) == ["k", "k5"]


def test_header_values_behind_damage_still_count(read: Read) -> None:
    text = trace(*KERNELS)[:-1] + b', "distributedInfo": {"rank": 3}, "baseTimeNanoseconds": 1000000000000000000}'
    frames, parsed = read(text.replace(b'"name": "k4", ', b'"name" "k4", '))
    assert names(frames) == ["k0", "k1", "k2", "k3"]
    assert frames["device_events"]["start_ns"][0] == 10**18 + 1_000_000
    assert parsed.facts["rank"] == 3


def test_two_whole_documents_in_one_file_are_both_read(read: Read) -> None:
    frames, parsed = read(trace(kernel(1)) + b"\n" + trace(kernel(2)))
    assert names(frames) == ["k1", "k2"]
    assert "MALFORMED_JSON" in codes(parsed)


def test_values_that_are_no_json_are_missing_and_told(read: Read) -> None:
    event = '{"ph": "X", "cat": "kernel", "name": "k0", "ts": 1, "dur": %s, "args": {"stream": %s, "x": %s}}'
    frames, parsed = read(raw_trace(event % ("2", "NaN", "-Infinity"), event % ("NaN", "7", "1")))
    assert frames["device_events"]["stream"].to_list() == [None]
    assert codes(parsed) == ["MISSING_DURATION", "MALFORMED_JSON"]
    assert "3 values" in parsed.issues[1].message
    assert parsed.status == "ok"


def test_a_missing_value_is_null(read: Read) -> None:
    event = '{"ph": "X", "cat": "kernel", "name": "k0", "ts": 1, "dur": 2, "args": {"stream": , "device": 3}}'
    frames, parsed = read(raw_trace(event))
    assert frames["device_events"].select("stream", "device").row(0) == (None, 3)
    assert codes(parsed) == ["MALFORMED_JSON"]


def test_bytes_that_are_no_utf8_are_replaced_and_told(read: Read) -> None:
    frames, parsed = read(trace(kernel()).replace(b'"k0"', b'"k\xff\xfe0"'))
    assert names(frames) == ["k��0"]
    assert codes(parsed) == ["INVALID_UTF8"]


def test_a_lone_surrogate_is_replaced_and_told(read: Read) -> None:
    frames, parsed = read(trace(kernel()).replace(b'"k0"', b'"k\\ud8000"'))
    assert names(frames) == ["k�0"]
    assert codes(parsed) == ["INVALID_UTF8"]


def test_a_bad_escape_is_kept_as_it_stands_and_told(read: Read) -> None:
    frames, parsed = read(trace(kernel()).replace(b'"k0"', rb'"C:\q0"'))
    assert names(frames) == [r"C:\q0"]
    assert codes(parsed) == ["MALFORMED_JSON"]


def test_control_characters_in_texts_do_no_harm(read: Read) -> None:
    frames, parsed = read(trace(kernel()).replace(b'"k0"', b'"k\x01\n\t0"'))
    assert names(frames) == ["k\x01\n\t0"]
    assert parsed.rows == 1


def test_trailing_and_repeated_commas_are_passed_over_and_told(read: Read) -> None:
    frames, parsed = read(trace(*KERNELS).replace(b'"correlation": 0}', b'"correlation": 0,}').replace(b"]}", b",,]}"))
    assert len(names(frames)) == 5
    assert codes(parsed) == ["MALFORMED_JSON"]
    assert "3 commas" in parsed.issues[0].message


def test_the_last_of_two_equal_keys_wins(read: Read) -> None:
    frames, _ = read(trace(kernel()).replace(b'"stream": 7', b'"stream": 9, "stream": 8'))
    assert frames["device_events"]["stream"].to_list() == [8]


def test_integers_beyond_64_bits_are_missing_and_told(read: Read) -> None:
    frames, parsed = read(trace(kernel(correlation=2**64 - 1), kernel(1, stream=10**30)))
    assert frames["device_events"].select("correlation", "stream").rows() == [(None, 7), (1, 7)]
    assert codes(parsed) == ["NUMBER_TOO_LARGE"]
    assert parsed.issues[0].message.startswith("rank0.pt.trace.json: 2 numbers")


def test_negative_and_missing_durations_are_counted(read: Read) -> None:
    frames, parsed = read(trace(kernel(0, dur=-1), kernel(1, dur=None), kernel(2, ts=None), kernel(3)))
    assert names(frames) == ["k3"]
    assert codes(parsed) == ["NEGATIVE_DURATION", "MISSING_DURATION"]
    assert parsed.lines_unparsed == 3


def test_a_time_beyond_all_clocks_is_no_time(read: Read) -> None:
    frames, parsed = read(trace(kernel(0, ts=9_000_000_000_000_000), kernel(1, dur=9_000_000_000_000_000), kernel(2)))
    # A kernel that ran did start: its duration is left to be clipped.
    assert names(frames) == ["k1", "k2"]
    assert codes(parsed) == ["MISSING_DURATION"]


def test_deep_nesting_is_stepped_over(read: Read) -> None:
    deep = "[" * 5000 + "]" * 5000
    event = f'{{"ph": "X", "cat": "kernel", "name": "k0", "ts": 1, "dur": 2, "args": {{"x": {deep}, "stream": 4}}}}'
    frames, parsed = read(raw_trace(event).replace(b'"schemaVersion": 1', b'"distributedInfo": ' + deep.encode()))
    assert frames["device_events"]["stream"].to_list() == [4]
    assert parsed.status == "ok"


def test_an_event_of_many_megabytes_is_left_out(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "_EVENT_BYTES", 1 << 16)
    monkeypatch.setattr(reader, "_WINDOW_BYTES", 1 << 15)
    frames, parsed = read(trace(kernel(0), kernel(1, name="n" * 200_000), kernel(2), x="y" * 300_000))
    assert names(frames) == ["k0", "k2"]
    assert codes(parsed) == ["OVERSIZED_EVENT"]
    assert parsed.issues[0].line is not None


def test_an_event_that_never_ends_is_truncation(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "_EVENT_BYTES", 1 << 16)
    monkeypatch.setattr(reader, "_WINDOW_BYTES", 1 << 15)
    frames, parsed = read(trace(kernel(0), kernel(1))[:-20] + b'"' + b"[" * 300_000)
    assert names(frames) == ["k0"]
    assert set(codes(parsed)) == {"OVERSIZED_EVENT", "TRUNCATED_JSON"}


@pytest.mark.parametrize(
    "content",
    [
        b'{"traceEvents": {}}',
        b'{"traceEvents": null, "a": 1}',
        b'{"status": "success", "data": []}',
        b'[{"a": 1}, {"b": 2}]',
        b"[1, 2, 3]",
        b"{}",
        b'{"entries": [{"ph": "X"}]}',
    ],
)
def test_json_of_another_kind_is_no_trace(read: Read, content: bytes) -> None:
    with pytest.raises(ParseError, match=r"^(NOT_A_TRACE|MALFORMED_JSON): "):
        read(content)


def test_an_empty_file_is_said_to_be_empty(read: Read) -> None:
    with pytest.raises(ParseError, match=r"^EMPTY_FILE: "):
        read(b"")
    with pytest.raises(ParseError, match=r"^EMPTY_FILE: "):
        read(gzip.compress(b""), "a.json.gz")


def test_a_trace_without_events_is_a_trace(read: Read) -> None:
    frames, parsed = read(trace())
    assert frames == {}
    assert (parsed.status, parsed.rows) == ("ok", 0)


def test_a_file_that_inflates_a_thousandfold_is_read_in_bounded_time(read: Read) -> None:
    start = time.monotonic()
    filler = zlib.compressobj(9, zlib.DEFLATED, 31)
    pieces = [filler.compress(trace(*KERNELS)[:-1] + b', "x": "')]
    pieces += [filler.compress(b"y" * (1 << 20)) for _ in range(12)]
    packed = b"".join(pieces) + filler.compress(b'"}') + filler.flush()
    assert len(packed) < 20_000
    frames, parsed = read(packed, "bomb.json.gz")
    assert len(names(frames)) == 5
    assert parsed.status == "ok"
    assert time.monotonic() - start < 20
