"""Hangs, mismatches and late ranks from flight-recorder dumps, watchdog lines and RAS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from netlab.diagnose.nccl import nccl_findings
from netlab.findings import Finding
from tests.nccl_text import dump, entry, findings, healthy, one, run_of, write_dumps


def of_dumps(folder: Path, dumps: dict[int, dict[str, object]]) -> list[Finding]:
    return nccl_findings(run_of(*write_dumps(folder, dumps)))


def test_the_rank_that_did_not_join_is_to_blame_not_those_who_wait(tmp_path: Path) -> None:
    dumps = {rank: dump(rank, [entry(1)] + ([entry(2, "started")] if rank != 2 else []), range(4)) for rank in range(4)}
    found = one(of_dumps(tmp_path, dumps), "COLLECTIVE_NOT_JOINED")
    assert found.subject.ranks == [2]
    assert found.severity == "critical"
    assert "did not join all_reduce 2" in found.title


def test_the_last_call_of_the_absent_rank_is_told_with_its_line(tmp_path: Path) -> None:
    last = entry(1, frames=[{"name": "step", "filename": "/home/x/train.py", "line": 120}])
    dumps = {0: dump(0, [entry(1), entry(2, "started")], range(2)), 1: dump(1, [last], range(2))}
    found = one(of_dumps(tmp_path, dumps), "COLLECTIVE_NOT_JOINED")
    assert "The last call of rank 1 is all_reduce 1 of group 0,1, called from step (train.py:120)." in found.detail


def test_a_rank_without_a_dump_is_not_accused(tmp_path: Path) -> None:
    dumps = {rank: dump(rank, [entry(1), entry(2, "started")], range(4)) for rank in (0, 1, 3)}
    found = of_dumps(tmp_path, dumps)
    assert [f.code for f in found] == ["COLLECTIVE_TIMEOUT"]
    assert found[0].title.endswith("rank 2 left no dump.")


def test_all_inside_and_none_done_is_a_timeout_of_all(tmp_path: Path) -> None:
    dumps = {rank: dump(rank, [entry(1), entry(2, "started")], range(2)) for rank in range(2)}
    assert one(of_dumps(tmp_path, dumps), "COLLECTIVE_TIMEOUT").subject.ranks == [0, 1]


def test_a_collective_that_another_member_finished_does_not_hang(tmp_path: Path) -> None:
    assert of_dumps(tmp_path, {0: dump(0, [entry(1)], range(2)), 1: dump(1, [entry(1, "started")], range(2))}) == []


def test_a_rank_with_another_operation_is_a_mismatch_and_hides_the_hang(tmp_path: Path) -> None:
    dumps = {
        rank: dump(rank, [entry(1), entry(2, "started", op="all_reduce" if rank == 3 else "reduce_scatter")], range(4)) for rank in range(4)
    }
    found = of_dumps(tmp_path, dumps)
    assert [f.code for f in found] == ["COLLECTIVE_MISMATCH"]
    assert found[0].subject.ranks == [3]


def test_a_rank_with_another_size_is_a_mismatch(tmp_path: Path) -> None:
    dumps = {rank: dump(rank, [entry(1, elements=2048 if rank == 1 else 1024)], range(3)) for rank in range(3)}
    assert one(of_dumps(tmp_path, dumps), "COLLECTIVE_MISMATCH").subject.ranks == [1]


def test_a_type_of_another_width_is_a_mismatch_of_types(tmp_path: Path) -> None:
    dumps = {rank: dump(rank, [entry(1, input_dtypes=["Half" if rank == 1 else "Float"])], range(3)) for rank in range(3)}
    found = one(of_dumps(tmp_path, dumps), "COLLECTIVE_MISMATCH")
    assert found.subject.ranks == [1]
    assert "different types" in found.title


def in_group(name: str, seq: int, state: str = "completed", **more: Any) -> dict[str, Any]:
    return entry(seq, state, process_group=[name, name], pg_id=1, **more)


def in_groups(entries: list[dict[str, Any]], groups: dict[str, list[int]]) -> dict[str, Any]:
    return {**dump(0, entries, []), "pg_config": {name: {"name": name, "desc": name, "ranks": str(of)} for name, of in groups.items()}}


def test_a_rank_that_waits_elsewhere_is_not_to_blame(tmp_path: Path) -> None:
    """Rank 3 is stuck; rank 1 waits for it in a group of two, and so joins the world's next call as little as rank 3 does."""
    world, pair = [0, 1, 2, 3], [1, 3]
    dumps = {rank: in_groups([in_group("w", 1)], {"w": world, "p": pair}) for rank in world}
    dumps[0]["entries"].append(in_group("w", 2, "started"))
    dumps[2]["entries"].append(in_group("w", 2, "started"))
    dumps[1]["entries"].append(in_group("p", 1, "started"))
    found = of_dumps(tmp_path, dumps)
    assert {(f.code, tuple(f.subject.ranks), tuple(f.subject.groups)) for f in found} == {
        ("COLLECTIVE_NOT_JOINED", (3,), ("0,1,2,3",)), ("COLLECTIVE_NOT_JOINED", (3,), ("1,3",)),
    }  # fmt: skip
    assert "Rank 1 did not either, being inside all_reduce 1 of group 1,3." in found[0].detail


