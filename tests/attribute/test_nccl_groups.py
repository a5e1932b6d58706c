"""Timeline and logs joined: links of groups and pairs, the communicator of a collective, and what contradicts."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.attribute.groups import rooflines
from netlab.attribute.nccl_contradictions import contradictions
from netlab.attribute.nccl_groups import call_communicators, communicator_groups, group_links, pair_links
from netlab.schema.nccl import CONNECTIONS, FLIGHT, LINK_SPEED_TESTS, LOGGED_OPERATIONS
from netlab.schema.timeline import COLLECTIVES, GROUPS, P2P, RANKS
from tests.nccl_text import healthy, init, read_log, record

WORLD = "0,1,2,3,4,5,6,7"
HEADS = "sendbuff 0x1 recvbuff 0x2"


def ranks(hosts: dict[int, str], device: int | None = None) -> pl.DataFrame:
    rows = {"rank": list(hosts), "host": list(hosts.values()), "device": [device] * len(hosts)}
    return RANKS.conform(pl.DataFrame(rows, schema_overrides={"device": pl.Int32}))


def groups(*members: list[int]) -> pl.DataFrame:
    rows = [
        {"group": ",".join(map(str, m)), "name": str(n), "size": len(m), "members": m, "layer": "unplaced"} for n, m in enumerate(members)
    ]
    return GROUPS.conform(pl.DataFrame(rows))


def instances(*calls: tuple[str, str, int]) -> pl.DataFrame:
    """Instances of a process group name, an operation and a size, one after the other, as rank 0 saw them."""
    return COLLECTIVES.conform(pl.DataFrame([
        {"instance": n, "group": "0,1", "group_name": name, "op": op, "bytes": size, "rank": 0, "activity": n, "window": 0,
         "start_ns": 10 * n, "end_ns": 10 * n + 5, "split": "bounded", "layer": "intra_node", "members": 2, "seen": 1}
        for n, (name, op, size) in enumerate(calls)
    ]))  # fmt: skip


def two_communicators() -> list[str]:
    """Two communicators of the same two ranks, with calls of each."""
    lines = ["NCCL version 2.21.5+cuda12.4"]
    for rank in (0, 1):
        for number, comm in ((1, "0xa"), (2, "0xb")):
            who = f"comm 0x5{number}{rank} rank {rank} nranks 2 cudaDev {rank} busId {rank + 1}b000 commId {comm} - Init COMPLETE"
            lines.append(record("nodea", rank, f"ncclCommInitRank {who}"))
    calls = ((1, "AllReduce", 256, 1), (2, "AllGather", 64, 1), (1, "AllReduce", 512, 2), (2, "AllReduce", 1024, 2))
    for number, op, count, seq in calls:
        for rank in (0, 1):
            rest = f"count {count} datatype 7 op 0 root 0 comm 0x5{number}{rank} [nranks=2] stream 0x3"
            lines.append(record("nodea", rank, f"{op}: opCount {seq} {HEADS} {rest}"))
    return lines


def test_a_group_over_two_hosts_goes_over_its_network(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, healthy())
    row = group_links(tables["communicators"], tables["connections"], RANKS.empty()).row(0, named=True)
    assert (row["group"], row["layer"], row["transport"], row["network"], row["hosts"]) == (WORLD, "inter_node", "NET", "IB", 2)
    assert (row["connections"], row["gdr_share"], row["nics"]) == (24, 1.0, ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"])


def test_a_group_of_the_timeline_without_a_log_has_a_layer_and_no_transport(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, healthy())
    found = group_links(tables["communicators"], tables["connections"], RANKS.empty(), groups=groups([0, 1], [0, 4]))
    rows = {row["group"]: row for row in found.to_dicts()}
    assert [(rows[group]["layer"], rows[group]["transport"]) for group in ("0,1", "0,4")] == [("intra_node", None), ("inter_node", None)]


def test_members_that_no_log_shows_are_known_in_the_world_communicator(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, [init("nodea", 1, 4, "Init COMPLETE")])
    assert communicator_groups(tables["communicators"]) == {"0x5a5a000000000001": [0, 1, 2, 3]}


def test_pairs_have_the_nics_of_both_ends(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, healthy())
    messages = P2P.conform(pl.DataFrame({"instance": [0], "src": [3], "dst": [6], "start_ns": [0], "split": ["measured"]}))
    found = pair_links(tables["communicators"], tables["connections"], RANKS.empty(), messages)
    rows = {(row["src"], row["dst"]): row for row in found.to_dicts()}
    assert [rows[0, 4][name] for name in ("layer", "transport", "src_nics", "dst_nics", "connections")] == [
        "inter_node", "NET", ["mlx5_0"], ["mlx5_0"], 2,
    ]  # fmt: skip
    assert (rows[0, 1]["layer"], rows[0, 1]["transport"]) == ("intra_node", "P2P")
    assert (rows[3, 6]["layer"], rows[3, 6]["transport"], rows[3, 6]["connections"]) == ("inter_node", None, 0)


def test_the_only_communicator_of_these_members_carried_the_collective(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, [init("nodea", rank, 2, "Init COMPLETE") for rank in (0, 1)])
    found = call_communicators(tables["communicators"], LOGGED_OPERATIONS.empty(), instances(("0", "all_reduce", 1024)))
    assert found.select("comm_id", "basis", "op_count").rows() == [("0x5a5a000000000001", "members", None)]


def test_of_two_communicators_with_the_same_members_the_order_of_calls_decides(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, two_communicators())
    # Bytes as both sides count them: an all_gather of 64 floats per rank is a buffer of 512.
    traced = instances(("dp", "all_gather", 512), ("dp", "all_reduce", 4096), ("tp", "all_reduce", 2048))
    found = call_communicators(tables["communicators"], tables["logged_operations"], traced)
    assert found.select("instance", "comm_id", "basis", "op_count").rows() == [
        (0, "0xb", "calls", 1), (1, "0xb", "calls", 2), (2, "0xa", "calls", 2),
    ]  # fmt: skip
    named = group_links(tables["communicators"], CONNECTIONS.empty(), RANKS.empty(), calls=found)
    assert named.select("comm_id", "name").rows() == [("0xa", "tp"), ("0xb", "dp")]


def test_calls_that_fit_both_communicators_are_given_to_none(tmp_path: Path) -> None:
    lines = [line.replace("AllGather", "AllReduce").replace("count 64", "count 256") for line in two_communicators()]
    tables, _ = read_log(tmp_path, lines)
    assert call_communicators(tables["communicators"], tables["logged_operations"], instances(("0", "all_reduce", 1024))).is_empty()


def test_another_host_of_a_rank_is_said(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, healthy())
    found = contradictions(tables["communicators"], FLIGHT.empty(), ranks({0: "nodea", 4: "nodea.cluster"}))
    assert [issue.message.split(";")[0] for issue in found] == ["Rank 4 ran on nodea.cluster by its trace, on nodeb by its NCCL log"]


def test_another_device_of_a_rank_is_said(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, healthy())
    found = contradictions(tables["communicators"], FLIGHT.empty(), ranks({1: "nodea", 2: "nodea"}, device=2))
    assert len(found) == 1
    assert "rank 1 on device 2 by its trace, on 1 by its log" in found[0].message


@pytest.mark.parametrize(("size", "said"), [(16, True), (8, False), (4, True), (None, False)])
def test_a_run_of_another_size_than_its_log_is_said(tmp_path: Path, size: int | None, said: bool) -> None:
    tables, _ = read_log(tmp_path, healthy())
    assert bool(contradictions(tables["communicators"], FLIGHT.empty(), world_size=size)) is said


def test_a_log_of_some_ranks_contradicts_no_larger_run(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, healthy()[:20])
    assert not contradictions(tables["communicators"], FLIGHT.empty(), world_size=64)


def test_groups_that_have_nothing_in_common_are_said(tmp_path: Path) -> None:
    lines = healthy()
    for rank in range(8):
        who = f"comm 0x77{rank:04x} rank {rank % 4} nranks 4 cudaDev {rank % 4} busId {rank}b000 commId 0x{rank // 4 + 7} - Init COMPLETE"
        lines.append(record("nodea" if rank < 4 else "nodeb", rank, f"ncclCommInitRank {who}"))
    tables, _ = read_log(tmp_path, lines)
    same = contradictions(tables["communicators"], FLIGHT.empty(), groups=groups([0, 1, 2, 3], [0, 2, 4, 6]))
    other = contradictions(tables["communicators"], FLIGHT.empty(), groups=groups([0, 2, 4, 6], [1, 3, 5, 7]))
    assert not same
    assert len(other) == 1
    assert "0,2,4,6 by the trace, 0,1,2,3 by the log" in other[0].message


def test_a_measured_roofline_goes_before_prediction_and_data_sheet() -> None:
    rates = pl.DataFrame({
        "group": ["0,1", "2,3", "0,2"], "layer": ["intra_node", "intra_node", "inter_node"], "members": [2, 2, 2],
        "busbw_gb_per_s": [50.0, 40.0, 5.0], "transfer_ns": [100, 100, 100], "error_ns": [0, 0, 0],
    })  # fmt: skip
    test = {"op": ["all_reduce"], "bytes": [8], "busbw_gb_per_s": [200.0], "ranks": [2], "hosts": [1], "source": ["a"], "line": [1]}
    tests = LINK_SPEED_TESTS.conform(pl.DataFrame(test))
    hosts = ranks({0: "nodea", 1: "nodea", 2: "nodeb", 3: "nodeb"})
    logged, predicted = {"intra_node": 3600.0, "inter_node": 400.0}, {"0,1": 300.0, "0,2": 45.0}
    found = rooflines(rates, hosts, declared_gbps={}, logged_gbps=logged, tests=tests, predicted=predicted)
    assert found.select("group", "roofline_gb_per_s", "origin").rows() == [
        ("0,1", 200.0, "tested"), ("0,2", 45.0, "predicted"), ("2,3", 200.0, "tested"),
    ]  # fmt: skip
    bare = rooflines(rates, hosts, declared_gbps={}, logged_gbps=logged)
    assert bare.select("group", "roofline_gb_per_s", "origin").rows() == [
        ("0,1", 450.0, "logged"), ("0,2", 50.0, "logged"), ("2,3", 450.0, "logged"),
    ]  # fmt: skip
