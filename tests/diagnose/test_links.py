"""Findings about links: the fault is named, its port or host and nobody else."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.align.ports import align_counters, build_ports
from netlab.attribute.links import link_intervals, links
from netlab.diagnose.link_load import imbalance
from netlab.diagnose.links import link_findings
from netlab.findings import Finding
from netlab.readers.base import Sink
from netlab.readers.counters.csv_files import PlainCsv
from netlab.readers.fabric.tables import LinksCsv, PortsCsv
from netlab.run import Run, RunFacts

Growth = dict[tuple[str, str, str], list[int]]


def made(folder: Path, growth: Growth, ports: list[str] = [], cables: list[str] = []) -> Run:  # noqa: B006
    """A run of counters that grow by given amounts every 10 s; ports as `device,port,speed,role[,rail]`, cables as links.csv rows."""
    sink = Sink()
    lines = ["timestamp,device,port,counter,value"]
    for (device, port, counter), steps in growth.items():
        value = 1_000
        for number, step in enumerate([0, *steps]):
            value += step
            lines.append(f"{1_767_225_600 + 10 * number},{device},{port},{counter},{value}")
    for name, reader, text in (
        ("c.csv", PlainCsv(), "\n".join(lines)),
        ("ports.csv", PortsCsv(), "\n".join(["device,port,speed_gbps,role,rail", *ports])),
        ("links.csv", LinksCsv(), "\n".join(["a_device,a_port,b_device,b_port", *cables])),
    ):
        if text.count("\n"):
            path = folder / name
            path.write_text(text + "\n")
            reader.read(path, sink, name)
    raw = {name: sink.collect(name) for name in sink.frames}
    raw["counters"], _ = align_counters(raw["counters"], {}, raw.get("port_facts"))
    table, _ = build_ports(raw)
    intervals, _ = link_intervals(raw["counters"], table)
    frames = {"counters": raw["counters"], "ports": table, "link_intervals": intervals, "links": links(intervals, table)}
    return Run.from_frames(frames, RunFacts(name="made"))


def by_code(run: Run, code: str) -> list[Finding]:
    return [finding for finding in link_findings(run) if finding.code == code]


def codes(run: Run) -> set[str]:
    return {finding.code for finding in link_findings(run)}


GIG = 1_250_000_000  # bytes that 1 Gbit/s moves in 10 s


def test_means_and_peaks_are_judged_apart_and_exactly(tmp_path: Path) -> None:
    ports = [f"leaf1,P{n},100,up," for n in (1, 2, 3, 4)]
    loads = {"P1": (70, 80, 96), "P2": (60, 80, 94), "P3": (60, 85, 95), "P4": (10, 10, 10)}
    growth = {("leaf1", port, "ifHCOutOctets"): [GIG * load for load in steps] for port, steps in loads.items()}
    mean, peak = by_code(made(tmp_path, growth, ports), "LINK_UTILIZATION")
    assert mean.subject.ports == ["leaf1/P1"]
    assert peak.subject.ports == ["leaf1/P1", "leaf1/P3"]
    assert "mean" in mean.title.lower()
    assert "peak" in peak.title.lower()


def test_a_link_with_room_says_so_and_warns_nobody(tmp_path: Path) -> None:
    (found,) = link_findings(made(tmp_path, {("leaf1", "e0", "ifHCOutOctets"): [GIG, GIG]}, ["leaf1,e0,100,up,"]))
    assert (found.code, found.severity, found.subject.ports) == ("HEADROOM", "info", ["leaf1/e0"])


@pytest.mark.parametrize(("drops", "lost"), [(100, False), (101, True)])
def test_loss_is_above_one_in_ten_thousand_or_not(tmp_path: Path, drops: int, lost: bool) -> None:
    growth = {("leaf1", "e0", "ifHCOutUcastPkts"): [1_000_000 - 100], ("leaf1", "e0", "ifOutDiscards"): [drops]}
    run = made(tmp_path, growth, ["leaf1,e0,100,up,"])
    assert bool(by_code(run, "PACKET_LOSS")) is lost
    assert run.frame("links")["loss_ratio"][0] == pytest.approx(drops / (999_900 + drops), abs=1e-15)


def test_a_nic_that_sends_pause_is_a_slow_host(tmp_path: Path) -> None:
    growth = {("nodea", "mlx5_0", "tx_prio3_pause_duration"): [2_000_000], ("nodeb", "mlx5_0", "tx_prio3_pause_duration"): [0]}
    (found,) = by_code(made(tmp_path, growth, ["nodea,mlx5_0,400,hca,", "nodeb,mlx5_0,400,hca,"]), "PFC_PAUSE")
    assert (found.subject.hosts, found.subject.ports, found.cause) == (["nodea"], ["nodea/mlx5_0"], "host")
    assert found.evidence[0]["pause_ratio"] == 0.2


def test_a_nic_that_is_paused_sees_a_congested_fabric(tmp_path: Path) -> None:
    growth = {("nodea", "mlx5_0", "rx_prio3_pause_duration"): [2_000_000]}
    (found,) = by_code(made(tmp_path, growth, ["nodea,mlx5_0,400,hca,"]), "PFC_PAUSE")
    assert found.subject.hosts == []
    assert found.subject.ports == ["nodea/mlx5_0"]
    assert "Congested fabric" in found.title


def test_a_switch_port_that_its_host_pauses_names_the_host(tmp_path: Path) -> None:
    growth = {
        ("leaf1", "e0", "EST_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US"): [3_000_000],
        ("leaf1", "e1", "EST_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US"): [0],
    }
    (found,) = by_code(
        made(tmp_path, growth, ["leaf1,e0,100,down,", "leaf1,e1,100,down,"], ["leaf1,e0,nodea,mlx5_0", "leaf1,e1,nodeb,mlx5_0"]),
        "PFC_PAUSE",
    )
    assert found.subject.hosts == ["nodea"]


def test_the_walk_along_pause_ends_at_the_slow_host(tmp_path: Path) -> None:
    name = "EST_PORT_STAT_PFC_3_{}_PAUSE_DURATION_US"
    growth = {
        ("nodeb", "mlx5_0", "rx_prio3_pause_duration"): [2_000_000],
        ("leaf1", "e1", name.format("TX")): [2_000_000],
        ("leaf1", "e0", name.format("RX")): [4_000_000],
    }
    cables = ["leaf1,e0,nodea,mlx5_0", "leaf1,e1,nodeb,mlx5_0"]
    found = by_code(made(tmp_path, growth, ["leaf1,e0,100,host,", "leaf1,e1,100,host,", "nodeb,mlx5_0,100,hca,"], cables), "PFC_PAUSE")
    assert [finding.subject.hosts for finding in found] == [["nodea"]]


def test_pause_frames_alone_give_an_upper_bound(tmp_path: Path) -> None:
    run = made(tmp_path, {("leaf1", "e0", "SAI_PORT_STAT_PFC_3_RX_PKTS"): [5_000]}, ["leaf1,e0,100,up,"])
    (found,) = by_code(run, "PFC_PAUSE")
    assert run.frame("links")["pause_ratio"].to_list() == [None]
    assert found.evidence[0]["pause_ratio_at_most"] == pytest.approx(5_000 * 65_535 * 512 / 100e9 / 10)
    assert "at most" in found.title


def test_a_storm_that_has_not_ended_is_open(tmp_path: Path) -> None:
    growth = {("leaf1", "e0", "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED"): [2], ("leaf1", "e0", "PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED"): [1]}
    (found,) = by_code(made(tmp_path, growth, ["leaf1,e0,100,down,"]), "PFC_STORM_OPEN")
    assert found.subject.ports == ["leaf1/e0"]


def test_a_storm_that_ended_is_none(tmp_path: Path) -> None:
    growth = {("leaf1", "e0", "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED"): [2], ("leaf1", "e0", "PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED"): [2]}
    assert "PFC_STORM_OPEN" not in codes(made(tmp_path, growth, ["leaf1,e0,100,down,"]))


@pytest.mark.parametrize(
    ("counter", "count", "bad"),
    [
        ("SymbolErrorCounter", 2, False),
        ("SymbolErrorCounter", 3, True),
        ("SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES", 1, True),
        ("SAI_PORT_STAT_IF_IN_FEC_CORRECTABLE_FRAMES", 9_999, False),
    ],
)
def test_errors_count_by_the_rule_of_their_kind(tmp_path: Path, counter: str, count: int, bad: bool) -> None:
    run = made(tmp_path, {("leaf1", "e0", counter): [count], ("leaf1", "e1", counter): [0]}, ["leaf1,e0,400,up,", "leaf1,e1,400,up,"])
    assert [finding.subject.ports for finding in by_code(run, "LINK_ERRORS")] == ([["leaf1/e0"]] if bad else [])


def test_errors_made_elsewhere_accuse_nobody(tmp_path: Path) -> None:
    growth = {("leaf1", "1", name): [500] for name in ("PortRcvRemotePhysicalErrors", "PortRcvSwitchRelayErrors", "VL15Dropped")}
    assert "LINK_ERRORS" not in codes(made(tmp_path, growth, ["leaf1,1,400,up,"]))


def test_errors_before_the_window_are_history(tmp_path: Path) -> None:
    assert "LINK_ERRORS" not in codes(made(tmp_path, {("leaf1", "e0", "ifInErrors"): [0, 0]}, ["leaf1,e0,100,up,"]))


def test_a_flap_counted_at_both_ends_is_one_finding(tmp_path: Path) -> None:
    growth = {("leaf1", "e0", "carrier-transitions"): [2], ("nodea", "mlx5_0", "link_down_events_phy"): [1]}
    (found,) = by_code(made(tmp_path, growth, ["leaf1,e0,100,down,"], ["leaf1,e0,nodea,mlx5_0"]), "LINK_FLAP")
    assert found.subject.ports == ["leaf1/e0", "nodea/mlx5_0"]
    assert "1 time" in found.title


def test_marks_are_a_share_of_the_packets_of_their_queue(tmp_path: Path) -> None:
    growth = {
        ("leaf1", "e0", "tx_queue3_packets"): [1000],
        ("leaf1", "e0", "tx_queue3_ecn_marked"): [50],
        ("leaf1", "e0", "tx_packets"): [90_000],
    }
    run = made(tmp_path, growth, ["leaf1,e0,100,up,"])
    assert run.frame("links")["ecn_ratio"].to_list() == [0.05]
    assert by_code(run, "ECN_MARKING")[0].subject.ports == ["leaf1/e0"]


def test_uneven_uplinks_name_the_hot_one(tmp_path: Path) -> None:
    growth = {("leaf1", f"u{n}", "ifHCOutOctets"): [GIG * load] for n, load in enumerate((80, 10, 10, 20))}
    (found,) = by_code(made(tmp_path, growth, [f"leaf1,u{n},100,up," for n in range(4)]), "ECMP_IMBALANCE")
    assert found.subject.ports == ["leaf1/u0"]


def test_even_uplinks_are_balanced(tmp_path: Path) -> None:
    growth = {("leaf1", f"u{n}", "ifHCOutOctets"): [GIG * load] for n, load in enumerate((50, 52, 48, 50))}
    assert "ECMP_IMBALANCE" not in codes(made(tmp_path, growth, [f"leaf1,u{n},100,up," for n in range(4)]))


def test_rails_of_a_job_should_carry_the_same(tmp_path: Path) -> None:
    growth = {("nodea", f"mlx5_{n}", "tx_bytes_phy"): [GIG * load] for n, load in enumerate((40, 10, 10, 10))}
    (found,) = by_code(made(tmp_path, growth, [f"nodea,mlx5_{n},400,hca,{n}" for n in range(4)]), "RAIL_IMBALANCE")
    assert found.subject.ports == ["nodea/mlx5_0"]


def test_full_uplinks_over_half_empty_hosts_are_oversubscribed(tmp_path: Path) -> None:
    growth = {("leaf1", f"u{n}", "ifHCOutOctets"): [GIG * 97] for n in range(2)} | {
        ("leaf1", f"h{n}", "ifHCInOctets"): [GIG * 49] for n in range(4)
    }
    ports = [f"leaf1,u{n},100,up," for n in range(2)] + [f"leaf1,h{n},100,host," for n in range(4)]
    (found,) = by_code(made(tmp_path, growth, ports), "OVERSUBSCRIBED")
    assert found.subject.ports == ["leaf1/u0", "leaf1/u1"]
    assert "2 to 1" in found.detail


def test_many_senders_at_one_full_port_are_incast(tmp_path: Path) -> None:
    growth = {("leaf1", "h0", "ifHCOutOctets"): [GIG * 99], ("leaf1", "h0", "ifOutDiscards"): [500]}
    growth |= {("leaf1", f"h{n}", "ifHCInOctets"): [GIG * 30] for n in (1, 2, 3, 4)} | {
        ("leaf1", f"h{n}", "ifHCOutOctets"): [GIG] for n in (1, 2, 3, 4)
    }
    (found,) = by_code(made(tmp_path, growth, [f"leaf1,h{n},100,host," for n in range(5)]), "INCAST")
    assert found.subject.ports == ["leaf1/h0"]


def test_every_finding_has_source_action_and_evidence(tmp_path: Path) -> None:
    growth = {
        ("leaf1", "e0", "ifHCOutOctets"): [GIG * 99],
        ("leaf1", "e0", "ifInErrors"): [7],
        ("leaf1", "e0", "ifOutDiscards"): [7_000_000],
        ("leaf1", "e0", "ifHCOutUcastPkts"): [10_000_000],
    }
    for finding in link_findings(made(tmp_path, growth, ["leaf1,e0,100,up,"])):
        assert finding.source
        assert finding.action
        assert finding.evidence
        assert finding.subject.ports == ["leaf1/e0"]
        assert finding.time_lost_ms is None


def test_imbalance_of_equal_loads_is_none() -> None:
    assert imbalance([3.0, 3.0, 3.0]) == {"max_over_mean": 1.0, "jain": 1.0, "effective_share": 1.0, "idle_share": 0.0}


def test_a_run_without_counters_has_no_findings_about_links() -> None:
    assert link_findings(Run.from_frames({}, RunFacts(name="none"))) == []


def test_a_bundle_and_a_vlan_count_nothing_twice(tmp_path: Path) -> None:
    growth = {
        ("leaf1", port, "ifHCOutOctets"): [amount]
        for port, amount in (("Ethernet0", 1000), ("Ethernet4", 1000), ("PortChannel1", 2000), ("Vlan100", 2000))
    }
    run = made(tmp_path, growth, ["leaf1,Ethernet0,100,up,", "leaf1,Ethernet4,100,up,"])
    assert run.frame("links")["port"].to_list() == ["Ethernet0", "Ethernet4"]
    assert run.frame("links").select(pl.col("utilization_mean")).to_series().to_list() == [8e-9, 8e-9]


@pytest.mark.parametrize(("drops", "course"), [([50] * 40, "steady"), ([0] * 36 + [500] * 4, "in bursts"), ([0, 80] * 20, "scattered")])
def test_the_course_of_a_loss_is_told(tmp_path: Path, drops: list[int], course: str) -> None:
    growth = {("leaf1", "e0", "ifHCOutUcastPkts"): [100_000] * 40, ("leaf1", "e0", "ifOutDiscards"): drops}
    (found,) = by_code(made(tmp_path, growth, ["leaf1,e0,100,up,"]), "PACKET_LOSS")
    assert found.evidence[1]["course"] == course
    assert course in found.detail


def test_waiting_for_credits_is_told_without_blame(tmp_path: Path) -> None:
    growth = {("nodea", "mlx5_0/1", "port_xmit_wait"): [31_250_000 * 4], ("nodeb", "mlx5_0/1", "port_xmit_wait"): [1_000]}
    run = made(tmp_path, growth, ["nodea,mlx5_0/1,400,hca,", "nodeb,mlx5_0/1,400,hca,"])
    assert run.frame("links").filter(pl.col("device") == "nodea")["wait_ratio"].to_list() == [0.002]
    growth = {("nodea", "mlx5_0/1", "PortXmitWaitExtended"): [12_500_000_000], ("nodeb", "mlx5_0/1", "PortXmitWaitExtended"): [1_000]}
    (found,) = by_code(made(tmp_path, growth, ["nodea,mlx5_0/1,400,hca,", "nodeb,mlx5_0/1,400,hca,"]), "XMIT_WAIT")
    assert (found.severity, found.subject.ports, found.evidence[0]["wait_ratio"]) == ("info", ["nodea/mlx5_0/1"], 0.2)
