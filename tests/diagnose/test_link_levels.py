"""Findings from single readings, levels, queues, classes and amounts: what can be said, and what not."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.align.ports import align_counters, build_ports
from netlab.attribute.link_queues import link_queues
from netlab.attribute.link_traffic import link_traffic
from netlab.attribute.links import link_intervals, links
from netlab.diagnose.links import link_findings
from netlab.findings import Finding
from netlab.readers.base import Sink
from netlab.readers.registry import claim
from netlab.readers.streams import read_head
from netlab.run import Run, RunFacts
from netlab.schema.traffic import HOST_TRAFFIC


def run_of(folder: Path, **texts: str) -> Run:
    """A run of some small files; a name's last underscore is its dot."""
    paths = []
    for name, text in texts.items():
        paths.append(folder / ".".join(name.rsplit("_", 1)))
        paths[-1].write_text(text)
    return run_of_files(*paths)


def run_of_files(*paths: Path) -> Run:
    sink = Sink()
    for path in paths:
        reader = claim(read_head(path), path)
        assert reader is not None, path
        reader.read(path, sink, path.name)
    raw = {name: sink.collect(name) for name in sink.frames}
    raw["counters"], _ = align_counters(raw["counters"], {}, raw.get("port_facts"), raw.get("fabric_nodes"))
    table, _ = build_ports(raw)
    intervals, _ = link_intervals(raw["counters"], table)
    measured = links(intervals, table)
    frames = {
        "counters": raw["counters"],
        "ports": table,
        "link_intervals": intervals,
        "links": measured,
        "link_queues": link_queues(raw["counters"], intervals, table),
        "link_traffic": link_traffic(intervals, measured),
    }
    return Run.from_frames(frames, RunFacts(name="made"))


def found(run: Run, code: str) -> list[Finding]:
    return [finding for finding in link_findings(run) if finding.code == code]


_PERFQUERY = """# Port extended counters: Lid 7 port 3 (CapMask: 0x5300 CapMask2: 0x0000002)
PortXmitData:....................178791657177235
PortRcvPkts:.....................99999900
# Port counters: Lid 7 port 3 (CapMask: 0x5300)
SymbolErrorCounter:..............{symbols}
LinkDownedCounter:...............{downs}
PortRcvErrors:...................100
PortXmitDiscards:................0
"""


def test_totals_read_once_say_that_it_happened_and_not_when(tmp_path: Path) -> None:
    (finding,) = link_findings(run_of(tmp_path, leaf_out=_PERFQUERY.format(symbols=4_000, downs=255)))
    assert (finding.code, finding.severity, finding.subject.ports) == ("LINK_ERRORS", "info", ["lid 7/3"])
    by_metric = {row["metric"]: row for row in finding.evidence}
    assert set(by_metric) == {"symbol_errors", "link_downed", "errors"}
    # The register of 8 bits stands at its end: at least so many.
    assert by_metric["link_downed"]["at_least"]
    assert by_metric["errors"]["share_of_packets"] == 100 / 1e8
    assert "not when" in finding.detail
    assert "again" in finding.action


def test_totals_that_are_no_news_say_nothing(tmp_path: Path) -> None:
    assert link_findings(run_of(tmp_path, leaf_out=_PERFQUERY.format(symbols=10, downs=1).replace("....100", "......9"))) == []


def test_one_reading_of_ibqueryerrors_and_of_ethtool_is_told(tmp_path: Path, shared_data: Path) -> None:
    waits = link_findings(run_of_files(shared_data / "counters" / "infiniband" / "ibqueryerrors_issue20_excerpt.txt"))
    assert [(finding.code, len(finding.subject.ports)) for finding in waits] == [("PACKET_LOSS", 2)]
    text = (
        "NIC statistics:\n     rx_packets_phy: 1000000\n     rx_discards_phy: 5000\n     rx_crc_errors_phy: 12\n     "
        "link_down_events_phy: 1\n"
    )
    errors, losses = link_findings(run_of(tmp_path, nodea_txt=text))
    assert (errors.code, losses.code) == ("LINK_ERRORS", "PACKET_LOSS")
    assert losses.evidence[0]["share_of_packets"] == pytest.approx(5_000 / 1_005_000)


def test_a_bit_error_rate_is_a_level_and_judged_at_once(tmp_path: Path) -> None:
    text = "\n".join(
        [
            "  IFACE    STATE    FEC_CORR    FEC_UNCORR    FEC_SYMBOL_ERR    FEC_PRE_BER    FEC_POST_BER",
            "---------  -------  ----------  ------------  ----------------  -------------  --------------",
            "Ethernet0        U     130,402             0                 4       1.00e-06        0.00e+00",
            "Ethernet8        U     130,402             0                 4       1.00e-09        0.00e+00",
        ]
    )
    (finding,) = link_findings(run_of(tmp_path, leaf1_txt=text))
    assert (finding.code, finding.severity, finding.subject.ports) == ("LINK_ERRORS", "warning", ["leaf1/Ethernet0"])
    assert finding.evidence[0]["value"] == 1e-6
    assert "without an interval" in finding.detail


