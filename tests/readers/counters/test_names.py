"""The registry of counter names: metric, direction, scale, width."""

from __future__ import annotations

import pytest

from netlab.readers.counters.meaning import first_meaning
from netlab.readers.counters.names import ALL_TABLES


@pytest.mark.parametrize(
    ("name", "metric", "direction", "scale", "width"),
    [
        ("ifInOctets", "bytes", "rx", 1, 32),
        ("ifHCOutOctets", "bytes", "tx", 1, 64),
        ("SAI_PORT_STAT_IF_IN_OCTETS", "bytes", "rx", 1, 64),
        ("IF_IN_OCTETS", "bytes", "rx", 1, 64),
        ("PortXmitData", "bytes", "tx", 4, 32),
        ("port_rcv_data", "bytes", "rx", 4, 32),
        ("infiniband_portxmitdata_total", "bytes", "tx", 4, 32),
        ("node_infiniband_port_data_transmitted_bytes_total", "bytes", "tx", 1, 64),
        ("infiniband_switch_port_receive_data_bytes_total", "bytes", "rx", 1, 64),
        ("port_xmit_data_bytes_total", "bytes", "tx", 1, 64),
        ("rx_bytes_phy", "bytes", "rx", 1, 64),
        ("tx_bytes", "bytes", "tx", 1, 64),
        ("in-octets", "bytes", "rx", 1, 64),
        ("inOctets", "bytes", "rx", 1, 64),
        ("eth_outbytes", "bytes", "tx", 1, 64),
        ("SymbolErrorCounter", "symbol_errors", "none", 1, 16),
        ("symbol_error", "symbol_errors", "none", 1, 16),
        ("LinkDownedCounter", "link_downed", "none", 1, 8),
        ("VL15_dropped", "vl15_dropped", "none", 1, 16),
        ("ifHighSpeed", "speed_bps", "none", 1_000_000, 64),
        ("eth_bw", "speed_bps", "none", 1_000, 64),
        ("node_network_speed_bytes", "speed_bps", "none", 8, 64),
        ("np_ecn_marked_roce_packets", "ecn_marked", "rx", 1, 64),
        ("PortRcvRemotePhysicalErrors", "remote_physical_errors", "rx", 1, 16),
    ],
)
def test_a_name_means_one_thing(name: str, metric: str, direction: str, scale: float, width: int) -> None:
    meaning = first_meaning(ALL_TABLES, name)
    assert meaning is not None
    assert (meaning.metric, meaning.direction, meaning.scale, meaning.width_bits) == (metric, direction, scale, width)


@pytest.mark.parametrize(
    ("name", "metric", "direction", "queue"),
    [
        ("rx_prio3_pause", "pause_frames", "rx", "3"),
        ("tx_prio5_pause_duration", "pause_us", "tx", "5"),
        ("SAI_PORT_STAT_PFC_3_RX_PKTS", "pause_frames", "rx", "3"),
        ("EST_PORT_STAT_PFC_4_RX_PAUSE_DURATION_US", "pause_us", "rx", "4"),
        ("SAI_PORT_STAT_PFC_4_TX_PAUSE_DURATION", "pause_quanta", "tx", "4"),
        ("queue_2_rx_bytes", "bytes", "rx", "2"),
    ],
)
def test_priorities_and_queues_are_in_the_name(name: str, metric: str, direction: str, queue: str) -> None:
    meaning = first_meaning(ALL_TABLES, name)
    assert meaning is not None
    assert (meaning.metric, meaning.direction, meaning.queue) == (metric, direction, queue)


def test_a_rate_that_is_declared_a_counter_stays_a_rate() -> None:
    meaning = first_meaning(ALL_TABLES, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL")
    assert meaning is not None
    assert meaning.kind == "rate"


def test_nobody_knows_an_unknown_name() -> None:
    assert first_meaning(ALL_TABLES, "frobnications") is None
