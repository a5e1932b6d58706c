"""Names of Prometheus exporters: node_exporter, treydock and guilbaults InfiniBand exporters, dcgm-exporter.

node_exporter and treydock multiply InfiniBand words by four themselves (procfs sysfs/class_infiniband.go, perfquery.go): their ``_bytes_``
counters are bytes. DCGM: ``PROF_*_BYTES`` are gauges in bytes per second whatever the exporter's file declares (dcgm-exporter #87), and
``NVLINK_BANDWIDTH_TOTAL`` behaves as a rate, in MB/s as far as anyone measured (issues 195, 472): it is kept as a rate, never differenced.
"""

from __future__ import annotations

from netlab.readers.counters.meaning import Meaning, NameTable, both
from netlab.readers.counters.names.ethtool import VARIABLE_MAP as ETHTOOL_MAP
from netlab.readers.counters.names.ifmib import VARIABLE_MAP as IFMIB_MAP

__all__ = ["DCGM", "EXPORTERS", "VARIABLE_MAP"]

_I, _N, _S = "node_infiniband_", "node_network_", "infiniband_switch_port_"
_GAUGE = Meaning("", kind="gauge", overflow=None)
_RATE = Meaning("", kind="rate", overflow=None)
_LEGACY = Meaning("", preference=8)


def _state(metric: str, equals: int) -> Meaning:
    return Meaning(metric, kind="gauge", overflow=None, equals=equals)


VARIABLE_MAP: dict[str, Meaning] = {
    **both(_I + "port_data_received_bytes_total", _I + "port_data_transmitted_bytes_total", "bytes"),
    **both(_I + "legacy_data_received_bytes_total", _I + "legacy_data_transmitted_bytes_total", "bytes", _LEGACY),
    **both(_I + "port_packets_received_total", _I + "port_packets_transmitted_total", "packets"),
    **both(_I + "legacy_packets_received_total", _I + "legacy_packets_transmitted_total", "packets", _LEGACY),
    **both(_I + "unicast_packets_received_total", _I + "unicast_packets_transmitted_total", "unicast_packets"),
    **both(_I + "legacy_unicast_packets_received_total", _I + "legacy_unicast_packets_transmitted_total", "unicast_packets", _LEGACY),
    **both(_I + "multicast_packets_received_total", _I + "multicast_packets_transmitted_total", "multicast_packets"),
    **both(_I + "legacy_multicast_packets_received_total", _I + "legacy_multicast_packets_transmitted_total", "multicast_packets", _LEGACY),
    _I + "port_errors_received_total": Meaning("errors", "rx"),
    _I + "port_discards_received_total": Meaning("discards", "rx"),
    _I + "port_discards_transmitted_total": Meaning("discards", "tx"),
    _I + "port_transmit_wait_total": Meaning("xmit_wait", "tx"),
    _I + "port_receive_remote_physical_errors_total": Meaning("remote_physical_errors", "rx"),
    _I + "port_receive_switch_relay_errors_total": Meaning("switch_relay_errors", "rx"),
    **both(_I + "port_constraint_errors_received_total", _I + "port_constraint_errors_transmitted_total", "constraint_errors"),
    _I + "symbol_error_total": Meaning("symbol_errors"),
    _I + "link_downed_total": Meaning("link_downed"),
    _I + "link_error_recovery_total": Meaning("link_recovery"),
    _I + "local_link_integrity_errors_total": Meaning("local_link_integrity_errors"),
    _I + "excessive_buffer_overrun_errors_total": Meaning("excessive_buffer_overrun_errors"),
    _I + "vl15_dropped_total": Meaning("vl15_dropped"),
    _I + "rate_bytes_per_second": Meaning("speed_bps", kind="gauge", scale=8, overflow=None),
    _I + "state_id": _state("oper_up", 4),
    _I + "physical_state_id": _state("physical_up", 5),
    _I + "np_ecn_marked_roce_packets_received_total": Meaning("ecn_marked", "rx"),
    _I + "np_cnp_packets_sent_total": Meaning("cnp_sent"),
    _I + "rp_cnp_packets_handled_total": Meaning("cnp_handled"),
    _I + "rp_cnp_ignored_packets_received_total": Meaning("cnp_ignored"),
    _I + "out_of_sequence_packets_received_total": Meaning("out_of_sequence"),
    _I + "packet_sequence_errors_total": Meaning("packet_seq_err"),
    _I + "local_ack_timeout_errors_total": Meaning("local_ack_timeout_err"),
    _I + "roce_adp_retransmits_total": Meaning("retransmits"),
    _I + "rnr_nak_retry_packets_received_total": Meaning("rnr_nak_retry_err"),
    _I + "out_of_buffer_drops_total": Meaning("out_of_buffer"),
    _I + "implied_nak_seq_errors_total": Meaning("implied_nak_seq_err"),
    _I + "info": Meaning("info", kind="gauge", overflow=None),
    **both(_N + "receive_bytes_total", _N + "transmit_bytes_total", "bytes", Meaning("", preference=5, otherwise="software_bytes")),
    **both(_N + "receive_packets_total", _N + "transmit_packets_total", "packets", Meaning("", preference=5, otherwise="software_packets")),
    **both(_N + "receive_errs_total", _N + "transmit_errs_total", "errors", Meaning("", preference=5)),
    **both(_N + "receive_drop_total", _N + "transmit_drop_total", "discards", Meaning("", preference=5)),
    _N + "speed_bytes": Meaning("speed_bps", kind="gauge", scale=8, overflow=None),
    _N + "up": _state("oper_up", 1),
    _N + "carrier": _state("carrier_up", 1),
    _N + "carrier_changes_total": Meaning("carrier_changes"),
    _N + "carrier_down_changes_total": Meaning("link_downed", preference=2),
    _N + "mtu_bytes": Meaning("mtu_bytes", kind="gauge", overflow=None),
    "node_boot_time_seconds": Meaning("boot_time_s", kind="gauge", overflow=None),
    **both(_S + "receive_data_bytes_total", _S + "transmit_data_bytes_total", "bytes"),
    **both(_S + "receive_packets_total", _S + "transmit_packets_total", "packets"),
    **both(_S + "unicast_receive_packets_total", _S + "unicast_transmit_packets_total", "unicast_packets"),
    **both(_S + "multicast_receive_packets_total", _S + "multicast_transmit_packets_total", "multicast_packets"),
    _S + "transmit_wait_total": Meaning("xmit_wait", "tx"),
    _S + "transmit_discards_total": Meaning("discards", "tx"),
    _S + "receive_errors_total": Meaning("errors", "rx"),
    _S + "receive_remote_physical_errors_total": Meaning("remote_physical_errors", "rx"),
    _S + "receive_switch_relay_errors_total": Meaning("switch_relay_errors", "rx"),
    _S + "symbol_error_total": Meaning("symbol_errors"),
    _S + "link_downed_total": Meaning("link_downed"),
    _S + "link_error_recovery_total": Meaning("link_recovery"),
    _S + "local_link_integrity_errors_total": Meaning("local_link_integrity_errors"),
    _S + "rate_bytes_per_second": Meaning("speed_bps", kind="gauge", scale=8, overflow=None),
}