def test_a_rate_measured_from_bits_has_an_interval(tmp_path: Path) -> None:
    rows = [(0, "rx_bits_phy", 0), (0, "rx_corrected_bits_phy", 0), (60, "rx_bits_phy", 10**12), (60, "rx_corrected_bits_phy", 10**6)]
    text = "timestamp,device,port,counter,value\n" + "".join(
        f"{1_767_225_600 + at},nodea,mlx5_0,{name},{value}\n" for at, name, value in rows
    )
    (finding,) = found(run_of(tmp_path, c_csv=text), "LINK_ERRORS")
    assert finding.evidence[0]["value"] == pytest.approx(1e-6)
    low, high = finding.evidence[0]["interval95"]
    assert low < 1e-6 < high


def test_most_ports_above_the_limit_before_correction_are_one_note(tmp_path: Path) -> None:
    rows = "".join(f"1767225600,leaf1,e{n},pre_fec_ber,{2e-6 if n < 6 else 1e-9}\n" for n in range(8))
    (finding,) = link_findings(run_of(tmp_path, c_csv="timestamp,device,port,counter,value\n" + rows))
    assert (finding.code, finding.severity, len(finding.subject.ports)) == ("LINK_ERRORS", "info", 6)


def test_errors_and_their_rate_are_one_finding_of_the_port(tmp_path: Path) -> None:
    rows = "".join(f"{1_767_225_600 + at},leaf1,e0,ifInErrors,{at}\n" for at in (0, 100)) + "1767225700,leaf1,e0,symbol_ber,1e-9\n"
    (finding,) = found(run_of(tmp_path, c_csv="timestamp,device,port,counter,value\n" + rows), "LINK_ERRORS")
    assert [row["metric"] for row in finding.evidence] == ["errors", "symbol_ber"]


def test_the_tail_of_the_histogram_stands_beside_uncorrected_codewords(tmp_path: Path) -> None:
    names = {"SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES": 3} | {
        f"SAI_PORT_STAT_IF_IN_FEC_CODEWORD_ERRORS_S{n}": 100 if n < 13 else 0 for n in range(16)
    }
    rows = "".join(f"{1_767_225_600 + at},leaf1,e0,{name},{value * (at > 0)}\n" for name, value in names.items() for at in (0, 10))
    (finding,) = found(run_of(tmp_path, c_csv="timestamp,device,port,counter,value\n" + rows), "LINK_ERRORS")
    assert {row["metric"]: row["count"] for row in finding.evidence} == {"fec_uncorrected": 3, "fec_tail_bin": 12}


def test_a_hot_module_is_told_and_its_switch_is_not_one(tmp_path: Path) -> None:
    text = "timestamp,device,port,counter,value\n" + "".join(
        f"1767225600,leaf1,{port},temperature_c,{value}\n" for port, value in (("e0", 71), ("e1", 70), ("", 90))
    )
    (finding,) = found(run_of(tmp_path, c_csv=text), "MODULE_TEMPERATURE")
    assert finding.subject.ports == ["leaf1/e0"]


def watermarks(*values: int) -> str:
    rows = "".join(f"{1_767_225_600 + 10 * n},leaf1,e0,SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES,{v},UC3\n" for n, v in enumerate(values))
    return "timestamp,device,port,counter,value,queue\n" + rows


_SPEED = "device,port,speed_gbps\nleaf1,e0,400\n"


@pytest.mark.parametrize(
    ("values", "severity"),
    [
        # At 400 Gbit/s 5 MB are 100 us and 10 MB are 200 us.
        ((0, 5_000_000), None),
        ((0, 5_000_100), "info"),
        ((0, 10_000_100), "warning"),
        ((10_000_100, 10_000_100), "info"),
        # Cleared in between: what stood before the first sample was reached before it.
        ((10_000_100, 3_000_000), None),
        ((0, 10_000_100, 0), "warning"),
        ((10_000_100,), "info"),
    ],
)
def test_a_queue_is_measured_in_time_of_its_link(tmp_path: Path, values: tuple[int, ...], severity: str | None) -> None:
    got = found(run_of(tmp_path, c_csv=watermarks(*values), p_csv=_SPEED), "QUEUE_WATERMARK")
    assert [finding.severity for finding in got] == ([severity] if severity else [])
    if len(set(values)) == 1:
        assert "perhaps long ago" in got[0].detail


def classes(shares: dict[str, tuple[int, int]], paused: str = "", drops: int = 0) -> str:
    """Bytes that NICs send in priorities 0 and 3 within 10 s; pause counters of priority 3 on some."""
    lines = ["timestamp,device,port,counter,value"]
    for host, (zero, three) in shares.items():
        counters = {"tx_prio0_bytes": zero, "tx_prio3_bytes": three, "tx_prio0_discards": drops}
        if host in paused.split(","):
            counters["tx_prio3_pause"] = 10
        for name, value in counters.items():
            lines += [f"{1_767_225_600 + at},{host},mlx5_0,{name},{total}" for at, total in ((0, 0), (10, value))]
    return "\n".join(lines) + "\n"


