"""Faults of a fabric as counters show them, from file to verdict: who is named, and who is not. Worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from netlab.pipeline.analysis import Analysis
from tests.pipeline.test_counter_variations import HEAD, T0, G, analysed, codes, intervals, series


def _findings(found: Analysis) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for finding in found.verdict.findings:
        if finding.severity != "info":
            result.setdefault(finding.code, []).extend(finding.subject.ports or finding.subject.hosts)
    return result


def _ports(*rows: str) -> str:
    return "device,port,speed_gbps,role\n" + "".join(f"{row}\n" for row in rows)


def test_incast_names_the_port_that_all_send_to(tmp_path: Path) -> None:
    text = HEAD + series("leaf1", "e0", "ifHCOutOctets", [94 * G] * 3) + series("leaf1", "e0", "ifOutDiscards", [5_000] * 3)
    text += "".join(
        series("leaf1", f"e{n}", "ifHCInOctets", [24 * G] * 3) + series("leaf1", f"e{n}", "ifHCOutOctets", [3 * G] * 3) for n in range(1, 5)
    )
    found = _findings(analysed(tmp_path, c__csv=text, ports__csv=_ports(*(f"leaf1,e{n},100,host" for n in range(5)))))
    assert found["INCAST"] == ["leaf1/e0"]
    assert "OVERSUBSCRIBED" not in found


@pytest.mark.parametrize(("load", "flagged"), [(80, False), (81, True)])
def test_uplinks_are_oversubscribed_above_the_band_only(tmp_path: Path, load: int, flagged: bool) -> None:
    text = HEAD + "".join(series("leaf1", f"u{n}", "ifHCOutOctets", [load * G] * 3) for n in range(2))
    text += "".join(series("leaf1", f"e{n}", "ifHCInOctets", [load // 2 * G] * 3) for n in range(4))
    ports = _ports(*(f"leaf1,u{n},100,up" for n in range(2)), *(f"leaf1,e{n},100,host" for n in range(4)))
    found = _findings(analysed(tmp_path, c__csv=text, ports__csv=ports))
    assert found.get("OVERSUBSCRIBED", []) == (["leaf1/u0", "leaf1/u1"] if flagged else [])


_CABLE = "a_device,a_port,b_device,b_port\nleaf1,e0,nodea,mlx5_0\n"


@pytest.mark.parametrize(("downs", "severity"), [(1, "warning"), (0, "info")])
def test_a_flap_is_sure_where_both_ends_count_it(tmp_path: Path, downs: int, severity: str) -> None:
    text = HEAD + series("leaf1", "e0", "carrier_changes", [0, 2, 0]) + series("nodea", "mlx5_0", "link_downed", [0, downs, 0])
    (flap,) = [f for f in analysed(tmp_path, c__csv=text, links__csv=_CABLE).verdict.findings if f.code == "LINK_FLAP"]
    assert flap.severity == severity


@pytest.mark.parametrize(("states", "words"), [((1, 2, 1, 1), "came back"), ((1, 1, 2, 2), "is down at the last"), ((2, 2, 2, 2), None)])
def test_a_link_whose_state_alone_is_polled_is_seen_to_go_down(tmp_path: Path, states: tuple[int, ...], words: str | None) -> None:
    polls = "".join(f"{T0 + 10 * n},leaf1,e0,ifOperStatus,{state}\n" for n, state in enumerate(states))
    found = analysed(tmp_path, c__csv=HEAD + series("leaf1", "e0", "ifHCInOctets", [G] * 3) + polls, links__csv=_CABLE)
    flaps = [(f.subject.ports, f.severity, f.detail) for f in found.verdict.findings if f.code == "LINK_FLAP"]
    assert [(ports, severity) for ports, severity, _ in flaps] == ([(["leaf1/e0"], "warning")] if words else [])
    assert words is None or words in flaps[0][2]


@pytest.mark.parametrize(("counter", "unseen"), [("ifInErrors", True), ("link_downed", False)])
def test_only_a_port_without_a_count_of_downs_may_hide_some(tmp_path: Path, counter: str, unseen: bool) -> None:
    polls = "".join(f"{T0 + 10 * n},leaf1,e0,ifOperStatus,{state}\n" for n, state in enumerate((1, 2, 1, 1)))
    found = analysed(
        tmp_path, c__csv=HEAD + series("leaf1", "e0", "ifHCInOctets", [G] * 3) + series("leaf1", "e0", counter, [0] * 3) + polls
    )
    (flap,) = [row for row in found.verdict.findings if row.code == "LINK_FLAP"]
    assert ("shorter ones cannot be seen" in flap.detail) == unseen


@pytest.mark.parametrize(("way", "hosts"), [("RX", ["nodea"]), ("TX", [])])
def test_pause_from_the_host_blames_it_and_pause_to_the_host_blames_the_switch(tmp_path: Path, way: str, hosts: list[str]) -> None:
    text = HEAD + series("leaf1", "e0", f"SAI_PORT_STAT_PFC_3_{way}_PKTS", [10**6] * 3)
    (pause,) = [
        f
        for f in analysed(tmp_path, c__csv=text, links__csv=_CABLE, p__csv=_ports("leaf1,e0,100,host")).verdict.findings
        if f.code == "PFC_PAUSE"
    ]
    assert pause.subject.hosts == hosts
    assert "at most" in pause.title


def test_marks_of_a_queue_are_counted_over_its_own_packets(tmp_path: Path) -> None:
    rows = "".join(
        f"{T0 + 10 * n},leaf1,e0,{queue},SAI_QUEUE_STAT_{name},{n * value}\n"
        for n in (0, 1)
        for queue, name, value in (("UC3", "PACKETS", 10**6), ("UC3", "WRED_ECN_MARKED_PACKETS", 50_000), ("UC0", "PACKETS", 9 * 10**6))
    )
    found = analysed(tmp_path, c__csv=f"timestamp,device,port,queue,counter,value\n{rows}")
    assert [row.ecn_ratio for row in found.verdict.links] == [0.05]


@pytest.mark.parametrize(("factor", "code"), [(1, set()), (4, {"SCALE_MISMATCH"}), (8, {"SCALE_MISMATCH"})])
def test_the_two_ends_of_a_cable_tell_words_and_bits_from_bytes(tmp_path: Path, factor: int, code: set[str]) -> None:
    text = HEAD + series("leaf1", "e0", "ifHCOutOctets", [8 * G] * 12) + series("nodea", "mlx5_0", "rx_bytes_phy", [8 * G // factor] * 12)
    found = analysed(tmp_path, c__csv=text, links__csv=_CABLE, p__csv=_ports("leaf1,e0,100,host", "nodea,mlx5_0,100,hca"))
    assert codes(found) == code


def test_bits_in_place_of_bytes_make_impossible_packets(tmp_path: Path) -> None:
    text = HEAD + series("leaf1", "e0", "ifHCInOctets", [8 * 4_096 * 10**5] * 3) + series("leaf1", "e0", "ifHCInUcastPkts", [10**5] * 3)
    assert codes(analysed(tmp_path, c__csv=text)) == {"SCALE_MISMATCH"}


def test_a_register_that_sticks_is_unknown_and_says_so(tmp_path: Path) -> None:
    text = HEAD + series("leaf1", "1", "SymbolErrorCounter", [30_000, 5_535], start=30_000)
    found = analysed(tmp_path, c__csv=text)
    assert intervals(found, "1", "symbol_errors", "none") == [(30_000, None, ""), (None, None, "saturated")]
    assert codes(found) == {"COUNTER_SATURATED"}


def test_uneven_rails_name_the_full_one(tmp_path: Path) -> None:
    text = HEAD + "".join(
        series(host, f"mlx5_{n}", "tx_bytes_phy", [(85 if n == 0 else 20) * 4 * G] * 3) for host in "ab" for n in range(4)
    )
    ports = "device,port,speed_gbps,role,rail\n" + "".join(f"{host},mlx5_{n},400,hca,{n}\n" for host in "ab" for n in range(4))
    found = _findings(analysed(tmp_path, c__csv=text, ports__csv=ports))
    assert found["RAIL_IMBALANCE"] == ["a/mlx5_0", "b/mlx5_0"]


def test_rails_with_fewer_counted_ports_are_not_idle(tmp_path: Path) -> None:
    growth = [(host, n) for host in "abc" for n in range(4) if not (host == "c" and n > 1)]
    text = HEAD + "".join(series(host, f"mlx5_{n}", "tx_bytes_phy", [80 * G] * 3) for host, n in growth)
    ports = "device,port,speed_gbps,role,rail\n" + "".join(f"{host},mlx5_{n},400,hca,{n}\n" for host, n in growth)
    assert "RAIL_IMBALANCE" not in {finding.code for finding in analysed(tmp_path, c__csv=text, ports__csv=ports).verdict.findings}


def test_a_port_that_drops_one_way_has_no_headroom_the_other_way(tmp_path: Path) -> None:
    text = HEAD + series("leaf1", "e0", "ifHCInOctets", [10 * G]) + series("leaf1", "e0", "ifHCOutOctets", [0])
    text += series("leaf1", "e0", "ifHCInUcastPkts", [10**6]) + series("leaf1", "e0", "ifInDiscards", [900])
    found = analysed(tmp_path, c__csv=text, p__csv=_ports("leaf1,e0,100,host"))
    assert [finding.code for finding in found.verdict.findings] == ["PACKET_LOSS"]


def test_headroom_says_of_how_much_of_the_time_it_speaks(tmp_path: Path) -> None:
    # A reset hides 300 of 330 s.
    polls = "".join(f"{T0 + at},leaf1,e0,ifHCInOctets,{value * G}\n" for at, value in ((0, 10), (10, 20), (20, 30), (320, 5), (330, 15)))
    (found,) = analysed(tmp_path, c__csv=HEAD + polls, p__csv=_ports("leaf1,e0,100,host")).verdict.findings
    assert (found.code, "known for 9 % of the time" in found.detail) == ("HEADROOM", True)


def test_what_explains_a_full_link_stands_above_what_follows_from_it(tmp_path: Path) -> None:
    text = HEAD + "".join(series("leaf1", f"u{n}", "ifHCOutOctets", [97 * G] * 3) for n in range(2))
    text += "".join(series("leaf1", f"u{n}", "ifHCOutUcastPkts", [10**7] * 3) for n in range(2))
    text += "".join(series("leaf1", f"u{n}", "ecn_marked_tx", [10**6] * 3) for n in range(2))
    text += "".join(series("leaf1", f"e{n}", "ifHCInOctets", [48 * G] * 3) for n in range(4))
    ports = _ports(*(f"leaf1,u{n},100,up" for n in range(2)), *(f"leaf1,e{n},100,host" for n in range(4)))
    codes_found = [finding.code for finding in analysed(tmp_path, c__csv=text, p__csv=ports).verdict.findings]
    assert codes_found == ["OVERSUBSCRIBED", "ECN_MARKING", "LINK_UTILIZATION", "LINK_UTILIZATION", "HEADROOM"]
