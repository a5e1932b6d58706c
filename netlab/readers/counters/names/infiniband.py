"""InfiniBand port counters: perfquery, ibdiagnet, sysfs and telegraf names of the same registers, and RDMA hw_counters.

Data counters count 4-byte words everywhere (IBTA volume 1, 16.1.3.5; perfquery(8)); exporters that already multiply say `bytes` in the
name and are in the tables of Prometheus. Widths: rdma-core libibmad/fields.c; narrow counters stop at their largest value. The extended
registers carry the same names with 64 bits; which one a sample is shows in its values (see ``samples``).
"""

from __future__ import annotations

from netlab.readers.counters.meaning import Meaning, NameTable, both

__all__ = ["INFINIBAND", "RDMA", "VARIABLE_MAP", "folded"]


def folded(name: str) -> str:
    """One spelling of an InfiniBand counter: case, separators and suffixes for width removed.

    >>> folded("PortXmitDataExtended"), folded("port_xmit_data"), folded("LinkDownedCounterExt")
    ('portxmitdata', 'portxmitdata', 'linkdowned')
    """
    text = name.lower().removeprefix("infiniband_").removesuffix("_total").replace("_", "").replace("-", "").replace("packets", "pkts")
    for suffix in ("extended", "ext", "64"):
        text = text.removesuffix(suffix)
    return text.removesuffix("counter")


def _stick(metric: str, width_bits: int, direction: str = "none") -> Meaning:
    return Meaning(metric, direction, width_bits=width_bits, overflow="stick")


VARIABLE_MAP: dict[str, Meaning] = {
    **both("PortRcvData", "PortXmitData", "bytes", Meaning("", scale=4, width_bits=32, overflow="stick")),
    **both("PortRcvPkts", "PortXmitPkts", "packets", _stick("", 32)),
    **both("PortUnicastRcvPkts", "PortUnicastXmitPkts", "unicast_packets"),
    **both("PortUniRcvPkts", "PortUniXmitPkts", "unicast_packets"),
    **both("unicast_rcv_packets", "unicast_xmit_packets", "unicast_packets"),
    **both("PortMulticastRcvPkts", "PortMulticastXmitPkts", "multicast_packets"),
    **both("PortMultiRcvPkts", "PortMultiXmitPkts", "multicast_packets"),
    **both("multicast_rcv_packets", "multicast_xmit_packets", "multicast_packets"),
    "PortXmitWait": _stick("xmit_wait", 32, "tx"),
    "SymbolErrorCounter": _stick("symbol_errors", 16),
    "SymbolErrors": _stick("symbol_errors", 16),
    "LinkErrorRecoveryCounter": _stick("link_recovery", 8),
    "LinkDownedCounter": _stick("link_downed", 8),
    "Link_Down_IB": _stick("link_downed", 8),
    "PortRcvErrors": _stick("errors", 16, "rx"),
    # Side effects of faults elsewhere: never an accusation of this port.
    "PortRcvRemotePhysicalErrors": _stick("remote_physical_errors", 16, "rx"),
    "PortRcvSwitchRelayErrors": _stick("switch_relay_errors", 16, "rx"),
    "PortXmitDiscards": _stick("discards", 16, "tx"),
    **both("PortRcvConstraintErrors", "PortXmitConstraintErrors", "constraint_errors", _stick("", 8)),
    "LocalLinkIntegrityErrors": _stick("local_link_integrity_errors", 4),
    "ExcessiveBufferOverrunErrors": _stick("excessive_buffer_overrun_errors", 4),
    "VL15Dropped": _stick("vl15_dropped", 16),
    "QP1Dropped": _stick("qp1_dropped", 16),
    "PortLocalPhysicalErrors": _stick("local_physical_errors", 16, "rx"),
    "PortMalformedPktErrors": _stick("malformed_packet_errors", 16, "rx"),
    "PortBufferOverrunErrors": _stick("buffer_overrun_errors", 16, "rx"),
    "PortDLIDMappingErrors": _stick("dlid_mapping_errors", 16, "rx"),
    "PortVLMappingErrors": _stick("vl_mapping_errors", 16, "rx"),
    "PortLoopingErrors": _stick("looping_errors", 16, "rx"),
    "Symbol_BER": Meaning("symbol_ber", kind="gauge", overflow=None),
    "Effective_BER": Meaning("post_fec_ber", kind="gauge", overflow=None),
    "Total_Raw_BER": Meaning("pre_fec_ber", kind="gauge", overflow=None),
    "Raw_BER": Meaning("pre_fec_ber", kind="gauge", overflow=None),
    "Module_Temperature": Meaning("temperature_c", kind="gauge", overflow=None),
}

INFINIBAND = NameTable(VARIABLE_MAP, (), folded)

_RDMA_MAP: dict[str, Meaning] = {
    "np_ecn_marked_roce_packets": Meaning("ecn_marked", "rx"),
    "np_cnp_sent": Meaning("cnp_sent"),
    "rp_cnp_handled": Meaning("cnp_handled"),
    "rp_cnp_ignored": Meaning("cnp_ignored"),
    "out_of_sequence": Meaning("out_of_sequence"),
    "roce_adp_retrans": Meaning("retransmits"),
    "lifespan": Meaning("lifespan_ms", kind="gauge", overflow=None),
    **{
        name: Meaning(name)
        for name in (
            "out_of_buffer",
            "packet_seq_err",
            "local_ack_timeout_err",
            "rnr_nak_retry_err",
            "implied_nak_seq_err",
            "duplicate_request",
            "resp_local_length_error",
            "resp_cqe_error",
            "req_cqe_error",
            "req_remote_invalid_request",
            "req_remote_access_errors",
            "resp_remote_access_errors",
            "resp_cqe_flush_error",
            "req_cqe_flush_error",
            "roce_adp_retrans_to",
            "roce_slow_restart",
            "roce_slow_restart_cnps",
            "roce_slow_restart_trans",
            "rx_write_requests",
            "rx_read_requests",
            "rx_atomic_requests",
            "rx_dct_connect",
            "rx_icrc_encapsulated",
        )
    },
}

#: hw_counters of mlx5 (kernel Documentation/ABI/stable/sysfs-class-infiniband), also what ``rdma statistic`` prints.
RDMA = NameTable(_RDMA_MAP)