def test_two_ranks_that_wait_for_each_other_are_both_named(tmp_path: Path) -> None:
    groups = {"a": [0, 1], "b": [0, 1]}
    dumps = {rank: in_groups([in_group("ab"[rank], 1, "started")], groups) for rank in range(2)}
    assert [(f.code, f.subject.ranks) for f in of_dumps(tmp_path, dumps)] == [
        ("COLLECTIVE_NOT_JOINED", [1]), ("COLLECTIVE_NOT_JOINED", [0]),
    ]  # fmt: skip


def test_groups_of_the_same_ranks_are_told_apart(tmp_path: Path) -> None:
    """The first call of one group is complete, that of the other waits: neither hides the other, and their operations are not compared."""
    groups = {"a": [0, 1], "b": [0, 1]}
    dumps = {rank: in_groups([in_group("a", 1)], groups) for rank in range(2)}
    dumps[0]["entries"].append(in_group("b", 1, "started", op="all_gather"))
    found = of_dumps(tmp_path, dumps)
    assert [(f.code, f.subject.ranks) for f in found] == [("COLLECTIVE_NOT_JOINED", [1])]
    assert "all_gather 1" in found[0].title


def test_a_mismatch_in_one_group_hides_no_hang_in_another_of_the_same_ranks(tmp_path: Path) -> None:
    groups = {"a": [0, 1, 2], "b": [0, 1, 2]}
    dumps = {rank: in_groups([in_group("a", 1, op="all_gather" if rank == 2 else "all_reduce")], groups) for rank in range(3)}
    for rank in (0, 1):
        dumps[rank]["entries"].append(in_group("b", 1, "started", op="reduce_scatter"))
    found = of_dumps(tmp_path, dumps)
    assert [(f.code, f.subject.ranks) for f in found] == [("COLLECTIVE_MISMATCH", [2]), ("COLLECTIVE_NOT_JOINED", [2])]
    assert "Ranks of group 0,1,2 (a) call different operations" in found[0].title
    assert "did not join reduce_scatter 1 of group 0,1,2 (b)" in found[1].title


def test_two_ranks_that_differ_are_told_in_one_whole_sentence(tmp_path: Path) -> None:
    dumps = {rank: dump(rank, [entry(1, op="all_gather" if rank else "all_reduce")], range(2)) for rank in range(2)}
    title = one(of_dumps(tmp_path, dumps), "COLLECTIVE_MISMATCH").title
    assert title.endswith("(Float)."), title


def message(op: str, ends: str, seq: int, state: str = "completed") -> dict[str, object]:
    return entry(seq, state, op=f"{op} {ends}", is_p2p=True, p2p_seq_id=seq)


def test_a_send_without_its_receive_names_the_rank_that_owes_it(tmp_path: Path) -> None:
    sends = [message("send", "0->1", 1), message("send", "0->1", 2, "started")]
    found = of_dumps(tmp_path, {0: dump(0, sends, range(2)), 1: dump(1, [message("recv", "1<-0", 1)], range(2))})
    assert [f.code for f in found] == ["P2P_UNMATCHED"]
    assert found[0].subject.ranks == [1]


