"""Names of IF-MIB, EtherLike-MIB and the system group, as SNMP collectors export them (RFC 2863, RFC 3635, RFC 3418)."""

from __future__ import annotations

import re

from netlab.readers.counters.meaning import Meaning, NameTable, both

__all__ = ["IFMIB", "VARIABLE_MAP"]

_32 = Meaning("", width_bits=32)
_STATE = Meaning("", kind="gauge", overflow=None)

VARIABLE_MAP: dict[str, Meaning] = {
    **both("ifHCInOctets", "ifHCOutOctets", "bytes"),
    **both("ifInOctets", "ifOutOctets", "bytes", Meaning("", width_bits=32, preference=5)),
    # Unicast is the whole of the packets that matter here; a total, where one is there, takes the name.
    **both("ifHCInUcastPkts", "ifHCOutUcastPkts", "packets", Meaning("", preference=2, otherwise="unicast_packets")),
    **both("ifInUcastPkts", "ifOutUcastPkts", "packets", Meaning("", width_bits=32, preference=6)),
    **both("ifHCInMulticastPkts", "ifHCOutMulticastPkts", "multicast_packets"),
    **both("ifHCInBroadcastPkts", "ifHCOutBroadcastPkts", "broadcast_packets"),
    **both("ifInMulticastPkts", "ifOutMulticastPkts", "multicast_packets", Meaning("", width_bits=32, preference=5)),
    **both("ifInBroadcastPkts", "ifOutBroadcastPkts", "broadcast_packets", Meaning("", width_bits=32, preference=5)),
    **both("ifInDiscards", "ifOutDiscards", "discards", _32),
    **both("ifInErrors", "ifOutErrors", "errors", _32),
    **both("dot3InPauseFrames", "dot3OutPauseFrames", "pause_frames", Meaning("", width_bits=32, preference=5)),
    **both("dot3HCInPauseFrames", "dot3HCOutPauseFrames", "pause_frames"),
    "dot3StatsFCSErrors": Meaning("fcs_errors", "rx", width_bits=32),
    "dot3HCStatsFCSErrors": Meaning("fcs_errors", "rx"),
    "dot3StatsSymbolErrors": Meaning("symbol_errors", width_bits=32),
    "dot3HCStatsSymbolErrors": Meaning("symbol_errors"),
    "ifHighSpeed": Meaning("speed_bps", kind="gauge", scale=1_000_000, overflow=None),
    "ifSpeed": Meaning("speed_bps", kind="gauge", width_bits=32, overflow="stick", preference=5),
    "ifOperStatus": Meaning("oper_up", kind="gauge", overflow=None, equals=1),
    "ifAdminStatus": Meaning("admin_up", kind="gauge", overflow=None, equals=1),
    "ifLastChange": Meaning("last_change_ticks", kind="gauge", overflow=None),
    "ifMtu": Meaning("mtu_bytes", kind="gauge", overflow=None),
    "ifCounterDiscontinuityTime": Meaning("discontinuity_ticks", kind="gauge", width_bits=32, overflow=None),
    "sysUpTime": Meaning("uptime_ticks", kind="gauge", width_bits=32, overflow=None),
    "sysUpTimeInstance": Meaning("uptime_ticks", kind="gauge", width_bits=32, overflow=None),
    "hrSystemUptime": Meaning("uptime_ticks", kind="gauge", width_bits=32, overflow=None, preference=5),
    # CISCO-PFC-EXT-MIB: requests are pause frames sent, indications those received.
    **both("cpfcIfIndications", "cpfcIfRequests", "pause_frames", Meaning("", width_bits=32)),
}

_PATTERNS = (
    (r"cpfcIfPriorityIndications_?(?P<q>\d)?", Meaning("pause_frames", "rx", width_bits=32)),
    (r"cpfcIfPriorityRequests_?(?P<q>\d)?", Meaning("pause_frames", "tx", width_bits=32)),
)

#: Columns of ifXTable and ifTable by number, as collectors without MIB files name them.
_OIDS = {
    "1.3.6.1.2.1.31.1.1.1": {6: "ifHCInOctets", 7: "ifHCInUcastPkts", 10: "ifHCOutOctets", 11: "ifHCOutUcastPkts", 15: "ifHighSpeed"},
    "1.3.6.1.2.1.2.2.1": {
        5: "ifSpeed",
        8: "ifOperStatus",
        10: "ifInOctets",
        11: "ifInUcastPkts",
        13: "ifInDiscards",
        14: "ifInErrors",
        16: "ifOutOctets",
        17: "ifOutUcastPkts",
        19: "ifOutDiscards",
        20: "ifOutErrors",
    },
}
_BY_OID = {f"{table}.{column}": name for table, columns in _OIDS.items() for column, name in columns.items()}


def folded(name: str) -> str:
    """A name without its module and row: ``IF-MIB::ifHCInOctets.49``, or the number of its column.

    >>> folded("IF-MIB::ifHCInOctets.49"), folded(".1.3.6.1.2.1.31.1.1.1.6.49")
    ('ifHCInOctets', 'ifHCInOctets')
    """
    plain = name.rpartition("::")[2].lstrip(".")
    if plain[:1].isdigit():
        return _BY_OID.get(plain) or _BY_OID.get(plain.rpartition(".")[0], name)
    return re.sub(r"\.\d+$", "", plain)


#: Upper and lower case are told apart: SAI's ``IF_IN_OCTETS`` has 64 bits.
IFMIB = NameTable(VARIABLE_MAP, _PATTERNS, folded)
