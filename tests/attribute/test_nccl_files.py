"""Communicators without an id, one file per process: joined where it is certain, else said."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from netlab.attribute.nccl_files import join_files, with_global_ranks
from netlab.schema import TABLES
from tests.nccl_text import read_log


def old_log(
    folder: Path, host: str, pid: int, rank: int, nranks: int, *, edges: str = "P2P/IPC", comms: int = 1
) -> dict[str, pl.DataFrame]:
    """The log of one process of NCCL 2.8, whose communicators have no id."""
    head = f"{host}:{pid}:{pid + 50} [{rank % 4}] NCCL INFO "
    lines = ["NCCL version 2.8.4+cuda11.1"]
    for number in range(comms):
        pointer = f"0x7f{number}0{pid:x}"
        lines.append(f"{head}Channel 00 : {rank}[1000] -> {(rank + 1) % nranks}[2000] via {edges}")
        lines.append(f"{head}comm {pointer} rank {rank} nranks {nranks} cudaDev {rank % 4} busId {rank + 1}000 - Init COMPLETE")
    return read_log(folder, lines, f"nccl.{host}.{pid}.log")[0]


def together(*logs: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    names = sorted({name for log in logs for name in log})
    return {name: TABLES[name].conform(pl.concat([log[name] for log in logs if name in log])) for name in names}


def test_every_rank_once_is_one_communicator(tmp_path: Path) -> None:
    frames = together(*(old_log(tmp_path, "nodea" if rank < 2 else "nodeb", 100 + rank, rank, 4, edges="NET/IB/0") for rank in range(4)))
    changed, issues = join_files(frames)
    assert not issues
    assert changed["communicators"]["comm_id"].unique().to_list() == ["0x7f0064@nodea"]
    assert changed["connections"]["comm_id"].unique().to_list() == ["0x7f0064@nodea"]


def test_the_second_communicator_of_a_size_is_another_one(tmp_path: Path) -> None:
    changed, issues = join_files(together(*(old_log(tmp_path, "nodea", 100 + rank, rank, 2, comms=2) for rank in range(2))))
    assert not issues
    assert changed["communicators"].group_by("comm_id").agg(pl.col("rank").sort()).sort("comm_id").rows() == [
        ("0x7f0064@nodea", [0, 1]), ("0x7f1064@nodea", [0, 1]),
    ]  # fmt: skip


def test_communicators_that_stay_inside_hosts_are_told_by_them(tmp_path: Path) -> None:
    logs = [old_log(tmp_path, host, 100 + rank, rank, 2) for host in ("nodea", "nodeb") for rank in range(2)]
    changed, issues = join_files(together(*logs))
    assert not issues
    assert sorted(changed["communicators"]["comm_id"].unique().to_list()) == ["0x7f0064@nodea", "0x7f0064@nodeb"]


def test_what_is_not_certain_is_left_and_said(tmp_path: Path) -> None:
    logs = [old_log(tmp_path, host, 100 + rank, rank, 2, edges="NET/IB/0") for host in ("nodea", "nodeb") for rank in range(2)]
    changed, issues = join_files(together(*logs))
    assert changed["communicators"]["comm_id"].n_unique() == 4  # two processes of each address
    assert [(issue.code, issue.severity) for issue in issues] == [("COMMUNICATORS_APART", "info")]
    assert "4 logs tell of communicators of 2 ranks" in issues[0].message


def test_a_missing_member_keeps_them_apart(tmp_path: Path) -> None:
    changed, issues = join_files(together(*(old_log(tmp_path, "nodea", 100 + rank, rank, 4) for rank in range(3))))
    assert not changed
    assert len(issues) == 1


def test_one_address_in_two_processes_is_no_identity(tmp_path: Path) -> None:
    logs = [old_log(tmp_path, host, 100, 0, 4) for host in ("nodea", "nodeb")]
    changed, issues = join_files(together(*logs))
    assert changed["communicators"]["comm_id"].to_list() == ["0x7f0064@nodea:100", "0x7f0064@nodeb:100"]
    assert len(issues) == 1


def test_ends_in_other_files_get_their_global_ranks(tmp_path: Path) -> None:
    logs = []
    for rank in range(4):
        head = f"nodea:{100 + rank}:{200 + rank} [{rank}] NCCL INFO "
        world = f"comm 0x1{rank} rank {rank} nranks 4 cudaDev {rank} busId {rank}b000 commId 0xa - Init"
        own = f"comm 0x2{rank} rank {rank % 2} nranks 2 cudaDev {rank} busId {rank}b000 commId 0xb{rank // 2} - Init"
        edge = f"Channel 00/0 : {rank % 2}[0] -> {1 - rank % 2}[1] via P2P/IPC"
        lines = [f"{world} START", f"{world} COMPLETE", f"{own} START", edge, f"{own} COMPLETE"]
        logs.append(read_log(tmp_path, [head + line for line in lines], f"nccl.{rank}.log")[0])
    frames = together(*logs)
    assert frames["connections"]["dst_global"].null_count() == 4
    found = with_global_ranks(frames["connections"], frames["communicators"])
    assert sorted(found.select("src_global", "dst_global").rows()) == [(0, 1), (1, 0), (2, 3), (3, 2)]
