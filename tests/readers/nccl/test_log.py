"""NCCL_DEBUG logs: records, repair, identity, tables."""

from __future__ import annotations

import gzip
import hashlib
import random
from pathlib import Path

import polars as pl
import pytest

from netlab.readers.base import Sink
from netlab.readers.nccl import scan
from netlab.readers.nccl.log import LogReader, collect_log
from netlab.readers.nccl.messages import classify
from netlab.readers.nccl.records import RecordSplitter, prefix_rank, timestamp_ns
from netlab.schema import TABLES
from tests.nccl_text import healthy, init, read, read_log, record

CALL_END = "comm 0x55000000{:04x} [nranks=8] stream 0x5581"
VIA = "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"


def test_a_healthy_log_gives_ranks_hosts_and_connections(tmp_path: Path) -> None:
    tables, parsed = read_log(tmp_path, healthy())
    communicators = tables["communicators"]
    assert (parsed.lines_unparsed, parsed.issues, parsed.status) == (0, (), "ok")
    assert communicators.select("rank", "host", "cuda_device", "complete").rows()[5] == (5, "nodeb", 1, True)
    assert communicators["nccl_version"].unique().to_list() == ["2.21.5"]
    assert communicators["global_rank"].to_list() == list(range(8))
    net = tables["connections"].filter(pl.col("transport") == "NET")
    assert net.select("network", "gdr").unique().rows() == [("IB", True)]
    assert set(net["nic"]) == {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"}


@pytest.mark.parametrize(
    "prefix",
    ["[rank3]: ", "3: ", " 3: ", "[1,3]<stdout>:", "[1,3]<stderr>: ", "[3] ", "[pod/train-worker-6/pytorch] ",
     "(TrainWorker pid=4003, ip=10.0.0.1) ", "node-1: ", "node-1 | ", "2026-03-14T09:26:04.000031676Z stdout F ",
     "2026-03-14T09:26:04.000031676Z ", "2026-03-14 09:26:11,011 INFO worker.py:88 -- ",
     "[2026-01-01 00:00:01] ", "step 10/100 loss 2.31 ", "\x1b[36m(Worker pid=1)\x1b[0m "],
)  # fmt: skip
def test_a_launchers_prefix_is_no_part_of_the_record(tmp_path: Path, prefix: str) -> None:
    tables, parsed = read_log(tmp_path, [prefix + record("nodea", 0, "Using network IB"), prefix + init("nodea", 0, 1, "Init COMPLETE")])
    assert tables["communicators"].select("host", "pid", "network").rows() == [("nodea", 4001, "IB")]
    assert parsed.lines_unparsed == 0


def test_ranks_of_prefixes() -> None:
    assert [prefix_rank(text) for text in ("[rank3]: ", "7: ", "[1,2]<stdout>:", "node-1: ")] == [3, 7, 2, None]


def test_glued_records_are_cut_at_the_host() -> None:
    splitter = RecordSplitter()
    splitter.learn(record("nodea", 1, "x"))
    records = list(splitter.split(record("nodea", 0, VIA) + record("nodea", 1, VIA), 1))
    assert [(r.host, r.message) for r in records] == [("nodea", VIA), ("nodea", VIA)]


def test_a_zone_that_touches_the_host_is_cut_off() -> None:
    (found,) = RecordSplitter().split("2026-01-01T00:00:00-07:00ip-10-0-0-1:5:6 [0] NCCL INFO Using network IB", 1)
    assert found.host == "ip-10-0-0-1"


def test_partial_lines_of_container_logs_are_joined(tmp_path: Path) -> None:
    whole = init("nodea", 0, 1, "Init COMPLETE")
    stamp = "2026-03-14T09:26:04.000031676Z stderr"
    tables, parsed = read_log(tmp_path, [f"{stamp} P {whole[:60]}", f"{stamp} F {whole[60:]}"])
    assert tables["communicators"]["complete"].to_list() == [True]
    assert parsed.lines_unparsed == 0


def test_torn_records_are_named_and_foreign_lines_counted(tmp_path: Path) -> None:
    _, parsed = read_log(tmp_path, [record("nodea", 0, "Using network IB"), "plain application line", "nodea:4002:4052 [1] NCCL"])
    assert {(issue.code, issue.line) for issue in parsed.issues} == {("TORN_RECORD", 3), ("FOREIGN_LINES", None)}
    assert parsed.lines_unparsed == 2


def test_an_initialisation_without_an_end_is_incomplete(tmp_path: Path) -> None:
    tables, _ = read_log(
        tmp_path, [init("nodea", 0, 2, "Init START"), init("nodea", 1, 2, "Init START"), init("nodea", 1, 2, "Init COMPLETE")]
    )
    assert tables["communicators"].sort("rank")["complete"].to_list() == [False, True]


def test_containers_of_one_name_keep_both_ranks_and_are_said(tmp_path: Path) -> None:
    lines = [f"box:1:{7 + rank} [0] NCCL INFO {init('box', 0, 2, what).partition('INFO ')[2].replace('rank 0', f'rank {rank}')}"
             for rank in range(2) for what in ("Init START", "Init COMPLETE")]  # fmt: skip
    tables, parsed = read_log(tmp_path, lines)
    assert tables["communicators"].select("rank", "complete").rows() == [(0, True), (1, True)]
    assert [issue.code for issue in parsed.issues] == ["RANK_DISAGREES"]


def test_connections_after_init_belong_to_the_communicator_whose_rank_they_name(tmp_path: Path) -> None:
    world = [init("nodea", rank, 4, what) for rank in range(4) for what in ("Init START", "Init COMPLETE")]
    pair = "ncclCommSplit comm 0x77 rank 1 nranks 2 cudaDev 3 nvmlDev 3 busId 4b000 parent 0x550000000003 splitCount 1 color 0 key 1"
    lazy = record("nodea", 3, "Channel 00/0 : 3[3] -> 0[0] via P2P/CUMEM").replace(":4054 ", ":9999 ")
    tables, _ = read_log(tmp_path, [*world, record("nodea", 3, f"{pair}- Init START"), record("nodea", 3, f"{pair} - Init COMPLETE"), lazy])
    assert tables["connections"].select("comm_id", "src_global", "dst_global").rows() == [("0x5a5a000000000001", 3, 0)]
    assert "0x5a5a000000000001/split1/color0" in tables["communicators"]["comm_id"].to_list()


def test_versions_without_ids_are_put_together_by_rank(tmp_path: Path) -> None:
    lines = [
        record("old", rank, f"comm 0x7f{rank:04x} rank {rank} nranks 2 cudaDev {rank} busId {rank + 1}b000 - Init COMPLETE")
        for rank in range(2)
    ]
    tables, _ = read_log(tmp_path, lines)
    assert tables["communicators"]["comm_id"].to_list() == ["0x7f0000", "0x7f0000"]


def test_calls_carry_bytes_of_the_whole_message(tmp_path: Path) -> None:
    call = "AllGather: opCount 1f sendbuff 0x7f01 recvbuff 0x7f02 count 1024 datatype 9 op 0 root 0 " + CALL_END.format(0)
    tables, _ = read_log(tmp_path, [init("nodea", 0, 8, "Init COMPLETE"), record("nodea", 0, call)])
    row = tables["logged_operations"].row(0, named=True)
    assert (row["op"], row["seq"], row["dtype"], row["bytes"], row["comm_id"], row["rank"]) == (
        "all_gather",
        31,
        "bfloat16",
        16384,
        "0x5a5a000000000001",
        0,
    )


def test_the_tuning_table_leaves_out_what_is_off(tmp_path: Path) -> None:
    rows = [
        "  Algorithm   |                            Tree                  |                            Ring                  |",
        "  Protocol    |             LL |          LL128 |         Simple |             LL |          LL128 |         Simple |",
        "    AllReduce |    65.2/  12.0 |     0.0/   0.0 |   174.5/ 160.0 |   180.4/  18.2 |   297.1/  91.2 |  1031.4/  99.1 |",
    ]
    tables, _ = read_log(tmp_path, [record("nodea", 0, row) for row in rows])
    found = tables["tuning_predictions"].select("op", "algorithm", "protocol", "latency_us", "bandwidth_gb_per_s").rows()
    assert ("all_reduce", "Tree", "LL128", 0.0, 0.0) not in found
    assert len(found) == 5
    assert found[0] == ("all_reduce", "Ring", "LL", 180.4, 18.2)


def test_a_cut_ring_is_not_closed(tmp_path: Path) -> None:
    tables, _ = read_log(tmp_path, [init("nodea", 0, 32, "Init START"), record("nodea", 0, "Channel 00/08 :    0   1   2   3")])
    edges = tables["communicator_edges"]
    assert edges.select("src_rank", "dst_rank", "truncated").rows() == [(0, 1, True), (1, 2, True), (2, 3, True)]


def test_stamps_give_the_time_of_the_initialisation(tmp_path: Path) -> None:
    lines = [
        f"[2026-01-01 00:00:01.250] {init('nodea', 0, 1, 'Init START')}",
        f"[2026-01-01 00:00:02.500] {init('nodea', 0, 1, 'Init COMPLETE')}",
    ]
    assert read_log(tmp_path, lines)[0]["communicators"]["init_ms"].to_list() == [1250.0]
    assert timestamp_ns("2026-01-01T01:00:00+01:00 x") == timestamp_ns("2026-01-01 00:00:00")


def test_credentials_are_masked_everywhere(tmp_path: Path) -> None:
    lines = [
        record("nodea", 0, "AWS_SECRET_ACCESS_KEY set by environment to abcdSECRET"),
        record("nodea", 0, "NCCL_NET_PLUGIN set by environment to https://user:abcdSECRET@host/x"),
        record("nodea", 0, "NCCL_IB_PKEY set by environment to 3."),
        "",
        "nodea:4001:4051 [0] init.cc:1 NCCL WARN login failed, token=abcdSECRET",
        "nodea:4002:4052 [1] NCCL INFO Channel HF_TOKEN=abcdSECRET /",
    ]
    tables, parsed = read_log(tmp_path, lines)
    shown = " ".join(frame.write_csv() for frame in tables.values()) + str(parsed)
    assert "abcdSECRET" not in shown
    assert tables["nccl_events"].filter(pl.col("key") == "NCCL_IB_PKEY")["value"].to_list() == ["3"]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Ring 00 : 0[0] -> 1[1] via P2P/IPC", "via"),
        ("Channel 00 : 3[4e000] -> 4[1b000] [send] via NET/IB/0/GDRDMA/Shared", "via"),
        ("Channel 01/1 : 3[3] -> 9[1] [send] via NET/IB/5(2)/GDRDMA(PCI)", "via"),
        ("Channel 00 : 0[1b000] -> 1[2c000] via direct shared memory", "via"),
        ("Channel 00/0 : 1[1] -> 9[1] [receive] via NET/AWS Libfabric/1/GDRDMA", "via"),
        ("Channel 00/0 : 0[19000] -> 1[3b000] via P2P/IPC comm 0x7f01 nRanks 16", "via"),
        ("NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129", "ib_completion"),
        ("NET/IB: Got completion from peer 10.0.0.1<1> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=X(1) hca mlx5_3", "ib_completion"),
        ("33554432 Bytes -> Algo 1 proto 2 time 384.214355", "choice"),
        ("AllReduce [Symmetric]: 2048 Bytes -> Kernel AllReduce_AGxLLMC_R nchannels 1 nthreads 512 nWorks 1", "choice"),
        ("Connected all rings, use ring PXN 0 GDR 1", "connected"),
    ],
)  # fmt: skip
def test_forms_of_all_generations_are_known(message: str, kind: str) -> None:
    found = classify(message)
    assert found is not None
    assert found.kind == kind


