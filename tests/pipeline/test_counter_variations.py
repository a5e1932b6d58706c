"""Counters as they really come, from file to verdict; the right answers are worked out by hand beside each.

Unless a case says otherwise the port does 100 Gbit/s: 62.5e9 bytes in 10 s are 50 %.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from netlab.align.ports import align_counters, build_ports
from netlab.attribute.links import link_intervals
from netlab.config import load_settings
from netlab.pipeline.analysis import Analysis, analyse
from netlab.readers.base import Sink
from netlab.readers.registry import claim
from netlab.readers.streams import read_head

T0 = 1_767_225_600
HALF = 62_500_000_000
G = 1_250_000_000
HEAD = "timestamp,device,port,counter,value\n"
PORTS = "device,port,speed_gbps\nleaf1,Ethernet0,100\n"


def analysed(folder: Path, **files: str) -> Analysis:
    """The analysis of some files; ``__`` in a name stands for the dot."""
    inputs = folder / "run"
    inputs.mkdir()
    for name, text in files.items():
        (inputs / name.replace("__", ".")).write_bytes(text.encode())
    return analyse([inputs], load_settings([inputs]), store=folder / "store")


def read(folder: Path, **files: str) -> tuple[list[tuple[Any, Any, str]], set[str]]:
    """Intervals and issues of files without the rest of an analysis, for many spellings of one thing."""
    sink, issues = Sink(), []
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(text.encode())
        reader = claim(read_head(path), path)
        assert reader is not None
        issues += reader.read(path, sink, path.name).issues
    counters, more = align_counters(sink.collect("counters"))
    table, _ = build_ports({"counters": counters, "port_facts": sink.collect("port_facts")})
    frame, doubts = link_intervals(counters, table)
    rows = frame.filter((pl.col("metric") == "bytes") & (pl.col("direction") == "rx")).with_columns(pl.col("flags").cast(pl.String))
    return rows.select("delta", "utilization", "flags").rows(), {issue.code for issue in (*issues, *more, *doubts)}


def intervals(analysis: Analysis, port: str = "Ethernet0", metric: str = "bytes", direction: str = "rx") -> list[tuple[Any, Any, str]]:
    frame = analysis.run.frame("link_intervals").with_columns(pl.col(pl.Categorical).cast(pl.String))
    chosen = frame.filter((pl.col("port") == port) & (pl.col("metric") == metric) & (pl.col("direction") == direction))
    return chosen.select("delta", "utilization", "flags").rows()


def codes(analysis: Analysis) -> set[str]:
    return set(analysis.run.frame("issues")["code"]) - {"UNMAPPED", "DEVICE_ASSUMED"}


def series(device: str, port: str, counter: str, deltas: list[int], start: int = 0) -> str:
    """Rows of a counter that grows by some amounts every 10 s."""
    value, rows = start, [f"{T0},{device},{port},{counter},{start}\n"]
    for number, delta in enumerate(deltas, 1):
        value += delta
        rows.append(f"{T0 + 10 * number},{device},{port},{counter},{value}\n")
    return "".join(rows)


def two(name: str, first: str = "0", second: str = str(HALF), times: tuple[object, object] = (T0, T0 + 10)) -> str:
    return f"{HEAD}{times[0]},leaf1,Ethernet0,{name},{first}\n{times[1]},leaf1,Ethernet0,{name},{second}\n"


_DIRECTED = (
    f"time,device,port,counter,direction,value\n{T0},leaf1,Ethernet0,octets,Ingress,0\n{T0 + 10},leaf1,Ethernet0,octets,Ingress,{HALF}\n"
)


@pytest.mark.parametrize(
    "text",
    [
        two("ifHCInOctets"),
        two("IF-MIB::ifHCInOctets"),
        two("ifHCInOctets.49"),
        two("1.3.6.1.2.1.31.1.1.1.6.49"),
        two("in_bytes"),
        two("Input Bytes"),
        two("bytes_received"),
        two("rx_octets_total"),
        two("inOctets"),
        two("SAI_PORT_STAT_IF_IN_OCTETS"),
        two("in-octets"),
        two("ifHCInOctets", "0.0", "6.25e+10"),
        two("ifHCInOctets", '"1,000"', '"62,500,001,000"'),
        two("ifHCInOctets", times=("2026-01-01T00:00:00Z", "2026-01-01T01:00:10+01:00")),
        two("ifHCInOctets", times=("2026-01-01 00:00:00 UTC", "2025-12-31 19:00:10 -0500")),
        two("ifHCInOctets", times=("2025-12-31 11:59:55 PM UTC", "2026-01-01 12:00:05 AM UTC")),
        two("ifHCInOctets", times=(T0 * 1_000, T0 * 1_000 + 10_000)),
        two("ifHCInOctets", times=(T0 * 10**6, (T0 + 10) * 10**6)),
        two("ifHCInOctets", times=(T0 * 10**9, (T0 + 10) * 10**9)),
        two("ifHCInOctets").replace("\n", "\r\n"),
        "\ufeff" + two("ifHCInOctets"),
        two("ifHCInOctets").replace(",", ";"),
        two("ifHCInOctets").replace(",", "\t").replace("timestamp", "@timestamp").replace("device", "hostname").replace("port", "ifname"),
        f"time,switch,interface,ifHCInOctets,ifHCOutOctets,comment\n{T0},leaf1,Ethernet0,0,0,a\n{T0 + 10},leaf1,Ethernet0,{HALF},0,b\n",
        _DIRECTED,
    ],
)
def test_one_counter_in_many_spellings_is_half_of_the_link(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, c__csv=text, ports__csv=PORTS) == ([(HALF, 0.5, "")], set())


def test_values_that_are_missing_join_the_polls_around_them(tmp_path: Path) -> None:
    text = (
        two("ifHCInOctets", times=(T0, T0 + 30)) + f"{T0 + 10},leaf1,Ethernet0,ifHCInOctets,N/A\n{T0 + 20},leaf1,Ethernet0,ifHCInOctets,-\n"
    )
    assert intervals(analysed(tmp_path, c__csv=text, ports__csv=PORTS)) == [(HALF, HALF * 8 / 30 / 1e11, "")]


def test_a_64_bit_counter_near_its_end_is_exact_and_never_wraps(tmp_path: Path) -> None:
    top = 2**64 - 1
    text = HEAD + "".join(f"{T0 + 10 * n},leaf1,Ethernet0,ifHCInOctets,{value}\n" for n, value in enumerate((top - HALF, top, 500)))
    found = analysed(tmp_path, c__csv=text, ports__csv=PORTS)
    assert intervals(found) == [(HALF, 0.5, ""), (None, None, "reset")]
    assert codes(found) == {"COUNTER_RESET"}


def test_a_narrow_twin_beside_the_wide_counter_is_no_reset(tmp_path: Path) -> None:
    values = [n * 10 * G for n in range(4)]
    text = HEAD + "".join(
        f"{T0 + 10 * n},leaf1,Ethernet0,ifHCInOctets,{v}\n{T0 + 10 * n},leaf1,Ethernet0,ifInOctets,{v % 2**32}\n"
        for n, v in enumerate(values)
    )
    found = analysed(tmp_path, c__csv=text, ports__csv=PORTS)
    assert intervals(found) == [(10 * G, 0.1, "")] * 3
    assert intervals(found, metric="ifInOctets") == [(None, None, "wrap_ambiguous")] * 3
    assert codes(found) == set()


@pytest.mark.parametrize(("name", "values"), [("sysUpTime", (100_000, 101_000, 300, 1_300)), ("uptime_seconds", (1_000, 1_010, 3, 13))])
def test_a_reset_that_ends_higher_shows_in_the_uptime(tmp_path: Path, name: str, values: tuple[int, ...]) -> None:
    uptime = "".join(f"{T0 + 10 * n},leaf1,,{name},{value}\n" for n, value in enumerate(values))
    found = analysed(tmp_path, c__csv=HEAD + uptime + series("leaf1", "Ethernet0", "ifHCInOctets", [G, 2 * G, G]), ports__csv=PORTS)
    assert intervals(found) == [(G, 0.01, ""), (None, None, "reset"), (G, 0.01, "")]


@pytest.mark.parametrize(("restarted", "delta", "flags"), [(False, 10, "wrap"), (True, None, "reset")])
def test_an_error_counter_of_32_bits_wraps_unless_the_device_restarted(
    tmp_path: Path, restarted: bool, delta: int | None, flags: str
) -> None:
    text = two("ifInErrors", str(2**32 - 6), "4") + (f"{T0},leaf1,,sysUpTime,100000\n{T0 + 10},leaf1,,sysUpTime,300\n" if restarted else "")
    assert intervals(analysed(tmp_path, c__csv=text, ports__csv=PORTS), metric="errors") == [(delta, None, flags)]


def test_samples_of_one_instant_that_differ_make_both_sides_unknown(tmp_path: Path) -> None:
    text = (
        HEAD + series("leaf1", "Ethernet0", "ifHCInOctets", [10 * G, 10 * G, 10 * G]) + f"{T0 + 10},leaf1,Ethernet0,ifHCInOctets,{11 * G}\n"
    )
    found = analysed(tmp_path, c__csv=text, ports__csv=PORTS)
    assert intervals(found) == [(None, None, "duplicate")] * 2 + [(10 * G, 0.1, "")]


def test_two_files_that_overlap_under_two_spellings_are_one_series(tmp_path: Path) -> None:
    first = HEAD + series("leaf1", "Ethernet1/1", "ifHCInOctets", [10 * G] * 3)
    second = HEAD + "".join(f"{T0 + 10 * n},leaf1,Eth1/1,ifHCInOctets,{n * 10 * G}\n" for n in range(2, 7))
    found = analysed(tmp_path, a__csv=first, b__csv=second, ports__csv=PORTS.replace("Ethernet0", "Ethernet1/1"))
    assert [delta for delta, _, _ in intervals(found, "Ethernet1/1")] == [10 * G] * 6


def test_the_hour_that_a_clock_repeats_is_two_hours(tmp_path: Path) -> None:
    times = ("02:00", "02:20", "02:40", "02:00", "02:20", "02:40", "03:00")
    text = HEAD + "".join(f"2026-10-25 {at}:00,leaf1,Ethernet0,ifHCInOctets,{n * 750 * 10**9}\n" for n, at in enumerate(times))
    toml = '[files]\n"c.csv" = { timezone = "Europe/Berlin" }\n'
    found = analysed(tmp_path, c__csv=text, ports__csv=PORTS, netlab__toml=toml)
    assert intervals(found) == [(750 * 10**9, 0.05, "")] * 6


def test_bundles_vlans_and_sub_interfaces_are_no_links(tmp_path: Path) -> None:
    ports = {"ens1f0": 100, "ens1f1": 100, "bond0": 200, "bond0.100": 200, "ens1f0.5": 50}
    text = HEAD + "".join(series("nodea", port, "rx_bytes_phy", [size]) for port, size in ports.items())
    assert {row.port for row in analysed(tmp_path, c__csv=text).verdict.links} == {"ens1f0", "ens1f1"}


@pytest.mark.parametrize(("declared", "known"), [(100, True), (10, False)])
def test_a_speed_that_is_too_low_takes_the_utilisation_away(tmp_path: Path, declared: int, known: bool) -> None:
    text = HEAD + series("leaf1", "Ethernet0", "ifHCInOctets", [HALF] * 5)
    found = analysed(tmp_path, c__csv=text, ports__csv=PORTS.replace(",100", f",{declared}"))
    assert all((used is not None) is known for _, used, _ in intervals(found))
    assert codes(found) == (set() if known else {"ABOVE_LINE_RATE"})


_WORDS, _PACKETS = 100_000_000_000, 100_000_000  # 4,000 bytes a packet; 80 % of 400 Gbit/s in 10 s


_NODE = {"device": "mlx5_0", "port": "1", "instance": "nodea:9100"}


def _prometheus(name: str, labels: dict[str, str], end: int) -> str:
    one = {"metric": {"__name__": name, **labels}, "values": [[T0 + 0.137, "0"], [T0 + 10.137, str(end)]]}
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [one]}})


@pytest.mark.parametrize(
    "files",
    [
        {"c__csv": HEAD + series("nodea", "mlx5_0", "port_xmit_data", [_WORDS])},
        {"c__csv": HEAD + series("nodea", "mlx5_0", "PortXmitDataExtended", [_WORDS])},
        {"q__json": _prometheus("node_infiniband_port_data_transmitted_bytes_total", _NODE, 4 * _WORDS)},
        {
            "t__lp": "".join(
                "infiniband,device=mlx5_0,host=nodea,port=1 "
                f"port_xmit_data={n * _WORDS}i,port_xmit_packets={n * _PACKETS}i {T0 + 10 * n}000000000\n"
                for n in (0, 1)
            )
        },
        {f"nodea_{T0 + 10 * n}__txt": f"infiniband/mlx5_0/ports/1/counters/port_xmit_data:{n * _WORDS}\n" for n in (0, 1)},
        {
            "u__csv": "timestamp,source_id,tag,node_guid,port_guid,port_num,node_description,PortXmitDataExtended\n"
            + "".join(f"{T0 + 10 * n}000000,0x9,,0x9,0x9,1,nodea mlx5_0,{n * _WORDS}\n" for n in (0, 1))
        },
        {
            "net__txt": 'vendid=0x2c9\nswitchguid=0x1(1)\nSwitch 41 "S-0000000000000001" # "MF0;leaf1:MQM9700/U1"\n'
            '[1] "H-0000000000000009"[1](9) # "nodea mlx5_0" lid 9 4xNDR\n',
            **{
                f"a_{T0 + 10 * n}__out": f"# Port extended counters: Lid 9 port 1 (CapMask: "
                f"0x5300)\nPortXmitData:....{n * _WORDS}\nPortXmitPkts:....{n * _PACKETS}\n"
                for n in (0, 1)
            },
        },
    ],
)
def test_words_of_four_bytes_and_bytes_are_the_same_80_percent(tmp_path: Path, files: dict[str, str]) -> None:
    found = analysed(tmp_path, **files, ports__csv="device,port,speed\nnodea,mlx5_0,400\n")
    (row,) = [row for row in found.verdict.links if row.direction == "tx"]
    assert (row.device, row.port.removesuffix("/1"), row.utilization_mean) == ("nodea", "mlx5_0", pytest.approx(0.8))


def test_arista_twice_gives_rates_by_the_devices_own_clock(tmp_path: Path) -> None:
    def interfaces(octets: int, at: float) -> dict[str, Any]:
        counters = {"inOctets": octets, "inUcastPkts": octets // 4_000, "counterRefreshTime": at}
        member = {"bandwidth": 100_000_000_000, "lineProtocolStatus": "up", "interfaceCounters": counters}
        return {"interfaces": {"Ethernet1/1": member, "Port-Channel1": {**member, "memberInterfaces": {"Ethernet1/1": {}}}}}

    toml = "[files]\n" + "".join(f'"{name}.json" = {{ device = "leaf1" }}\n' for name in "ab")
    first, second = (
        json.dumps(interfaces(0, T0 + 0.5)),
        json.dumps({"jsonrpc": "2.0", "id": "x", "result": [interfaces(2 * HALF, T0 + 20.5)]}),
    )
    found = analysed(tmp_path, a__json=first, b__json=second, netlab__toml=toml)
    assert intervals(found, "Ethernet1/1") == [(2 * HALF, 0.5, "")]
    assert [row.port for row in found.verdict.links] == ["Ethernet1/1"]


def test_nxos_with_one_row_and_numbers_as_text(tmp_path: Path) -> None:
    def reply(octets: int) -> str:
        row = {"interface": "Ethernet1/1", "eth_bw": "100000000", "eth_inbytes": str(octets)}
        return json.dumps({"ins_api": {"outputs": {"output": {"body": {"TABLE_interface": {"ROW_interface": row}}, "code": "200"}}}})

    files = {"leaf9_2026-01-01T00-00-00Z__json": reply(0), "leaf9_2026-01-01T00-00-10Z__json": reply(HALF)}
    assert intervals(analysed(tmp_path, **files), "Ethernet1/1") == [(HALF, 0.5, "")]


def test_a_pasted_sonic_table_that_lost_its_alignment(tmp_path: Path) -> None:
    header = "  IFACE    STATE       RX_OK        RX_BPS    RX_UTIL    RX_ERR    RX_DRP    RX_OVR\n"
    rule = "---------  -------  ----------  ------------  ---------  --------  --------  --------\n"
    files = {
        f"leaf1_20260101T0000{second}Z__txt": f"{header}{rule}Ethernet0  U  {packets}  12.34 B/s  0.00%  0  {drops}  N/A\n"
        for second, packets, drops in (("00", "1,000", "0"), ("10", "1,001,000", "1,000"))
    }
    found = analysed(tmp_path, **files)
    assert intervals(found, metric="packets") == [(1_000_000, None, "")]
    (loss,) = [finding for finding in found.verdict.findings if finding.code == "PACKET_LOSS"]
    assert loss.evidence[0]["loss_ratio"] == 1_000 / 1_001_000
    assert [source.status for source in found.verdict.run.sources] == ["ok", "ok"]


def test_ethtool_counts_the_wire_and_pause_of_one_direction_only(tmp_path: Path) -> None:
    body = "NIC statistics:\n     rx_bytes_phy: {}\n     rx_bytes: 10\n     rx_prio3_pause_duration: {}\n     tx_prio3_pause_duration: 0\n"
    files = {f"nodea_ethtool_S_ens1f0_{T0 + 10 * n}__txt": "# ethtool -S ens1f0\n" + body.format(n * HALF, n * 2_000_000) for n in (0, 1)}
    toml = "[files]\n" + "".join(f'"{name.replace("__", ".")}" = {{ device = "nodea" }}\n' for name in files)
    found = analysed(tmp_path, **files, netlab__toml=toml, ports__csv="device,port,speed\nnodea,ens1f0,100\n")
    rows = {row.direction: row for row in found.verdict.links}
    assert (rows["rx"].utilization_mean, rows["rx"].pause_ratio, rows["tx"].pause_ratio) == (0.5, 0.2, 0.0)
    # A NIC that is paused sees a congested fabric, not a slow host.
    (pause,) = [finding for finding in found.verdict.findings if finding.code == "PFC_PAUSE"]
    assert pause.subject.hosts == []


def test_gnmi_values_as_text_under_module_prefixes(tmp_path: Path) -> None:
    path = "openconfig-interfaces:interfaces/interface[name=Ethernet0]/state/counters/in-octets"
    lines = [
        {"source": "leaf1:57400", "timestamp": (T0 + 10 * n) * 10**9, "updates": [{"Path": path, "values": {path: str(n * HALF)}}]}
        for n in range(3)
    ]
    found = analysed(tmp_path, g__json="\n".join(map(json.dumps, lines)), ports__csv=PORTS)
    assert intervals(found) == [(HALF, 0.5, "")] * 2


@pytest.mark.parametrize(
    "labels",
    [
        {"local_name": "leaf1", "local_port": "9"},
        {"NodeGUID": "0x1", "port": "9", "switch": "leaf1"},
        {"instance": "leaf1:9100", "if_name": "9"},
        {"sysName": "leaf1", "IfName": "9", "instance": "10.0.0.1:9116"},
    ],
)
def test_exporters_name_ports_with_many_labels(tmp_path: Path, labels: dict[str, str]) -> None:
    found = analysed(tmp_path, q__json=_prometheus("ifHCInOctets", labels, HALF), p__csv="device,port,speed_gbps\nleaf1,9,100\n")
    assert intervals(found, "9") == [(HALF, 0.5, "")]


def test_one_reading_with_a_time_is_a_snapshot_too(tmp_path: Path) -> None:
    assert codes(analysed(tmp_path, c__csv=HEAD + series("leaf1", "e0", "ifHCInOctets", []))) == {"SNAPSHOT_ONLY"}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_panel_with_one_column_per_series(tmp_path: Path, separator: str) -> None:
    heads = [f'"{name}{{ifName=""Ethernet0"", instance=""leaf1:9116""}}"' for name in ("ifHCInOctets", "ifHCOutOctets")]
    rows = [
        ["Time", *heads],
        [str(T0 * 1_000), "0", "0"],
        [str(T0 * 1_000 + 10_000), str(HALF), ""],
        [str(T0 * 1_000 + 20_000), str(2 * HALF), "0"],
    ]
    text = "\n".join(separator.join(row) for row in rows)
    found = analysed(tmp_path, panel__csv=text, ports__csv=PORTS)
    assert intervals(found) == [(HALF, 0.5, "")] * 2
    assert intervals(found, direction="tx") == [(0, 0.0, "")]