def test_matched_messages_in_flight_are_no_finding(tmp_path: Path) -> None:
    dumps = {0: dump(0, [message("send", "0->1", 1)], range(2)), 1: dump(1, [message("recv", "1<-0", 1)], range(2))}
    assert of_dumps(tmp_path, dumps) == []


def test_the_rank_with_the_shortest_times_makes_the_others_wait(tmp_path: Path) -> None:
    dumps = {rank: dump(rank, [entry(seq, duration_ms=1.0 if rank == 2 else 40.0) for seq in range(1, 9)], range(4)) for rank in range(4)}
    found = one(of_dumps(tmp_path, dumps), "STRAGGLER")
    assert found.subject.ranks == [2]
    assert "8 of 8" in found.title


def test_a_single_clear_instance_is_enough(tmp_path: Path) -> None:
    dumps = {rank: dump(rank, [entry(1, duration_ms=1.0 if rank == 2 else 40.0 + rank)], range(4)) for rank in range(4)}
    assert one(of_dumps(tmp_path, dumps), "STRAGGLER").subject.ranks == [2]


def test_jitter_makes_no_straggler(tmp_path: Path) -> None:
    dumps = {
        rank: dump(rank, [entry(seq, duration_ms=1.0 + 0.01 * ((seq + rank) % 3)) for seq in range(1, 9)], range(4)) for rank in range(4)
    }
    assert of_dumps(tmp_path, dumps) == []


def test_times_of_half_a_group_tell_nothing_about_lateness(tmp_path: Path) -> None:
    dumps = {rank: dump(rank, [entry(seq, duration_ms=1.0 if rank == 1 else 40.0) for seq in range(1, 9)], range(4)) for rank in range(2)}
    assert "STRAGGLER" not in {f.code for f in of_dumps(tmp_path, dumps)}


def timeout(rank: int, seq: int = 7) -> str:
    work = f"WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000)"
    text = f"Watchdog caught collective operation timeout: {work} ran for 600060 milliseconds before timing out."
    return f"[rank{rank}]:[E602 11:17:52.557891708 ProcessGroupNCCL.cpp:632] [Rank {rank}] {text}"


def test_the_rank_that_reports_no_timeout_is_the_one_that_did_not_join(tmp_path: Path) -> None:
    found = one(findings(tmp_path, [*healthy(), *(timeout(rank) for rank in range(8) if rank != 5)]), "COLLECTIVE_NOT_JOINED")
    assert found.subject.ranks == [5]
    assert found.subject.hosts == ["nodeb"]


def test_a_single_report_accuses_nobody(tmp_path: Path) -> None:
    found = one(findings(tmp_path, [*healthy(), timeout(3)]), "COLLECTIVE_TIMEOUT")
    assert found.subject.ranks == [3]


def test_a_rank_behind_in_ras_is_named(tmp_path: Path) -> None:
    ranks = [
        {
            "rank": rank,
            "host": f"10.0.0.{rank}",
            "pid": 100 + rank,
            "cuda_dev": 0,
            "status": {"init_state": 0},
            "collective_counts": {"AllReduce": 6641 if rank == 2 else 6650},
        }
        for rank in range(4)
    ]
    path = tmp_path / "ras.json"
    path.write_text(
        json.dumps(
            {
                "nccl_version": "2.29.1",
                "communicators": [{"hash": "0x1", "size": 4, "missing_ranks_count": 0, "ranks": ranks, "missing_ranks": []}],
            }
        )
    )
    assert one(nccl_findings(run_of(path)), "COLLECTIVE_NOT_JOINED").subject.ranks == [2]


def test_a_late_call_is_named_without_the_offset_of_a_clock(tmp_path: Path) -> None:
    lags = {0: (0, 0, 0), 1: (50, 50, 50), 2: (0, 4, 0)}
    dumps = {
        rank: dump(rank, [entry(n + 1, time_created_ns=(100 * n + lag) * 1_000_000) for n, lag in enumerate(of)], range(3))
        for rank, of in lags.items()
    }
    found = one(nccl_findings(run_of(*write_dumps(tmp_path, dumps))), "CALL_SKEW")
    assert (found.subject.ranks, found.severity) == ([2], "info")
    assert found.title == "Rank 2 called all_reduce 2 of group 0,1,2 4.0 ms late."