def test_a_compressed_log_reads_alike(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\n".join(healthy()))
    (tmp_path / "a.log.gz").write_bytes(gzip.compress((tmp_path / "a.log").read_bytes()))
    drop = ["source"]
    plain, packed = read(tmp_path / "a.log")[0], read(tmp_path / "a.log.gz")[0]
    assert {name: frame.drop(drop).rows() for name, frame in plain.items()} == {
        name: frame.drop(drop).rows() for name, frame in packed.items()
    }


def rows_by(path: Path, large_bytes: int) -> dict[str, list[tuple[object, ...]]]:
    sink = Sink()
    collector, _ = collect_log(path, "log", sink, large_bytes)
    collector.finish(sink)
    tables = {name: TABLES[name].conform(sink.collect(name)).rows() for name in sink.frames}
    return {**tables, "facts": [tuple(collector.facts().values())], "issues": [(str(issue),) for issue in collector.issues()]}


def test_compiled_code_gives_the_same_tables(tmp_path: Path) -> None:
    call = "AllReduce: opCount {:x} sendbuff 0x7f01 recvbuff (nil) count 1024 datatype 7 op 0 root 0 " + CALL_END
    lines = [*healthy(), record("nodea", 0, "filler " * 10_000)]
    for step in range(40):
        lines += [record("nodea", rank, call.format(step, rank)) for rank in range(4)]
        lines += [
            f"[rank4]:{record('nodeb', 4, call.format(step, 4))} task 3 globalrank 4",
            record("nodea", 0, "AllReduce: 4096 Bytes -> Algo RING proto LL"),
        ]
        lines += [
            "step 1 loss 2",
            "",
            "\x1b[36m 41/110 [00:12<00:20]\x1b[0m",
            record("nodea", 1, VIA) + record("nodea", 0, VIA),
            "nodea:4001:4051 [0] NC",
        ]
        lines += [record("nodea", 0, "Something unheard of"), "2026-01-01T00:00:00Z stdout F " + record("nodea", 2, call.format(step, 2))]
    path = tmp_path / "large.log"
    path.write_text("\n".join(lines))
    assert rows_by(path, 1) == rows_by(path, 1 << 40)


def test_samples_of_all_versions_are_read_whole(shared_data: Path) -> None:
    whole = {path.name: read(path)[1].lines_unparsed for path in sorted((shared_data / "nccl" / "logs").glob("*.log"))}
    assert {name: count for name, count in whole.items() if count} == {
        "09_watchdog_timeouts_torchrun.log": 4,
        "10_interleaved_garbled.log": 14,
    }


def test_the_garbled_sample_gives_at_least_196_records(shared_data: Path) -> None:
    assert read(shared_data / "nccl" / "logs" / "10_interleaved_garbled.log")[1].rows >= 196


def test_samples_read_alike_by_compiled_code(shared_data: Path, tmp_path: Path) -> None:
    for path in sorted((shared_data / "nccl" / "logs").glob("*.log")):
        copy = tmp_path / path.name
        copy.write_bytes(b"x" * 70_000 + b"\n" + path.read_bytes())
        assert rows_by(copy, 1) == rows_by(copy, 1 << 40), path.name


def test_the_reader_claims_logs_only() -> None:
    reader = LogReader()
    assert reader.sniff(record("nodea", 0, "x").encode(), Path("x"))
    assert not reader.sniff(b'{"message": "NCCL INFO"}', Path("x"))
    assert not reader.sniff(b"# nThread 1 nGpus 8\nhost:1:2 [0] NCCL INFO x\n", Path("x"))


def test_compiled_code_is_made_anew_when_a_part_of_it_changes() -> None:
    folder = Path(scan.__file__).parent
    parts = (folder / "compiled.py").read_bytes() + (folder / "compiled_messages.py").read_bytes()
    assert hashlib.sha256(parts).hexdigest()[:16] == scan.PARTS_DIGEST


def damaged(lines: list[str], seed: int) -> list[str]:
    """Lines cut, glued, repeated, lost, behind prefixes, or with one wrong letter."""
    rng, out = random.Random(seed), [""]
    prefixes = ("2026-03-14T09:26:53.123456789Z stdout F ", "[1,3]<stdout>:", " 4: ", "node-1: ", "\x1b[36m", "[rank5]: ")
    for text in lines:
        line, fate = text, rng.random()
        if fate < 0.05:
            line = line[: rng.randrange(len(line) + 1)]
        elif fate < 0.08:
            out[-1] += line
            continue
        elif fate < 0.12:
            line = rng.choice(prefixes) + line
        elif fate < 0.15 and line:
            at = rng.randrange(len(line))
            line = line[:at] + rng.choice("0123456789abcxyz[]:>-/ ,é\0") + line[at + 1 :]
        elif fate < 0.17:
            line = line.replace("NCCL INFO", "NCCL TRACE")
        elif fate < 0.19:
            line = line.replace("Init COMPLETE", "Destroy COMPLETE")
        out += [line] * (0 if fate > 0.99 else 2 if fate > 0.98 else 1)
    return out


@pytest.mark.parametrize("seed", range(6))
def test_damaged_samples_read_alike_by_compiled_code(shared_data: Path, tmp_path: Path, seed: int) -> None:
    samples = sorted((shared_data / "nccl" / "logs").glob("*.log"))
    lines = [line for path in random.Random(seed).sample(samples, 3) for line in path.read_text("utf-8").split("\n")[:200]]
    path = tmp_path / "damaged.log"
    path.write_text("x" * 66_000 + "\n".join(damaged(lines, seed)))
    assert rows_by(path, 1) == rows_by(path, 1 << 40)


@pytest.mark.parametrize(
    "text",
    [
        "nodea:4001:4051 [-] NCCL INFO Channel 01/0 : 5[1] -> 6[2] via P2P/IPC",
        "nodea:4001:4051 [0] NCCL INFO ncclComm/nit comm 0x7f07 rank 6 nranks 16 cudaDev 6 nvmlDev 6 busId bc000 commId 0x91 - Init START",
        "nodea:4001:4051 [0] NCCL INFO ncclCommInitRank comm 0x0f07 rank 6 nranks 16 cudaDev 6 busId 0c000 commId 0x9 - Init START",
        "nodea:4001:4051 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/x->0->-1",
        "nodea:4001:4051 [0] NCCL INFO Tree 0 : -1 -> 0 -> 1/4/-1",
        "nodea:4001:4051 [0] NCCL INFO Ring 00 : 7 -> 0 -> 1 extra",
        "nodea:4001:4051 [0] 12.5 enqueue.cc:12 NCCL TRACE step 1",
        "nodea:4001:4051 [0] NCCL TRACE step 1",
        "nodea:4001:4051 NCCL CALL ncclGroupStart()",
        "nodea:4001:4051 NCCL CALL ncclGroupStart(",
        "nodea:4001:4051 [0] NCCL INFO AllReduce: 99999999 Bytes -> Algo 1 proto 2 time 12.5",
        "nodea:4001:4051 [0] NCCL INFO 100000000 Bytes -> Algo 1 proto 2 time 13.5",
        "nodea:4001:4051 [0] NCCL INFO AllReduce: 100000000 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..3}",
        "nodea:4001:4051 [0] NCCL INFO AllReduce: 1 Bytes -> ",
        "nodea:4001:4051 [0] NCCL INFO NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 77 mtu 3 LID 4",
        "nodea:4001:4051 [0] NCCL INFO NET/IB : Dev 0 Port 1 qpn 77 mtu 5 GID 3 (0/0)",
        "nodea:4001:4051 [0] NCCL INFO NET/IB: NCCL Dev 0 IbDev 0 Po",
        "nodea:4001:4051 [0] NCCL INFO Using network IB  \r",
        "nodea:4001:4051 [0] NCCL INFO Using net\rwork IB",
        "\r",
    ],
)
def test_odd_records_read_alike_by_compiled_code(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.log"
    path.write_text("\n".join(["x" * 66_000, *healthy(), text, *healthy()[:3]]), newline="")
    assert rows_by(path, 1) == rows_by(path, 1 << 40)


def test_choices_that_differ_in_size_only_are_looked_at_once(tmp_path: Path) -> None:
    head = "nodea:4001:4051 [0] NCCL INFO AllReduce:"
    choices = [f"{head} {size} Bytes -> Algo TREE proto LL channel{{Lo..Hi}}={{0..3}}" for size in (*range(1000, 1900), 10**8, 10**8 + 1)]
    path = tmp_path / "nccl.log"
    path.write_text("\r\n".join(["x" * 66_000, *healthy(), *choices, ""]), newline="")
    collector, _ = collect_log(path, path.name, large_bytes=1)
    assert len(collector.sayings._texts) < 30
    sink = Sink()
    collector.finish(sink)
    told = sink.collect("nccl_events").filter(pl.col("code") == "tuning_choice").sort("line")
    assert told.select("key", "value", "count").rows() == [("all_reduce", "TREE/LL", 900), ("all_reduce", "TREE/LL", 2)]
