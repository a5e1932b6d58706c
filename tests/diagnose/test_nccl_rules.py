"""Each rule on a log with one planted fault: it names those affected and nobody else, and a healthy log gives nothing."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.diagnose.nccl import nccl_findings
from netlab.findings import FINDING_CODES, ranked
from tests.nccl_text import FOUR_NICS, findings, healthy, init, one, read_log, record, run_of

EIGHT = " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(4))


def codes(folder: Path, lines: list[str]) -> set[str]:
    return {finding.code for finding in findings(folder, lines)}


def test_a_healthy_log_gives_no_finding(tmp_path: Path) -> None:
    extra = {
        host: ["NCCL_IB_HCA set by environment to mlx5", "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'"]
        for host in ("nodea", "nodeb")
    }
    assert findings(tmp_path, healthy(extra)) == []


def test_sockets_between_hosts_are_named_with_their_reason(tmp_path: Path) -> None:
    lines = []
    for rank, host in enumerate(("nodea", "nodeb")):
        lines += [
            record(host, rank, "NET/IB : No device found."),
            record(host, rank, "NET/Socket : Using [0]eth0:10.0.0.1<0>"),
            record(host, rank, "Using network Socket"),
            init(host, rank, 2, "Init START"),
            record(host, rank, f"Channel 00/0 : {rank}[0] -> {1 - rank}[0] [send] via NET/Socket/0"),
            init(host, rank, 2, "Init COMPLETE"),
        ]
    found = one(findings(tmp_path, lines), "SOCKET_FALLBACK")
    assert found.subject.hosts == ["nodea", "nodeb"]
    assert found.severity == "warning"
    assert "No device found" in str(found.evidence)
    assert found.cause == "host"


def test_sockets_on_a_single_host_are_no_finding(tmp_path: Path) -> None:
    lines = []
    for rank in range(2):
        lines += [
            record("ws", rank, "NET/IB : No device found."),
            record("ws", rank, "Using network Socket"),
            init("ws", rank, 2, "Init START"),
            record("ws", rank, f"Channel 00/0 : {rank}[{rank}] -> {1 - rank}[{1 - rank}] via P2P/IPC"),
            init("ws", rank, 2, "Init COMPLETE"),
        ]
    assert findings(tmp_path, lines) == []


def test_gpudirect_is_off_on_the_host_that_lacks_it_only(tmp_path: Path) -> None:
    lines = [line.removesuffix("/GDRDMA") if line.startswith("nodeb") else line for line in healthy()]
    found = one(findings(tmp_path, lines), "GDR_DISABLED")
    assert found.subject.hosts == ["nodeb"]


def test_gpudirect_off_for_sends_only_is_by_design(tmp_path: Path) -> None:
    lines = [line.removesuffix("/GDRDMA") if "[send]" in line else line for line in healthy()]
    assert "GDR_DISABLED" not in codes(tmp_path, lines)


def test_four_gpus_on_one_nic_name_that_nic(tmp_path: Path) -> None:
    lines = []
    for line in healthy():
        for nic in (1, 2, 3):
            line = line.replace(f"NET/IB/{nic}/", "NET/IB/0/") if line.startswith("nodea") else line
        lines.append(line)
    found = one(findings(tmp_path, lines), "SHARED_NIC")
    assert found.subject.hosts == ["nodea"]
    assert found.subject.ports == ["nodea/mlx5_0"]


def test_gpus_share_a_nic_without_a_finding_where_there_is_only_one(tmp_path: Path) -> None:
    lines = [line.replace(FOUR_NICS, "[0]mlx5_0:1/IB") for line in healthy()]
    for nic in (1, 2, 3):
        lines = [line.replace(f"NET/IB/{nic}/", "NET/IB/0/") for line in lines]
    assert not codes(tmp_path, lines) & {"SHARED_NIC", "NIC_IMBALANCE"}


def test_a_host_with_fewer_nics_is_the_one_that_differs(tmp_path: Path) -> None:
    found = one(findings(tmp_path, healthy(nics={"nodeb": "[0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB"})), "NIC_SET_DIFFERS")
    assert found.subject.hosts == ["nodeb"]


def test_one_of_three_hosts_with_another_nic_uses_the_wrong_one(tmp_path: Path) -> None:
    other = FOUR_NICS.replace("mlx5_3", "mlx5_9")
    found = findings(tmp_path, healthy(hosts=("nodea", "nodeb", "nodec"), nics={"nodec": other}))
    assert one(found, "WRONG_HCA").subject.ports == ["nodec/mlx5_9"]
    assert one(found, "NIC_SET_DIFFERS").subject.hosts == ["nodec"]


def test_an_ethernet_port_beside_infiniband_is_the_wrong_nic(tmp_path: Path) -> None:
    mixed = FOUR_NICS.replace("mlx5_3:1/IB", "mlx5_3:1/RoCE")
    found = findings(tmp_path, healthy(nics={"nodea": mixed, "nodeb": mixed}))
    assert [f.subject.ports for f in found if f.code == "WRONG_HCA"] == [["nodea/mlx5_3"], ["nodeb/mlx5_3"]]


def test_a_filter_that_matches_nothing_is_named(tmp_path: Path) -> None:
    lines = [record("nodea", 0, "NCCL_IB_HCA set by environment to mlx6_0"), record("nodea", 0, "NET/IB : No device found.")]
    assert "mlx6_0" in one(findings(tmp_path, lines), "WRONG_HCA").title


@pytest.mark.parametrize(
    ("value", "codes_"), [("mlx5_1", {"HCA_PREFIX"}), ("=mlx5_1", set()), ("mlx5", set()), ("mlx5_1,mlx5_10,mlx5_11", set())]
)
def test_a_name_without_equals_sign_is_a_prefix(tmp_path: Path, value: str, codes_: set[str]) -> None:
    nics = "[0]mlx5_1:1/IB [1]mlx5_10:1/IB [2]mlx5_11:1/IB [3]mlx5_12:1/IB"
    extra = {host: [f"NCCL_IB_HCA set by environment to {value}"] for host in ("nodea", "nodeb")}
    unmeant = {"HCA_PREFIX"} if value.startswith("mlx5_1,") else codes_
    assert codes(tmp_path, healthy(extra, nics={"nodea": nics, "nodeb": nics})) == unmeant


def test_a_connection_between_rails_names_both_ends(tmp_path: Path) -> None:
    lines = [line.replace("[receive] via NET/IB/2", "[receive] via NET/IB/1") if line.startswith("nodeb") else line for line in healthy()]
    assert one(findings(tmp_path, lines), "RAIL_MISMATCH").subject.hosts == ["nodea", "nodeb"]


def test_host_memory_inside_a_host_is_p2p_disabled_there(tmp_path: Path) -> None:
    lines = [line.replace("P2P/CUMEM", "SHM/direct/direct") if line.startswith("nodeb") else line for line in healthy()]
    assert one(findings(tmp_path, lines), "P2P_DISABLED").subject.hosts == ["nodeb"]


def test_a_broken_nvlink_is_named(tmp_path: Path) -> None:
    lines = [*healthy(), "", "nodea:4001:4051 [0] graph/paths.cc:345 NCCL WARN P2P is disabled between NVLINK connected GPUs 0 and 1. ..."]
    assert "NVLink" in one(findings(tmp_path, lines), "P2P_DISABLED").title


def test_nvls_needs_evidence_of_the_hardware(tmp_path: Path) -> None:
    off = "NVLS multicast support is not available on dev 0"
    both = one(findings(tmp_path, healthy({"nodea": [off], "nodeb": [off]})), "NVLS_OFF")
    assert both.severity == "info"
    differs = one(findings(tmp_path, healthy({"nodea": [off], "nodeb": [off.replace("not available", "available")]})), "NVLS_OFF")
    assert (differs.severity, differs.subject.hosts) == ("warning", ["nodea"])


def test_a_cap_on_channels_is_few_channels_and_a_leftover(tmp_path: Path) -> None:
    extra = {"nodea": ["NCCL_MAX_NCHANNELS set by environment to 2."], "nodeb": ["NCCL_MAX_NCHANNELS set by environment to 2."]}
    assert codes(tmp_path, healthy(extra)) == {"FEW_CHANNELS", "ENV_LEFTOVER"}


def test_a_nic_behind_the_socket_link_is_far(tmp_path: Path) -> None:
    far = "GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 7 > 5)"
    assert one(findings(tmp_path, healthy({"nodeb": [far]})), "PCIE_DISTANCE").subject.hosts == ["nodeb"]
    pattern = "Pattern 4, crossNic 0, nChannels 8, bw 12.000000/12.000000, type NVL/SYS, sameChannels 0"
    assert "SYS" in one(findings(tmp_path, healthy({"nodea": [pattern]})), "PCIE_DISTANCE").title


def test_two_versions_are_a_mix_and_the_minority_is_named(tmp_path: Path) -> None:
    lines = healthy(hosts=("nodea", "nodeb", "nodec"))
    at = next(number for number, line in enumerate(lines) if line.startswith("nodec"))
    lines.insert(at, "NCCL version 2.18.3+cuda12.1")
    at = next(number for number, line in enumerate(lines) if line.startswith("nodeb"))
    lines.insert(at, "NCCL version 2.21.5+cuda12.4")
    found = one(findings(tmp_path, lines), "VERSION_MIX")
    assert found.subject.hosts == ["nodec"]
    assert "2.18.3" in found.title


def test_an_old_version_is_named(tmp_path: Path) -> None:
    lines = [line.replace("2.21.5", "2.14.3") for line in healthy()]
    assert one(findings(tmp_path, lines), "OLD_NCCL").subject.hosts == ["nodea", "nodeb"]


def test_a_variable_that_one_of_three_hosts_sets_otherwise(tmp_path: Path) -> None:
    extra = {host: [f"NCCL_IB_GID_INDEX set by environment to {value}."] for host, value in (("nodea", 3), ("nodeb", 3), ("nodec", 1))}
    found = one(findings(tmp_path, healthy(extra, hosts=("nodea", "nodeb", "nodec"))), "ENV_DIFFERS")
    assert found.subject.hosts == ["nodec"]


def test_bindings_per_process_do_not_differ(tmp_path: Path) -> None:
    lines = []
    for line in healthy():
        rank = int(line.split(":")[1]) - 4001 if line.startswith("node") else 0
        if "Using network" in line:
            lines.append(record(line[:5], rank, f"NCCL_IB_HCA set by environment to =mlx5_{rank % 4}"))
        lines.append(line)
    assert codes(tmp_path, lines) == set()


@pytest.mark.parametrize(
    ("setting", "severity"),
    [
        ("NCCL_ALGO set by environment to Ring", "warning"),
        ("NCCL_P2P_LEVEL set by environment to SYS", None),
        ("NCCL_NTHREADS set by environment to 256.", "info"),
    ],
)
def test_leftovers_of_a_bug_hunt(tmp_path: Path, setting: str, severity: str | None) -> None:
    found = findings(tmp_path, healthy({"nodea": [setting], "nodeb": [setting]}))
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_an_error_of_the_transport_is_critical_and_names_status_and_nic(tmp_path: Path) -> None:
    failed = "Got completion from peer 10.0.0.1<4242> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_2"
    warn = f"nodeb:4005:4055 [0] transport/net_ib.cc:100 NCCL WARN NET/IB: {failed}"
    flush = warn.replace("status=12", "status=5").replace("nodeb:4005", "nodea:4001")
    found = findings(tmp_path, [*healthy(), "", warn, "", flush])
    hits = {f.subject.hosts[0]: f for f in found if f.code == "IB_ERROR"}
    assert "status 12" in hits["nodeb"].title
    assert hits["nodeb"].subject.ports == ["nodeb/mlx5_2"]
    assert hits["nodeb"].severity == "critical"
    assert "consequence" in hits["nodea"].detail


@pytest.mark.parametrize(
    ("event", "severity"),
    [("port error", "critical"), ("client reregistration", "info"), ("local work queue catastrophic error", "critical")],
)
def test_asynchronous_events(tmp_path: Path, event: str, severity: str) -> None:
    warn = f"nodea:4001:4051 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_1:1 Got async error event: {event}"
    found = one(findings(tmp_path, [*healthy(), "", warn]), "IB_DOWN_ASYNC")
    assert (found.severity, found.subject.ports) == (severity, ["nodea/mlx5_1"])


def test_the_peer_that_closed_is_the_subject(tmp_path: Path) -> None:
    warn = "nodea:4001:4051 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer nodeb<43210>"
    assert one(findings(tmp_path, [*healthy(), "", warn]), "PEER_CLOSED").subject.hosts == ["nodeb"]


def test_slow_initialisation_names_the_host_whose_own_part_is_long(tmp_path: Path) -> None:
    lines = healthy()
    for host, first, bootstrap, kernels in (("nodea", 0, "60.10", "0.30"), ("nodeb", 4, "1.10", "59.30")):
        for rank in range(first, first + 4):
            rest = f"kernels {kernels}, alloc 0.02, bootstrap {bootstrap}, allgathers 0.01, topo 0.1, graphs 0.1, connections 0.1, rest 0.1"
            text = f"Init timings - ncclCommInitRank: rank {rank} nranks 8 total 61.00 ({rest})"
            lines.append(record(host, rank, text))
    assert one(findings(tmp_path, lines), "SLOW_INIT").subject.hosts == ["nodeb"]


def test_the_time_lost_is_bounded_by_the_exposed_transfer_of_the_layer(tmp_path: Path) -> None:
    path = tmp_path / "nccl.log"
    path.write_text("\n".join(line.removesuffix("/GDRDMA") for line in healthy()))
    exposed = pl.DataFrame({"exposed_transfer_inter_node_ns": [10_000_000, 20_000_000], "exposed_transfer_intra_node_ns": [0, 0]})
    found = one(nccl_findings(run_of(path), breakdown=exposed), "GDR_DISABLED")
    assert found.time_lost_ms == pytest.approx(15 * 60 / 93)
    assert one(nccl_findings(run_of(path)), "GDR_DISABLED").time_lost_ms is None


def test_every_code_is_declared() -> None:
    import re

    folder = Path(__file__).resolve().parents[2] / "netlab" / "diagnose"
    used = {
        code
        for path in folder.glob("nccl_*.py")
        for code in re.findall(r'^\s+"([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+)",$', path.read_text("utf-8"), re.MULTILINE)
    }
    assert used <= set(FINDING_CODES)
    assert len(used) > 20


def test_gpus_share_a_nic_where_another_host_has_one_for_each(tmp_path: Path) -> None:
    """nodea lists one NIC of four, so all of its GPUs send over it; on nodeb each has its own."""
    lines = [line.replace(FOUR_NICS, "[0]mlx5_0:1/IB") if line.startswith("nodea") else line for line in healthy()]
    for nic in (1, 2, 3):
        lines = [line.replace(f"NET/IB/{nic}/", "NET/IB/0/") if line.startswith("nodea") else line for line in lines]
    told = findings(tmp_path, lines)
    found = one(told, "SHARED_NIC")
    assert "RAIL_MISMATCH" not in {other.code for other in told}
    assert found.subject.hosts == ["nodea"]
    assert found.subject.ports == ["nodea/mlx5_0"]
    assert "it has 1 NIC, another host 4" in found.title


def test_a_flush_that_follows_an_error_elsewhere_stands_below_it(tmp_path: Path) -> None:
    told = "transport/net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer"
    lines = [
        *healthy(),
        f"nodea:4002:4052 [1] {told} 10.0.0.2<5> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=0 vendor_err=249 hca mlx5_1",
        f"nodeb:4006:4056 [1] {told} 10.0.0.1<5> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=0 vendor_err=129 hca mlx5_1",
    ]
    first, second = ranked(findings(tmp_path, lines))
    assert (first.severity, first.subject.hosts, second.severity, second.subject.hosts) == ("critical", ["nodeb"], "warning", ["nodea"])
    assert first.title.endswith("talking to nodea.")


def test_the_host_that_closed_its_connections_has_its_short_name(tmp_path: Path) -> None:
    closed = "misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer"
    lines = [f"nodea:4001:4051 [0] {closed} nodeb.cluster.local<4>", f"nodea:4002:4052 [1] {closed} 10.0.0.2<4>"]
    assert one(findings(tmp_path, [*healthy(), *lines]), "PEER_CLOSED").subject.hosts == ["nodeb"]


def test_containers_of_one_name_are_not_taken_for_one_host(tmp_path: Path) -> None:
    """Both processes have id 1 on "pod" and drive GPU 1b000: that is no P2P switched off, but two machines of one name."""
    lines = []
    for rank in range(2):
        who = f"comm 0x55{rank}0 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x5a"
        head = "pod:1:51 [0] NCCL INFO"
        lines += [
            f"{head} ncclCommInitRank {who} - Init START",
            f"{head} Channel 00/0 : {rank}[0] -> {1 - rank}[0] [send] via NET/Socket/0",
        ]
        lines.append(f"{head} ncclCommInitRank {who} - Init COMPLETE")
    assert findings(tmp_path, lines) == []
    _, parsed = read_log(tmp_path, lines)
    assert [issue.code for issue in parsed.issues] == ["RANK_DISAGREES"]


def _topology(gdr: int) -> str:
    """A GPU at one CPU, the only NIC at the other."""
    gpu = '<pci busid="0000:1b:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="90" gdr="1"/></pci>'
    net = f'<net name="mlx5_0" dev="0" speed="400000" port="1" latency="0" guid="0x1" maxconn="1" gdr="{gdr}"/>'
    nic = f'<pci busid="0000:9b:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"><nic>{net}</nic></pci>'
    return f'<system version="1"><cpu numaid="0" arch="x86_64">{gpu}</cpu><cpu numaid="1" arch="x86_64">{nic}</cpu></system>'


def test_a_topology_dump_tells_the_distance_without_a_host(tmp_path: Path) -> None:
    (tmp_path / "topo.xml").write_text(_topology(1))
    found = one(nccl_findings(run_of(tmp_path / "topo.xml")), "PCIE_DISTANCE")
    assert found.title == "GPUs of topo.xml reach their nearest NIC only over SYS."
    assert found.subject.hosts == []
    (tmp_path / "nccl.log").write_text("\n".join(line for line in healthy(hosts=("nodea",)) if "via NET" not in line))
    assert one(nccl_findings(run_of(tmp_path / "topo.xml", tmp_path / "nccl.log")), "PCIE_DISTANCE").subject.hosts == ["nodea"]


def test_a_nic_that_no_gpu_can_use_directly_has_no_distance(tmp_path: Path) -> None:
    (tmp_path / "topo.xml").write_text(_topology(0))
    assert nccl_findings(run_of(tmp_path / "topo.xml")) == []


def test_both_ranks_of_a_doubled_gpu_are_named(tmp_path: Path) -> None:
    said = "nodea:4001:4051 [0] init.cc:9 NCCL WARN Duplicate GPU detected : rank 2 and rank 3 both on CUDA device 1b000"
    found = one(findings(tmp_path, [*healthy(), said]), "DUPLICATE_GPU")
    assert (found.subject.ranks, found.title) == ([2, 3], "Two ranks use one GPU on nodea: ranks 2 and 3.")


def test_a_clique_beyond_the_host_that_is_not_used_is_told_without_a_layout_line(tmp_path: Path) -> None:
    extra = {host: ["MNNVL 0 cliqueId 1 cliqueSize 8 cliqueRank 0"] for host in ("nodea", "nodeb")}
    assert one(findings(tmp_path, healthy(extra)), "MNNVL_OFF").subject.hosts == ["nodea", "nodeb"]


def test_sockets_because_of_libfabric_name_its_provider(tmp_path: Path) -> None:
    extra = {host: ["NET/OFI Selected provider is tcp, fabric is 10.0.0.0/16 (found 1 nics)"] for host in ("nodea", "nodeb")}
    assert one(findings(tmp_path, healthy(extra)), "SOCKET_FALLBACK").title.endswith("libfabric found no provider but tcp.")


def test_an_excerpt_without_hosts_is_a_log(tmp_path: Path) -> None:
    lines = ["<...>:1:2 [0] NCCL INFO Using network Socket", ":10:20 [0] NCCL INFO NET/IB : No device found."]
    _, parsed = read_log(tmp_path, lines)
    assert (parsed.reader, parsed.rows) == ("nccl_log", 2)


def test_a_queue_that_does_not_come_up_names_its_port(tmp_path: Path) -> None:
    said = "nodeb:4006:4056 [1] NCCL INFO Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT"
    found = one(findings(tmp_path, [*healthy(), said]), "IB_ERROR")
    assert (found.subject.ranks, found.subject.ports) == ([5], ["nodeb/mlx5_1"])


def test_a_message_of_another_length_is_told_with_both(tmp_path: Path) -> None:
    said = "NET/Socket : peer 10.0.0.1<4242> message truncated : receiving 524288 bytes instead of 131072. If you believe"
    found = one(findings(tmp_path, [*healthy(), f"nodeb:4006:4056 [1] net.cc:1 NCCL WARN {said}"]), "MESSAGE_TRUNCATED")
    assert found.title.endswith("on nodeb: 524288 bytes instead of 131072.")
