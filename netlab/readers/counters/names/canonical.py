"""netlab's own names: ``bytes`` with a direction before, after or in a column of its own."""

from __future__ import annotations

import re

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
    **dict.fromkeys(
        ("uptime_s", "uptime_seconds", "system_uptime_seconds", "sysuptime_seconds"),
        Meaning("uptime_ticks", kind="gauge", scale=100, overflow=None, preference=3),
    ),
    "speed_gbps": Meaning("speed_bps", kind="gauge", scale=1e9, overflow=None),
    "speed_mbps": Meaning("speed_bps", kind="gauge", scale=1e6, overflow=None),
}

_CASTS = (("unicast", "unicast"), ("ucast", "unicast"), ("multicast", "multicast"), ("mcast", "multicast"), ("broadcast", "broadcast"))

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

_IN = frozenset(("in", "input", "rx", "receive", "received", "recv", "rcv", "ingress"))
_OUT = frozenset(("out", "output", "tx", "transmit", "transmitted", "xmit", "sent", "send", "egress"))
#: Words that say no more than that it is counted, and at which place.
_FILLING = frozenset(
    ("total", "count", "counter", "counters", "port", "interface", "if", "num", "number", "of", "all", "state", "hc", "phy")
)
_METRICS: dict[frozenset[str], str] = {
    frozenset(words.split()): metric
    for words, metric in (
        ("bytes", "bytes"),
        ("octets", "bytes"),
        *((words, "packets") for words in ("packets", "pkts", "frames")),
        *((f"{kind} {words}", f"{full}_packets") for kind, full in _CASTS for words in ("packets", "pkts", "frames")),
        *((words, "errors") for words in ("errors", "error", "errs", "err", "packets errors", "pkts errors")),
        *((words, "discards") for words in ("discards", "discard", "drops", "drop", "dropped", "discarded")),
        *(
            (f"{word} {unit}", "discards")
            for word in ("dropped", "discarded", "drops", "discards")
            for unit in ("packets", "pkts", "frames")
        ),
        *((words, "fcs_errors") for words in ("crc errors", "fcs errors", "crc", "fcs", "crc error", "crc err", "fcs err")),
        *((words, "pause_frames") for words in ("pause frames", "pause", "pfc frames", "pause packets", "pause pkts")),
        *((words, "ecn_marked") for words in ("ecn marked packets", "ecn marked pkts", "ecn packets", "ecn marks")),
        *((words, "symbol_errors") for words in ("symbol errors", "symbol error", "symbol err")),
        *((words, "link_downed") for words in ("link down", "link downs", "link downed", "link flaps", "flaps")),
    )
}


def plain_words(name: str) -> Meaning | None:
    """The meaning of a name that spells it out in common words, whatever their order and joints; None if a word is left over.

    >>> [(plain_words(name) or Meaning("")).metric for name in ("Input Bytes", "InErrors", "rx-dropped-packets", "bytes_recv", "in_magic")]
    ['bytes', 'errors', 'discards', 'bytes', '']
    """
    words = [word.lower() for word in re.findall(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
    direction = "rx" if _IN & set(words) else "tx" if _OUT & set(words) else "none"
    if _IN & set(words) and _OUT & set(words):
        return None
    metric = _METRICS.get(frozenset(words) - _IN - _OUT - _FILLING)
    return None if metric is None else Meaning(metric, direction, preference=8)


CANONICAL = NameTable(VARIABLE_MAP, _PATTERNS, otherwise=plain_words)
