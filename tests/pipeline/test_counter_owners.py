"""Whose a counter is, as the sources of a real site name devices, ports and directions; the answers are worked out by hand.

The ports do 100 Gbit/s: G bytes in 10 s are 1 %.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.test_counter_variations import HALF, HEAD, PORTS, T0, G, analysed, codes, intervals, read, series

_CABLE = "a_device,a_port,b_device,b_port\nleaf1,Ethernet0,nodea,mlx5_0\n"


def _query(*parts: tuple[dict[str, str], list[tuple[int, int]]]) -> str:
    result = [{"metric": labels, "values": [[T0 + at, str(value)] for at, value in points]} for labels, points in parts]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


_OCTETS = {"__name__": "ifHCInOctets", "instance": "leaf1:9116", "ifName": "Ethernet0"}


@pytest.mark.parametrize("name", ["leaf1.pod1.example.com", "LEAF1", "leaf1.example.com."])
def test_a_device_with_and_without_its_domain_is_one(tmp_path: Path, name: str) -> None:
    found = analysed(tmp_path, c__csv=HEAD + series(name, "Ethernet0", "ifHCInOctets", [HALF]), ports__csv=PORTS, links__csv=_CABLE)
    assert [(row.device, row.port, row.role, row.utilization_mean) for row in found.verdict.links] == [("leaf1", "Ethernet0", "host", 0.5)]


def test_two_devices_of_one_short_name_stay_apart(tmp_path: Path) -> None:
    text = HEAD + "".join(series(name, "Ethernet0", "ifHCInOctets", [HALF]) for name in ("leaf1.a.example", "leaf1.b.example"))
    assert {row.device for row in analysed(tmp_path, c__csv=text).verdict.links} == {"leaf1.a.example", "leaf1.b.example"}


def test_replicas_of_a_server_count_once(tmp_path: Path) -> None:
    # The second replica scraped three seconds earlier: at one time of the grid it has less.
    text = _query(
        ({**_OCTETS, "replica": "a"}, [(10 * n, n * HALF) for n in range(4)]),
        ({**_OCTETS, "replica": "b"}, [(10 * n, n * HALF - (15 * G if n else 0)) for n in range(3)]),
    )
    found = analysed(tmp_path, q__json=text, ports__csv=PORTS)
    assert intervals(found) == [(HALF, 0.5, "")] * 3
    assert codes(found) == {"DUPLICATE_SAMPLE"}


def test_an_exporter_that_started_anew_goes_on_with_the_same_counter(tmp_path: Path) -> None:
    text = _query(({**_OCTETS, "pod": "x-1"}, [(0, 0), (10, HALF)]), ({**_OCTETS, "pod": "x-2"}, [(20, 2 * HALF), (30, 3 * HALF)]))
    assert intervals(analysed(tmp_path, q__json=text, ports__csv=PORTS)) == [(HALF, 0.5, "")] * 3


def test_a_restart_whose_last_value_a_query_repeats_is_cut_not_dropped(tmp_path: Path) -> None:
    # A range query goes on with the old series for five minutes: its last value stands beside the first of the new one.
    old, new = (
        [(0, 0), (10, HALF), (20, 2 * HALF), (30, 2 * HALF)],
        [(30, 3 * HALF), (40, 4 * HALF), (50, 5 * HALF), (60, 6 * HALF), (70, 7 * HALF)],
    )
    found = analysed(tmp_path, q__json=_query(({**_OCTETS, "pod": "x-1"}, old), ({**_OCTETS, "pod": "x-2"}, new)), ports__csv=PORTS)
    assert intervals(found) == [(HALF, 0.5, "")] * 7
    assert "DUPLICATE_SAMPLE" not in codes(found)


def test_parts_of_a_counter_are_added_and_no_replicas(tmp_path: Path) -> None:
    text = _query(
        *(({**_OCTETS, "lane": str(lane), "replica": "a"}, [(10 * n, n * HALF // 2) for n in range(4)]) for lane in range(2)),
        *(
            ({**_OCTETS, "lane": str(lane), "replica": "b"}, [(10 * n, n * HALF // 2 - (9 if n else 0)) for n in range(3)])
            for lane in range(2)
        ),
    )
    found = analysed(tmp_path, q__json=text, ports__csv=PORTS)
    assert intervals(found) == [(HALF, 0.5, "")] * 3
    assert codes(found) == {"DUPLICATE_SAMPLE", "PARTS_ADDED"}


def test_a_part_that_restarts_is_a_reset_of_the_sum(tmp_path: Path) -> None:
    steady, anew = [(10 * n, n * HALF // 2) for n in range(6)], [(10 * n, (n if n < 3 else n - 3) * HALF // 2) for n in range(6)]
    found = analysed(tmp_path, q__json=_query(({**_OCTETS, "lane": "0"}, steady), ({**_OCTETS, "lane": "1"}, anew)), ports__csv=PORTS)
    assert "COUNTER_RESET" in codes(found)
    assert [row[0] for row in intervals(found) if row[2] == ""] == [HALF, HALF, HALF, HALF]


def test_parts_that_were_not_polled_together_are_not_added(tmp_path: Path) -> None:
    lanes = (({**_OCTETS, "lane": str(lane)}, [(10 * n + lane, n * HALF) for n in range(4)]) for lane in range(2))
    found = analysed(tmp_path, q__json=_query(*lanes), ports__csv=PORTS)
    assert codes(found) == {"DUPLICATE_SAMPLE"}
    assert intervals(found) == [(HALF, 0.5, "")] * 3


def test_a_label_may_give_the_direction(tmp_path: Path) -> None:
    labels = {"__name__": "interface_octets", "host": "leaf1", "interface": "Ethernet0"}
    text = _query(({**labels, "direction": "ingress"}, [(0, 0), (10, HALF)]), ({**labels, "direction": "egress"}, [(0, 0), (10, G)]))
    found = analysed(tmp_path, q__json=text, ports__csv=PORTS)
    assert (intervals(found), intervals(found, direction="tx")) == ([(HALF, 0.5, "")], [(G, 0.01, "")])


def test_ports_known_by_their_index_alone_are_kept_apart(tmp_path: Path) -> None:
    labels = {"__name__": "ifHCInOctets", "instance": "leaf1:9116"}
    text = _query(*(({**labels, "ifIndex": str(n)}, [(0, 0), (10, n * G)]) for n in (1, 2)))
    found = analysed(tmp_path, q__json=text)
    assert [intervals(found, str(n))[0][0] for n in (1, 2)] == [G, 2 * G]


def _polls(*values: int) -> str:
    return "".join(f"{T0 + 10 * n},leaf1,Ethernet0,ifHCInOctets,{value * G}\n" for n, value in enumerate(values))


_MOVING = series("leaf1", "Ethernet4", "ifHCInOctets", [50 * G] * 4)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # 160 % of the line cannot be: the poll before it repeated an old value.
        ((0, 80, 80, 240, 320), [(80 * G, 0.8, ""), (160 * G, 0.8, "stale_repeat"), (80 * G, 0.8, "")]),
        # 400 % could not be in both polls together either: a reset that ended higher.
        ((0, 80, 80, 480, 560), [(80 * G, 0.8, ""), (0, 0.0, ""), (None, None, "reset"), (80 * G, 0.8, "")]),
        # 90 % can be: the port was idle.
        ((0, 80, 80, 170, 250), [(80 * G, 0.8, ""), (0, 0.0, ""), (90 * G, 0.9, ""), (80 * G, 0.8, "")]),
    ],
)
def test_one_port_that_repeats_an_old_value_is_told_by_what_the_line_can_carry(
    tmp_path: Path, values: tuple[int, ...], expected: list[tuple[Any, Any, str]]
) -> None:
    ports = PORTS + "leaf1,Ethernet4,100\n"
    rows, _ = read(tmp_path, c__csv=HEAD + _polls(*values) + _MOVING, ports__csv=ports)
    assert rows[: len(expected)] == expected


@pytest.mark.parametrize(
    ("device", "ports"),
    [
        (
            "n9k",
            {"Ethernet1/1": True, "Ethernet1/2": True, "port-channel10": False, "Vlan100": False, "mgmt0": False, "sup-eth1(R)": False},
        ),
        ("xr", {"HundredGigE0/0/0/0": True, "Hu0/0/0/1": True, "Bundle-Ether1": False, "BE2": False, "MgmtEth0/RP0/CPU0/0": False}),
        ("qfx", {"et-0/0/0": True, "et-0/0/0.0": False, "ae0": False, "ae0.0": False, "irb.100": False, "fxp0": False, "em1": False}),
        ("cumulus", {"swp1": True, "swp2s0": True, "bond1": False, "peerlink.4094": False, "bridge": False, "eth0": False, "mgmt": False}),
        ("sonic", {"Ethernet0": True, "PortChannel0001": False, "Ethernet-BP0": False, "eth0": False, "Loopback0": False}),
        ("onyx", {"Eth1/1": True, "Po1": False, "Mpo2": False}),
        ("ce", {"100GE1/0/1": True, "Eth-Trunk1": False, "MEth0/0/0": False}),
        (
            "node",
            {"eth0": True, "ens1f0np0": True, "bond0": False, "cni0": False, "br-1a2b": False, "kube-ipvs0": False, "ens1f0.7": False},
        ),
    ],
)
def test_only_physical_ports_are_links(tmp_path: Path, device: str, ports: dict[str, bool]) -> None:
    text = HEAD + "".join(series(device, port, "ifHCInOctets", [G]) for port in ports)
    assert {row.port for row in analysed(tmp_path, c__csv=text).verdict.links} == {port for port, real in ports.items() if real}


def test_an_interface_that_only_hosts_have_makes_its_device_a_host(tmp_path: Path) -> None:
    text = HEAD + series("nodea", "ens1f0np0", "tx_prio3_pause_duration", [10**6] * 3)
    verdict = analysed(tmp_path, c__csv=text).verdict
    (pause,) = [finding for finding in verdict.findings if finding.code == "PFC_PAUSE"]
    assert (pause.subject.hosts, verdict.cause) == (["nodea"], "host")
