"""Every real sample is claimed by one reader and gives its facts."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from netlab.errors import ParseError
from netlab.readers.base import Sink
from netlab.readers.registry import READERS
from netlab.readers.streams import read_head
from netlab.schema import TABLES


def claimed(path: Path) -> list[str]:
    head = read_head(path)
    return [reader.name for reader in READERS if reader.sniff(head, path)]


def frame_of(path: Path, table: str = "counters") -> pl.DataFrame:
    head = read_head(path)
    reader = next(reader for reader in READERS if reader.sniff(head, path))
    sink = Sink()
    reader.read(path, sink, path.name)
    return sink.collect(table)


def value(frame: pl.DataFrame, port: str, metric: str, direction: str, queue: str | None = None) -> object:
    rows = frame.filter(
        (pl.col("port") == port)
        & (pl.col("metric") == metric)
        & (pl.col("direction") == direction)
        & pl.col("queue").eq_missing(pl.lit(queue).cast(pl.Categorical))
    )
    assert rows.height == 1, rows
    exact = rows["value_int"][0]
    return rows["value"][0] if exact is None else exact


def test_every_sample_is_claimed_by_exactly_one_reader(shared_data: Path) -> None:
    files = [path for path in sorted((shared_data / "counters").rglob("*")) if path.is_file() and path.name != "PROVENANCE.md"]
    wrong = {path.name: names for path in files if len(names := claimed(path)) != 1}
    assert wrong == {}


def test_every_sample_gives_valid_rows_or_a_reason(shared_data: Path) -> None:
    refused: dict[str, str] = {}
    for path in sorted((shared_data / "counters").rglob("*")):
        if not path.is_file() or path.name == "PROVENANCE.md" or "sysfs_tree" in path.parts:
            continue
        reader, sink = next(reader for reader in READERS if reader.sniff(read_head(path), path)), Sink()
        try:
            parsed = reader.read(path, sink, path.name)
        except ParseError as error:
            refused[path.name] = str(error).split(":")[0]
            continue
        assert parsed.rows > 0, path
        for name in sink.frames:
            TABLES[name].validate(TABLES[name].conform(sink.collect(name)))
    assert refused == {
        "query_range_error.json": "QUERY_ERROR",
        "query_range_nan.json": "NO_SERIES",
        "query_range_utilisation_expr.json": "NO_SERIES",
    }


@pytest.mark.parametrize(
    ("file", "port", "metric", "direction", "queue", "expected"),
    [
        ("infiniband/perfquery_0x506b4b03005c2740.out", "1", "bytes", "tx", None, 4 * 178791657177235),
        ("infiniband/perfquery_0x7cfe9003009ce5b0.out", "2", "packets", "rx", None, 93660802641),
        ("host/sysfs_class_infiniband_h100_grep-r.txt", "mlx5_0/1", "bytes", "tx", None, 4 * 230442669431839),
        ("host/telegraf_infiniband.lp", "mlx5_bond_0/1", "bytes", "tx", None, 4 * 85378896588),
        ("host/rdma_statistic_show.txt", "mlx5_0/1", "out_of_buffer", "none", None, 135),
        ("host/ethtool_S_bnxt_en.txt", "bnxt_en", "ucast_bytes", "rx", "0", 8926453110639),
        ("arista_eos/show_interfaces_counters_discards.json", "Ethernet1", "discards", "rx", None, 42),
        ("arista_eos/show_priority-flow-control_counters.rev3.json", "Ethernet3/2/1", "pause_frames", "tx", None, 2),
        ("arista_eos/show_qos_interfaces_ecn_counters_queue.json", "Ethernet10/3/1", "ecn_marked", "tx", "2", 2),
        ("arista_eos/show_interfaces_counters_queue_drops.json", "Ethernet49", "discards", "tx", "voq TC0", 5),
        ("cisco_nxos/show_interface_counters_detailed.json", "Ethernet1/2", "bytes", "tx", None, 5399880000),
        ("cisco_nxos/genie_ShowInterfaceCounters_cli_equal_golden_output1_output.txt", "Eth1/33", "bytes", "tx", None, 12199396),
        ("sonic/show_pfc_counters.txt", "Ethernet4", "pause_frames", "rx", "0", 1400),
        ("sonic/show_pfc_counters_--history.txt", "Ethernet0", "pause_us", "rx", "1", 20000001),
        ("sonic/show_queue_wredcounters.txt", "Ethernet0", "ecn_marked", "tx", "UC2", 39),
        ("sonic/show_interfaces_counters_-a.txt", "Ethernet4", "discards", "rx", None, 1000),
        ("sonic/show_interfaces_counters_-a.txt", "Ethernet0", "bytes_per_s", "rx", None, 2_000_000_000),
        ("sonic/show_interfaces_counters_fec-stats.txt", "Ethernet0", "fec_uncorrected", "none", None, 3),
        ("sonic/show_priority-group_watermark_shared_multiasic.txt", "Ethernet4", "queue_bytes_watermark", "rx", "PG15", 215),
        ("nvidia_cumulus/nv_show_interface_view_counters.txt", "swp1", "packets", "tx", None, 1091),
        ("nvidia_cumulus/nv_show_interface_swp1_link_stats_fragment.txt", "swp1", "packets", "tx", None, 140188),
        ("juniper/get-interface-information.xml.gz", "ge-0/0/0", "bytes", "rx", None, 271705947),
        ("cisco_iosxr/pfi-im-cmd-oper_interfaces.xml", "Bundle-Ether1", "bytes", "rx", None, 15591),
        ("gnmi/telegraf_issue_16476_responses.json", "1", "bytes", "tx", None, 885293268981054),
        ("prometheus/node_exporter_infiniband_ethtool_network.prom", "mlx4_0/1", "link_downed", "none", None, 0),
        ("infiniband/ibdiagnet2_minimal.db_csv", "1", "link_downed", "none", None, 1),
    ],
)
def test_a_sample_gives_its_facts(
    shared_data: Path, file: str, port: str, metric: str, direction: str, queue: str | None, expected: int
) -> None:
    frame = frame_of(shared_data / "counters" / file)
    assert value(frame, port, metric, direction, queue) == expected


def test_bytes_per_packet_of_the_real_nics_are_plausible(shared_data: Path) -> None:
    for name in (
        "host/sysfs_class_infiniband_h100_grep-r.txt",
        "host/telegraf_infiniband.lp",
        "infiniband/perfquery_0x7cfe9003003b4bde.out",
    ):
        frame = frame_of(shared_data / "counters" / name).with_columns(pl.col("metric").cast(pl.String))
        rows = frame.filter(pl.col("metric").is_in(["bytes", "packets"])).pivot(
            "metric", index=["device", "port", "direction"], values="value"
        )
        ratio = (rows["bytes"] / rows["packets"]).drop_nulls()
        assert ratio.filter(ratio.is_finite()).is_between(64, 4200).all(), name


def test_multiplied_exporters_are_not_multiplied_again(shared_data: Path) -> None:
    frame = frame_of(shared_data / "counters" / "prometheus" / "node_exporter_infiniband_ethtool_network.prom")
    assert not frame["flags"].cast(pl.String).str.contains("scaled_x4").any()


def test_a_rounded_number_is_no_counter(shared_data: Path) -> None:
    frame = frame_of(shared_data / "counters" / "nvidia_cumulus" / "nv_show_interface_swp1_link_stats_fragment.txt")
    assert frame.filter(pl.col("raw_name") == "out-bytes (rounded)")["kind"].to_list() == ["gauge"]


def test_what_a_period_shows_is_no_total(shared_data: Path) -> None:
    frame = frame_of(shared_data / "counters" / "sonic" / "show_interfaces_counters_-p3.txt")
    assert frame.filter(pl.col("kind") == "counter").is_empty()


def test_an_absent_counter_of_nxos_is_unknown_not_zero(shared_data: Path) -> None:
    frame = frame_of(shared_data / "counters" / "cisco_nxos" / "show_interface_counters_detailed.json")
    assert frame.filter(pl.col("port") == "Ethernet1/1").is_empty()


def test_the_error_answer_of_a_query_is_told(shared_data: Path) -> None:
    with pytest.raises(ParseError, match="QUERY_ERROR"):
        frame_of(shared_data / "counters" / "prometheus" / "query_range_error.json")


def test_ufm_aliases_are_bytes_whatever_their_unit_says(shared_data: Path) -> None:
    frame = frame_of(shared_data / "counters" / "infiniband" / "ufm_fluentd_small_telemetry.json")
    sent = frame.filter((pl.col("device") == "0x0c42a103007ab890") & (pl.col("direction") == "tx")).with_columns(
        pl.col("metric").cast(pl.String)
    )
    values = dict(sent.select("metric", "value_int").iter_rows())
    assert values["bytes"] / values["packets"] == 288.0


def test_the_files_of_a_copied_sysfs_belong_to_one_host(tmp_path: Path) -> None:
    for below, text in (("counters/port_xmit_data", "25\n"), ("counters/port_xmit_packets", "1\n"), ("rate", "400 Gb/sec (4X NDR)\n")):
        path = tmp_path / "nodea" / "sys" / "class" / "infiniband" / "bnxt_re0" / "ports" / "1" / below
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        frame = frame_of(path, "port_facts" if below == "rate" else "counters")
        assert frame.select("device", "port").row(0) == ("nodea", "bnxt_re0/1"), below
