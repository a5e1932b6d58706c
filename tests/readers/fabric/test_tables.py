"""ports.csv, links.csv and ranks.csv as people really spell them."""

from __future__ import annotations

from pathlib import Path

import pytest

from netlab.readers.base import Sink
from netlab.readers.registry import claim
from netlab.readers.streams import read_head


def read(folder: Path, text: str, table: str) -> tuple[list[dict[str, object]], list[str]]:
    path = folder / "x.csv"
    path.write_bytes(text.encode())
    reader = claim(read_head(path), path)
    assert reader is not None
    sink = Sink()
    parsed = reader.read(path, sink, "x.csv")
    return sink.collect(table).to_dicts(), [issue.code for issue in parsed.issues]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("device,port,speed", "leaf1,e0,100"),
        ("switch,interface,speed", "leaf1,e0,100G"),
        ("Switch;Interface;Speed (Gbps)", "leaf1;e0;100"),
        ("hostname\tifName\tspeed_mbps", "leaf1\te0\t100,000"),
        ("node,ifname,ifHighSpeed", "leaf1,e0,100000"),
        ("Device,Port Name,Bandwidth", "leaf1,e0,100 Gb/s"),
        ("host,port,link speed", "leaf1,e0,100Gbps"),
        ("sysName,ifName,ifSpeed", "leaf1,e0,100000000000"),
        ("device,port,rate", "leaf1,e0,100000M"),
        ("device,port,rate", "leaf1,e0,100 Gb/sec (4X EDR)"),
        ("device,port,speed", "leaf1,e0,4x EDR"),
        ("device,port,type_speed,speed", "leaf1,e0,optic,100GBASE-SR4"),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_speed_is_read_under_every_sensible_header(tmp_path: Path, header: str, row: str, ending: str, mark: str) -> None:
    (fact,), issues = read(tmp_path, f"{mark}{header}{ending}{row}{ending}", "port_facts")
    assert (fact["device"], fact["port"], fact["speed_gbps"], fact["declared"]) == ("leaf1", "e0", 100.0, True)
    assert issues == []


def test_large_speeds_without_a_unit_are_megabits_and_said_to_be(tmp_path: Path) -> None:
    facts, issues = read(tmp_path, "device,port,speed\nleaf1,e0,100000\nleaf1,e1,1000\n", "port_facts")
    assert [fact["speed_gbps"] for fact in facts] == [100.0, 1.0]
    assert issues == ["UNIT_ASSUMED"]


def test_a_table_of_ports_without_speeds_is_one_too(tmp_path: Path) -> None:
    (fact,), _ = read(tmp_path, "device,port,role\nleaf1,e0,up\n", "port_facts")
    assert (fact["role"], fact["speed_gbps"]) == ("up", None)


def test_the_cables_of_a_table_of_ports_are_read(tmp_path: Path) -> None:
    text = "device,port,speed_gbps,role,peer_device,peer_port\nleaf1,e0,100,host,nodea,mlx5_0\nleaf1,e1,100,up,,\n"
    facts, issues = read(tmp_path, text, "port_facts")
    assert [fact["role"] for fact in facts] == ["host", "up"]
    (cable,), _ = read(tmp_path, text, "cables")
    assert (cable["a_device"], cable["a_port"], cable["b_device"], cable["b_port"]) == ("leaf1", "e0", "nodea", "mlx5_0")
    assert issues == []


@pytest.mark.parametrize(
    "header",
    [
        "a_device,a_port,b_device,b_port",
        "src_device,src_port,dst_device,dst_port",
        "source_switch,source_interface,target_switch,target_interface",
        "local_device,local_port,remote_device,remote_port",
        "device,port,neighbor_device,neighbor_port",
        "switch,interface,neighbor,neighbor_interface",
        "node1,interface1,node2,interface2",
        "Device A,Port A,Device B,Port B",
        "from_node,from_port,to_node,to_port",
        "host_a,port_a,host_b,port_b",
    ],
)
def test_a_cable_is_read_under_every_sensible_header(tmp_path: Path, header: str) -> None:
    (cable,), _ = read(tmp_path, f"{header}\nleaf1,e0,nodea,mlx5_0\n", "cables")
    assert [cable[name] for name in ("a_device", "a_port", "b_device", "b_port")] == ["leaf1", "e0", "nodea", "mlx5_0"]


@pytest.mark.parametrize(
    "header", ["rank,host,nic,rail", "global_rank,hostname,hca,rail_id", "Rank;Node;RDMA device;Rail", "rank_id,server,nic_name,rail"]
)
def test_a_rank_is_read_under_every_sensible_header(tmp_path: Path, header: str) -> None:
    separator = ";" if ";" in header else ","
    (row,), _ = read(tmp_path, f"{header}\n{separator.join(('3', 'nodea', 'mlx5_0', '1'))}\n", "rank_map")
    assert [row[name] for name in ("rank", "host", "nic", "rail")] == [3, "nodea", "mlx5_0", "1"]


def test_ranks_with_a_port_are_no_ports(tmp_path: Path) -> None:
    (row,), _ = read(tmp_path, "rank,host,nic,port,rail\n0,nodea,mlx5_0,1,0\n", "rank_map")
    assert (row["nic"], row["nic_port"]) == ("mlx5_0", "1")


def test_roles_may_be_said_in_other_words(tmp_path: Path) -> None:
    words = ("Uplink", "server", "Host-facing", "port-channel", "management", "ISL", "NIC")
    text = "device,port,role\n" + "".join(f"leaf1,e{number},{word}\n" for number, word in enumerate(words))
    facts, issues = read(tmp_path, text, "port_facts")
    assert [fact["role"] for fact in facts] == ["up", "host", "host", "lag", "mgmt", "peer", "hca"]
    assert issues == []


@pytest.mark.parametrize("speed", ["0", "0.0", "0G", ""])
def test_a_port_without_a_speed_is_not_one_of_no_speed(tmp_path: Path, speed: str) -> None:
    facts, _ = read(tmp_path, f"device,port,speed,role\nleaf1,e0,{speed},up\n", "port_facts")
    assert facts[0]["speed_gbps"] is None