_PATTERNS = (
    (r"node_ethtool_(?P<d>receive|transmit)d?_bytes(?:_total)?", Meaning("bytes", preference=5, otherwise="software_bytes")),
    (r"node_ethtool_(?P<d>receive|transmit)d?_packets(?:_total)?", Meaning("packets", preference=5, otherwise="software_packets")),
    (r"node_ethtool_(?P<d>receive|transmit)d?_errors(?:_total)?", Meaning("errors", preference=6)),
    (r"node_ethtool_port_(?P<d>receive|transmit)d?_dropped(?:_total)?", Meaning("discards", preference=4)),
    # Whoever writes bytes into the name has multiplied already.
    (r"(?:\w+_)?port_?(?P<d>receive|transmit|xmit|rcv)_?data_bytes(?:_total)?", Meaning("bytes")),
    (r"(?:\w+_)?port_?data_(?P<d>received|transmitted)_bytes(?:_total)?", Meaning("bytes")),
)

EXPORTERS = NameTable(
    {
        **VARIABLE_MAP,
        **{f"infiniband_hca_port_{name.removeprefix(_S)}": meaning for name, meaning in VARIABLE_MAP.items() if name.startswith(_S)},
        **{f"node_ethtool_{name}": meaning for name, meaning in ETHTOOL_MAP.items()},
        **{f"snmp_{name}": meaning for name, meaning in IFMIB_MAP.items()},
    },
    _PATTERNS,
)

_LINKS = "DCGM_FI_DEV_NVLINK_"
DCGM = NameTable(
    {
        "DCGM_FI_PROF_PCIE_TX_BYTES": Meaning("pcie_bytes_per_s", "tx", kind="rate", overflow=None),
        "DCGM_FI_PROF_PCIE_RX_BYTES": Meaning("pcie_bytes_per_s", "rx", kind="rate", overflow=None),
        "DCGM_FI_PROF_NVLINK_TX_BYTES": Meaning("nvlink_bytes_per_s", "tx", kind="rate", overflow=None),
        "DCGM_FI_PROF_NVLINK_RX_BYTES": Meaning("nvlink_bytes_per_s", "rx", kind="rate", overflow=None),
        _LINKS + "BANDWIDTH_TOTAL": Meaning("nvlink_bytes_per_s", kind="rate", scale=1_000_000, overflow=None),
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": Meaning("pcie_replay"),
        _LINKS + "CRC_FLIT_ERROR_COUNT_TOTAL": Meaning("nvlink_crc_flit_errors"),
        _LINKS + "CRC_DATA_ERROR_COUNT_TOTAL": Meaning("nvlink_crc_data_errors"),
        _LINKS + "REPLAY_ERROR_COUNT_TOTAL": Meaning("nvlink_replays"),
        _LINKS + "RECOVERY_ERROR_COUNT_TOTAL": Meaning("nvlink_recoveries"),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": Meaning("energy_mj"),
    },
    ((r"(?P<name>DCGM_FI_\w+)", Meaning("{name}", kind="gauge", overflow=None)),),
)
