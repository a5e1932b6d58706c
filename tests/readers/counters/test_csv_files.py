"""Plain CSV: aliases, times, numbers, dirt."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from netlab.errors import ParseError
from netlab.readers.base import Parsed, Sink
from netlab.readers.counters.csv_files import PlainCsv
from netlab.readers.counters.texts import number_columns, parse_instant

START_NS = 1_767_225_600_000_000_000


def read(folder: Path, text: str, name: str = "c.csv") -> tuple[pl.DataFrame, Parsed]:
    path = folder / name
    path.write_text(text)
    reader, sink = PlainCsv(), Sink()
    assert reader.sniff(text.encode()[:65_536], path)
    return_value = reader.read(path, sink, name)
    return sink.collect("counters"), return_value


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01 00:00:00+00:00",
        "2026-01-01T01:00:00+0100",
        "1767225600",
        "1767225600.0",
        "1767225600000",
        "1767225600000000",
        "1767225600000000000",
    ],
)
def test_every_form_of_time_is_the_same_instant(tmp_path: Path, stamp: str) -> None:
    frame, _ = read(tmp_path, f"timestamp,device,port,counter,value\n{stamp},leaf1,e0,ifHCInOctets,7\n")
    assert frame["ts_ns"].to_list() == [START_NS]


def test_a_decimal_second_keeps_its_milliseconds(tmp_path: Path) -> None:
    frame, _ = read(tmp_path, "timestamp,device,port,counter,value\n1767225600.137,leaf1,e0,ifHCInOctets,7\n")
    assert frame["ts_ns"].to_list() == [START_NS + 137_000_000]


def test_a_time_without_zone_is_flagged(tmp_path: Path) -> None:
    frame, _ = read(tmp_path, "timestamp,device,port,counter,value\n2026-01-01T00:00:00,leaf1,e0,ifHCInOctets,7\n")
    assert frame["flags"].to_list() == ["clock_naive"]


def test_header_aliases_and_other_separators_are_accepted(tmp_path: Path) -> None:
    frame, _ = read(tmp_path, "_time;switch;ifName;_field;_value\n1767225600;leaf1;e0;ifHCInOctets;7\n")
    assert frame.select("device", "port", "metric", "value_int").row(0) == ("leaf1", "e0", "bytes", 7)


def test_the_wide_form_says_the_same_as_the_long(shared_data: Path, tmp_path: Path) -> None:
    frames = []
    for name in ("counters_long.csv", "counters_wide.csv"):
        text = (shared_data / "counters" / "csv" / name).read_text()
        frame, _ = read(tmp_path, text, name)
        frames.append(
            frame.select(pl.col("device", "port", "direction", "metric").cast(pl.String), "ts_ns", "value_int").unique().sort(pl.all())
        )
    assert frames[0].equals(frames[1])


def test_two_columns_of_one_role_are_refused_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="line 1"):
        read(tmp_path, "timestamp,device,host,port,counter,value\n1767225600,a,b,e0,ifHCInOctets,7\n")


def test_mixed_epoch_units_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="MIXED_TIME_UNITS"):
        read(tmp_path, "timestamp,device,port,counter,value\n1767225600,a,e0,ifHCInOctets,7\n1767225610000,a,e0,ifHCInOctets,8\n")


def test_dirt_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    rows = ("1767225600,a,e0,ifHCInOctets,n/a", "1767225610,a,e0,ifHCInOctets,x7", "soon,a,e0,ifHCInOctets,8")
    text = "\n".join(("timestamp,device,port,counter,value", *rows, '1767225620,a,e0,ifHCInOctets,"1,234"', "17672"))
    frame, parsed = read(tmp_path, text)
    assert frame["value_int"].to_list() == [1234]
    assert parsed.status == "partial"
    assert parsed.lines_unparsed == 3
    assert any("line 4" in issue.message for issue in parsed.issues)


def test_integers_of_64_bits_are_exact(tmp_path: Path) -> None:
    frame, _ = read(
        tmp_path,
        "timestamp,device,port,counter,value\n1767225600,a,e0,ifHCInOctets,18446744073709551615\n1767225610,a,e0,ifHCInOctets,1.8e+07\n",
    )
    assert frame["value_int"].to_list() == [2**64 - 1, 18_000_000]


def test_words_become_bytes_and_say_so(tmp_path: Path) -> None:
    frame, _ = read(
        tmp_path,
        "timestamp,device,port,counter,value\n1767225600,h1,mlx5_0/1,port_xmit_data,25\n1767225600,h1,mlx5_0/1,port_xmit_packets,1\n",
    )
    rows = frame.filter(pl.col("metric") == "bytes")
    assert rows.select("value_int", "flags", "raw_name").row(0) == (100, "scaled_x4", "port_xmit_data")


def test_the_wide_counter_wins_over_the_narrow_one(tmp_path: Path) -> None:
    frame, _ = read(tmp_path, "timestamp,device,port,counter,value\n1767225600,a,e0,ifInOctets,5\n1767225600,a,e0,ifHCInOctets,7\n")
    assert frame.filter(pl.col("metric") == "bytes")["raw_name"].to_list() == ["ifHCInOctets"]
    assert frame.filter(pl.col("metric") == "ifInOctets").height == 1


def test_wire_bytes_win_over_those_that_lack_rdma(tmp_path: Path) -> None:
    frame, _ = read(tmp_path, "timestamp,device,port,counter,value\n1767225600,h,eth0,rx_bytes,5\n1767225600,h,eth0,rx_bytes_phy,7\n")
    assert frame.filter(pl.col("metric") == "bytes")["value_int"].to_list() == [7]


def test_a_narrow_register_that_exceeds_its_range_is_the_wide_one(tmp_path: Path) -> None:
    head = "timestamp,device,port,counter,value\n"
    frame, _ = read(tmp_path, head + "1767225600,h,1,SymbolErrorCounter,70000\n1767225610,h,1,LinkDownedCounter,255\n")
    assert dict(frame.select(pl.col("metric").cast(pl.String), "width_bits").iter_rows()) == {"symbol_errors": 64, "link_downed": 8}


def test_rows_out_of_order_are_flagged(tmp_path: Path) -> None:
    head = "timestamp,device,port,counter,value\n"
    frame, _ = read(tmp_path, head + "1767225610,a,e0,ifHCInOctets,7\n1767225600,a,e0,ifHCInOctets,5\n")
    assert frame["flags"].to_list() == ["", "out_of_order"]


def test_without_a_device_column_the_file_name_stands_in(tmp_path: Path) -> None:
    frame, _ = read(tmp_path, "timestamp,port,counter,value\n1767225600,e0,ifHCInOctets,5\n", "leaf7.csv")
    assert frame.select("device", "flags").row(0) == ("leaf7", "device_assumed")


def test_an_unknown_counter_keeps_its_name_and_is_told(tmp_path: Path) -> None:
    frame, parsed = read(tmp_path, "timestamp,device,port,counter,value\n1767225600,a,e0,frobnications,5\n")
    assert frame["metric"].to_list() == ["frobnications"]
    assert [issue.code for issue in parsed.issues] == ["UNKNOWN_COUNTER"]


def test_gzip_reads_like_plain(tmp_path: Path) -> None:
    path = tmp_path / "c.csv.gz"
    path.write_bytes(gzip.compress(b"timestamp,device,port,counter,value\n1767225600,a,e0,ifHCInOctets,5\n"))
    sink = Sink()
    PlainCsv().read(path, sink, "c.csv.gz")
    assert sink.collect("counters").height == 1


@pytest.mark.parametrize("text", ["device,port,speed_gbps\n", "a,b,c\n1,2,3\n", "{}", "", "timestamp,device,comment\n1,2,3\n"])
def test_other_tables_are_not_claimed(tmp_path: Path, text: str) -> None:
    assert not PlainCsv().sniff(text.encode(), tmp_path / "x.csv")


@pytest.mark.parametrize(
    "text",
    [
        "62,500,000,000",
        "62 500 000 000",
        "62'500'000'000",
        "62_500_000_000",
        "62\u202f500\u202f000\u202f000",
        "0xe8d4a5100",
        "+62500000000",
    ],
)
def test_numbers_with_any_separator_are_exact(text: str) -> None:
    assert pl.DataFrame({"text": [text]}).select(number_columns())["value_int"].to_list() == [62_500_000_000]


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T00:00:10Z",
        "2026-01-01 00:00:10 +0000 UTC",
        "2026-01-01 01:00:10.000 +0100 CET",
        "2025-12-31T19:00:10-05",
        "1767225610.000",
        "1767225610000000",
    ],
)
def test_instants_of_other_tools_are_the_same_instant(text: str) -> None:
    instant = parse_instant(text)
    assert instant is not None
    assert (instant.ns, instant.naive) == (1_767_225_610 * 10**9, False)


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("time,leaf1/e0 ifHCInOctets,leaf1/e1 ifHCInOctets", ["1767225600,7,8"]),
        ("time,leaf1:e0:ifHCInOctets,leaf1:e1:ifHCInOctets", ["1767225600,7,8"]),
        ("time;rx_bytes leaf1 e0;rx_bytes leaf1 e1", ["1767225600;7;8"]),
        ("time,device,e0 rx_bytes,e1 rx_bytes", ["1767225600,leaf1,7,8"]),
        ("time,switch,counter,e0,e1", ["1767225600,leaf1,ifHCInOctets,7,8"]),
        ("time,counter,device,e0,e1", ["1767225600,rx_bytes,leaf1,7,8"]),
    ],
)
def test_a_column_for_each_port_says_whose_counter_it_holds(tmp_path: Path, header: str, rows: list[str]) -> None:
    frame, _ = read(tmp_path, "\n".join((header, *rows)) + "\n")
    rows_read = frame.select("device", "port", "direction", "metric", "value_int", "flags").sort("port").rows()
    assert rows_read == [("leaf1", "e0", "rx", "bytes", 7, ""), ("leaf1", "e1", "rx", "bytes", 8, "")]


@pytest.mark.parametrize(
    "header",
    [
        "time,input bytes per second,output bytes per second", "time,disk read bytes,disk write bytes", "time,app/errors",
        "ts,request errors", "time,total bytes", "time,rx_bytes per 5 min", "time,rx_bytes last 24h", "time,rx_bytes 5min",
        "time,step,loss,rx_bytes",
    ],
)  # fmt: skip
def test_a_csv_that_names_no_port_is_none_of_ours(tmp_path: Path, header: str) -> None:
    assert not PlainCsv().sniff(f"{header}\n1767225600,1,2,3\n".encode(), tmp_path / "c.csv")


@pytest.mark.parametrize("header", ["time,leaf1/Ethernet1 rx_bytes", "time,mlx5_0 rx_bytes,mlx5_0 tx_bytes", "time,Ethernet0:ifHCInOctets"])
def test_a_csv_with_a_column_for_each_port_is_ours(tmp_path: Path, header: str) -> None:
    assert PlainCsv().sniff(f"{header}\n1767225600,1,2\n".encode(), tmp_path / "c.csv")
