"""Cables, ports and ranks from the files of operators and tools."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.errors import ParseError
from netlab.readers.base import Parsed, Sink
from netlab.readers.fabric import READERS
from netlab.readers.fabric.slurm import expand_hostlist
from netlab.readers.streams import read_head


def read(path: Path, table: str = "cables") -> tuple[pl.DataFrame, Parsed]:
    reader = next(reader for reader in READERS if reader.sniff(read_head(path), path))
    sink = Sink()
    parsed = reader.read(path, sink, path.name)
    return sink.collect(table), parsed


def write(folder: Path, text: str, name: str = "x.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_ports_csv_is_what_the_person_wrote(tmp_path: Path) -> None:
    frame, _ = read(write(tmp_path, "device,port,speed_gbps,role,lag\nleaf1,e0,100,UP,Po1\nleaf1,Po1,,lag,\n"), "port_facts")
    assert frame.select("port", "speed_gbps", "role", "lag", "declared").rows() == [
        ("Po1", None, "lag", None, True),
        ("e0", 100.0, "up", "Po1", True),
    ]


def test_a_wrong_cell_is_told_with_its_line_and_the_rest_is_kept(tmp_path: Path) -> None:
    frame, parsed = read(write(tmp_path, "device,port,speed_gbps,role\nleaf1,e0,fast,up\nleaf1,e1,100,sideways\n,e2,1,up\n"), "port_facts")
    assert frame.select("port", "speed_gbps", "role").rows() == [("e0", None, "up"), ("e1", 100.0, None)]
    assert sorted(issue.line or 0 for issue in parsed.issues) == [2, 3, 4]
    assert parsed.status == "partial"


def test_links_and_ranks(tmp_path: Path) -> None:
    frame, _ = read(write(tmp_path, "a_device,a_port,b_device,b_port,rail\nleaf1,e0,nodea,mlx5_0,0\n"))
    assert frame.select("a_device", "b_port", "rail", "declared").row(0) == ("leaf1", "mlx5_0", "0", True)
    frame, _ = read(write(tmp_path, "rank,host,nic\n0,nodea,mlx5_0\n"), "rank_map")
    assert frame.select("rank", "host", "nic").row(0) == (0, "nodea", "mlx5_0")


def test_each_cable_of_a_large_fabric_counts_once(shared_data: Path) -> None:
    frame, parsed = read(shared_data / "counters" / "topology" / "ibnetdiscover_director_full.txt.gz")
    assert frame.height == 8723
    assert parsed.lines_unparsed == 0
    ends = pl.concat(
        [frame.select(pl.col("a_device", "a_port")).rename({"a_device": "d", "a_port": "p"}), frame.select(d="b_device", p="b_port")]
    )
    assert ends.is_duplicated().sum() == 0
    assert set(frame["speed_gbps"].drop_nulls()) <= {100.0, 200.0}


def test_hosts_and_switches_of_ibnetdiscover_pairs(shared_data: Path) -> None:
    frame, _ = read(shared_data / "counters" / "infiniband" / "ibnetdiscover_test.out")
    first = frame.filter(pl.col("b_device") == "o0001").row(0, named=True)
    assert (first["a_device"], first["a_port"], first["b_port"], first["speed_gbps"]) == ("ib-i1l1s01", "10", "HCA-1/1", 100.0)
    assert (first["a_kind"], first["b_kind"]) == ("switch", "host")


def test_lldp_of_three_systems(shared_data: Path) -> None:
    folder = shared_data / "counters"
    sonic, _ = read(folder / "sonic" / "show_lldp_table.txt")
    assert sonic.select("a_device", "a_port", "b_device", "b_port").row(0) == ("T1-1", "hundredGigE1/2", "sonic", "Ethernet112")
    eos, parsed = read(folder / "topology" / "arista_eos_show_lldp_neighbors.raw")
    assert eos.height == 3
    assert [issue.code for issue in parsed.issues] == ["DEVICE_ASSUMED"]
    nxos, _ = read(folder / "topology" / "nxos_show_lldp_neighbors_detail.txt")
    assert set(nxos["a_device"]) == {"R1_csr1000v", "R2_xrv9000"}


@pytest.mark.parametrize(
    "table",
    [
        "LocalPort    RemoteDevice    RemotePortID         Capability    RemotePortDescr\n"
        "-----------  --------------  -------------------  ------------  -----------------\n"
        "Ethernet0    nodea           mlx5_0               O             nodea\n"
        "Ethernet4    spine1          GigabitEthernet 0/2  BR\n",
        # Pasted into a chat and back: every run of spaces is two of them.
        "LocalPort  RemoteDevice  RemotePortID  Capability  RemotePortDescr\n---------  ---------\n"
        "Ethernet0  nodea  mlx5_0  O  nodea\nEthernet4  spine1  GigabitEthernet 0/2  BR  x\n",
        "Device ID    Local Intf  Hold-time  Capability  Port ID\n"
        "nodea        Ethernet0   120                    mlx5_0\n"
        "spine1       Ethernet4   120        BR          GigabitEthernet 0/2\nTotal entries displayed: 2\n",
        "LocalPort\tRemoteDevice\tRemotePortID\tCapability\tRemotePortDescr\n"
        "Ethernet0\tnodea\tmlx5_0\tO\tnodea\nEthernet4\tspine1\tGigabitEthernet 0/2\tBR\tx\n",
    ],
)
@pytest.mark.parametrize("name", ["leaf1_lldp.txt", "show_lldp_table_leaf1.txt", "leaf1-lldp-neighbors.log", "leaf1.lldp.txt"])
def test_lldp_tables_with_and_without_their_alignment_and_prompt(tmp_path: Path, table: str, name: str) -> None:
    frame, parsed = read(write(tmp_path, table, name))
    ends = {frozenset(((row[0], row[1]), (row[2], row[3]))) for row in frame.select("a_device", "a_port", "b_device", "b_port").rows()}
    cables = [("Ethernet0", "nodea", "mlx5_0"), ("Ethernet4", "spine1", "GigabitEthernet 0/2")]
    assert ends == {frozenset((("leaf1", port), (peer, far))) for port, peer, far in cables}
    assert [issue.code for issue in parsed.issues] == ["DEVICE_ASSUMED"]


def test_a_row_that_cannot_be_placed_under_its_header_is_told_with_its_line(tmp_path: Path) -> None:
    # The capability of the first row is empty, and the spaces that would say so are gone.
    table = "Device ID  Local Intf  Hold-time  Capability  Port ID\nnodea  Ethernet0  120  mlx5_0\nspine1  Ethernet4  120  BR  Ethernet9\n"
    frame, parsed = read(write(tmp_path, table, "leaf1_lldp.txt"))
    assert frame.height == 1
    assert [(issue.code, issue.line) for issue in parsed.issues if issue.code != "DEVICE_ASSUMED"] == [("UNREADABLE_LINE", 2)]


def test_a_neighbour_without_a_name_is_told(tmp_path: Path) -> None:
    head = "Port       Neighbor Device ID   Neighbor Port ID   TTL\n"
    table = f"{head}Et1        nodea                mlx5_0             120\nEt2                             mlx5_1             120\n"
    frame, parsed = read(write(tmp_path, table, "leaf1_lldp.txt"))
    assert frame.height == 1
    assert any("Et2 advertise no name" in issue.message for issue in parsed.issues)


def test_edge_lists(shared_data: Path) -> None:
    folder = shared_data / "counters" / "topology"
    batfish, _ = read(folder / "batfish_layer1_topology.json")
    assert batfish.height == 20
    ndt, _ = read(folder / "ufm_ndt_switch_to_host.ndt")
    assert ndt.select("a_device", "a_port", "b_device", "b_port", "a_kind").row(0) == ("h0001", "ibp11s0f0", "sw0015", "1", "host")


def test_node_link_edges_need_ports(tmp_path: Path) -> None:
    edges = '[{"source": "leaf1", "target": "h0", "source_port": "e0", "target_port": "mlx5_0"}, {"source": "a", "target": "b"}]'
    text = '{"directed": false, "multigraph": false, "nodes": [{"id": "h0", "kind": "host"}], "edges": ' + edges + "}"
    frame, parsed = read(write(tmp_path, text, "t.json"))
    assert frame.select("a_device", "a_kind", "b_device").row(0) == ("h0", "host", "leaf1")
    assert parsed.lines_unparsed == 1


def test_slurm_trees(shared_data: Path) -> None:
    folder = shared_data / "counters" / "topology"
    conf, _ = read(folder / "slurm_topology.conf", "switch_members")
    assert conf.filter(pl.col("switch") == "leaf119")["member"].to_list()[-1] == "peta10399"
    assert conf.filter(pl.col("kind") == "host").height == 400
    tree, parsed = read(folder / "slurm_topology.yaml", "switch_members")
    assert tree.filter(pl.col("switch") == "s1")["member"].to_list() == ["node01", "node02"]
    assert [issue.code for issue in parsed.issues] == ["SEVERAL_TOPOLOGIES"]


@pytest.mark.parametrize("text", ["h[1-", "h[a-b]", "h[0-99999999]", "a[0-9999]b[0-9999]"])
def test_broken_or_endless_hostlists_are_refused(text: str) -> None:
    with pytest.raises(ParseError, match="MALFORMED_HOSTLIST"):
        expand_hostlist(text)
