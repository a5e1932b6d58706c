"""Names of switch operating systems' own JSON: Arista EOS (eAPI) and Cisco NX-OS."""

from __future__ import annotations

from netlab.readers.counters.meaning import Meaning, NameTable, both

__all__ = ["EOS", "NXOS", "VARIABLE_MAP"]

_UNICAST = Meaning("", preference=2, otherwise="unicast_packets")

#: `show interfaces`: interfaces.<name>.interfaceCounters and its error details.
VARIABLE_MAP: dict[str, Meaning] = {
    **both("inOctets", "outOctets", "bytes"),
    **both("inUcastPkts", "outUcastPkts", "packets", _UNICAST),
    **both("inMulticastPkts", "outMulticastPkts", "multicast_packets"),
    **both("inBroadcastPkts", "outBroadcastPkts", "broadcast_packets"),
    **both("inTotalPkts", "outTotalPkts", "packets"),
    **both("inDiscards", "outDiscards", "discards"),
    **both("totalInErrors", "totalOutErrors", "errors"),
    **both("inErrors", "outErrors", "errors"),
    **both("rxPause", "txPause", "pause_frames"),
    **both("rxFrames", "txFrames", "pause_frames"),
    "fcsErrors": Meaning("fcs_errors", "rx"),
    "symbolErrors": Meaning("symbol_errors"),
    "alignmentErrors": Meaning("alignment_errors", "rx"),
    "runtFrames": Meaning("runt_frames", "rx"),
    "giantFrames": Meaning("giant_frames", "rx"),
    "frameTooShorts": Meaning("frame_too_shorts", "rx"),
    "frameTooLongs": Meaning("frame_too_longs", "rx"),
    "linkStatusChanges": Meaning("carrier_changes"),
    "bandwidth": Meaning("speed_bps", kind="gauge", overflow=None),
    # eAPI rates are bits per second, averaged over updateInterval.
    **both("inBitsRate", "outBitsRate", "bytes_per_s", Meaning("", kind="rate", scale=0.125, overflow=None)),
    **both("inPktsRate", "outPktsRate", "packets_per_s", Meaning("", kind="rate", overflow=None)),
    "correctedCodewords": Meaning("fec_corrected"),
    "uncorrectedCodewords": Meaning("fec_uncorrected"),
    "preFecBer": Meaning("pre_fec_ber", kind="gauge", overflow=None),
    "droppedPackets": Meaning("discards", "tx"),
    "droppedBytes": Meaning("dropped_bytes", "tx"),
    "enqueuedPackets": Meaning("packets", "tx"),
    "enqueuedBytes": Meaning("bytes", "tx"),
    "ecnMarked": Meaning("ecn_marked", "tx"),
    "oper_up": Meaning("oper_up", kind="gauge", overflow=None),
}

_NXOS_MAP: dict[str, Meaning] = {
    **both("eth_inbytes", "eth_outbytes", "bytes"),
    **both("eth_inpkts", "eth_outpkts", "packets"),
    **both("eth_inucast", "eth_outucast", "packets", _UNICAST),
    **both("eth_inmcast", "eth_outmcast", "multicast_packets"),
    **both("eth_inbcast", "eth_outbcast", "broadcast_packets"),
    **both("eth_inerr", "eth_outerr", "errors"),
    **both("eth_indiscard", "eth_outdiscard", "discards"),
    **both("eth_inpause", "eth_outpause", "pause_frames"),
    **both("mgmt_in_bytes", "mgmt_out_bytes", "bytes"),
    **both("mgmt_in_pkts", "mgmt_out_pkts", "packets"),
    **both("mgmt_in_mcast", "mgmt_out_mcast", "multicast_packets"),
    **both("vdc_lvl_in_bytes", "vdc_lvl_out_bytes", "bytes"),
    **both("vdc_lvl_in_pkts", "vdc_lvl_out_pkts", "packets"),
    **both("vdc_lvl_in_ucast", "vdc_lvl_out_ucast", "unicast_packets"),
    **both("vdc_lvl_in_mcast", "vdc_lvl_out_mcast", "multicast_packets"),
    **both("vdc_lvl_in_bcast", "vdc_lvl_out_bcast", "broadcast_packets"),
    "eth_crc": Meaning("fcs_errors", "rx"),
    "eth_reset_cntr": Meaning("interface_resets"),
    "eth_bw": Meaning("speed_bps", kind="gauge", scale=1_000, overflow=None),
    # The CLI tables of the same system.
    **both("InOctets", "OutOctets", "bytes"),
    **both("InUcastPkts", "OutUcastPkts", "packets", _UNICAST),
    **both("InMcastPkts", "OutMcastPkts", "multicast_packets"),
    **both("InBcastPkts", "OutBcastPkts", "broadcast_packets"),
    **both("Rcv-Err", "Xmit-Err", "errors"),
    "OutDiscards": Meaning("discards", "tx"),
    "InDiscards": Meaning("discards", "rx"),
    "FCS-Err": Meaning("fcs_errors", "rx"),
    "Align-Err": Meaning("alignment_errors", "rx"),
    "Symbol-Err": Meaning("symbol_errors"),
    **both("Rx Mbps", "Tx Mbps", "bytes_per_s", Meaning("", kind="rate", scale=125_000, overflow=None)),
}

EOS = NameTable(VARIABLE_MAP)
NXOS = NameTable(_NXOS_MAP)
