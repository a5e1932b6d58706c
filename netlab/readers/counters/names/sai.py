"""Names of SAI statistics as SONiC keeps them in COUNTERS_DB (saiport.h, saiqueue.h; SONiC's own EST_ and PFC_WD_ fields)."""

from __future__ import annotations

from netlab.readers.counters.meaning import Meaning, NameTable, both

__all__ = ["SAI", "VARIABLE_MAP"]

_P, _Q, _G = "SAI_PORT_STAT_", "SAI_QUEUE_STAT_", "SAI_INGRESS_PRIORITY_GROUP_STAT_"


def _port(receive: str, transmit: str, metric: str, like: Meaning | None = None) -> dict[str, Meaning]:
    return {**both(_P + receive, _P + transmit, metric, like), **both(receive, transmit, metric, like)}


_UNICAST = Meaning("", preference=2, otherwise="unicast_packets")

VARIABLE_MAP: dict[str, Meaning] = {
    **_port("IF_IN_OCTETS", "IF_OUT_OCTETS", "bytes"),
    **_port("IF_IN_UCAST_PKTS", "IF_OUT_UCAST_PKTS", "packets", _UNICAST),
    **_port("IF_IN_NON_UCAST_PKTS", "IF_OUT_NON_UCAST_PKTS", "multicast_packets"),
    **_port("IF_IN_MULTICAST_PKTS", "IF_OUT_MULTICAST_PKTS", "multicast_packets", Meaning("", preference=2)),
    **_port("IF_IN_BROADCAST_PKTS", "IF_OUT_BROADCAST_PKTS", "broadcast_packets"),
    **_port("IF_IN_DISCARDS", "IF_OUT_DISCARDS", "discards"),
    **_port("IF_IN_ERRORS", "IF_OUT_ERRORS", "errors"),
    **_port("PAUSE_RX_PKTS", "PAUSE_TX_PKTS", "pause_frames"),
    _P + "IF_IN_FEC_CORRECTABLE_FRAMES": Meaning("fec_corrected"),
    _P + "IF_IN_FEC_NOT_CORRECTABLE_FRAMES": Meaning("fec_uncorrected"),
    # Symbols that FEC repaired: a measure of the raw channel, no error that anyone notices.
    _P + "IF_IN_FEC_SYMBOL_ERRORS": Meaning("fec_symbol_errors"),
    _P + "IF_IN_FEC_CORRECTED_BITS": Meaning("corrected_bits"),
    _P + "ETHER_STATS_CRC_ALIGN_ERRORS": Meaning("fcs_errors", "rx"),
    _P + "ETHER_RX_FCS_ERRORS": Meaning("fcs_errors", "rx"),
    _Q + "PACKETS": Meaning("packets", "tx"),
    _Q + "BYTES": Meaning("bytes", "tx"),
    _Q + "DROPPED_PACKETS": Meaning("discards", "tx"),
    _Q + "DROPPED_BYTES": Meaning("dropped_bytes", "tx"),
    _Q + "WRED_DROPPED_PACKETS": Meaning("wred_drops", "tx"),
    _Q + "WRED_ECN_MARKED_PACKETS": Meaning("ecn_marked", "tx"),
    _Q + "WRED_ECN_MARKED_BYTES": Meaning("ecn_marked_bytes", "tx"),
    _Q + "SHARED_WATERMARK_BYTES": Meaning("queue_bytes_watermark", "tx", kind="watermark", overflow=None),
    _Q + "WATERMARK_BYTES": Meaning("queue_bytes_watermark", "tx", kind="watermark", overflow=None, preference=2),
    _G + "PACKETS": Meaning("packets", "rx"),
    _G + "BYTES": Meaning("bytes", "rx"),
    _G + "DROPPED_PACKETS": Meaning("discards", "rx"),
    _G + "SHARED_WATERMARK_BYTES": Meaning("queue_bytes_watermark", "rx", kind="watermark", overflow=None),
    _G + "XOFF_ROOM_WATERMARK_BYTES": Meaning("headroom_bytes_watermark", "rx", kind="watermark", overflow=None),
    "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED": Meaning("pfc_storms_detected"),
    "PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED": Meaning("pfc_storms_restored"),
    # RATES table: BPS is bytes per second in SONiC (netstat.py), never bits.
    **both("RX_BPS", "TX_BPS", "bytes_per_s", Meaning("", kind="rate", overflow=None)),
    **both("RX_PPS", "TX_PPS", "packets_per_s", Meaning("", kind="rate", overflow=None)),
}

_PATTERNS = (
    (r"(?:SAI_PORT_STAT_)?PFC_(?P<q>\d)_(?P<d>RX|TX)_PKTS", Meaning("pause_frames")),
    (r"(?:EST_|SAI_)PORT_STAT_PFC_(?P<q>\d)_(?P<d>RX|TX)_PAUSE_DURATION_US", Meaning("pause_us")),
    # Without _US the value is in quanta of 512 bit times (SAI pull request 566).
    (r"SAI_PORT_STAT_PFC_(?P<q>\d)_(?P<d>RX|TX)_PAUSE_DURATION", Meaning("pause_quanta")),
    (r"(?:EST_PORT_STAT_|SAI_PORT_STAT_)PFC_(?P<q>\d)_ON2OFF_(?P<d>RX|TX)_PKTS", Meaning("pause_transitions")),
    (r"SAI_PORT_STAT_IF_IN_FEC_CODEWORD_ERRORS_S(?P<bin>\d+)", Meaning("fec_codewords_s{bin}")),
)

SAI = NameTable(VARIABLE_MAP, _PATTERNS)
