"""The communicator map, use of NICs and errors over time: what is drawn is what logs say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from netlab.attribute.nccl_groups import pair_links
from netlab.figures import communicator_map, communicator_map_frame, error_timeline, error_timeline_frame, nic_use, nic_use_frame
from netlab.schema.nccl_structure import COMMUNICATOR_EDGES, PAIR_LINKS
from netlab.schema.timeline import P2P, RANKS
from tests.nccl_text import healthy, read_log, record


def mapped(folder: Path, lines: Sequence[str], hosts: Sequence[str]) -> pl.DataFrame:
    tables, _ = read_log(folder, lines)
    ranks = RANKS.conform(pl.DataFrame({"rank": list(range(len(hosts))), "host": list(hosts)}))
    pairs = pair_links(tables["communicators"], tables["connections"], ranks, P2P.empty())
    return communicator_map_frame(pairs, ranks, tables.get("communicator_edges", COMMUNICATOR_EDGES.empty()), tables["communicators"])


def test_pairs_have_the_colour_of_their_transport(tmp_path: Path) -> None:
    frame = mapped(tmp_path, healthy(), ["nodea"] * 4 + ["nodeb"] * 4)
    found = {(row["src"], row["dst"]): row for row in frame.to_dicts()}
    assert (found[0, 4]["transport"], found[0, 4]["nics"]) == ("network with GPUDirect", "mlx5_0 to mlx5_0")
    assert (found[0, 1]["transport"], found[5, 6]["src_place"]) == ("peer to peer", 1)
    spec = communicator_map(frame).to_dict()
    assert spec["title"]["text"] == "8 ranks on 2 hosts: peer to peer inside hosts, IB with GPUDirect between them"


def test_a_worse_connection_stands_in_the_title(tmp_path: Path) -> None:
    lines = [line.replace("via NET/IB/2/GDRDMA", "via NET/IB/2") for line in healthy()]
    frame = mapped(tmp_path, lines, ["nodea"] * 4 + ["nodeb"] * 4)
    title = " ".join(communicator_map(frame).to_dict()["title"]["text"])
    assert "(2 of 8 over network through host memory) between them" in title


def test_neighbours_in_rings_and_trees_are_told_apart(tmp_path: Path) -> None:
    lines = [*healthy(), record("nodea", 0, "Ring 00 : 3 -> 0 -> 1"), record("nodea", 0, "Tree 0 : -1 -> 0 -> 4/-1/-1")]
    found = {(row["src"], row["dst"]): row for row in mapped(tmp_path, lines, ["nodea"] * 4 + ["nodeb"] * 4).to_dicts()}
    assert [found[pair]["kind"] for pair in ((0, 1), (3, 0), (0, 4), (4, 0), (1, 2))] == ["ring", "ring", "tree", "tree", "pair"]


def test_many_ranks_are_drawn_as_blocks_of_hosts() -> None:
    ranks = RANKS.conform(pl.DataFrame({"rank": list(range(1024)), "host": [f"node{rank // 8:03d}" for rank in range(1024)]}))
    pairs = pl.DataFrame({
        "src": list(range(1024)), "dst": [(rank + 1) % 1024 for rank in range(1024)],
        "transport": ["NET" if rank % 8 == 7 else "P2P" for rank in range(1024)], "gdr_share": [1.0] * 1024, "connections": [1] * 1024,
        "channels": [16] * 1024, "src_nics": [[]] * 1024, "dst_nics": [[]] * 1024,
    }, schema_overrides={"src_nics": pl.List(pl.String), "dst_nics": pl.List(pl.String)})  # fmt: skip
    none = pl.DataFrame(schema={"comm_id": pl.String, "rank": pl.Int64, "global_rank": pl.Int64, "nranks": pl.Int64})
    spec = communicator_map(communicator_map_frame(PAIR_LINKS.conform(pairs), ranks, COMMUNICATOR_EDGES.empty(), none)).to_dict()
    assert len(spec["encoding"]["x"]["scale"]["domain"]) == 43  # 128 hosts in blocks of three
    assert "a cell is 3 hosts against 3" in " ".join(spec["title"]["subtitle"])


def test_nics_that_carry_nothing_are_named(tmp_path: Path) -> None:
    lines = [line.replace("NET/IB/1/", "NET/IB/0/") if line.startswith("nodea") else line for line in healthy()]
    tables, _ = read_log(tmp_path, lines)
    frame = nic_use_frame(tables["connections"], tables["nccl_events"])
    assert frame.filter(pl.col("host") == "nodea").select("nic", "sends", "receives").rows() == [
        ("mlx5_0", 2, 2), ("mlx5_1", 0, 0), ("mlx5_2", 1, 1), ("mlx5_3", 1, 1),
    ]  # fmt: skip
    assert nic_use(frame).to_dict()["title"]["text"] == "nodea uses 3 of its 4 NICs"


def test_errors_are_placed_by_time_where_it_is_printed(tmp_path: Path) -> None:
    head = "[2026-01-01 00:00:0{}] nodea:{}:9 [0] misc.cc:1 NCCL WARN "
    lines = [head.format(1, 4001) + "Cuda failure 'out of memory'", head.format(4, 4002) + "NET/IB: Got async event : port error"]
    tables, _ = read_log(tmp_path, [*healthy(), *lines])
    frame = error_timeline_frame(tables["nccl_events"])
    assert frame.select("lane", "kind", "at_s").rows() == [("nodea rank 0", "cuda failure", 0.0), ("nodea rank 1", "async event", 3.0)]
    spec = error_timeline(frame).to_dict()
    assert spec["encoding"]["x"]["field"] == "at_s"
    assert spec["title"]["text"] == "2 warnings and errors; the first comes from nodea rank 0 (cuda failure)"
    bare = error_timeline(frame.with_columns(at_s=pl.lit(None, dtype=pl.Float64))).to_dict()
    assert bare["encoding"]["x"]["field"] == "line"


def test_a_merged_nic_is_not_idle_where_its_parts_carry(tmp_path: Path) -> None:
    lines = [*healthy(), record("nodea", 0, "NET/IB : Made virtual device [4] name=mlx5_0+mlx5_1 speed=800000 ndevs=2")]
    tables, _ = read_log(tmp_path, lines)
    frame = nic_use_frame(tables["connections"], tables["nccl_events"])
    assert frame.filter(pl.col("host") == "nodea")["nic"].to_list() == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
