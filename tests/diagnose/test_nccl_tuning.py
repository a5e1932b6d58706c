"""Rules about packet size, queues, algorithms, relays, plugins and the set-up of hosts; and rules of errors that had no test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nccl_text import findings, healthy, init, one, record

QUEUE = "NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn {} mtu {} LID 12 subnet-prefix 1 FLID 0 fifoRkey=0x1 fifoLkey=0x1"


def codes(folder: Path, lines: list[str]) -> set[str]:
    return {finding.code for finding in findings(folder, lines)}


def test_a_host_with_smaller_packets_is_named(tmp_path: Path) -> None:
    lines = healthy()
    for rank in range(8):
        lines += [record("nodea" if rank < 4 else "nodeb", rank, QUEUE.format(90 + rank, 3 if rank >= 4 else 5))]
    found = one(findings(tmp_path, lines), "SMALL_MTU")
    assert (found.subject.hosts, found.severity) == (["nodeb"], "warning")
    assert "1024 bytes" in found.title
    assert found.evidence[0]["line"] > 40


def test_small_packets_everywhere_may_be_meant_so(tmp_path: Path) -> None:
    lines = [*healthy(), *(record("nodea" if rank < 4 else "nodeb", rank, QUEUE.format(rank, 3)) for rank in range(8))]
    assert one(findings(tmp_path, lines), "SMALL_MTU").severity == "info"


def test_packets_of_4096_bytes_are_fine(tmp_path: Path) -> None:
    assert "SMALL_MTU" not in codes(tmp_path, [*healthy(), record("nodea", 0, QUEUE.format(1, 5))])


ROCE = "[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [2]mlx5_2:1/RoCE [3]mlx5_3:1/RoCE"


@pytest.mark.parametrize(
    ("hosts", "setting", "said"),
    [
        (4, "NCCL_IB_HCA set by environment to mlx5", True),
        (4, "NCCL_IB_QPS_PER_CONNECTION set by environment to 1.", True),
        (4, "NCCL_IB_QPS_PER_CONNECTION set by environment to 4.", False),
        (2, "NCCL_IB_HCA set by environment to mlx5", False),
        (4, "cudaDriverVersion 12040", False),
    ],
)
def test_one_queue_pair_over_roce(tmp_path: Path, hosts: int, setting: str, said: bool) -> None:
    names = [f"node{chr(97 + number)}" for number in range(hosts)]
    lines = healthy({name: [setting] for name in names}, hosts=names, nics=dict.fromkeys(names, ROCE))
    assert ("ONE_QP" in codes(tmp_path, lines)) is said


def many_hosts(count: int, choice: str, extra: str = "") -> list[str]:
    lines = [init(f"node{number:02d}", number, count, "Init START") for number in range(count)]
    lines += [record("node00", 0, message) for message in (extra, choice) if message]
    return lines + [init(f"node{number:02d}", number, count, "Init COMPLETE") for number in range(count)]


@pytest.mark.parametrize(
    ("count", "choice", "said"),
    [
        (17, "AllReduce: 1048576 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..15}", True),
        (17, "1048576 Bytes -> Algo 1 proto 0 time 120.0", True),
        (17, "AllReduce: 1048576 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..15}", False),
        (17, "AllReduce: 268435456 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}", False),
        (17, "AllGather: 1048576 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..15}", False),
        (16, "AllReduce: 1048576 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..15}", False),
    ],
)
def test_a_ring_over_many_hosts_is_slow_for_small_messages(tmp_path: Path, count: int, choice: str, said: bool) -> None:
    assert ("RING_AT_SCALE" in codes(tmp_path, many_hosts(count, choice))) is said


def test_small_choices_are_kept_beside_large_ones(tmp_path: Path) -> None:
    large = "AllReduce: 268435456 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..15}"
    small = "AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..15}"
    found = one(findings(tmp_path, many_hosts(17, small, large)), "RING_AT_SCALE")
    assert "1,024 bytes over 17 hosts" in found.title


def test_a_forced_algorithm_is_the_reason(tmp_path: Path) -> None:
    lines = many_hosts(17, "AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..15}", "NCCL_ALGO set by environment to Ring")
    assert "because NCCL_ALGO=Ring is set" in one(findings(tmp_path, lines), "RING_AT_SCALE").title


def test_in_network_reduction_that_was_asked_for_and_is_not_used(tmp_path: Path) -> None:
    few = "Communicator has 2 nodes which is less than CollNet node threshold 4, disabling CollNet"
    asked = {"nodea": ["NCCL_COLLNET_ENABLE set by environment to 1.", few], "nodeb": ["NCCL_COLLNET_ENABLE set by environment to 1.", few]}
    assert one(findings(tmp_path, healthy(asked)), "COLLNET_OFF").subject.hosts == ["nodea", "nodeb"]
    assert "COLLNET_OFF" not in codes(tmp_path, healthy({"nodea": [few]}))
    used = [record("nodea", 0, "CollNet 00/1 : 0 [send] via COLLNET/SHARP/0/GDRDMA")]
    assert "COLLNET_OFF" not in codes(tmp_path, [*healthy(asked), *used])


def test_gpus_that_only_reach_the_network_through_others(tmp_path: Path) -> None:
    lines = [
        line.replace("NET/IB/2/GDRDMA", "NET/IB/1(1)/GDRDMA") if "[send]" in line and "node" + "a" in line else line
        for line in healthy()
        if not ("[receive]" in line and "NET/IB/2/" in line and line.startswith("nodea"))
    ]
    found = one(findings(tmp_path, lines), "PXN_ALWAYS")
    assert (found.subject.hosts, found.subject.ranks, found.severity) == (["nodea"], [2], "info")


def test_relays_beside_an_own_nic_are_fine(tmp_path: Path) -> None:
    lines = [line.replace("NET/IB/2/GDRDMA", "NET/IB/1(1)/GDRDMA") if "[send]" in line else line for line in healthy()]
    assert "PXN_ALWAYS" not in codes(tmp_path, lines)


def efa(nics: dict[str, int], protocols: dict[str, str]) -> list[str]:
    said = {
        host: [
            f"NET/OFI Using transport protocol {protocols[host]} (platform set)",
            f"NET/OFI Selected provider is efa, fabric is efa-direct (found {count} nics)",
        ]
        for host, count in nics.items()
    }
    return healthy(said)


def test_one_efa_device_and_no_rdma_are_named(tmp_path: Path) -> None:
    rdma = {"nodea": "RDMA", "nodeb": "RDMA"}
    assert "OFI_LIMITED" not in codes(tmp_path, efa({"nodea": 16, "nodeb": 16}, rdma))
    assert one(findings(tmp_path, efa({"nodea": 16, "nodeb": 1}, rdma)), "OFI_LIMITED").subject.hosts == ["nodeb"]
    mixed = {"nodea": "SENDRECV", "nodeb": "RDMA"}
    assert one(findings(tmp_path, efa({"nodea": 16, "nodeb": 16}, mixed)), "OFI_LIMITED").subject.hosts == ["nodea"]


def test_hints_about_the_host_are_findings(tmp_path: Path) -> None:
    hint = (
        'nodea:4001:4051 [0] init.cc:9 NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instability or hang!'
    )
    found = one(findings(tmp_path, [*healthy(), "", hint]), "HOST_SETUP")
    assert (found.subject.hosts, "pass-through" in found.title) == (["nodea"], True)


@pytest.mark.parametrize(
    ("warning", "code", "severity"),
    [
        ("Cuda failure 2 'out of memory'", "CUDA_FAILURE", "critical"),
        ("Cuda failure 'an illegal memory access was encountered'", "CUDA_FAILURE", "critical"),
        ("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000", "DUPLICATE_GPU", "critical"),
        ("Connect to 10.0.0.2<33445> failed : Connection refused", "CONNECT_FAILED", "warning"),
        ("NET/Socket : peer 10.0.0.2<1> message truncated : receiving 8 bytes instead of 4", "MESSAGE_TRUNCATED", "critical"),
        ("MNNVL (cliqueSize 8) is available but not working on some system. Check the IMEX channel configuration", "MNNVL_OFF", "warning"),
    ],
)
def test_errors_are_quoted_with_their_host(tmp_path: Path, warning: str, code: str, severity: str) -> None:
    found = one(findings(tmp_path, [*healthy(), "", f"nodeb:4005:4055 [0] init.cc:77 NCCL WARN {warning}"]), code)
    assert (found.subject.hosts, found.severity) == (["nodeb"], severity)
    assert found.evidence[0]["line"] == len(healthy()) + 2


def test_nics_with_unequal_loads_are_named(tmp_path: Path) -> None:
    extra = [
        record("nodea", 0, f"Channel {channel:02d}/0 : 0[0] -> 4[0] [send] via NET/IB/0/GDRDMA") for channel in range(4, 10)
    ]  # fmt: skip
    found = one(findings(tmp_path, [*healthy(), *extra]), "NIC_IMBALANCE")
    assert (found.subject.hosts, found.subject.ports) == (["nodea"], ["nodea/mlx5_0"])


def test_a_clique_over_hosts_that_is_not_used_is_a_fall_back(tmp_path: Path) -> None:
    lines = healthy()
    for rank in range(8):
        host = "nodea" if rank < 4 else "nodeb"
        lines.append(
            record(host, rank, f"comm 0x55000000{rank:04x} rank {rank} nRanks 8 nNodes 2 localRanks 4 localRank {rank % 4} MNNVL 0")
        )
        lines.append(record(host, rank, f"MNNVL 0 cliqueId 7ffe cliqueSize 8 cliqueRank {rank}"))
    assert one(findings(tmp_path, lines), "MNNVL_OFF").subject.hosts == ["nodea", "nodeb"]
    inside = [line.replace("cliqueSize 8", "cliqueSize 4") for line in lines]
    assert "MNNVL_OFF" not in codes(tmp_path, inside)


def test_a_timeout_of_one_element_points_to_a_rank(tmp_path: Path) -> None:
    work = "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out."
    lines = [
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: {work}" for rank in (0, 1)
    ]
    found = [finding for finding in findings(tmp_path, [*healthy(), *lines]) if finding.code == "COLLECTIVE_TIMEOUT"]
    assert found
    assert "moves one element" in found[0].detail
