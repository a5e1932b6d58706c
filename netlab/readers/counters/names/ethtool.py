"""Names of ``ethtool -S`` (mlx5, bnxt, ena and common drivers) and of /sys/class/net/<if>/statistics.

mlx5: the ``_phy`` counters are those of the wire and include RDMA; ``rx_bytes`` and the vport unicast counters do not (kernel
Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst).
"""

from __future__ import annotations

from netlab.readers.counters.meaning import Meaning, NameTable, both

__all__ = ["ETHTOOL", "VARIABLE_MAP"]

_GAUGE = Meaning("", kind="gauge", overflow=None)

VARIABLE_MAP: dict[str, Meaning] = {
    **both("rx_bytes_phy", "tx_bytes_phy", "bytes"),
    **both("rx_packets_phy", "tx_packets_phy", "packets"),
    **both("rx_bytes", "tx_bytes", "bytes", Meaning("", preference=5, otherwise="software_bytes")),
    **both("rx_packets", "tx_packets", "packets", Meaning("", preference=5, otherwise="software_packets")),
    **both("rx_discards_phy", "tx_discards_phy", "discards"),
    **both("rx_dropped", "tx_dropped", "discards", Meaning("", preference=5, otherwise="software_discards")),
    **both("rx_discards", "tx_discards", "discards", Meaning("", preference=4)),
    **both("rx_errors", "tx_errors", "errors", Meaning("", preference=5)),
    **both("rx_errors_phy", "tx_errors_phy", "errors"),
    "port.rx_dropped": Meaning("discards", "rx", preference=4),
    "rx_missed_errors": Meaning("rx_missed_errors", "rx"),
    "rx_out_of_buffer": Meaning("out_of_buffer", "rx"),
    "rx_crc_errors": Meaning("fcs_errors", "rx", preference=5),
    "rx_crc_errors_phy": Meaning("fcs_errors", "rx"),
    "rx_fcs_errors": Meaning("fcs_errors", "rx", preference=3),
    "rx_symbol_err_phy": Meaning("symbol_errors", preference=2),
    "rx_pcs_symbol_err_phy": Meaning("symbol_errors"),
    "rx_corrected_bits_phy": Meaning("corrected_bits"),
    "rx_bits_phy": Meaning("received_bits"),
    "fec_corrected_blocks": Meaning("fec_corrected"),
    "fec_uncorrectable_blocks": Meaning("fec_uncorrected"),
    "rx_fec_corrected_blocks": Meaning("fec_corrected", preference=2),
    "rx_fec_uncorrectable_blocks": Meaning("fec_uncorrected", preference=2),
    "link_down_events_phy": Meaning("link_downed"),
    "carrier_down_count": Meaning("link_downed", preference=2),
    "carrier_changes": Meaning("carrier_changes"),
    **both("rx_global_pause", "tx_global_pause", "pause_frames", Meaning("", preference=2)),
    **both("rx_pause_ctrl_phy", "tx_pause_ctrl_phy", "pause_frames", Meaning("", preference=1)),
    **both("rx_pause_frames", "tx_pause_frames", "pause_frames", Meaning("", preference=3)),
    **both("rx_global_pause_duration", "tx_global_pause_duration", "pause_us", Meaning("", preference=2)),
    **both("rx_vport_rdma_unicast_bytes", "tx_vport_rdma_unicast_bytes", "rdma_bytes"),
    **both("rx_vport_rdma_unicast_packets", "tx_vport_rdma_unicast_packets", "rdma_packets"),
    "rx_ecn_mark": Meaning("ecn_marked", "rx"),
    "tx_pause_storm_warning_events": Meaning("pause_storm_warnings", "tx"),
    "tx_pause_storm_error_events": Meaning("pause_storm_errors", "tx"),
    "speed": Meaning("speed_bps", kind="gauge", scale=1_000_000, overflow=None, preference=5),
    "outbound_pci_stalled_rd": Meaning("outbound_pci_stalled_rd", kind="gauge", overflow=None),
    "outbound_pci_stalled_wr": Meaning("outbound_pci_stalled_wr", kind="gauge", overflow=None),
}

_PATTERNS = (
    (r"(?P<d>rx|tx)_prio(?P<q>\d)_pause", Meaning("pause_frames")),
    (r"(?P<d>rx|tx)_prio(?P<q>\d)_pause_duration", Meaning("pause_us")),
    (r"(?P<d>rx|tx)_prio(?P<q>\d)_pause_transition", Meaning("pause_transitions")),
    (r"(?P<d>rx|tx)_prio(?P<q>\d)_bytes", Meaning("bytes")),
    (r"(?P<d>rx|tx)_prio(?P<q>\d)_packets", Meaning("packets")),
    (r"(?P<d>rx|tx)_prio(?P<q>\d)_discards", Meaning("discards")),
    (r"(?P<d>rx|tx)_prio(?P<q>\d)_(?:buf_discard|cong_discard)", Meaning("discards", preference=3)),
    (r"pfc_pri(?P<q>\d)_(?P<d>rx|tx)_transitions", Meaning("pause_transitions")),
    (r"pfc_pri(?P<q>\d)_(?P<d>rx|tx)_duration_us", Meaning("pause_us")),
    (r"(?P<d>rx|tx)_pfc_ena_frames_pri(?P<q>\d)", Meaning("pause_frames")),
    (r"\[(?P<q>\d+)\]: (?P<d>rx|tx)_(?P<what>ucast|mcast|bcast)_(?P<unit>packets|bytes)", Meaning("{what}_{unit}")),
    (r"\[(?P<q>\d+)\]: (?P<d>rx|tx)_(?P<what>discards|errors)", Meaning("{what}")),
    (r"queue_(?P<q>\d+)_(?P<d>rx|tx)_bytes", Meaning("bytes")),
    (r"queue_(?P<q>\d+)_(?P<d>rx|tx)_cnt", Meaning("packets")),
    (r"(?P<d>rx|tx)_?queue_?(?P<q>\d+)_bytes", Meaning("bytes")),
    (r"(?P<d>rx|tx)(?P<q>\d+)_(?P<unit>packets|bytes)", Meaning("{unit}")),
    (r"rx_err_lane_(?P<lane>\d+)_phy", Meaning("lane_errors_{lane}")),
    (r"module_(?P<what>\w*temp\w*)", Meaning("temperature_c", kind="gauge", overflow=None)),
)

ETHTOOL = NameTable(VARIABLE_MAP, _PATTERNS)
