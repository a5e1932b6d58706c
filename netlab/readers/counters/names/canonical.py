"""netlab's own names: ``bytes`` with a direction before, after or in a column of its own."""

from __future__ import annotations

from netlab.readers.counters.meaning import Meaning, NameTable

__all__ = ["CANONICAL", "CANONICAL_METRICS", "VARIABLE_MAP"]

_COUNTERS = (
    "bytes",
    "packets",
    "unicast_packets",
    "multicast_packets",
    "broadcast_packets",
    "errors",
    "fcs_errors",
    "discards",
    "pause_frames",
    "pause_us",
    "pause_quanta",
    "pause_transitions",
    "ecn_marked",
    "symbol_errors",
    "fec_uncorrected",
    "fec_corrected",
    "corrected_bits",
    "received_bits",
    "link_downed",
    "link_recovery",
    "carrier_changes",
    "xmit_wait",
    "cnp_sent",
    "cnp_handled",
    "out_of_sequence",
    "retransmits",
    "out_of_buffer",
    "wred_drops",
    "remote_physical_errors",
    "local_ack_timeout_err",
    "packet_seq_err",
    "rdma_packets",
    "rdma_bytes",
    "pfc_storms_detected",
    "pfc_storms_restored",
    "pause_storm_errors",
)
_GAUGES = (
    "speed_bps",
    "oper_up",
    "pre_fec_ber",
    "post_fec_ber",
    "symbol_ber",
    "temperature_c",
    "uptime_ticks",
    "boot_time_s",
    "last_clear_ns",
)
_WATERMARKS = ("queue_bytes_watermark", "headroom_bytes_watermark")

#: Metrics that netlab itself understands.
CANONICAL_METRICS = frozenset((*_COUNTERS, *_GAUGES, *_WATERMARKS))

VARIABLE_MAP: dict[str, Meaning] = {
    **{name: Meaning(name) for name in _COUNTERS},
    **{name: Meaning(name, kind="gauge", overflow=None) for name in _GAUGES},
    **{name: Meaning(name, kind="watermark", overflow=None) for name in _WATERMARKS},
    **{f"{d}_{name}": Meaning(name, d) for name in _COUNTERS for d in ("rx", "tx")},
    **{f"{name}_{d}": Meaning(name, d) for name in _COUNTERS for d in ("rx", "tx")},
    "speed_gbps": Meaning("speed_bps", kind="gauge", scale=1e9, overflow=None),
    "speed_mbps": Meaning("speed_bps", kind="gauge", scale=1e6, overflow=None),
}

_PATTERNS = (
    (
        r"(?P<d>rx|tx)_(?:prio|pg|tc|queue|q)_?(?P<q>\d+)_(?P<name>bytes|packets|discards|ecn_marked|pause_frames|pause_us)",
        Meaning("{name}"),
    ),
    (
        r"(?P<name>bytes|packets|discards|ecn_marked|pause_frames|pause_us)_(?P<d>rx|tx)_(?:prio|pg|tc|queue|q)_?(?P<q>\d+)",
        Meaning("{name}"),
    ),
)

CANONICAL = NameTable(VARIABLE_MAP, _PATTERNS)
