"""The shared NCCL samples give the facts that their provenance states, and nothing that is not true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import netlab

#: File: ranks, hosts, version, networks between hosts, share of GPUDirect, transports, codes of findings.
LOGS: dict[str, tuple[Any, ...]] = {
    "01_ib_gdr_2x8_nccl2.19": (16, 2, "2.19.4", ["IB"], 1.0, ["NET", "P2P"], []),
    "02_roce_nogdr_2nics_2x8_nccl2.21": (16, 2, "2.21.5", ["RoCE"], 0.0, ["NET", "P2P"], ["GDR_DISABLED", "PCIE_DISTANCE"]),
    "03_socket_fallback_2x4_nccl2.18": (8, 2, "2.18.6", ["Socket"], 0.0, ["NET", "P2P"], ["SOCKET_FALLBACK"]),
    "04_efa_ofi_2x8_nccl2.27": (16, 2, "2.27.7", ["OFI"], 1.0, ["NET", "P2P"], []),
    "05_shm_only_1x4_nccl2.20": (4, 1, "2.20.5", [], None, ["SHM"], ["ENV_LEFTOVER", "P2P_DISABLED"]),
    "06_tree_ib_4x8_graph_tuning_nccl2.23": (32, 4, "2.23.4", ["IB"], 1.0, ["NET", "P2P"], []),
    "07_nvls_1x8_coll_tuning_nccl2.28": (8, 1, "2.28.9", [], None, ["P2P"], []),
    "12_ib_2x4_nccl2.8_hex_busid": (8, 2, "2.8.4", ["IB"], 1.0, ["NET", "P2P"], ["OLD_NCCL"]),
    "13_rccl_mi300x_2x8": (16, 2, "2.20.5", ["RoCE"], 1.0, ["NET", "P2P"], []),
    "14_timestamps_mnnvl_nccl2.30": (8, 2, "2.30.7", ["RoCE"], 1.0, ["NET", "P2P"], ["IB_ERROR"]),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_gives_its_ranks_links_and_faults(shared_data: Path, name: str) -> None:
    ranks, hosts, version, networks, direct, transports, codes = LOGS[name]
    run = netlab.open(shared_data / "nccl" / "logs" / f"{name}.log")
    verdict = netlab.check(run)
    assert sorted({finding.code for finding in verdict.findings}) == codes
    assert [issue for issue in verdict.issues if issue.severity != "info"] == []
    assert (verdict.run.world_size, len(verdict.run.hosts)) == (ranks, hosts)
    assert run.frame("communicators")["nccl_version"].unique().to_list() == [version]
    connections = run.frame("connections")
    assert connections["network"].drop_nulls().unique().sort().to_list() == networks
    assert connections.filter(pl.col("transport") == "NET")["gdr"].mean() == direct
    assert connections["transport"].unique().sort().to_list() == transports
    links = run.frame("group_links")
    assert links["layer"].unique().to_list() == ["inter_node" if hosts > 1 else "intra_node"]
    assert set(links["nranks"]) == {ranks}


def frames(folder: Path, name: str) -> netlab.Run:
    return netlab.open(next((folder / "nccl" / "logs").glob(f"{name}_*.log")))


def test_calls_and_choices_of_the_first_sample(shared_data: Path) -> None:
    run = frames(shared_data, "01")
    assert run.frame("logged_operations").height == 6
    assert run.frame("nccl_events").filter(pl.col("code") == "tuning_choice")["value"].str.contains("/").all()


def test_predictions_relays_and_cut_rings_of_the_tree_sample(shared_data: Path) -> None:
    run = frames(shared_data, "06")
    assert run.frame("tuning_predictions").height == 13  # the cells whose bandwidth is not 0.0
    assert run.frame("connections")["proxy_rank"].is_not_null().any()
    order = run.frame("communicator_edges").filter(pl.col("basis") == "order")
    assert order["truncated"].all()  # 20 of 32 ranks
    assert order.group_by("channel").len()["len"].unique().to_list() == [19]


def test_calls_and_channels_of_the_nvls_sample(shared_data: Path) -> None:
    run = frames(shared_data, "07")
    assert run.frame("logged_operations")["dtype"].value_counts().sort("dtype").rows() == [("bfloat16", 24), ("float32", 16)]
    assert run.frame("communicators")["ended"].all()
    assert run.frame("communicators")["nvls_channels"].min() == 16


def test_all_generations_of_completion_errors(shared_data: Path) -> None:
    errors = frames(shared_data, "08").frame("nccl_events").filter(pl.col("code") == "ib_completion")
    assert (errors.height, sorted(set(errors["key"]))) == (5, ["10", "12", "5"])


def test_time_stamps_with_milliseconds_are_kept(shared_data: Path) -> None:
    events = frames(shared_data, "14").frame("nccl_events").filter(pl.col("ts_ns").is_not_null())
    assert (events["ts_ns"] % 1_000_000_000 != 0).any()
    assert events["ts_ns"].min() // 1_000_000_000 == 1_773_480_413  # 2026-03-14 09:26:53 UTC


def test_the_mixed_sample_names_versions_link_and_rails(shared_data: Path) -> None:
    verdict = netlab.check(frames(shared_data, "15"))
    assert {finding.code for finding in verdict.findings} == {"VERSION_MIX", "P2P_DISABLED", "RAIL_MISMATCH"}


def test_the_garbled_sample_keeps_its_records(shared_data: Path) -> None:
    run = frames(shared_data, "10")
    assert run.frame("sources").select("rows", "status").row(0) >= (196, "ok")
    assert netlab.check(run).findings == []


def test_dumps_name_the_straggler_and_the_mismatch(shared_data: Path) -> None:
    folder = shared_data / "nccl" / "flight_recorder"
    late = netlab.check(netlab.open(folder / "nccl_v2.4_timing_straggler"))
    assert [finding.subject.ranks for finding in late.findings if finding.code == "STRAGGLER"] == [[2]]
    odd = netlab.check(netlab.open(folder / "nccl_v2.10_mismatch"))
    found = next(finding for finding in odd.findings if finding.code == "COLLECTIVE_MISMATCH")
    assert found.subject.ranks == [3]
    assert "19" in found.title
    assert netlab.check(netlab.open(folder / "nccl_v1.x_old")).findings == []
    gloo = folder / "real_gloo_torch2.13"
    pending = netlab.check(netlab.open(gloo / "pending_rank_0.json", gloo / "pending_rank_1.json"))
    assert [(hang.seq, hang.missing_ranks) for hang in pending.hangs] == [(5, [1])]


def test_inspector_finds_the_slow_operations_of_rank_two(shared_data: Path) -> None:
    events = netlab.open(shared_data / "nccl" / "inspector").frame("profiler_events").filter(pl.col("timing") != "period mean")
    slow = events.filter(pl.col("duration_ns") > 3 * pl.col("duration_ns").median().over("op", "bytes"))
    assert slow["rank"].unique().to_list() == [2]


@pytest.mark.parametrize(
    ("name", "gpus", "nics"),
    [
        ("azure_ndv5-topo", 8, 8),
        ("azure_ndv4-topo", 8, 8),
        ("aws_p4d-24xl-topo", 8, 4),
        ("rccl_topo_8p_940", 8, 8),
        ("rccl_topo_16p1h", 16, 8),
    ],
)
def test_topologies_hold_their_gpus_and_nics(shared_data: Path, name: str, gpus: int, nics: int) -> None:
    nodes = netlab.open(shared_data / "nccl" / "topo_xml" / f"{name}.xml").frame("topology_nodes")
    counts = dict(nodes.group_by("kind").len().iter_rows())
    assert (counts["gpu"], max(counts.get("net", 0), counts.get("nic", 0))) == (gpus, nics)
