"""Where ranks run, how groups are connected, what hangs, and what logs do not show."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from netlab.attribute.nccl import hangs, log_world_size, logged_gbps, nccl_issues, rank_hosts, rank_places
from netlab.attribute.nccl_repeats import without_repeats
from netlab.schema.nccl import COMMUNICATORS, FLIGHT, NCCL_EVENTS
from tests.nccl_text import dump, entry, healthy, init, read_log, record, run_of, write_dumps

CALL = "sendbuff 0x1 recvbuff 0x2 count 8 datatype 7 op 0 root 0 comm 0x55000000{:04x} [nranks=8] stream 0x3"


def test_places_join_rank_host_gpu_and_nic(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, healthy())
    places = rank_places(tables["communicators"], tables["connections"])
    assert places.row(6, named=True) == {
        "rank": 6, "host": "nodeb", "local_rank": 2, "cuda_device": 2, "bus_id": "3b000", "nic": "mlx5_2", "network": "IB",
        "nccl_version": "2.21.5",
    }  # fmt: skip
    assert rank_hosts(tables["communicators"])[4] == "nodeb"
    assert log_world_size(tables["communicators"]) == 8


def test_ranks_without_a_log_are_said_to_be_missing(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, [init("nodea", 0, 4, "Init START"), init("nodea", 0, 4, "Init COMPLETE")])
    assert [issue.code for issue in nccl_issues(tables["communicators"], FLIGHT.empty())] == ["NO_LOG_FOR_RANK"]


def test_an_initialisation_that_does_not_end_is_said(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, [init("nodea", 0, 1, "Init START")])
    assert [issue.code for issue in nccl_issues(tables["communicators"], FLIGHT.empty())] == ["INIT_INCOMPLETE"]


def test_the_first_pending_collective_of_a_group_is_the_hang(tmp_path: Path) -> None:
    waiting = [entry(1), entry(2, "started"), entry(3, "scheduled")]
    run = run_of(*write_dumps(tmp_path, {0: dump(0, waiting, range(3)), 1: dump(1, waiting, range(3)), 2: dump(2, [entry(1)], range(3))}))
    assert run.frame("hangs").rows() == [("0,1,2", 2, "all_reduce", [0, 1], [2], 1, "flight", "0")]


def test_gloo_entries_that_were_retired_are_complete(shared_data: Path) -> None:
    folder = shared_data / "nccl" / "flight_recorder" / "real_gloo_torch2.13"
    assert run_of(*sorted(folder.glob("nccl_trace_rank_*"))).frame("hangs").is_empty()
    pending = run_of(*sorted(folder.glob("pending_rank_*.json"))).frame("hangs")
    assert pending.select("seq", "waiting_ranks", "missing_ranks").rows() == [(5, [0], [1])]


def test_the_watchdog_sample_points_to_rank_5(shared_data: Path) -> None:
    run = run_of(shared_data / "nccl" / "logs" / "09_watchdog_timeouts_torchrun.log")
    rows = {row["seq"]: row for row in run.frame("hangs").to_dicts()}
    assert rows[7753]["missing_ranks"] == [5]
    assert rows[7753]["last_completed_seq"] == 7752
    assert [row["missing_ranks"] for seq, row in rows.items() if seq != 7753] == [[], [], []]


def test_nothing_pending_is_no_hang() -> None:
    assert hangs(FLIGHT.empty(), NCCL_EVENTS.empty()).is_empty()


def test_a_log_that_was_written_twice_counts_once(tmp_path: Path) -> None:
    whole, own = tmp_path / "job.log", tmp_path / "nccl.nodea.4001.log"
    extra = {"nodea": ["NCCL_IB_HCA set by environment to mlx5", "AllReduce: opCount 1 " + CALL.format(0)]}
    whole.write_text("\n".join(healthy(extra)))
    own.write_text("\n".join(line for line in healthy(extra) if ":4001:" in line))
    once, twice = run_of(whole), run_of(whole, own)
    frames = {name: twice.frame(name) for name in twice.tables}
    kept = {**frames, **without_repeats(frames)}
    for name in ("communicators", "connections", "logged_operations"):
        assert kept[name].drop("source", "line").equals(once.frame(name).drop("source", "line")), name
    assert kept["nccl_events"].height == once.frame("nccl_events").height


def test_dumps_of_two_runs_are_told_apart(tmp_path: Path) -> None:
    first = run_of(*write_dumps(tmp_path, {0: dump(0, [entry(1)], range(2))})).frame("flight")
    (tmp_path / "b").mkdir()
    second = run_of(*write_dumps(tmp_path / "b", {0: dump(0, [entry(1, time_created_ns=99)], range(2))})).frame("flight")
    second = second.with_columns(source=pl.lit("other"))
    codes = [issue.code for issue in nccl_issues(COMMUNICATORS.empty(), pl.concat([first, second]))]
    assert "DUPLICATE_RANK" in codes


def test_two_groups_of_the_same_ranks_in_two_forms_of_one_dump_are_one_run(tmp_path: Path) -> None:
    entries = [entry(1), entry(1, time_created_ns=99, process_group=["1", "dp"])]
    first = run_of(*write_dumps(tmp_path, {0: dump(0, entries, range(2))})).frame("flight")
    codes = [issue.code for issue in nccl_issues(COMMUNICATORS.empty(), pl.concat([first, first.with_columns(source=pl.lit("other"))]))]
    assert "DUPLICATE_RANK" not in codes


def test_an_initialisation_that_nobody_ended_is_said_once(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, [init("nodea", rank, 4, "Init START") for rank in range(4)])
    (issue,) = nccl_issues(tables["communicators"], FLIGHT.empty())
    assert (issue.code, issue.line) == ("INIT_INCOMPLETE", 1)
    assert "4 of 4 ranks" in issue.message


def test_rates_of_links_come_from_the_topology_that_nccl_prints(tmp_path: Path) -> None:
    lines = healthy()
    graph = [
        "CPU/0-0 (1/1/4)",
        "+ NET[50.0] - NET/0-0 (0/a088c20003a1e8fc/1/50.000000)",
        "GPU/0-1b000 :GPU/0-2b000 (2/370.8/NVL) NET/0-0 (3/48.0/PIX)",
    ]
    for nic in (1, 2, 3):
        lines = [line.replace(f"NET/IB/{nic}/", f"NET/IB/{nic // 2 * 2}/") if line.startswith("nodeb") else line for line in lines]
    tables, _ = read_log(tmp_path, [*lines, *(record("nodea", 0, text) for text in graph)])
    rates = logged_gbps(tables["connections"], tables["topology_nodes"], tables["topology_paths"])
    assert rates == {"inter_node": 200.0, "intra_node": 370.8 * 8}


def test_calls_are_compared_where_every_member_has_a_dump(tmp_path: Path) -> None:
    def calls(*at_ms: float) -> list[dict[str, object]]:
        return [entry(seq + 1, time_created_ns=int(at * 1e6)) for seq, at in enumerate(at_ms)]

    # Rank 1 is always 2 ms behind (its clock, perhaps), and 5 ms more in the third; the fourth was called by rank 0 only.
    dumps = {0: dump(0, calls(10, 20, 30, 40), range(2)), 1: dump(1, calls(12, 22, 37), range(2))}
    rows = run_of(*write_dumps(tmp_path, dumps)).frame("flight_arrivals").filter(pl.col("rank") == 1)
    assert rows.select("seq", "lag_ns", "excess_ns").rows() == [(1, 2_000_000, 0), (2, 2_000_000, 0), (3, 7_000_000, 5_000_000)]
