"""Inspector, profiler plugin, RAS, nccl-tests, topology and graph XML."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.errors import ParseError
from netlab.readers.nccl import READERS
from netlab.readers.streams import read_head
from tests.nccl_text import read


def test_every_shared_sample_is_claimed_by_one_reader(shared_data: Path) -> None:
    claims = {}
    for path in sorted((shared_data / "nccl").rglob("*")):
        if path.is_file() and path.suffix != ".md":
            head = read_head(path)
            claims[path.name] = [reader.name for reader in READERS if reader.sniff(head, path)]
    assert {name: found for name, found in claims.items() if len(found) != 1} == {}


def test_inspector_sizes_are_those_of_the_whole_message(shared_data: Path) -> None:
    rows = read(shared_data / "nccl" / "inspector" / "hgx-3-pid310000.log")[0]["profiler_events"]
    first = rows.filter(pl.col("seq") == 1).row(0, named=True)
    assert (first["op"], first["bytes"], first["duration_ns"], first["timing"]) == ("all_gather", 8 * 33554432, 902_000, "kernel_gpu")


def test_a_cut_inspector_line_is_named(tmp_path: Path, shared_data: Path) -> None:
    whole = (shared_data / "nccl" / "inspector" / "hgx-3-pid310000.log").read_bytes()
    path = tmp_path / "x.log"
    path.write_bytes(whole[: len(whole) - 40])
    parsed = read(path)[1]
    assert (parsed.rows, parsed.lines_unparsed, parsed.issues[0].line) == (40, 1, 41)


def test_the_invalid_json_of_2_28_gives_what_2_30_gives(shared_data: Path) -> None:
    folder = shared_data / "nccl" / "profiler_plugin"
    old, new = (read(path)[0]["profiler_events"] for path in sorted(folder.glob("nccl2.*quoted*")))
    assert old.height == new.height == 42
    kernel = old.filter(pl.col("kind") == "GPU:KernelCh").row(0, named=True)
    assert (kernel["duration_ns"], kernel["op"], kernel["rank"]) == (2_100_000, "all_reduce", 1)
    launch = old.filter(pl.col("kind") == "KERNEL_LAUNCH:KernelLaunch").row(0, named=True)
    assert (launch["start_ns"], launch["duration_ns"]) == (None, None)


def test_a_crashed_profiler_trace_keeps_its_beginning(shared_data: Path) -> None:
    _, parsed = read(shared_data / "nccl" / "profiler_plugin" / "nccl2.30_truncated_crash.txt")
    assert (parsed.status, parsed.rows) == ("partial", 5)


@pytest.mark.parametrize(
    ("name", "op", "peak"),
    [("allgather", "all_gather", 223.4), ("allreduce", "all_reduce", 235.3), ("alltoall", "all_to_all", 224.3),
     ("broadcast", "broadcast", 232.8), ("reduce", "reduce", 231.0), ("reducescatter", "reduce_scatter", 231.5)],
)  # fmt: skip
def test_tables_of_nccl_tests_give_the_known_peaks(shared_data: Path, name: str, op: str, peak: float) -> None:
    rows = read(shared_data / "nccl" / "nccl_tests" / f"superbench_nccl_{name}.log")[0]["link_speed_tests"]
    assert rows["op"].unique().to_list() == [op]
    assert rows.filter(~pl.col("in_place"))["busbw_gb_per_s"].max() == pytest.approx(peak, abs=0.1)
    assert rows["ranks"].unique().to_list() == [8]


def test_a_test_over_two_hosts_counts_them(shared_data: Path) -> None:
    rows = read(shared_data / "nccl" / "nccl_tests" / "h100_2x8_gcp_a3mega_allreduce.log")[0]["link_speed_tests"]
    assert rows.select("op", "ranks", "hosts").unique().rows() == [("all_reduce", 16, 2)]
    assert rows["busbw_gb_per_s"].max() == pytest.approx(338.8, abs=0.1)


def test_columns_are_found_by_the_header_row(tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    path.write_text(
        "# nThread 1 nGpus 2\n#  Rank  0 Group  0 Pid  1 on  a device  0 [0x04] X\n"
        "#  size  count  type  redop  root  time  algbw  busbw #wrong  min  max  time  algbw  busbw #wrong  min  max\n"
        "   1048576   262144   float   sum   -1   1.2e+02   8.74   8.74   N/A   1   2   100.0   10.49   10.49   0   1   2\n"
    )
    rows = read(path)[0]["link_speed_tests"]
    assert rows.select("bytes", "time_us", "busbw_gb_per_s", "in_place").rows() == [
        (1048576, 120.0, 8.74, False),
        (1048576, 100.0, 10.49, True),
    ]


def test_ras_text_and_json_name_who_is_behind_and_who_is_gone(shared_data: Path) -> None:
    for name in ("ras_status.json", "ras_status_text_ok_then_mismatch.txt"):
        events = read(shared_data / "nccl" / "ras" / name)[0]["nccl_events"]
        assert {"ras_behind", "ras_missing"} <= set(events["code"])
    assert events.filter(pl.col("code") == "ras_behind").select("rank", "value").rows() == [(13, "op=all_reduce count=6641 most=6650")]


def test_distances_follow_the_tree(tmp_path: Path) -> None:
    gpu, nic = (
        'class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"',
        'class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16"',
    )
    path = tmp_path / "topo.xml"
    path.write_text(
        f'<system version="1"><cpu numaid="0"><pci busid="0000:01:00.0" class="0x060400"><pci busid="0000:02:00.0" {gpu}/>'
        f'<pci busid="0000:03:00.0" {nic}/></pci>'
        f'<pci busid="0000:04:00.0" {nic}/></cpu><cpu numaid="1"><pci busid="0000:05:00.0" {nic}/></cpu></system>'
    )
    paths = read(path)[0]["topology_paths"]
    found = {to: (kind, bandwidth) for to, kind, bandwidth in paths.select("to_node", "path", "bandwidth_gb_per_s").rows()}
    assert found == {"nic/0000:03:00.0": ("PIX", 24.0), "nic/0000:04:00.0": ("PHB", 24.0), "nic/0000:05:00.0": ("SYS", 24.0)}


def test_nvlink_joins_gpus_of_a_real_dump(shared_data: Path) -> None:
    paths = read(shared_data / "nccl" / "topo_xml" / "rccl_topo_8p1h.xml")[0]["topology_paths"]
    assert "NVL" in set(paths.filter(pl.col("to_kind") == "gpu")["path"])


def test_xml_with_entities_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "topo.xml"
    path.write_text('<system version="1"><!ENTITY a "b"><cpu numaid="0"/></system>')
    with pytest.raises(ParseError, match="TOO_LARGE"):
        read(path)


def test_graph_files_give_ring_order_and_type(tmp_path: Path) -> None:
    path = tmp_path / "graph.xml"
    path.write_text(
        '<graphs version="1"><graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="20" speedinter="20" '
        'typeintra="NVL" typeinter="PIX" samechannels="1">'
        '<channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/><net dev="0"/></channel></graph></graphs>'
    )
    tables = read(path)[0]
    assert tables["communicator_edges"].select("pattern", "src_rank", "dst_rank").rows() == [("ring", 0, 1)]
    assert "type=NVL/PIX" in tables["nccl_events"]["value"][0]


def test_a_healthy_ras_status_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "ras.txt"
    lines = [
        "Job summary",
        "===========",
        "  Nodes  Processes         GPUs  Processes     GPUs",
        "      2          4            1          8        8",
        "Communicators... (0.00s)",
        "=============",
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors",
        "    0         1         2         4         8         8   RUNNING      OK",
    ]
    path.write_text("\n".join(lines))
    tables, _ = read(path)
    assert tables["nccl_events"].select("code", "key", "value").rows() == [("ras_group", "0", "RUNNING OK")]


_TABLE_HEAD = """# Collective test starting: {op}_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 0 graph: 0
#  Rank  0 Group  0 Pid     99 on nodea device  0 [0x07] NVIDIA H100
#  Rank  1 Group  0 Pid    100 on nodeb device  0 [0x07] NVIDIA H100
"""


def test_tables_of_two_tests_in_one_file_keep_their_operations(tmp_path: Path) -> None:
    columns = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    row = "     1024           256     float     sum      -1    50.00    20.97    20.97      0    51.00    20.97    20.97    N/A\n"
    (tmp_path / "tests.out").write_text("".join(_TABLE_HEAD.format(op=op) + columns + row for op in ("all_reduce", "sendrecv")))
    tables, _ = read(tmp_path / "tests.out")
    assert tables["link_speed_tests"].select("op", "ranks", "hosts").unique().sort("op").rows() == [("all_reduce", 2, 2), ("send", 2, 2)]


def test_rows_with_their_instant_in_front(tmp_path: Path) -> None:
    columns = (
        "#       time        size       count    type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    )
    row = "2026-03-14 09:26:53   1024   256   float   none   -1   1.2e+04   357.91  268.44    N/A   1.1e+04  390.45  292.84    N/A\n"
    (tmp_path / "tests.out").write_text(_TABLE_HEAD.format(op="all_gather") + columns + row)
    tables, _ = read(tmp_path / "tests.out")
    assert tables["link_speed_tests"].select("bytes", "time_us", "busbw_gb_per_s").rows() == [(1024, 12000, 268.44), (1024, 11000, 292.84)]


@pytest.mark.parametrize(("wrong", "issues"), [("0", []), ("N/A", []), ("3", ["WRONG_RESULTS"])])
def test_wrong_results_of_a_speed_test_are_told(tmp_path: Path, wrong: str, issues: list[str]) -> None:
    columns = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    row = f"     1024           256     float     sum      -1    50.00    20.97    20.97      0    51.00    20.97    20.97    {wrong}\n"
    (tmp_path / "tests.out").write_text(_TABLE_HEAD.format(op="all_reduce") + columns + row)
    tables, parsed = read(tmp_path / "tests.out")
    assert tables["link_speed_tests"]["wrong"].to_list() == [0, int(wrong) if wrong.isdigit() else None]
    assert [issue.code for issue in parsed.issues] == issues
    assert all("3 elements at 1,024 bytes" in issue.message for issue in parsed.issues)
