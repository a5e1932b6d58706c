"""Logs and dumps of all ages through the whole road: what a run of them says, worked out by hand."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import netlab
from netlab.errors import RunError
from tests.nccl_text import dump, entry, healthy, init, record, write_dumps


def checked(folder: Path) -> tuple[netlab.Run, netlab.Verdict, list[str]]:
    run = netlab.open(folder)
    verdict = netlab.check(run)
    return run, verdict, [finding.code for finding in verdict.findings]


def write(folder: Path, lines: Sequence[str], name: str = "nccl.log") -> None:
    (folder / name).write_text("\n".join(lines) + "\n")


PREFIXES: dict[str, Callable[[int, str], str]] = {
    "srun": lambda rank, line: f" {rank}: {line}",
    "mpirun": lambda rank, line: f"[1,{rank}]<stdout>:{line}",
    "mpich": lambda rank, line: f"[{rank}] {line}",
    "torchrun": lambda rank, line: f"[default{rank % 4}]:{line}",
    "torch": lambda rank, line: f"[rank{rank}]: {line}",
    "kubectl": lambda rank, line: f"[pod/job-worker-{rank}/pytorch] {line}",
    "kubectl times": lambda _, line: f"2026-03-14T09:26:53.123456789Z {line}",
    "cri": lambda _, line: f"2026-03-14T09:26:53.123456789Z stdout F {line}",
    "docker compose": lambda rank, line: f"worker-{rank}  | {line}",
    "docker json": lambda _, line: json.dumps(
        {"log": line + "\n", "stream": "stderr", "time": "2026-03-14T09:26:53.1Z"}, separators=(",", ":")
    ),
    "ray": lambda rank, line: f"\x1b[36m(TrainWorker pid={4001 + rank}, ip=10.20.0.{rank})\x1b[0m {line}",
    "zone touches host": lambda _, line: f"2026-03-14T09:26:53.123-07:00{line}",
    "nccl 2.26": lambda _, line: f"[2026-03-14 09:26:53] {line}",
    "windows": lambda _, line: line + "\r",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES.keys())
def test_every_launcher_leaves_a_healthy_log_healthy(tmp_path: Path, prefix: Callable[[int, str], str]) -> None:
    lines = [prefix(int(line.split(":")[1]) - 4001, line) for line in healthy()[1:]]
    write(tmp_path, ["NCCL version 2.21.5+cuda12.4", *lines])
    run, verdict, codes = checked(tmp_path)
    assert run.frame("communicators").sort("rank")["global_rank"].to_list() == list(range(8))
    assert (run.frame("connections").height, codes, verdict.run.world_size) == (24, [], 8)
    assert [issue for issue in verdict.issues if issue.code != "FOREIGN_LINES"] == []


def test_the_first_forms_of_2_4_are_read_whole(tmp_path: Path) -> None:
    lines = ["NCCL version 2.4.8+cuda10.1"]
    for rank in range(4):
        head = f"n{rank // 2}:{100 + rank}:{200 + rank} [{rank % 2}] NCCL INFO "
        lines.append(head + "NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>")
        lines += [head + "Channel 00 :    0   1   2   3"] if rank == 0 else []
        after = (rank + 1) % 4
        local = f"Ring 00 : {rank}[0] -> {after}[1] via P2P/IPC"
        lines.append(head + (local if rank % 2 == 0 else f"Ring 00 : {rank} -> {after} [send] via NET/IB/0/GDRDMA"))
        lines.append(head + f"comm 0x7f{rank}00 rank {rank} nranks 4 cudaDev {rank % 2} nvmlDev {rank % 2} - Init COMPLETE")
    write(tmp_path, lines)
    run, verdict, codes = checked(tmp_path)
    assert (verdict.issues, codes) == ([], ["OLD_NCCL"])
    assert run.frame("communicator_edges").select("src_rank", "dst_rank").rows() == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert run.frame("group_links").select("group", "layer", "transport", "network").rows() == [("0,1,2,3", "inter_node", "NET", "IB")]


def test_one_file_per_process_without_ids_is_one_communicator(tmp_path: Path) -> None:
    for rank in range(4):
        host = f"n{rank // 2}"
        head = f"{host}:{100 + rank}:{200 + rank} [{rank % 2}] NCCL INFO "
        edge = f"{rank}[1b000] -> {(rank + 1) % 4}[2b000]"
        how = f"{edge} via P2P/IPC" if rank % 2 == 0 else f"{edge} [send] via NET/IB/0/GDRDMA"
        end = f"comm 0x7f{rank}00 rank {rank} nranks 4 cudaDev {rank % 2} busId {rank}b000 - Init COMPLETE"
        write(tmp_path, ["NCCL version 2.12.12+cuda11.6", f"{head}Channel 00/0 : {how}", head + end], f"nccl.{host}.{rank}.log")
    run, verdict, codes = checked(tmp_path)
    assert (codes, [issue.code for issue in verdict.issues]) == (["OLD_NCCL"], [])
    assert run.frame("communicators")["comm_id"].n_unique() == 1
    assert run.frame("pair_links").select("src", "dst", "transport").rows() == [(0, 1, "P2P"), (1, 2, "NET"), (2, 3, "P2P"), (3, 0, "NET")]


def test_merged_nics_stand_for_their_parts(tmp_path: Path) -> None:
    lines = []
    for line in healthy():
        moved = line
        for number in range(4):
            moved = moved.replace(f"NET/IB/{number}/GDRDMA", f"NET/IB/{4 + number // 2}/GDRDMA")
        lines.append(moved)
        if "NET/IB : Using" in line:
            head = line[: line.index("NET/IB")]
            lines += [
                f"{head}NET/IB : Made virtual device [{4 + n}] name=mlx5_{2 * n}+mlx5_{2 * n + 1} speed=800000 ndevs=2" for n in (0, 1)
            ]
    write(tmp_path, lines)
    run, _, codes = checked(tmp_path)
    assert run.frame("connections")["nic"].drop_nulls().unique().sort().to_list() == ["mlx5_0+mlx5_1", "mlx5_2+mlx5_3"]
    assert codes == []


def test_a_dump_as_pickle_and_as_json_counts_once(tmp_path: Path) -> None:
    dumps = {rank: dump(rank, [entry(1), entry(2)], range(2)) for rank in range(2)}
    write_dumps(tmp_path, dumps)
    for rank, content in dumps.items():
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content, protocol=2))
    run, _, codes = checked(tmp_path)
    assert (run.frame("flight").height, codes) == (4, [])


def test_dumps_of_two_runs_cannot_be_one_run(tmp_path: Path) -> None:
    for at_ns, name in ((1, "old"), (10**15, "new")):
        (tmp_path / name).mkdir()
        write_dumps(tmp_path / name, {rank: dump(rank, [entry(1, time_created_ns=at_ns)], range(2)) for rank in range(2)})
    with pytest.raises(RunError, match=r"^DUPLICATE_RANK: .*rank 0.*new/nccl_trace_rank_0\.json, old/"):
        checked(tmp_path)


def test_beside_a_log_dumps_of_two_runs_are_an_issue(tmp_path: Path) -> None:
    write(tmp_path, healthy())
    write_dumps(tmp_path, {0: dump(0, [entry(1)], range(2))})
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(dump(0, [entry(1, time_created_ns=7)], range(2)), protocol=2))
    _, verdict, _ = checked(tmp_path)
    assert [issue.severity for issue in verdict.issues if issue.code == "DUPLICATE_RANK"] == ["error"]


def test_the_rank_of_a_dump_may_be_given(tmp_path: Path) -> None:
    for name, entries in (("a", [entry(1), entry(2, "started")]), ("b", [entry(1)])):
        (tmp_path / f"{name}.json").write_text(json.dumps(dump(0, entries, range(2))))
    (tmp_path / "netlab.toml").write_text('[files]\n"a.json" = { rank = 1 }\n"b.json" = { rank = 0 }\n')
    _, verdict, _ = checked(tmp_path)
    assert [(hang.waiting_ranks, hang.missing_ranks) for hang in verdict.hangs] == [([1], [0])]
    assert "RANK_ASSUMED" not in {issue.code for issue in verdict.issues}


def test_what_costs_most_stands_first(tmp_path: Path) -> None:
    lines = [line.replace("NET/IB/", "NET/Socket/").replace("/GDRDMA", "").replace("2.21.5", "2.10.3") for line in healthy()]
    write(tmp_path, [line.replace("Using network IB", "Using network Socket") for line in lines])
    _, verdict, codes = checked(tmp_path)
    assert codes == ["SOCKET_FALLBACK", "OLD_NCCL"]
    assert verdict.headline.startswith("nodea and nodeb use TCP sockets")


def test_logs_without_a_fault_are_not_said_to_lack_device_activity(tmp_path: Path) -> None:
    write(tmp_path, healthy())
    _, verdict, _ = checked(tmp_path)
    assert verdict.headline == "No share can be given, since that takes a trace; nothing of weight was found in what was read."


def test_of_two_dumps_of_a_rank_the_later_state_counts(tmp_path: Path) -> None:
    write_dumps(tmp_path, {rank: dump(rank, [entry(1, "started")], range(2)) for rank in range(2)})
    later = tmp_path / "later"
    later.mkdir()
    write_dumps(later, {rank: dump(rank, [entry(1)], range(2)) for rank in range(2)})
    run, _, codes = checked(tmp_path)
    assert (run.frame("flight")["state"].to_list(), codes) == (["completed", "completed"], [])


def test_dumps_without_entries_are_a_run_of_which_nothing_is_known(tmp_path: Path) -> None:
    for rank in range(2):
        status = {"0": {"last_enqueued_collective": "5", "last_started_collective": "5", "last_completed_collective": "5"}}
        (tmp_path / f"nccl_trace_rank_{rank}.json").write_text(json.dumps({"version": "2.10", "pg_config": {}, "pg_status": status}))
    _, verdict, codes = checked(tmp_path)
    assert (verdict.status, codes) == ("inconclusive", [])


def test_dumps_of_another_size_than_the_log_are_said_to_disagree(tmp_path: Path) -> None:
    write(tmp_path, healthy())
    write_dumps(tmp_path, {rank: dump(rank, [entry(1)], range(16)) for rank in range(16)})
    _, verdict, _ = checked(tmp_path)
    assert [issue.message for issue in verdict.issues if issue.code == "RANK_DISAGREES"] == [
        "flight-recorder dumps show 16 ranks, NCCL logs 8; are both of one run?"
    ]


def test_a_log_names_the_host_of_the_rank_that_a_dump_misses(tmp_path: Path) -> None:
    write(tmp_path, healthy())
    write_dumps(tmp_path, {r: dump(r, [entry(1)] + ([entry(2, "started")] if r != 6 else []), range(8)) for r in range(8)})
    _, verdict, _ = checked(tmp_path)
    found = next(finding for finding in verdict.findings if finding.code == "COLLECTIVE_NOT_JOINED")
    assert (found.subject.ranks, found.subject.hosts) == ([6], ["nodeb"])


def test_a_restarted_job_has_two_communicators(tmp_path: Path) -> None:
    write(tmp_path, [*healthy(), *(line.replace("0x5a5a000000000001", "0x5a5a000000000002") for line in healthy())])
    run, _, codes = checked(tmp_path)
    assert (run.frame("communicators")["comm_id"].n_unique(), run.frame("communicators").height, codes) == (2, 16, [])


def test_columns_of_each_iteration_do_not_hide_those_in_place(tmp_path: Path) -> None:
    more = "time   algbw   busbw  #wrong   min   max   p99   cv"
    lines = [
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0",
        "# Collective test starting: all_gather_perf",
        f"#       size         count      type   redop    root     {more}     {more} (+ per-iteration)",
        "   134217728       4194304     float    none      -1   1000.0  134.22  117.44      0  990.0 1010.0 1009.0 0.01"
        "   1010.0  132.89  116.28      0  1000.0 1020.0 1019.0 0.01",
    ]
    write(tmp_path, lines, "test.log")
    run, _, _ = checked(tmp_path)
    assert run.frame("link_speed_tests").select("op", "busbw_gb_per_s", "in_place").rows() == [
        ("all_gather", 117.44, False), ("all_gather", 116.28, True),
    ]  # fmt: skip


def test_the_rank_that_reports_nothing_is_named_by_lines_of_2_6(tmp_path: Path) -> None:
    work = "WorkNCCL(SeqNum=77, OpType=_ALLGATHER_BASE, NumelIn=8, NumelOut=32, Timeout(ms)=600000) ran for 600010 milliseconds before"
    lines = []
    for rank in (0, 1, 3):
        stamp = f"[rank{rank}]:[E1106 02:07:08.408271257 ProcessGroupNCCL.cpp:632] "
        lines.append(f"{stamp}[Rank {rank}] Watchdog caught collective operation timeout: {work} timing out.")
        where = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: 77"
        lines.append(f"{stamp}{where} PG status: last enqueued work: 79, last completed work: 76")
    told = "Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info."
    lines.append(
        f"[rank2]:[E1106 02:07:09.4 ProcessGroupNCCL.cpp:684] [PG ID 0 PG GUID 0(default_pg) Rank 2] {told} "
        "Last enqueued NCCL work: 76, last completed NCCL work: 76."
    )
    write(tmp_path, ["NCCL version 2.21.5+cuda12.4", *lines])
    _, verdict, _ = checked(tmp_path)
    assert [(hang.seq, hang.op, hang.missing_ranks, hang.last_completed_seq) for hang in verdict.hangs] == [(77, "all_gather", [2], 76)]


def test_an_initialisation_that_one_rank_does_not_end_is_told_of_that_rank(tmp_path: Path) -> None:
    write(tmp_path, [line for line in healthy() if line != init("nodeb", 5, 8, "Init COMPLETE")])
    _, verdict, _ = checked(tmp_path)
    told = [issue.message for issue in verdict.issues if issue.code == "INIT_INCOMPLETE"]
    assert len(told) == 1
    assert "rank 5 of 8" in told[0]


def test_what_nccl_predicts_is_the_roofline_of_its_communicator(tmp_path: Path) -> None:
    head = record("nodea", 0, "")
    cells = " |".join(["            Tree", "            Ring"])
    table = [
        f"{head}  Algorithm   |{cells} |",
        f"{head}  Protocol    |   LL |   LL128 |  Simple |   LL |   LL128 |  Simple |",
        f"{head} Max NThreads |  512 |     640 |     512 |  512 |     640 |     512 |",
        f"{head}    AllReduce | 17.5/ 4.1 | 30.0/ 39.0 | 100.0/ 40.0 | 25.0/ 6.0 | 40.0/ 45.0 | 120.0/ 48.0 |",
    ]
    lines = healthy()
    at = lines.index(init("nodea", 0, 8, "Init COMPLETE"))
    write(tmp_path, [*lines[:at], *table, *lines[at:]])
    run, _, _ = checked(tmp_path)
    assert run.frame("tuning_predictions").height == 6
    assert run.frame("group_links")["predicted_gb_per_s"].to_list() == pytest.approx([48 * 2 * 7 / 8])


def test_credentials_reach_no_table_and_no_verdict(tmp_path: Path) -> None:
    key, word, token = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "hunter2secret", "hf_abcdefghijklmnopqrstuvwxyz0123"
    said = [
        f"AWS_SECRET_ACCESS_KEY set by environment to {key}",
        f"NCCL_PROXY_URL set by environment to http://bob:{word}@proxy:3128",
        f"HF_TOKEN set by environment to {token}",
        f"PGPASSWORD set by environment to {word}",
        f"SIGNING_SECRET set by environment to two words {word}",
        f"NET/OFI broker amqp://bob:{word}@mq, PRIVATE_KEY={key}",
        "TOKENIZERS_PARALLELISM set by environment to false",
        "NCCL_IB_PKEY set by environment to 7.",
    ]
    warning = f"nodea:4001:4051 [0] misc.cc:5 NCCL WARN Failed to reach https://bob:{word}@proxy with token={key}"
    torn = f"nodea:4001:4051 [0] NCCL INFO Channel secret={key}"
    write(tmp_path, [*healthy({"nodea": said}), f"export AWS_SECRET_ACCESS_KEY={key}", "", warning, torn])
    run, verdict, _ = checked(tmp_path)
    told = verdict.json() if isinstance(verdict.json(), str) else verdict.json().decode()
    told += "".join(run.frame(name).write_json() for name in run.tables)
    assert [secret for secret in (key, word, token) if secret in told] == []
    shown = {name: run.frame("nccl_events").filter(key=name)["value"].to_list() for name in ("NCCL_IB_PKEY", "TOKENIZERS_PARALLELISM")}
    assert shown == {"NCCL_IB_PKEY": ["7"] * 4, "TOKENIZERS_PARALLELISM": ["false"] * 4}