def test_a_host_whose_traffic_runs_in_another_class_is_named(tmp_path: Path) -> None:
    shares = {f"node{n}": (10**6, 10**10) for n in range(4)} | {"node4": (10**10, 10**6)}
    (finding,) = found(run_of(tmp_path, c_csv=classes(shares)), "QOS_CLASS")
    assert finding.subject.ports == ["node4/mlx5_0"]
    assert (finding.evidence[0]["class"], finding.evidence[0]["class_of_peers"]) == (0, 3)


def test_peers_that_agree_are_left_alone(tmp_path: Path) -> None:
    assert found(run_of(tmp_path, c_csv=classes({f"node{n}": (10**6, 10**10) for n in range(5)})), "QOS_CLASS") == []


@pytest.mark.parametrize(("drops", "severity"), [(0, "info"), (50, "warning")])
def test_bytes_outside_the_lossless_class_are_told(tmp_path: Path, drops: int, severity: str) -> None:
    (finding,) = found(run_of(tmp_path, c_csv=classes({"nodea": (9 * 10**9, 10**9)}, "nodea", drops)), "QOS_CLASS")
    assert finding.severity == severity
    assert finding.evidence[0]["outside_share"] == pytest.approx(0.9)
    assert found(run_of(tmp_path, c_csv=classes({"nodea": (10**9, 9 * 10**9)}, "nodea")), "QOS_CLASS") == []


def traffic(**values: object) -> Run:
    fill = {
        "counted_by": "nic",
        "ports": 1,
        "coverage": 1.0,
        "header_bytes": 10**7,
        "expected_low_bytes": 10**9,
        "expected_high_bytes": 10**9,
    }
    frame = HOST_TRAFFIC.conform(pl.DataFrame([{"host": "nodea", **fill, "complete": True, "retransmits": None, **values}]))
    return Run.from_frames({"host_traffic": frame}, RunFacts(name="made"))


@pytest.mark.parametrize(
    ("values", "severity", "word"),
    [
        ({"counted_bytes": 1_050_000_000}, None, ""),
        ({"counted_bytes": 1_200_000_000}, "info", "sent again, or another job"),
        ({"counted_bytes": 1_200_000_000, "retransmits": 0}, "info", "another job"),
        ({"counted_bytes": 1_200_000_000, "retransmits": 9}, "warning", "Retransmissions"),
        ({"counted_bytes": 1_200_000_000, "complete": False}, None, ""),
        ({"counted_bytes": 500_000_000}, "info", "SHARP"),
        ({"counted_bytes": 500_000_000, "coverage": 0.5}, "info", "Samples are missing"),
    ],
)
def test_bytes_are_compared_with_what_collectives_need(values: dict[str, object], severity: str | None, word: str) -> None:
    from netlab.diagnose.link_course import traffic_findings

    got = traffic_findings(traffic(**values))
    assert [finding.severity for finding in got] == ([severity] if severity else [])
    assert all(word in finding.detail and finding.subject.hosts == ["nodea"] for finding in got)


def test_an_outage_of_one_link_is_told_and_one_of_all_is_the_jobs(tmp_path: Path) -> None:
    def text(ports: tuple[str, ...]) -> str:
        lines = ["timestamp,device,port,counter,value"]
        for port in ("e0", "e1", "e2", "e3", "e4", "e5"):
            value = 0
            for number in range(80):
                value += 0 if port in ports and number in (40, 41, 42) else 5 * 10**10
                lines.append(f"{1_767_225_600 + 10 * number},leaf1,{port},ifHCOutOctets,{value}")
        return "\n".join(lines)

    (finding,) = found(run_of(tmp_path, c_csv=text(("e2",))), "TRAFFIC_ANOMALY")
    assert (finding.subject.ports, finding.severity) == (["leaf1/e2"], "info")
    assert found(run_of(tmp_path, c_csv=text(("e0", "e1", "e2", "e3", "e4", "e5"))), "TRAFFIC_ANOMALY") == []


def test_a_paused_nic_without_a_cable_points_at_the_leaf_that_slurm_names(tmp_path: Path) -> None:
    rows = "".join(f"{1_767_225_600 + at},nodea,mlx5_0,rx_prio3_pause_duration,{value}\n" for at, value in ((0, 0), (10, 2_000_000)))
    run = run_of(
        tmp_path,
        c_csv="timestamp,device,port,counter,value\n" + rows,
        topology_conf="SwitchName=leaf1 Nodes=node[a,b]\nSwitchName=root Switches=leaf1\n".replace("node[a,b]", "nodea,nodeb"),
    )
    (finding,) = found(run, "PFC_PAUSE")
    assert "switch leaf1" in finding.title
