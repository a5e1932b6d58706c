"""Leaves of openconfig-interfaces and openconfig-qos, hyphenated or with underscores (as telegraf writes them)."""

from __future__ import annotations

from netlab.readers.counters.meaning import Meaning, NameTable, both

__all__ = ["OPENCONFIG", "VARIABLE_MAP"]

VARIABLE_MAP: dict[str, Meaning] = {
    **both("in-octets", "out-octets", "bytes"),
    **both("in-pkts", "out-pkts", "packets"),
    **both("in-unicast-pkts", "out-unicast-pkts", "packets", Meaning("", preference=2, otherwise="unicast_packets")),
    **both("in-multicast-pkts", "out-multicast-pkts", "multicast_packets"),
    **both("in-broadcast-pkts", "out-broadcast-pkts", "broadcast_packets"),
    **both("in-discards", "out-discards", "discards"),
    **both("in-errors", "out-errors", "errors"),
    **both("in-fcs-errors", "out-fcs-errors", "fcs_errors"),
    **both("in-crc-error-pkts", "out-crc-error-pkts", "fcs_errors", Meaning("", preference=3)),
    **both("in-mac-pause-frames", "out-mac-pause-frames", "pause_frames"),
    # NVUE's own words for the same (nv show interface: link.stats).
    **both("in-bytes", "out-bytes", "bytes", Meaning("", preference=3)),
    **both("in-drops", "out-drops", "discards", Meaning("", preference=3)),
    **both("in-dropped-pkts", "out-dropped-pkts", "discards", Meaning("", preference=4)),
    "carrier-transitions": Meaning("carrier_changes"),
    "link-flap-events": Meaning("link_downed"),
    "in-symbol-error": Meaning("symbol_errors"),
    "fec-uncorrectable-blocks": Meaning("fec_uncorrected"),
    "fec-corrected-blocks": Meaning("fec_corrected"),
    "last-clear": Meaning("last_clear_ns", kind="gauge", overflow=None),
    "transmit-pkts": Meaning("packets", "tx"),
    "transmit-octets": Meaning("bytes", "tx"),
    "dropped-pkts": Meaning("discards", "tx"),
    "dropped-octets": Meaning("dropped_bytes", "tx"),
    "ecn-marked-pkts": Meaning("ecn_marked", "tx"),
    "ecn-marked-octets": Meaning("ecn_marked_bytes", "tx"),
    "max-queue-len": Meaning("queue_bytes_watermark", "tx", kind="watermark", overflow=None),
}

OPENCONFIG = NameTable(VARIABLE_MAP, (), lambda name: name.lower().replace("_", "-"))
